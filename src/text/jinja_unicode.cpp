#include "text/jinja_unicode.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <cstring>
#include <iterator>

#include "base/check.h"
#include "text/jinja_case_table.h"

namespace fewbit::text::jinja {
namespace {

struct Char {
  char32_t code;
  size_t bytes;
};

Char decode(std::string_view s, size_t at) {
  auto byte = [&](size_t i) { return static_cast<unsigned char>(s[i]); };
  unsigned b = byte(at);
  if (b < 0x80) return {b, 1};
  Char invalid{0xDC00 + b, 1};
  size_t n = b >= 0xF0 ? 4 : b >= 0xE0 ? 3 : 2;
  if (b < 0xC2 || b > 0xF4 || at + n > s.size()) return invalid;
  char32_t c = b & (0x7F >> n);
  for (size_t i = 1; i < n; i++) {
    if ((byte(at + i) & 0xC0) != 0x80) return invalid;
    c = c << 6 | (byte(at + i) & 0x3F);
  }
  if ((n == 3 && c < 0x800) || (n == 4 && (c < 0x10000 || c > 0x10FFFF)) || (c >= 0xD800 && c < 0xE000)) return invalid;
  return {c, n};
}

// Calls f(character, its bytes) for every character.
template <class F>
void each(std::string_view s, F f) {
  for (size_t at = 0; at < s.size();) {
    Char c = decode(s, at);
    f(c.code, s.substr(at, c.bytes));
    at += c.bytes;
  }
}

// A Unicode property, asked of PCRE2's tables.
class Property {
 public:
  explicit Property(const char* pattern) {
    int error = 0;
    PCRE2_SIZE where = 0;
    code_ = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern), PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP, &error, &where, nullptr);
    FEWBIT_CHECK(code_ != nullptr, "pattern %s", pattern);
  }
  ~Property() { pcre2_code_free(code_); }
  Property(const Property&) = delete;
  Property& operator=(const Property&) = delete;

  bool operator()(char32_t c) const {
    if (c > 0x10FFFF || (c >= 0xD800 && c < 0xE000)) return false;
    std::string s;
    append_utf8(s, c);
    pcre2_match_data* data = pcre2_match_data_create(1, nullptr);
    FEWBIT_CHECK(data != nullptr);
    int n = pcre2_match(code_, reinterpret_cast<PCRE2_SPTR>(s.data()), s.size(), 0, PCRE2_ANCHORED, data, nullptr);
    pcre2_match_data_free(data);
    return n >= 0;
  }

 private:
  pcre2_code* code_;
};

char32_t map_case(char32_t c, const CaseRange* first, const CaseRange* last) {
  auto r = std::lower_bound(first, last, c, [](const CaseRange& range, char32_t x) { return range.last < x; });
  if (r == last || c < r->first || (c - r->first) % static_cast<unsigned>(r->step) != 0) return c;
  return static_cast<char32_t>(static_cast<std::int64_t>(c) + r->delta);
}

char32_t lower_char(char32_t c) {
  if (c < 0x80) return c >= 'A' && c <= 'Z' ? c + 32 : c;
  return map_case(c, std::begin(kLower), std::end(kLower));
}
char32_t upper_char(char32_t c) {
  if (c < 0x80) return c >= 'a' && c <= 'z' ? c - 32 : c;
  return map_case(c, std::begin(kUpper), std::end(kUpper));
}

// Upper case of the characters that grow (the Greek ones with iota subscript and rare combining forms are left as they are).
const char* long_upper(char32_t c) {
  switch (c) {
    case 0xDF:
      return "SS";
    case 0x149:
      return "\xCA\xBCN";
    case 0x587:
      return "\xD4\xB5\xD5\x92";
    case 0xFB00:
      return "FF";
    case 0xFB01:
      return "FI";
    case 0xFB02:
      return "FL";
    case 0xFB03:
      return "FFI";
    case 0xFB04:
      return "FFL";
    case 0xFB05:
    case 0xFB06:
      return "ST";
    default:
      return nullptr;
  }
}

bool is_cased(char32_t c) {
  if (c < 0x80) return (c | 32) >= 'a' && (c | 32) <= 'z';
  static const Property property("\\p{L&}");
  return property(c);
}

void append_upper(std::string& out, char32_t c, std::string_view raw) {
  if (c >= 0xDC00 && c < 0xE000) {
    out += raw;
  } else if (const char* s = long_upper(c)) {
    out += s;
  } else {
    append_utf8(out, upper_char(c));
  }
}

