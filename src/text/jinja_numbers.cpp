// Numbers to text and back, as Python writes and reads them.
#include <charconv>
#include <cmath>

#include "text/jinja_runtime.h"

namespace fewbit::text::jinja {

std::string int_text(Int i) {
  char digits[48];
  char* p = std::end(digits);
  UnsignedInt u = i < 0 ? -static_cast<UnsignedInt>(i) : static_cast<UnsignedInt>(i);
  do {
    *--p = static_cast<char>('0' + static_cast<int>(u % 10));
    u /= 10;
  } while (u != 0);
  if (i < 0) *--p = '-';
  return std::string(p, std::end(digits));
}

// The shortest decimal that reads back as the same double; an exponent outside 1e-4 <= |d| < 1e16.
std::string float_repr(double d) {
  if (std::isnan(d)) return "nan";
  if (std::isinf(d)) return d < 0 ? "-inf" : "inf";
  char buffer[40];
  auto end = std::to_chars(buffer, std::end(buffer), d, std::chars_format::scientific).ptr;
  std::string_view s(buffer, static_cast<size_t>(end - buffer));
  std::string out;
  if (s[0] == '-') out = "-", s.remove_prefix(1);
  size_t e = s.find('e');
  int exponent = 0;
  std::from_chars(s.data() + e + (s[e + 1] == '+' ? 2 : 1), s.data() + s.size(), exponent);
  std::string digits(1, s[0]);
  if (e > 2) digits += s.substr(2, e - 2);
  int n = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    out += digits[0];
    if (n > 1) out += "." + digits.substr(1);
    return out + fmt::format("e{}{:02}", exponent < 0 ? '-' : '+', std::abs(exponent));
  }
  if (exponent < 0) return out + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  if (n <= exponent + 1) return out + digits + std::string(static_cast<size_t>(exponent + 1 - n), '0') + ".0";
  return out + digits.insert(static_cast<size_t>(exponent + 1), ".");
}

namespace {
// Removes the underscores that may stand between two digits; nothing when one stands elsewhere.
std::optional<std::string> without_underscores(std::string_view s) {
  std::string out;
  for (size_t i = 0; i < s.size(); i++) {
    if (s[i] != '_') {
      out += s[i];
    } else if (i == 0 || i + 1 == s.size() || !std::isalnum(static_cast<unsigned char>(s[i - 1])) ||
               !std::isalnum(static_cast<unsigned char>(s[i + 1]))) {
      return {};
    }
  }
  return out;
}
}  // namespace

std::optional<Int> parse_int(std::string_view s, int base) {
  s = strip(s, nullptr, true, true);
  bool minus = !s.empty() && s[0] == '-';
  if (!s.empty() && (s[0] == '-' || s[0] == '+')) s.remove_prefix(1);
  if (s.size() > 2 && s[0] == '0') {
    char mark = static_cast<char>(s[1] | 32);
    int prefix = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 0;
    if (prefix != 0 && (base == prefix || base == 0)) {
      base = prefix;
      s.remove_prefix(s[2] == '_' ? 3 : 2);
    }
  }
  if (base == 0) base = 10;
  auto digits = without_underscores(s);
  if (!digits || digits->empty()) return {};
  Int value = 0;
  for (char c : *digits) {
    int digit = c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'z' ? (c | 32) - 'a' + 10 : 99;
    if (digit >= base) return {};
    if (value > ((Int{1} << 126) - digit) / base) throw Failure{"an integer has more than 126 bits", 0, Code::invalid_argument, false};
    value = value * base + digit;
  }
  return minus ? -value : value;
}

std::optional<double> parse_float(std::string_view s) {
  s = strip(s, nullptr, true, true);
  auto clean = without_underscores(s);
  if (!clean) return {};
  std::string_view t = *clean;
  bool minus = !t.empty() && t[0] == '-';
  if (!t.empty() && (t[0] == '-' || t[0] == '+')) t.remove_prefix(1);
  if (t.empty() || t[0] == '-' || t.find('(') != t.npos) return {};  // from_chars takes a second sign and nan(...), Python does not
  double value = 0;
  auto [end, error] = std::from_chars(t.data(), t.data() + t.size(), value);
  if (end != t.data() + t.size() || error == std::errc::invalid_argument) return {};
  if (error == std::errc::result_out_of_range) {  // too large or too small: the sign of the exponent tells
    size_t e = t.find_first_of("eE");
    value = e != t.npos && t[e + 1] == '-' ? 0 : HUGE_VAL;
  }
  return minus ? -value : value;
}

}  // namespace fewbit::text::jinja
