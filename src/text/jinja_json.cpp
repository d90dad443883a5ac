// JSON to values, and the filter tojson: Python's json.dumps.
#include "base/json.h"
#include "text/jinja_runtime.h"

namespace fewbit::text::jinja {
namespace {

class Writer {
 public:
  Writer(Runtime& r, const JsonStyle& style) : r_(r), style_(style) {}

  void value(const Value& v) {
    Runtime::Depth depth(r_);
    r_.step();
    switch (v.kind()) {
      case Kind::none:
        return r_.append(out, "null");
      case Kind::boolean:
        return r_.append(out, v.boolean() ? "true" : "false");
      case Kind::integer:
        return r_.append(out, int_text(v.integer()));
      case Kind::real:
        return number(v.real());
      case Kind::string:
        return string(r_.text(v));
      case Kind::list:
      case Kind::tuple:
        return array(v.as<List>().v);
      case Kind::dict:
        return object(v.as<Dict>());
      case Kind::undefined:
        r_.fail("tojson: {} and cannot be written as JSON", v.object() ? r_.text(v) : "the value is undefined");
      default:
        r_.fail("tojson: a '{}' cannot be written as JSON", r_.type_name(v));
    }
  }

  std::string out;

 private:
  void number(double d) {
    std::string s = float_repr(d);
    r_.append(out, s == "nan" ? "NaN" : s == "inf" ? "Infinity" : s == "-inf" ? "-Infinity" : s);
  }

  void unit(char32_t c) {  // \uXXXX
    out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
  }

  void string(std::string_view s) {
    r_.step(s.size() / 16);
    out += '"';
    for (size_t at = 0; at < s.size();) {
      size_t n = char_bytes(s, at);
      char32_t c = code_point(s, at);
      switch (c) {
        case '"':
          out += "\\\"";
          break;
        case '\\':
          out += "\\\\";
          break;
        case '\n':
          out += "\\n";
          break;
        case '\r':
          out += "\\r";
          break;
        case '\t':
          out += "\\t";
          break;
        case '\b':
          out += "\\b";
          break;
        case '\f':
          out += "\\f";
          break;
        default:
          if (c < 0x20 || (style_.ensure_ascii && c >= 0x7F && c < 0x10000 && c != 0x7F)) {
            unit(c);
          } else if (style_.ensure_ascii && c >= 0x10000) {
            unit(0xD800 + ((c - 0x10000) >> 10));
            unit(0xDC00 + ((c - 0x10000) & 0x3FF));
          } else {
            out += s.substr(at, n);
          }
      }
      at += n;
      r_.check_text(out.size());
    }
    out += '"';
  }

  void line() {
    if (!style_.indent) return;
    out += '\n';
    for (int i = 0; i < level_; i++) r_.append(out, *style_.indent);
  }

  void array(const std::vector<Value>& items) {
    if (items.empty()) return r_.append(out, "[]");
    out += '[';
    level_++;
    for (size_t i = 0; i < items.size(); i++) {
      if (i) r_.append(out, style_.item_separator);
      line();
      value(items[i]);
    }
    level_--;
    line();
    out += ']';
  }

  std::string key_text(const Value& key) {
    switch (key.kind()) {
      case Kind::string:
        return r_.text(key);
      case Kind::none:
        return "null";
      case Kind::boolean:
        return key.boolean() ? "true" : "false";
      case Kind::integer:
        return int_text(key.integer());
      case Kind::real:
        return float_repr(key.real());
      default:
        r_.fail("tojson: a '{}' cannot be the key of a JSON object", r_.type_name(key));
    }
  }

  void object(const Dict& d) {
    if (d.items.empty()) return r_.append(out, "{}");
    std::vector<const std::pair<Value, Value>*> items;
    for (const auto& item : d.items) items.push_back(&item);
    if (style_.sort_keys) {
      std::stable_sort(items.begin(), items.end(), [&](auto* a, auto* b) { return r_.compare(a->first, b->first, Op::lt) < 0; });
    }
    out += '{';
    level_++;
    for (size_t i = 0; i < items.size(); i++) {
      if (i) r_.append(out, style_.item_separator);
      line();
      string(key_text(items[i]->first));
      r_.append(out, style_.key_separator);
      value(items[i]->second);
    }
    level_--;
    line();
    out += '}';
  }

  Runtime& r_;
  const JsonStyle& style_;
  int level_ = 0;
};

}  // namespace

Value Runtime::from_json(const Json& j) {
  Depth depth(*this);
  step();
  switch (j.type()) {
    case Json::value_t::null:
      return Value::none();
    case Json::value_t::boolean:
      return Value::of(j.get<bool>());
    case Json::value_t::number_integer:
      return Value::of(static_cast<Int>(j.get<std::int64_t>()));
    case Json::value_t::number_unsigned:
      return Value::of(static_cast<Int>(j.get<std::uint64_t>()));
    case Json::value_t::number_float:
      return Value::of(j.get<double>());
    case Json::value_t::string:
      return str(j.get_ref<const std::string&>());
    case Json::value_t::array: {
      Value v = list({});
      for (const Json& e : j) v.as<List>().push(from_json(e));
      return v;
    }
    case Json::value_t::object: {
      Value v = dict();
      for (const auto& [key, e] : j.items()) v.as<Dict>().set(*this, str(key), from_json(e));
      return v;
    }
    default:
      fail("a template variable is neither JSON text, number, list nor object");
  }
}

std::string Runtime::to_json(const Value& v, const JsonStyle& style) {
  Writer w(*this, style);
  w.value(v);
  return std::move(w.out);
}

}  // namespace fewbit::text::jinja
