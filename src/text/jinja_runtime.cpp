// Text, comparison and iteration of values.
#include "text/jinja_runtime.h"

#include <charconv>
#include <cmath>

namespace fewbit::text::jinja {

const char* op_name(Op op) {
  static constexpr const char* names[] = {"+", "-", "*", "/", "//", "%", "**", "==", "!=", "<", "<=", ">", ">=", "in", "not in"};
  return names[static_cast<int>(op)];
}

void Runtime::out_of_steps() const {
  throw Failure{fmt::format("the template takes more than {} steps", limits_.steps), 0, Code::invalid_argument, true};
}
void Runtime::text_too_long() const {
  throw Failure{fmt::format("the template makes a text of more than {} bytes", limits_.text_bytes), 0, Code::invalid_argument, true};
}
void Runtime::too_deep() const {
  throw Failure{fmt::format("nested deeper than {} levels (a macro that calls itself, or a list inside itself?)", limits_.depth), 0,
                Code::invalid_argument, true};
}

Value Runtime::str(std::string s, bool safe) {
  step(s.size() / 64);
  check_text(s.size());
  return Value::of(Kind::string, new Str(heap, std::move(s), safe));
}

std::string Runtime::type_name(const Value& v) const {
  switch (v.kind()) {
    case Kind::undefined:
      return "Undefined";
    case Kind::none:
      return "NoneType";
    case Kind::boolean:
      return "bool";
    case Kind::integer:
      return "int";
    case Kind::real:
      return "float";
    case Kind::string:
      return "str";
    case Kind::list:
      return "list";
    case Kind::tuple:
      return "tuple";
    case Kind::dict:
      return "dict";
    case Kind::range:
      return "range";
    case Kind::view:
      return v.as<View>().what == View::keys ? "dict_keys" : v.as<View>().what == View::items ? "dict_items" : "dict_values";
    case Kind::iterator:
      return "generator";
    default:
      return v.object()->type_name();
  }
}

void Runtime::append_str(std::string& out, const Value& v) {
  switch (v.kind()) {
    case Kind::undefined:
      return;
    case Kind::string:
      return append(out, text(v));
    case Kind::none:
      if (v.marked()) printed_watched = true;
      return append(out, "None");
    case Kind::list:
      if (v.as<List>().watched) printed_watched = true;
      return append_repr(out, v);
    case Kind::dict:
      if (v.as<Dict>().watched) printed_watched = true;
      return append_repr(out, v);
    default:
      return append_repr(out, v);
  }
}

void Runtime::append_repr(std::string& out, const Value& v) {
  Depth depth(*this);
  step();
  auto sequence = [&](const std::vector<Value>& items) {
    for (size_t i = 0; i < items.size(); i++) {
      if (i) append(out, ", ");
      append_repr(out, items[i]);
    }
  };
  switch (v.kind()) {
    case Kind::undefined:
      return append(out, "Undefined");
    case Kind::none:
      return append(out, "None");
    case Kind::boolean:
      return append(out, v.boolean() ? "True" : "False");
    case Kind::integer:
      return append(out, int_text(v.integer()));
    case Kind::real:
      return append(out, float_repr(v.real()));
    case Kind::string:
      return append(out, is_safe(v) ? "Markup(" + quote(text(v)) + ")" : quote(text(v)));
    case Kind::list:
      append(out, "[");
      sequence(v.as<List>().v);
      return append(out, "]");
    case Kind::tuple:
      append(out, "(");
      sequence(v.as<List>().v);
      return append(out, v.as<List>().v.size() == 1 ? ",)" : ")");
    case Kind::dict: {
      append(out, "{");
      const char* separator = "";
      for (const auto& [key, value] : v.as<Dict>().items) {
        append(out, separator);
        append_repr(out, key);
        append(out, ": ");
        append_repr(out, value);
        separator = ", ";
      }
      return append(out, "}");
    }
    case Kind::range: {
      const Range& range = v.as<Range>();
      append(out, fmt::format("range({}, {}", int_text(range.start), int_text(range.stop)));
      return append(out, range.step == 1 ? ")" : fmt::format(", {})", int_text(range.step)));
    }
    case Kind::view:
      append(out, type_name(v) + "([");
      sequence(to_vector(v));
      return append(out, "])");
    case Kind::space: {
      append(out, "<Namespace {");
      const char* separator = "";
      for (const auto& [key, value] : v.as<Space>().items) {
        append(out, separator + quote(key) + ": ");
        append_repr(out, value);
        separator = ", ";
      }
      return append(out, "}>");
    }
    default:
      return append(out, "<" + type_name(v) + ">");
  }
}

bool Runtime::truth(const Value& v) {
  switch (v.kind()) {
    case Kind::undefined:
    case Kind::none:
      return false;
    case Kind::boolean:
    case Kind::integer:
      return v.integer() != 0;
    case Kind::real:
      return v.real() != 0;
    case Kind::string:
      return !text(v).empty();
    case Kind::list:
    case Kind::tuple:
      return !v.as<List>().v.empty();
    case Kind::dict:
      return !v.as<Dict>().items.empty();
    case Kind::range:
      return v.as<Range>().size() > 0;
    case Kind::view:
      return truth(v.as<View>().dict);
    default:
      return true;
  }
}

static int order(double a, double b) { return a < b ? -1 : a > b ? 1 : a == b ? 0 : 2; }

static int order_numbers(const Value& a, const Value& b) {
  if (a.is(Kind::real) || b.is(Kind::real)) return order(a.number(), b.number());
  return a.integer() < b.integer() ? -1 : a.integer() > b.integer();
}

bool Runtime::equal(const Value& a, const Value& b) {
  step();
  if (a.is_number() && b.is_number()) return order_numbers(a, b) == 0;
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::undefined:
    case Kind::none:
      return true;
    case Kind::string:
      step(text(a).size() / 64);
      return text(a) == text(b);
    case Kind::list:
    case Kind::tuple: {
      Depth depth(*this);
      const auto &x = a.as<List>().v, &y = b.as<List>().v;
      if (x.size() != y.size()) return false;
      for (size_t i = 0; i < x.size(); i++) {
        if (!equal(x[i], y[i])) return false;
      }
      return true;
    }
    case Kind::dict: {
      Depth depth(*this);
      if (a.as<Dict>().items.size() != b.as<Dict>().items.size()) return false;
      for (const auto& [key, value] : a.as<Dict>().items) {
        const Value* other = b.as<Dict>().find(*this, key);
        if (!other || !equal(value, *other)) return false;
      }
      return true;
    }
    case Kind::range: {
      const Range &x = a.as<Range>(), &y = b.as<Range>();
      Int n = x.size();
      return n == y.size() && (n == 0 || (x.start == y.start && (n == 1 || x.step == y.step)));
    }
    default:
      return a.object() == b.object();
  }
}

