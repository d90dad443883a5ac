// Methods of strings, as Python's str.
#include "text/jinja_runtime.h"

namespace fewbit::text::jinja {
namespace {

Value same_kind(Runtime& r, const Value& self, std::string s) { return r.str(std::move(s), r.is_safe(self)); }

template <std::string (*F)(std::string_view)>
Value map_text(Runtime& r, const Value& self, Args& args) {
  Bind a(r, args, "method", {});
  r.step(r.text(self).size() / 8);
  return same_kind(r, self, F(r.text(self)));
}

template <bool kLeft, bool kRight>
Value strip_method(Runtime& r, const Value& self, Args& args) {
  Bind a(r, args, "strip", {"chars"});
  std::string_view chars = a.text(0, "");
  return same_kind(r, self, std::string(strip(r.text(self), a.given(0) ? &chars : nullptr, kLeft, kRight)));
}

// Pieces between white space; after `limit` splits the rest is one piece, with the white space at its far end.
std::vector<std::string_view> split_space(std::string_view s, Int limit, bool from_right) {
  std::vector<std::string_view> pieces;
  s = strip(s, nullptr, !from_right, from_right);
  while (!s.empty()) {
    if (limit >= 0 && static_cast<Int>(pieces.size()) == limit) {
      pieces.push_back(s);
      break;
    }
    size_t cut = from_right ? s.size() : 0;
    if (from_right) {
      while (cut > 0) {
        size_t start = cut - 1;
        while (start > 0 && start + 4 > cut && (static_cast<unsigned char>(s[start]) & 0xC0) == 0x80) start--;
        if (start + char_bytes(s, start) != cut) start = cut - 1;
        if (is_space(code_point(s, start))) break;
        cut = start;
      }
      pieces.push_back(s.substr(cut));
      s = strip(s.substr(0, cut), nullptr, false, true);
    } else {
      while (cut < s.size() && !is_space(code_point(s, cut))) cut += char_bytes(s, cut);
      pieces.push_back(s.substr(0, cut));
      s = strip(s.substr(cut), nullptr, true, false);
    }
  }
  if (from_right) std::reverse(pieces.begin(), pieces.end());
  return pieces;
}

template <bool kRight>
Value split_method(Runtime& r, const Value& self, Args& args) {
  Bind a(r, args, kRight ? "rsplit" : "split", {"sep", "maxsplit"});
  std::string_view s = r.text(self), sep = a.text(0, "");
  Int limit = a.integer(1, -1);
  r.step(s.size() / 16);
  std::vector<std::string_view> pieces;
  if (!a.given(0)) {
    pieces = split_space(s, limit, kRight);
  } else {
    if (sep.empty()) r.fail("split: the separator is empty");
    while (limit < 0 || static_cast<Int>(pieces.size()) < limit) {
      r.step();
      size_t at = kRight ? s.rfind(sep) : find_text(s, sep, 0);
      if (at == s.npos) break;
      pieces.push_back(kRight ? s.substr(at + sep.size()) : s.substr(0, at));
      s = kRight ? s.substr(0, at) : s.substr(at + sep.size());
    }
    pieces.push_back(s);
    if (kRight) std::reverse(pieces.begin(), pieces.end());
  }
  Value list = r.list({});
  for (std::string_view piece : pieces) list.as<List>().push(same_kind(r, self, std::string(piece)));
  return list;
}

Value splitlines(Runtime& r, const Value& self, Args& args) {
  Bind a(r, args, "splitlines", {"keepends"});
  Value list = r.list({});
  for (std::string_view line : split_lines(r.text(self), a.truth(0, false))) list.as<List>().push(same_kind(r, self, std::string(line)));
  return list;
}

// The part [start, end) that find, count, startswith, ... look at, in bytes.  Nothing when start lies behind the end.
struct Window {
  std::string_view text;
  size_t first_byte = 0;
  bool valid = true;
};
Window window(Runtime& r, const Value& self, const Bind& a) {
  std::string_view s = r.text(self);
  if (!a.given(1) && !a.given(2)) return {s};
  Int n = *r.length(self);
  auto clip = [&](Int i) { return std::clamp<Int>(i < 0 ? i + n : i, 0, std::max<Int>(n, i)); };
  Int start = clip(a.integer(1, 0)), end = std::min(clip(a.integer(2, n)), n);
  if (start > end) return {{}, 0, false};
  size_t first = byte_offset(s, static_cast<size_t>(start)), last = byte_offset(s, static_cast<size_t>(end));
  return {s.substr(first, last - first), first};
}

template <bool kEnd>
Value starts_method(Runtime& r, const Value& self, Args& args) {
  const char* name = kEnd ? "endswith" : "startswith";
  Bind a(r, args, name, {"prefix", "start", "end"}, 1);
  Window w = window(r, self, a);
  auto matches = [&](const Value& v) {
    if (!v.is_string()) r.fail("{}: needs a string, or a tuple of strings, not '{}'", name, r.type_name(v));
    return w.valid && (kEnd ? w.text.ends_with(r.text(v)) : w.text.starts_with(r.text(v)));
  };
  if (a[0]->is_undefined()) r.undefined_error(*a[0]);
  if (!a[0]->is(Kind::tuple)) return Value::of(matches(*a[0]));
  for (const Value& v : a[0]->as<List>().v) {
    if (matches(v)) return Value::of(true);
  }
  return Value::of(false);
}

// kind: find -1 when absent, index fails
template <bool kRight, bool kFail>
Value find_method(Runtime& r, const Value& self, Args& args) {
  Bind a(r, args, kFail ? "index" : "find", {"sub", "start", "end"}, 1);
  Window w = window(r, self, a);
  std::string_view needle = a.text(0, "");
  r.step(w.text.size() / 64);
  size_t at = !w.valid ? w.text.npos : kRight ? w.text.rfind(needle) : find_text(w.text, needle, 0);
  if (at == w.text.npos) {
    if (kFail) r.fail("index: {} is not in the text", quote(needle));
    return Value::of(Int{-1});
  }
  return Value::of_size(count_chars(std::string_view(r.text(self)).substr(0, w.first_byte + at)));
}

Value count_method(Runtime& r, const Value& self, Args& args) {
  Bind a(r, args, "count", {"sub", "start", "end"}, 1);
  Window w = window(r, self, a);
  std::string_view needle = a.text(0, "");
  if (!w.valid) return Value::of(Int{0});
  r.step(w.text.size() / 16);
  if (needle.empty()) return Value::of_size(count_chars(w.text) + 1);
  size_t n = 0;
  for (size_t at = 0; (at = find_text(w.text, needle, at)) != w.text.npos; at += needle.size()) n++;
  return Value::of_size(n);
}

Value replace_method(Runtime& r, const Value& self, Args& args) {
  Bind a(r, args, "replace", {"old", "new", "count"}, 2);
  a.text(0, ""), a.text(1, "");  // strings only, unlike the filter
  for (int i : {0, 1}) {
    if (!a[static_cast<size_t>(i)]->is_string()) r.fail("replace: needs strings, not '{}'", r.type_name(*a[static_cast<size_t>(i)]));
  }
  Args rest;
  rest.pos = {*a[0], *a[1], Value::of(a.integer(2, -1))};
  Value out = r.filter("replace", self, rest);
  return same_kind(r, self, r.text(out));
}

Value join_method(Runtime& r, const Value& self, Args& args) {
  Bind a(r, args, "join", {"iterable"}, 1);
  std::string out;
  bool first = true;
  Next next = r.iterate(*a[0]);
  for (Value e; next(e);) {
    if (!e.is_string()) r.fail("join: needs strings, not '{}'", r.type_name(e));
    if (!first) r.append(out, r.text(self));
    first = false;
    r.append(out, r.text(e));
  }
  return same_kind(r, self, std::move(out));
}

Value format_method(Runtime& r, const Value& self, Args& args) { return same_kind(r, self, r.format(r.text(self), args)); }

Value remove_prefix(Runtime& r, const Value& self, Args& args) {
  Bind a(r, args, "removeprefix", {"prefix"}, 1);
  std::string_view s = r.text(self), part = a.text(0, "");
  return same_kind(r, self, std::string(s.starts_with(part) ? s.substr(part.size()) : s));
}
Value remove_suffix(Runtime& r, const Value& self, Args& args) {
  Bind a(r, args, "removesuffix", {"suffix"}, 1);
  std::string_view s = r.text(self), part = a.text(0, "");
  return same_kind(r, self, std::string(s.ends_with(part) ? s.substr(0, s.size() - part.size()) : s));
}

template <bool kRight>
Value partition(Runtime& r, const Value& self, Args& args) {
  Bind a(r, args, "partition", {"sep"}, 1);
  std::string_view s = r.text(self), sep = a.text(0, "");
  if (sep.empty()) r.fail("partition: the separator is empty");
  size_t at = kRight ? s.rfind(sep) : find_text(s, sep, 0);
  auto piece = [&](std::string_view text) { return same_kind(r, self, std::string(text)); };
  if (at == s.npos) return kRight ? r.tuple({piece(""), piece(""), self}) : r.tuple({self, piece(""), piece("")});
  return r.tuple({piece(s.substr(0, at)), piece(sep), piece(s.substr(at + sep.size()))});
}

enum class Side { left, right, center };
template <Side kText>
Value justify(Runtime& r, const Value& self, Args& args) {
  Bind a(r, args, "justify", {"width", "fillchar"}, 1);
  Int width = a.integer(0, 0), n = *r.length(self), room = width > n ? width - n : 0;
  std::string_view fill = a.text(1, " ");
  if (count_chars(fill) != 1) r.fail("justify: the fill must be one character, not {}", quote(fill));
  r.check_text(static_cast<size_t>(std::min<Int>(room, Int{1} << 40)) * fill.size());
  // Python puts the odd space of an odd width to the left.
  Int left = kText == Side::left ? 0 : kText == Side::right ? room : room / 2 + (room & width & 1);
  std::string out;
  for (Int i = 0; i < left; i++) out += fill;
  r.append(out, r.text(self));
  for (Int i = 0; i < room - left; i++) out += fill;
  r.step(static_cast<size_t>(room) / 16);
  return same_kind(r, self, std::move(out));
}

Value zfill(Runtime& r, const Value& self, Args& args) {
  Bind a(r, args, "zfill", {"width"}, 1);
  std::string s = r.text(self);
  Int n = *r.length(self), width = a.integer(0, 0);
  r.check_text(static_cast<size_t>(std::clamp<Int>(width, 0, Int{1} << 40)));
  if (width > n) s.insert(!s.empty() && (s[0] == '-' || s[0] == '+') ? 1 : 0, static_cast<size_t>(width - n), '0');
  return same_kind(r, self, std::move(s));
}

Value expandtabs(Runtime& r, const Value& self, Args& args) {
  Bind a(r, args, "expandtabs", {"tabsize"});
  Int size = std::clamp<Int>(a.integer(0, 8), 0, 1000), column = 0;
  std::string out;
  for (std::string_view c : split_chars(r.text(self))) {
    if (c == "\t") {
      Int n = size > 0 ? size - column % size : 0;
      r.append(out, std::string(static_cast<size_t>(n), ' '));
      column += n;
    } else {
      r.append(out, c);
      column = c == "\n" || c == "\r" ? 0 : column + 1;
    }
  }
  return same_kind(r, self, std::move(out));
}

// Every character has the property, and there is one.
template <bool (*F)(char32_t)>
Value all_method(Runtime& r, const Value& self, Args& args) {
  Bind a(r, args, "method", {});
  r.step(r.text(self).size());
  for (std::string_view c : split_chars(r.text(self))) {
    if (!F(code_point(c, 0))) return Value::of(false);
  }
  return Value::of(!r.text(self).empty());
}

bool is_alnum(char32_t c) { return is_alpha(c) || is_numeric(c); }

template <bool kUpper>
Value case_method(Runtime& r, const Value& self, Args& args) {
  Bind a(r, args, "method", {});
  Args none;
  return Value::of(r.test(kUpper ? "upper" : "lower", self, none));
}

Value istitle(Runtime& r, const Value& self, Args& args) {
  Bind a(r, args, "istitle", {});
  r.step(r.text(self).size());
  bool any = false, after_cased = false;
  for (std::string_view c : split_chars(r.text(self))) {
    char32_t code = code_point(c, 0);
    if (after_cased ? is_upper(code) : is_lower(code)) return Value::of(false);
    after_cased = is_upper(code) || is_lower(code);
    any |= after_cased;
  }
  return Value::of(any);
}

Value isascii(Runtime& r, const Value& self, Args& args) {
  Bind a(r, args, "isascii", {});
  for (char c : r.text(self)) {
    if (static_cast<unsigned char>(c) >= 0x80) return Value::of(false);
  }
  return Value::of(true);
}

constexpr Entry kMethods[] = {
    {"capitalize", map_text<capitalize>},
    {"casefold", map_text<lower>},
    {"center", justify<Side::center>},
    {"count", count_method},
    {"endswith", starts_method<true>},
    {"expandtabs", expandtabs},
    {"find", find_method<false, false>},
    {"format", format_method},
    {"index", find_method<false, true>},
    {"isalnum", all_method<is_alnum>},
    {"isalpha", all_method<is_alpha>},
    {"isascii", isascii},
    {"isdecimal", all_method<is_decimal>},
    {"isdigit", all_method<is_digit>},
    {"islower", case_method<false>},
    {"isnumeric", all_method<is_numeric>},
    {"isspace", all_method<is_space>},
    {"istitle", istitle},
    {"isupper", case_method<true>},
    {"join", join_method},
    {"ljust", justify<Side::left>},
    {"lower", map_text<lower>},
    {"lstrip", strip_method<true, false>},
    {"partition", partition<false>},
    {"removeprefix", remove_prefix},
    {"removesuffix", remove_suffix},
    {"replace", replace_method},
    {"rfind", find_method<true, false>},
    {"rindex", find_method<true, true>},
    {"rjust", justify<Side::right>},
    {"rpartition", partition<true>},
    {"rsplit", split_method<true>},
    {"rstrip", strip_method<false, true>},
    {"split", split_method<false>},
    {"splitlines", splitlines},
    {"startswith", starts_method<false>},
    {"strip", strip_method<true, true>},
    {"swapcase", map_text<swapcase>},
    {"title", map_text<title>},
    {"upper", map_text<upper>},
    {"zfill", zfill},
};

}  // namespace

std::span<const Entry> string_methods() { return kMethods; }

}  // namespace fewbit::text::jinja
