// Filters on text and numbers, and the look-up of filters by name.
#include <cmath>

#include "text/jinja_runtime.h"

namespace fewbit::text::jinja {
namespace {

// The piped value as text, keeping its mark of safety: what jinja2's soft_str gives.
Value soft_str(Runtime& r, const Value& v) { return v.is_string() ? v : r.str(r.to_str(v)); }

template <std::string (*F)(std::string_view)>
Value map_text(Runtime& r, const Value& v, Args& args) {
  Bind a(r, args, "filter", {});
  Value s = soft_str(r, v);
  r.step(r.text(s).size() / 8);
  return r.str(F(r.text(s)), r.is_safe(s));
}

// Words begin after white space and - ( { [ <.
std::string title_words(std::string_view s) {
  std::string out;
  bool begin = true;
  size_t start = 0;
  auto flush = [&](size_t end) {
    std::string_view word = s.substr(start, end - start);
    if (word.empty()) return;
    size_t n = char_bytes(word, 0);
    out += upper(word.substr(0, n)) + lower(word.substr(n));
  };
  for (size_t at = 0; at < s.size();) {
    char32_t c = code_point(s, at);
    bool separator = is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
    if (separator == begin) {
    } else if (separator) {
      flush(at);
    } else {
      start = at;
    }
    size_t n = char_bytes(s, at);
    if (separator) out += s.substr(at, n);
    begin = separator;
    at += n;
  }
  if (!begin) flush(s.size());
  return out;
}

Value filter_trim(Runtime& r, const Value& v, Args& args) {
  Bind a(r, args, "trim", {"chars"});
  Value s = soft_str(r, v);
  std::string_view chars = a.text(0, "");
  return r.str(std::string(strip(r.text(s), a.given(0) ? &chars : nullptr, true, true)), r.is_safe(s));
}

Value filter_length(Runtime& r, const Value& v, Args& args) {
  Bind a(r, args, "length", {});
  auto n = r.length(v);
  if (!n) r.fail("length: a '{}' has no length", r.type_name(v));
  return Value::of(*n);
}

std::string replace_text(Runtime& r, std::string_view s, std::string_view old, std::string_view with, Int count) {
  std::string out;
  size_t at = 0;
  for (Int n = 0; count < 0 || n < count; n++) {
    r.step(1 + old.size() / 64);
    if (old.empty()) {  // before every character and at the end
      r.append(out, with);
      if (at >= s.size()) return out;
      size_t bytes = char_bytes(s, at);
      out += s.substr(at, bytes);
      at += bytes;
    } else {
      size_t found = find_text(s, old, at);
      if (found == s.npos) break;
      r.append(out, s.substr(at, found - at));
      r.append(out, with);
      at = found + old.size();
    }
  }
  r.append(out, s.substr(at));
  return out;
}

Value filter_replace(Runtime& r, const Value& v, Args& args) {
  Bind a(r, args, "replace", {"old", "new", "count"}, 2);
  return r.str(replace_text(r, r.to_str(v), r.to_str(*a[0]), r.to_str(*a[1]), a.integer(2, -1)));
}

Value filter_string(Runtime& r, const Value& v, Args& args) {
  Bind a(r, args, "string", {});
  return soft_str(r, v);
}
Value filter_safe(Runtime& r, const Value& v, Args& args) {
  Bind a(r, args, "safe", {});
  return r.str(r.to_str(v), true);
}
Value filter_escape(Runtime& r, const Value& v, Args& args) {
  Bind a(r, args, "escape", {});
  return r.is_safe(v) ? v : r.str(html_escape(r.to_str(v)), true);
}
Value filter_forceescape(Runtime& r, const Value& v, Args& args) {
  Bind a(r, args, "forceescape", {});
  return r.str(html_escape(r.to_str(v)), true);
}

Value from_double(Runtime& r, double d) {
  if (!(std::fabs(d) < 0x1p126)) r.fail("int: {} does not fit an integer", float_repr(d));
  return Value::of(static_cast<Int>(d));
}

Value filter_int(Runtime& r, const Value& v, Args& args) {
  Bind a(r, args, "int", {"default", "base"});
  Value fallback = a[0] ? *a[0] : Value::of(Int{0});
  Int base = a.integer(1, 10);
  if (base != 0 && (base < 2 || base > 36)) return fallback;
  if (v.is_undefined()) r.undefined_error(v);
  if (v.is_whole()) return Value::of(v.integer());
  if (v.is(Kind::real)) return std::isnan(v.real()) ? fallback : from_double(r, v.real());
  if (!v.is_string()) return fallback;
  if (auto i = parse_int(r.text(v), static_cast<int>(base))) return Value::of(*i);
  auto d = parse_float(r.text(v));
  return d && std::isfinite(*d) ? from_double(r, *d) : fallback;
}

Value filter_float(Runtime& r, const Value& v, Args& args) {
  Bind a(r, args, "float", {"default"});
  if (v.is_undefined()) r.undefined_error(v);
  if (v.is_number()) return Value::of(v.number());
  if (v.is_string()) {
    if (auto d = parse_float(r.text(v))) return Value::of(*d);
  }
  return a[0] ? *a[0] : Value::of(0.0);
}

Value filter_abs(Runtime& r, const Value& v, Args& args) {
  Bind a(r, args, "abs", {});
  if (v.is_undefined()) r.undefined_error(v);
  if (!v.is_number()) r.fail("abs: a number is needed, not '{}'", r.type_name(v));
  if (v.is(Kind::real)) return Value::of(std::fabs(v.real()));
  return Value::of(v.integer() < 0 ? -v.integer() : v.integer());
}

double round_half_even(double d) {
  double low = std::floor(d), rest = d - low;
  if (rest != 0.5) return rest < 0.5 ? low : low + 1;
  return std::fmod(low, 2) == 0 ? low : low + 1;
}

Value filter_round(Runtime& r, const Value& v, Args& args) {
  Bind a(r, args, "round", {"precision", "method"});
  Int precision = a.integer(0, 0);
  std::string_view method = a.text(1, "common");
  if (v.is_undefined()) r.undefined_error(v);
  if (!v.is_number()) r.fail("round: a number is needed, not '{}'", r.type_name(v));
  if (precision > 300 || precision < -300) r.fail("round: a precision of {}", int_text(precision));
  int digits = static_cast<int>(precision);
  if (method == "ceil" || method == "floor") {
    double scale = std::pow(10.0, digits), d = v.number() * scale;
    return Value::of((method == "ceil" ? std::ceil(d) : std::floor(d)) / scale);
  }
  if (method != "common") r.fail("round: the method must be common, ceil or floor, not '{}'", method);
  if (v.is_whole()) {
    if (digits >= 0) return Value::of(v.integer());
    if (digits < -37) return Value::of(Int{0});
    Int scale = 1, i = v.integer();
    for (int k = 0; k > digits; k--) scale *= 10;
    Int low = i / scale - (i % scale < 0), twice = 2 * (i - low * scale);
    if (twice > scale || (twice == scale && low % 2 != 0)) low++;
    return Value::of(low * scale);
  }
  double d = v.real();
  if (!std::isfinite(d)) return v;
  if (digits < 0) {
    double scale = std::pow(10.0, -digits);
    return Value::of(round_half_even(d / scale) * scale);
  }
  // The exact decimal expansion, correctly rounded: what Python does.
  return Value::of(std::strtod(fmt::format("{:.{}f}", d, digits).c_str(), nullptr));
}

Value filter_default(Runtime& r, const Value& v, Args& args) {
  Bind a(r, args, "default", {"default_value", "boolean"});
  if (v.is_undefined() || (a.truth(1, false) && !r.truth(v))) return a[0] ? *a[0] : r.str("");
  return v;
}

Value filter_format(Runtime& r, const Value& v, Args& args) {
  if (!args.pos.empty() && !args.named.empty()) r.fail("format: positional and named arguments cannot be mixed");
  Value values = r.tuple(args.pos);
  if (!args.named.empty()) {
    values = r.dict();
    for (auto& [name, value] : args.named) values.as<Dict>().set(r, r.str(name), value);
  }
  Value s = soft_str(r, v);
  return r.str(r.percent(s, values), r.is_safe(s));
}

Value filter_indent(Runtime& r, const Value& v, Args& args) {
  Bind a(r, args, "indent", {"width", "first", "blank"});
  if (v.is_undefined()) r.undefined_error(v);
  if (!v.is_string()) r.fail("indent: text is needed, not '{}'", r.type_name(v));
  std::string indention;
  if (a.given(0) && a[0]->is_string()) {
    indention = r.text(*a[0]);
  } else {
    Int width = a.integer(0, 4);
    r.check_text(static_cast<size_t>(std::clamp<Int>(width, 0, Int{1} << 40)));
    indention.assign(static_cast<size_t>(std::max<Int>(width, 0)), ' ');
  }
  std::string s = r.text(v) + "\n", out;
  bool blank = a.truth(2, false), first = true;
  for (std::string_view line : split_lines(s, false)) {
    if (first ? a.truth(1, false) : true) {
      if (!first) out += '\n';
      if (first || blank || !line.empty()) r.append(out, indention);
    }
    r.append(out, line);
    first = false;
  }
  return r.str(std::move(out), r.is_safe(v));
}

Value filter_truncate(Runtime& r, const Value& v, Args& args) {
  Bind a(r, args, "truncate", {"length", "killwords", "end", "leeway"});
  if (!v.is_string()) r.fail("truncate: text is needed, not '{}'", r.type_name(v));
  Int length = a.integer(0, 255), leeway = a.integer(3, 5);
  std::string_view end = a.text(2, "...");
  Int n_end = static_cast<Int>(count_chars(end));
  if (length < n_end || leeway < 0) r.fail("truncate: length {} is below that of the end mark, or leeway is negative", int_text(length));
  const std::string& s = r.text(v);
  if (*r.length(v) <= length + leeway) return v;
  std::string out = s.substr(0, byte_offset(s, static_cast<size_t>(length - n_end)));
  if (!a.truth(1, false)) out = out.substr(0, out.rfind(' '));
  r.append(out, end);
  return r.str(std::move(out), r.is_safe(v));
}

Value filter_center(Runtime& r, const Value& v, Args& args) {
  Bind a(r, args, "center", {"width"});
  Args width;
  width.pos.push_back(Value::of(a.integer(0, 80)));
  return r.call(*r.method(soft_str(r, v), "center"), width, "center");
}

Value filter_wordcount(Runtime& r, const Value& v, Args& args) {
  Bind a(r, args, "wordcount", {});
  std::string s = r.to_str(v);
  r.step(s.size());
  Int n = 0;
  bool inside = false;
  for (std::string_view c : split_chars(s)) {
    bool word = is_word(code_point(c, 0));
    n += word && !inside;
    inside = word;
  }
  return Value::of(n);
}

Value filter_urlencode(Runtime& r, const Value& v, Args& args) {
  Bind a(r, args, "urlencode", {});
  if (r.is_iterable(v) && !v.is_string()) r.fail("urlencode: only text is supported, not '{}'", r.type_name(v));
  std::string out;
  for (char c : r.to_str(v)) {
    bool plain =
        (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') || std::string_view("_.-~/").find(c) != std::string_view::npos;
    r.append(out, plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c)));
  }
  return r.str(std::move(out));
}

Value filter_tojson(Runtime& r, const Value& v, Args& args) {
  Bind a(r, args, "tojson", {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ensure_ascii = a.truth(0, false);
  style.sort_keys = a.truth(3, false);
  if (a.given(1)) {
    if (a[1]->is_string()) {
      style.indent = r.text(*a[1]);
    } else {
      Int n = a.integer(1, 0);
      if (n > 1000) r.fail("tojson: an indent of {}", int_text(n));
      style.indent = std::string(static_cast<size_t>(std::max<Int>(n, 0)), ' ');
    }
    style.item_separator = ",";
  }
  if (a.given(2)) {
    if (!a[2]->is_sequence() || a[2]->as<List>().v.size() != 2 || !a[2]->as<List>().v[0].is_string() ||
        !a[2]->as<List>().v[1].is_string()) {
      r.fail("tojson: separators must be a pair of strings");
    }
    style.item_separator = r.text(a[2]->as<List>().v[0]);
    style.key_separator = r.text(a[2]->as<List>().v[1]);
  }
  return r.str(r.to_json(v, style));
}

constexpr Entry kTextFilters[] = {
    {"abs", filter_abs},
    {"capitalize", map_text<capitalize>},
    {"center", filter_center},
    {"count", filter_length},
    {"d", filter_default},
    {"default", filter_default},
    {"e", filter_escape},
    {"escape", filter_escape},
    {"float", filter_float},
    {"forceescape", filter_forceescape},
    {"format", filter_format},
    {"indent", filter_indent},
    {"int", filter_int},
    {"length", filter_length},
    {"lower", map_text<lower>},
    {"replace", filter_replace},
    {"round", filter_round},
    {"safe", filter_safe},
    {"string", filter_string},
    {"title", map_text<title_words>},
    {"tojson", filter_tojson},
    {"trim", filter_trim},
    {"truncate", filter_truncate},
    {"upper", map_text<upper>},
    {"urlencode", filter_urlencode},
    {"wordcount", filter_wordcount},
};

Builtin find_filter(std::string_view name) {
  static const auto* table = [] {
    auto* t = new std::unordered_map<std::string_view, Builtin>;
    for (auto entries : {std::span<const Entry>(kTextFilters), sequence_filters()}) {
      for (const Entry& e : entries) t->emplace(e.name, e.fn);
    }
    return t;
  }();
  auto it = table->find(name);
  return it == table->end() ? nullptr : it->second;
}

}  // namespace

bool Runtime::has_filter(std::string_view name) { return find_filter(name) != nullptr; }

Value Runtime::filter(std::string_view name, const Value& v, Args& args) {
  Depth depth(*this);
  step();
  Builtin fn = find_filter(name);
  if (!fn) throw Failure{fmt::format("filter '{}' is not supported", name), 0, Code::unsupported, false};
  return fn(*this, v, args);
}

}  // namespace fewbit::text::jinja