size_t hash_text(std::string_view s) { return std::hash<std::string_view>{}(s); }

bool Runtime::is_hashable(const Value& v) const { return !v.is(Kind::list) && !v.is(Kind::dict) && !v.is(Kind::view); }

size_t Runtime::hash(const Value& v) {
  switch (v.kind()) {
    case Kind::undefined:
      return 1;
    case Kind::none:
      return 2;
    case Kind::boolean:
    case Kind::integer:
      return std::hash<double>{}(static_cast<double>(v.integer()));  // equal numbers of any type hash alike
    case Kind::real:
      return std::hash<double>{}(v.real());
    case Kind::string:
      step(text(v).size() / 64);
      return hash_text(text(v));
    case Kind::tuple: {
      Depth depth(*this);
      size_t h = 3;
      for (const Value& e : v.as<List>().v) h = h * 1000003 ^ hash(e);
      return h;
    }
    case Kind::range:
      return static_cast<size_t>(v.as<Range>().size());
    default:
      if (!is_hashable(v)) fail("unhashable type: '{}'", type_name(v));
      return std::hash<const void*>{}(v.object());
  }
}

int Runtime::compare(const Value& a, const Value& b, Op op) {
  step();
  if (a.is_number() && b.is_number()) return order_numbers(a, b);
  if (a.is_undefined()) undefined_error(a);
  if (b.is_undefined()) undefined_error(b);
  if (a.is_string() && b.is_string()) {
    step(text(a).size() / 64);
    return text(a).compare(text(b)) < 0 ? -1 : text(a) != text(b);  // the order of UTF-8 bytes is that of code points
  }
  if (a.is_sequence() && a.kind() == b.kind()) {
    Depth depth(*this);
    const auto &x = a.as<List>().v, &y = b.as<List>().v;
    for (size_t i = 0; i < x.size() && i < y.size(); i++) {
      if (!equal(x[i], y[i])) return compare(x[i], y[i], op);
    }
    return x.size() < y.size() ? -1 : x.size() > y.size();
  }
  fail("'{}' is not supported between '{}' and '{}'", op_name(op), type_name(a), type_name(b));
}

bool Runtime::contains(const Value& container, const Value& item) {
  switch (container.kind()) {
    case Kind::string:
      if (!item.is_string()) fail("'in' a string needs a string on its left, not '{}'", type_name(item));
      step(text(container).size() / 64);
      return find_text(text(container), text(item), 0) != std::string::npos;
    case Kind::dict:
      return container.as<Dict>().find(*this, item) != nullptr;
    case Kind::view:
      if (container.as<View>().what == View::keys) return contains(container.as<View>().dict, item);
      break;
    case Kind::list:
    case Kind::tuple:
      for (size_t i = 0; i < container.as<List>().v.size(); i++) {
        if (equal(container.as<List>().v[i], item)) return true;
      }
      return false;
    default:
      break;
  }
  if (!is_iterable(container)) fail("'in' needs text, a list or an object on its right, not '{}'", type_name(container));
  Next next = iterate(container);
  for (Value v; next(v);) {
    if (equal(v, item)) return true;
  }
  return false;
}