void append_title(std::string& out, char32_t c, std::string_view raw) {
  if (const char* s = long_upper(c)) {
    std::string_view text = s;
    size_t n = char_bytes(text, 0);
    out += text.substr(0, n);
    out += lower(text.substr(n));
  } else if (c >= 0x1C4 && c <= 0x1CC) {  // the digraphs have a title case of their own
    append_utf8(out, c <= 0x1C6 ? 0x1C5 : c <= 0x1C9 ? 0x1C8 : 0x1CB);
  } else if (c >= 0x1F1 && c <= 0x1F3) {
    append_utf8(out, 0x1F2);
  } else if (c >= 0x10D0 && c <= 0x10FF) {  // Georgian has none
    out += raw;
  } else {
    append_upper(out, c, raw);
  }
}

// `s` whole and the place of the character: a sigma that ends a word has its own lower case.
void append_lower(std::string& out, char32_t c, std::string_view raw, std::string_view s, bool after_cased) {
  if (c >= 0xDC00 && c < 0xE000) {
    out += raw;
  } else if (c == 0x130) {
    out += "i\xCC\x87";
  } else if (c == 0x3A3) {
    size_t next = static_cast<size_t>(raw.data() - s.data()) + raw.size();
    bool last = after_cased && (next >= s.size() || !is_cased(code_point(s, next)));
    append_utf8(out, last ? 0x3C2 : 0x3C3);
  } else {
    append_utf8(out, lower_char(c));
  }
}

}  // namespace

size_t char_bytes(std::string_view s, size_t at) { return decode(s, at).bytes; }
char32_t code_point(std::string_view s, size_t at) { return decode(s, at).code; }

void append_utf8(std::string& out, char32_t c) {
  auto put = [&](unsigned b) { out += static_cast<char>(b); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | c >> 6), put(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    put(0xE0 | c >> 12), put(0x80 | (c >> 6 & 0x3F)), put(0x80 | (c & 0x3F));
  } else {
    put(0xF0 | (c >> 18 & 7)), put(0x80 | (c >> 12 & 0x3F)), put(0x80 | (c >> 6 & 0x3F)), put(0x80 | (c & 0x3F));
  }
}

size_t count_chars(std::string_view s) {
  size_t n = 0;
  for (size_t at = 0; at < s.size(); n++) at += static_cast<unsigned char>(s[at]) < 0x80 ? 1 : char_bytes(s, at);
  return n;
}

size_t byte_offset(std::string_view s, size_t index) {
  size_t at = 0;
  for (; index > 0 && at < s.size(); index--) at += char_bytes(s, at);
  return at;
}

std::vector<std::string_view> split_chars(std::string_view s) {
  std::vector<std::string_view> chars;
  each(s, [&](char32_t, std::string_view raw) { chars.push_back(raw); });
  return chars;
}

bool is_space(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 9 && c <= 13) || (c >= 28 && c <= 31);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}
bool is_alpha(char32_t c) {
  if (c < 0x80) return is_cased(c);
  static const Property property("\\p{L}");
  return property(c);
}
bool is_decimal(char32_t c) {
  if (c < 0x80) return c >= '0' && c <= '9';
  static const Property property("\\p{Nd}");
  return property(c);
}
bool is_digit(char32_t c) {
  return is_decimal(c) || c == 0xB2 || c == 0xB3 || c == 0xB9 || c == 0x2070 || (c >= 0x2074 && c <= 0x2079) ||
         (c >= 0x2080 && c <= 0x2089) || (c >= 0x2460 && c <= 0x2468);
}
bool is_numeric(char32_t c) {
  if (c < 0x80) return is_decimal(c);
  static const Property property("\\p{N}");
  return property(c);
}
bool is_word(char32_t c) { return c == '_' || is_alpha(c) || is_numeric(c); }
bool is_printable(char32_t c) {
  if (c < 0x80) return c >= ' ' && c != 0x7F;
  static const Property property("[^\\p{C}\\p{Z}]");
  return property(c);
}
bool is_upper(char32_t c) {
  if (c < 0x80) return c >= 'A' && c <= 'Z';
  static const Property property("\\p{Lu}");
  return property(c);
}
bool is_lower(char32_t c) {
  if (c < 0x80) return c >= 'a' && c <= 'z';
  static const Property property("\\p{Ll}");
  return property(c);
}

std::string upper(std::string_view s) {
  std::string out;
  out.reserve(s.size());
  each(s, [&](char32_t c, std::string_view raw) { append_upper(out, c, raw); });
  return out;
}

std::string lower(std::string_view s) {
  std::string out;
  out.reserve(s.size());
  bool after_cased = false;
  each(s, [&](char32_t c, std::string_view raw) {
    append_lower(out, c, raw, s, after_cased);
    after_cased = is_cased(c);
  });
  return out;
}

