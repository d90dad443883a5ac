// Python's two ways to format: "%5.2f" % x and "{:>5}".format(x).
#include <cmath>

#include "text/jinja_runtime.h"

namespace fewbit::text::jinja {
namespace {

constexpr Int kMaxWidth = 1'000'000;

struct Spec {
  std::string fill = " ";
  char align = 0;  // < > = ^
  char sign = '-';
  bool alternate = false, zero = false;
  char group = 0;  // , or _
  Int width = 0, precision = -1;
  char type = 0;
};

std::string pad(Runtime& r, const Spec& spec, std::string_view sign, std::string_view body, char default_align) {
  Int n = static_cast<Int>(count_chars(body) + sign.size());
  Int room = spec.width > n ? spec.width - n : 0;
  r.step(static_cast<size_t>(room) / 16);
  char align = spec.align ? spec.align : default_align;
  Int left = align == '<' ? 0 : align == '^' ? room / 2 : room;
  std::string out, fill;
  auto add = [&](Int count) {
    for (Int i = 0; i < count; i++) out += spec.fill;
  };
  if (align == '=') out += sign;
  add(left);
  if (align != '=') out += sign;
  r.append(out, body);
  add(room - left);
  return out;
}

std::string grouped(std::string digits, char mark, int every) {
  size_t end = digits.find_first_not_of("0123456789abcdefABCDEF");
  if (end == digits.npos) end = digits.size();
  for (size_t at = end; at > static_cast<size_t>(every);) {
    at -= static_cast<size_t>(every);
    digits.insert(at, 1, mark);
  }
  return digits;
}

std::string in_base(Int i, int base, bool upper) {
  std::string s;
  do {
    s.insert(s.begin(), (upper ? "0123456789ABCDEF" : "0123456789abcdef")[static_cast<int>(i % base)]);
    i /= base;
  } while (i != 0);
  return s;
}

// |d| by a C conversion; Python writes the exponents and specials the same way.
std::string convert(double d, char type, Int precision, bool alternate) {
  if (std::isnan(d)) return "nan";
  if (std::isinf(d)) return "inf";
  char format[8] = {'%', '.', '*', type, 0};
  if (alternate) format[1] = '#', format[2] = '.', format[3] = '*', format[4] = type;
  int digits = static_cast<int>(std::min<Int>(precision < 0 ? 6 : precision, 1000));
  std::string out(static_cast<size_t>(digits) + 340, '\0');
  int n = std::snprintf(out.data(), out.size(), format, digits, std::fabs(d));
  out.resize(static_cast<size_t>(n));
  return out;
}

std::string sign_of(bool minus, char plus) { return minus ? "-" : plus == '+' ? "+" : plus == ' ' ? " " : ""; }

std::string format_int(Runtime& r, Int i, Spec spec) {
  std::string body, prefix;
  Int u = i < 0 ? -i : i;
  int every = 4;
  switch (spec.type) {
    case 'x':
    case 'X':
      body = in_base(u, 16, spec.type == 'X');
      prefix = std::string("0") + spec.type;
      break;
    case 'o':
      body = in_base(u, 8, false), prefix = "0o";
      break;
    case 'b':
      body = in_base(u, 2, false), prefix = "0b";
      break;
    default:
      body = int_text(u), every = 3;
  }
  if (spec.group) body = grouped(body, spec.group, every);
  std::string sign = sign_of(i < 0, spec.sign) + (spec.alternate ? prefix : "");
  return pad(r, spec, sign, body, '>');
}

std::string format_real(Runtime& r, double d, Spec spec) {
  std::string body;
  if (spec.type == 0 && spec.precision < 0) {
    body = float_repr(std::fabs(d));
  } else if (spec.type == 0) {  // like g, but with at least one digit after the point
    body = convert(d, 'g', spec.precision, spec.alternate);
    if (body.find_first_of(".en") == body.npos) body += ".0";
  } else if (spec.type == '%') {
    body = convert(d * 100, 'f', spec.precision, spec.alternate) + "%";
  } else {
    body = convert(d, spec.type, spec.precision, spec.alternate);
  }
  if (spec.group) body = grouped(body, spec.group, 3);
  return pad(r, spec, sign_of(std::signbit(d) && !std::isnan(d), spec.sign), body, '>');
}

Spec parse_spec(const Runtime& r, std::string_view s) {
  Spec spec;
  auto is_align = [](char c) { return c == '<' || c == '>' || c == '=' || c == '^'; };
  if (!s.empty()) {
    size_t n = char_bytes(s, 0);
    if (s.size() > n && is_align(s[n])) {
      spec.fill = s.substr(0, n);
      spec.align = s[n];
      s.remove_prefix(n + 1);
    } else if (is_align(s[0])) {
      spec.align = s[0];
      s.remove_prefix(1);
    }
  }
  auto take = [&](std::string_view set) {
    char c = !s.empty() && set.find(s[0]) != set.npos ? s[0] : '\0';
    if (c) s.remove_prefix(1);
    return c;
  };
  auto number = [&](Int fallback) {
    Int n = fallback;
    while (char c = take("0123456789")) {
      n = (n < 0 ? 0 : n) * 10 + (c - '0');
      if (n > kMaxWidth) r.fail("format: a width or precision above {}", static_cast<long>(kMaxWidth));
    }
    return n;
  };
  if (char c = take("+- ")) spec.sign = c;
  spec.alternate = take("#") != 0;
  if (take("0")) {
    spec.zero = true;
    if (!spec.align) spec.fill = "0", spec.align = '=';
  }
  spec.width = number(0);
  spec.group = take(",_");
  if (take(".")) {
    spec.precision = number(-1);
    if (spec.precision < 0) r.fail("format: '.' without a precision");
  }
  spec.type = take("sdxXobcneEfFgG%");
  if (!s.empty()) r.fail("format: cannot read the specification at '{}'", s);
  return spec;
}

}  // namespace

std::string Runtime::format_value(const Value& v, std::string_view text_spec) {
  if (text_spec.empty()) return to_str(v);
  Spec spec = parse_spec(*this, text_spec);
  std::string_view reals = "eEfFgG%";
  if (v.is_string() || (!v.is_number() && spec.type == 0 && v.is_undefined())) {
    if (spec.type != 0 && spec.type != 's') fail("format: code '{}' for a string", spec.type);
    if (spec.align == '=' && !spec.zero) fail("format: '=' alignment for a string");
    if (spec.align == '=') spec.align = '<';
    std::string s = to_str(v);
    if (spec.precision >= 0) s.resize(byte_offset(s, static_cast<size_t>(spec.precision)));
    return pad(*this, spec, "", s, '<');
  }
  if (!v.is_number()) fail("format: a '{}' takes no specification", type_name(v));
  if (v.is(Kind::real) || reals.find(spec.type) != reals.npos) {
    if (std::string_view("sdxXobc").find(spec.type) != std::string_view::npos && spec.type != 0)
      fail("format: code '{}' for a float", spec.type);
    if (spec.type == 'n') spec.type = 'g';
    if (v.is_whole() && spec.type == 0) spec.type = 'd';
    return format_real(*this, v.number(), spec);
  }
  if (spec.precision >= 0) fail("format: a precision for an integer");
  if (spec.type == 's') fail("format: code 's' for an integer");
  if (spec.type == 'c') {
    std::string s;
    if (v.integer() < 0 || v.integer() > 0x10FFFF) fail("format: code 'c' needs a character code");
    append_utf8(s, static_cast<char32_t>(v.integer()));
    return pad(*this, spec, "", s, '<');
  }
  return format_int(*this, v.integer(), spec);
}

// conversion: % [(name)] [#0- +]* [width | *] [. (precision | *)] [hlL] type
std::string Runtime::percent(const Value& format, const Value& args) {
  const std::string& s = text(format);
  std::string out;
  size_t used = 0;
  bool by_name = false;
  auto next = [&]() -> Value {
    if (args.is(Kind::tuple)) {
      if (used >= args.as<List>().v.size()) fail("'%': not enough arguments for the format '{}'", s);
      return args.as<List>().v[used++];
    }
    if (used++ > 0) fail("'%': not enough arguments for the format '{}'", s);
    return args;
  };
  for (size_t at = 0; at < s.size();) {
    size_t mark = std::min(s.find('%', at), s.size());
    append(out, std::string_view(s).substr(at, mark - at));
    if (mark == s.size()) break;
    at = mark + 1;
    step();
    auto peek = [&] { return at < s.size() ? s[at] : '\0'; };
    std::optional<Value> named;
    if (peek() == '(') {
      size_t close = s.find(')', at);
      if (close == s.npos || !args.is(Kind::dict)) fail("'%': the format '{}' needs an object of named arguments", s);
      std::string_view name = std::string_view(s).substr(at + 1, close - at - 1);
      const Value* found = args.as<Dict>().find(*this, name);
      if (!found) fail("'%': the format '{}' names '{}', which is not given", s, name);
      named = *found;
      by_name = true;
      at = close + 1;
    }
    Spec spec;
    bool left = false;
    for (; peek() && std::string_view("#0- +").find(peek()) != std::string_view::npos; at++) {
      if (peek() == '#') spec.alternate = true;
      if (peek() == '0') spec.zero = true;
      if (peek() == '-') left = true;
      if (peek() == '+' || (peek() == ' ' && spec.sign != '+')) spec.sign = peek();
    }
    auto number = [&](Int fallback) {
      if (peek() == '*') {
        at++;
        return to_index(next(), "'%': the width");
      }
      Int n = fallback;
      for (; peek() >= '0' && peek() <= '9'; at++) {
        n = (n < 0 ? 0 : n) * 10 + (peek() - '0');
        if (n > kMaxWidth) break;
      }
      return n;
    };
    spec.width = number(0);
    if (spec.width < 0) left = true, spec.width = -spec.width;
    if (peek() == '.') {
      at++;
      spec.precision = std::max<Int>(number(0), 0);
    }
    if (spec.width > kMaxWidth || spec.precision > kMaxWidth) fail("'%': a width or precision above {}", static_cast<long>(kMaxWidth));
    while (peek() == 'h' || peek() == 'l' || peek() == 'L') at++;
    char type = peek();
    at++;
    if (type == '%') {
      append(out, "%");
      continue;
    }
    if (type == 0) fail("'%': the format '{}' ends inside a conversion", s);
    Value v = named ? *named : next();
    spec.align = left ? '<' : '>';
    if (type == 's' || type == 'r' || type == 'a') {
      std::string piece = type == 's' ? to_str(v) : to_repr(v);
      if (spec.precision >= 0) piece.resize(byte_offset(piece, static_cast<size_t>(spec.precision)));
      append(out, pad(*this, spec, "", piece, '>'));
      continue;
    }
    if (type == 'c') {
      std::string piece;
      if (v.is_string() && length(v) == 1) {
        piece = text(v);
      } else {
        Int c = to_index(v, "'%c': the argument");
        if (c < 0 || c > 0x10FFFF) fail("'%c': {} is not a character", int_text(c));
        append_utf8(piece, static_cast<char32_t>(c));
      }
      append(out, pad(*this, spec, "", piece, '>'));
      continue;
    }
    if (v.is_undefined()) undefined_error(v);
    if (!v.is_number()) fail("'%{}': a number is needed, not '{}'", type, type_name(v));
    if (spec.zero && !left) spec.fill = "0", spec.align = '=';
    if (std::string_view("eEfFgG").find(type) != std::string_view::npos) {
      spec.type = type;
      append(out, format_real(*this, v.number(), spec));
    } else if (std::string_view("diuxXo").find(type) != std::string_view::npos) {
      bool decimal = type == 'd' || type == 'i' || type == 'u';
      if (v.is(Kind::real) && (!decimal || !(std::fabs(v.real()) < 1e30))) fail("'%{}': an integer is needed, not a float", type);
      spec.type = decimal ? 'd' : type;
      if (spec.precision > 0) {  // at least so many digits
        Int u = v.is(Kind::real) ? static_cast<Int>(v.real()) : v.integer();
        Spec digits;
        digits.type = spec.type, digits.fill = "0", digits.width = spec.precision;
        std::string body = format_int(*this, u < 0 ? -u : u, digits);
        append(out, pad(*this, spec, sign_of(u < 0, spec.sign), body, '>'));
      } else {
        append(out, format_int(*this, v.is(Kind::real) ? static_cast<Int>(v.real()) : v.integer(), spec));
      }
    } else {
      fail("'%': unsupported format character '{}'", type);
    }
  }
  if (args.is(Kind::tuple) && !by_name && used < args.as<List>().v.size()) fail("'%': not all arguments are used by the format '{}'", s);
  if (!args.is(Kind::tuple) && !args.is(Kind::dict) && !args.is(Kind::list) && used == 0) {
    fail("'%': not all arguments are used by the format '{}'", s);
  }
  return out;
}

// replacement: { [name (.attribute | [item])*] [! s|r] [: specification] }
std::string Runtime::format(std::string_view s, Args& args, size_t* counter) {
  Depth depth(*this);
  std::string out;
  size_t here = 0;
  size_t& automatic = counter ? *counter : here;
  auto field = [&](std::string_view path) {
    size_t end = std::min(path.find_first_of(".["), path.size());
    std::string_view name = path.substr(0, end);
    Value v;
    auto number = parse_int(name.empty() ? std::to_string(automatic++) : std::string(name), 10);
    if (number) {
      if (*number < 0 || *number >= static_cast<Int>(args.pos.size())) fail("format: argument {} is not given", int_text(*number));
      v = args.pos[static_cast<size_t>(*number)];
    } else {
      auto it = std::find_if(args.named.begin(), args.named.end(), [&](auto& a) { return a.first == name; });
      if (it == args.named.end()) fail("format: argument '{}' is not given", name);
      v = it->second;
    }
    for (path.remove_prefix(end); !path.empty();) {
      bool item_access = path[0] == '[';
      size_t stop = item_access ? path.find(']') : std::min(path.find_first_of(".[", 1), path.size());
      if (stop == path.npos) fail("format: '[' without ']' in '{}'", s);
      std::string_view key = path.substr(1, stop - 1);
      auto index = item_access ? parse_int(key, 10) : std::nullopt;
      v = index ? item(v, Value::of(*index)) : item_access ? item(v, str(std::string(key))) : attribute(v, key);
      path.remove_prefix(item_access ? stop + 1 : stop);
      if (item_access && !path.empty() && path[0] != '.' && path[0] != '[') fail("format: cannot read '{}'", s);
    }
    return v;
  };
  for (size_t at = 0; at < s.size();) {
    size_t mark = std::min(s.find_first_of("{}", at), s.size());
    append(out, s.substr(at, mark - at));
    if (mark == s.size()) break;
    step();
    if (mark + 1 < s.size() && s[mark + 1] == s[mark]) {
      append(out, s.substr(mark, 1));
      at = mark + 2;
      continue;
    }
    if (s[mark] == '}') fail("format: single '}}' in '{}'", s);
    int level = 1;
    size_t end = mark + 1;
    for (; end < s.size() && level > 0; end++) level += s[end] == '{' ? 1 : s[end] == '}' ? -1 : 0;
    if (level > 0) fail("format: '{{' without '}}' in '{}'", s);
    std::string_view inside = s.substr(mark + 1, end - mark - 2);
    at = end;
    size_t colon = std::min(inside.find(':'), inside.size());
    std::string_view name = inside.substr(0, colon), spec = inside.substr(std::min(colon + 1, inside.size()));
    char conversion = 0;
    if (size_t bang = name.find('!'); bang != name.npos) {
      if (bang + 2 != name.size()) fail("format: cannot read the conversion in '{}'", s);
      conversion = name[bang + 1];
      if (conversion != 's' && conversion != 'r') fail("format: conversion '{}' is not supported", conversion);
      name = name.substr(0, bang);
    }
    Value v = field(name);
    if (conversion) v = str(conversion == 's' ? to_str(v) : to_repr(v));
    std::string nested = spec.find('{') == spec.npos ? std::string(spec) : format(spec, args, &automatic);
    append(out, format_value(v, nested));
  }
  return out;
}

}  // namespace fewbit::text::jinja