bool Runtime::compare_op(Op op, const Value& a, const Value& b) {
  switch (op) {
    case Op::eq:
      return equal(a, b);
    case Op::ne:
      return !equal(a, b);
    case Op::in:
      return contains(b, a);
    case Op::not_in:
      return !contains(b, a);
    default:
      break;
  }
  int c = compare(a, b, op);
  switch (op) {
    case Op::lt:
      return c == -1;
    case Op::le:
      return c == -1 || c == 0;
    case Op::gt:
      return c == 1;
    default:
      return c == 1 || c == 0;
  }
}

bool Runtime::is_iterable(const Value& v) const {
  switch (v.kind()) {
    case Kind::undefined:
    case Kind::string:
    case Kind::list:
    case Kind::tuple:
    case Kind::dict:
    case Kind::range:
    case Kind::view:
    case Kind::iterator:
      return true;
    default:
      return false;
  }
}

Next Runtime::iterate(const Value& v) {
  switch (v.kind()) {
    case Kind::undefined:
      return [](Value&) { return false; };
    case Kind::string:
      return [this, v, at = size_t{0}](Value& out) mutable {
        const std::string& s = text(v);
        step();
        if (at >= s.size()) return false;
        size_t n = char_bytes(s, at);
        out = str(s.substr(at, n), is_safe(v));
        at += n;
        return true;
      };
    case Kind::list:
    case Kind::tuple:
      return [this, v, i = size_t{0}](Value& out) mutable {  // sees what is appended meanwhile, as in Python
        step();
        if (i >= v.as<List>().v.size()) return false;
        out = v.as<List>().v[i++];
        return true;
      };
    case Kind::range:
      return [this, v, i = Int{0}](Value& out) mutable {
        step();
        const Range& range = v.as<Range>();
        if (i >= range.size()) return false;
        out = Value::of(range.start + i++ * range.step);
        return true;
      };
    case Kind::dict:
      return iterate(Value::of(Kind::view, new View(heap, v, View::keys)));
    case Kind::view:
      return [this, v, i = size_t{0}, size = v.as<View>().dict.as<Dict>().items.size()](Value& out) mutable {
        step();
        size_t now = v.as<View>().dict.as<Dict>().items.size();
        if (now != size) fail("an object changed its size while a loop walked over it");
        if (i >= now) return false;
        out = v.as<View>().at(*this, i++);
        return true;
      };
    case Kind::iterator:
      return [this, v](Value& out) {
        Depth depth(*this);
        step();
        return v.as<Iterator>().next(out);
      };
    default:
      fail("'{}' cannot be looped over", type_name(v));
  }
}

std::vector<Value> Runtime::to_vector(const Value& v) {
  std::vector<Value> items;
  Next next = iterate(v);
  for (Value e; next(e);) {
    check_text(items.size() * sizeof(Value));
    items.push_back(std::move(e));
  }
  return items;
}

std::optional<Int> Runtime::length(const Value& v) {
  auto size = [](size_t n) { return std::optional<Int>(static_cast<Int>(n)); };
  switch (v.kind()) {
    case Kind::undefined:
      return 0;
    case Kind::string:
      step(text(v).size() / 64);
      return size(count_chars(text(v)));
    case Kind::list:
    case Kind::tuple:
      return size(v.as<List>().v.size());
    case Kind::dict:
      return size(v.as<Dict>().items.size());
    case Kind::range:
      return v.as<Range>().size();
    case Kind::view:
      return size(v.as<View>().dict.as<Dict>().items.size());
    default:
      return {};
  }
}

Bind::Bind(Runtime& r, Args& args, std::string_view function, std::initializer_list<std::string_view> names, size_t n_required)
    : r_(r), function_(function), values_(names.size(), nullptr) {
  if (args.pos.size() > names.size()) r.fail("{}: takes at most {} argument(s), not {}", function, names.size(), args.pos.size());
  for (size_t i = 0; i < args.pos.size(); i++) values_[i] = &args.pos[i];
  for (const auto& [name, value] : args.named) {
    size_t i = static_cast<size_t>(std::find(names.begin(), names.end(), name) - names.begin());
    if (i == names.size()) r.fail("{}: has no argument '{}'", function, name);
    if (values_[i]) r.fail("{}: argument '{}' given twice", function, name);
    values_[i] = &value;
  }
  for (size_t i = 0; i < n_required; i++) {
    if (!values_[i]) r.fail("{}: argument '{}' is missing", function, names.begin()[i]);
  }
}

Int Bind::integer(size_t i, Int fallback) const {
  if (!given(i)) return fallback;
  if (!values_[i]->is_whole()) r_.fail("{}: argument {} must be an integer, not '{}'", function_, i + 1, r_.type_name(*values_[i]));
  return values_[i]->integer();
}
bool Bind::truth(size_t i, bool fallback) const { return values_[i] ? r_.truth(*values_[i]) : fallback; }
std::string_view Bind::text(size_t i, std::string_view fallback) const {
  if (!given(i)) return fallback;
  if (!values_[i]->is_string()) r_.fail("{}: argument {} must be a string, not '{}'", function_, i + 1, r_.type_name(*values_[i]));
  return r_.text(*values_[i]);
}

}  // namespace fewbit::text::jinja