std::string title(std::string_view s) {
  std::string out;
  out.reserve(s.size());
  bool after_cased = false;
  each(s, [&](char32_t c, std::string_view raw) {
    if (after_cased) {
      append_lower(out, c, raw, s, true);
    } else {
      append_title(out, c, raw);
    }
    after_cased = is_cased(c);
  });
  return out;
}

std::string capitalize(std::string_view s) {
  if (s.empty()) return {};
  Char first = decode(s, 0);
  std::string out;
  append_title(out, first.code, s.substr(0, first.bytes));
  bool after_cased = is_cased(first.code);
  each(s.substr(first.bytes), [&](char32_t c, std::string_view raw) {
    append_lower(out, c, raw, s, after_cased);
    after_cased = is_cased(c);
  });
  return out;
}

std::string swapcase(std::string_view s) {
  std::string out;
  bool after_cased = false;
  each(s, [&](char32_t c, std::string_view raw) {
    if (is_upper(c)) {
      append_lower(out, c, raw, s, after_cased);
    } else if (is_lower(c)) {
      append_upper(out, c, raw);
    } else {
      out += raw;
    }
    after_cased = is_cased(c);
  });
  return out;
}

std::string_view strip(std::string_view s, const std::string_view* chars, bool left, bool right) {
  std::vector<std::string_view> set;
  if (chars) set = split_chars(*chars);
  auto drop = [&](size_t at, size_t n) {
    if (!chars) return is_space(code_point(s, at));
    return std::find(set.begin(), set.end(), s.substr(at, n)) != set.end();
  };
  while (left && !s.empty()) {
    size_t n = char_bytes(s, 0);
    if (!drop(0, n)) break;
    s.remove_prefix(n);
  }
  while (right && !s.empty()) {
    size_t at = s.size() - 1;  // back to the first byte of the last character, which has at most 4
    for (size_t back = 1; back <= 4 && back <= s.size(); back++) {
      if (char_bytes(s, s.size() - back) == back) at = s.size() - back;
      if ((static_cast<unsigned char>(s[s.size() - back]) & 0xC0) != 0x80) break;
    }
    if (!drop(at, s.size() - at)) break;
    s.remove_suffix(s.size() - at);
  }
  return s;
}

std::vector<std::string_view> split_lines(std::string_view s, bool keep_ends) {
  std::vector<std::string_view> lines;
  size_t start = 0, at = 0;
  while (at < s.size()) {
    Char c = decode(s, at);
    size_t end = at;
    at += c.bytes;
    bool breaks =
        (c.code >= 10 && c.code <= 13) || (c.code >= 0x1C && c.code <= 0x1E) || c.code == 0x85 || c.code == 0x2028 || c.code == 0x2029;
    if (!breaks) continue;
    if (c.code == '\r' && at < s.size() && s[at] == '\n') at++;
    lines.push_back(s.substr(start, (keep_ends ? at : end) - start));
    start = at;
  }
  if (start < s.size()) lines.push_back(s.substr(start));
  return lines;
}

size_t find_text(std::string_view hay, std::string_view needle, size_t from) {
  if (from > hay.size()) return std::string_view::npos;
  if (needle.empty()) return from;
  hay.remove_prefix(from);
#ifdef __GLIBC__  // std::string_view::find takes |hay| |needle| steps in the worst case; this one is linear
  const void* p = memmem(hay.data(), hay.size(), needle.data(), needle.size());
  return p ? from + static_cast<size_t>(static_cast<const char*>(p) - hay.data()) : std::string_view::npos;
#else
  size_t at = hay.find(needle);
  return at == std::string_view::npos ? at : from + at;
#endif
}

std::string html_escape(std::string_view s) {
  std::string out;
  for (char c : s) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&#34;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string quote(std::string_view s) {
  char mark = s.find('\'') != s.npos && s.find('"') == s.npos ? '"' : '\'';
  std::string out(1, mark);
  auto hex = [&](const char* prefix, char32_t c, int digits) {
    out += prefix;
    for (int i = digits - 1; i >= 0; i--) out += "0123456789abcdef"[c >> (4 * i) & 15];
  };
  each(s, [&](char32_t c, std::string_view raw) {
    if (c == static_cast<unsigned char>(mark) || c == '\\') {
      out += '\\';
      out += raw;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (is_printable(c)) {
      out += raw;
    } else if (c < 0x100) {
      hex("\\x", c, 2);
    } else if (c < 0x10000) {
      hex("\\u", c, 4);
    } else {
      hex("\\U", c, 8);
    }
  });
  return out + mark;
}

}  // namespace fewbit::text::jinja
