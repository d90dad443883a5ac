// Arithmetic, attributes, items and slices.
#include <cmath>

#include "text/jinja_runtime.h"

namespace fewbit::text::jinja {
namespace {

constexpr Int kMaxInt = Int{1} << 126;

Int checked(const Runtime& r, Int x) {
  if (x > kMaxInt || x < -kMaxInt) r.fail("an integer grows beyond 126 bits");
  return x;
}

Int multiply(const Runtime& r, Int a, Int b) {
  if (a == 0 || b == 0) return 0;
  Int x = a < 0 ? -a : a, y = b < 0 ? -b : b;
  if (x > kMaxInt / y) r.fail("an integer grows beyond 126 bits");
  return a * b;
}

// Python rounds the quotient down; the remainder has the sign of the divisor.
Int floor_divide(Int a, Int b) { return a / b - (a % b != 0 && (a % b < 0) != (b < 0)); }

struct Quotient {
  double whole, rest;
};
Quotient floor_divide(double a, double b) {
  double rest = std::fmod(a, b), whole = (a - rest) / b;
  if (rest != 0) {
    if ((b < 0) != (rest < 0)) rest += b, whole -= 1;
  } else {
    rest = std::copysign(0.0, b);
  }
  if (whole == 0) return {std::copysign(0.0, a / b), rest};
  double floor = std::floor(whole);
  return {whole - floor > 0.5 ? floor + 1 : floor, rest};
}

Value power(const Runtime& r, const Value& a, const Value& b) {
  if (a.is_whole() && b.is_whole() && b.integer() >= 0) {
    Int base = a.integer(), result = 1, n = b.integer();
    if (base == 0 || base == 1) return Value::of(n == 0 ? Int{1} : base);
    if (base == -1) return Value::of(n % 2 ? Int{-1} : Int{1});
    for (; n > 0; n--) result = multiply(r, result, base);  // at most 126 rounds: every one doubles it or more
    return Value::of(result);
  }
  double x = a.number(), y = b.number();
  if (x == 0 && y < 0) r.fail("0 cannot be raised to a negative power");
  if (x < 0 && y != std::floor(y) && std::isfinite(y)) r.fail("a negative number to a fractional power is not supported");
  double result = std::pow(x, y);
  if (std::isinf(result) && std::isfinite(x) && std::isfinite(y)) r.fail("the result of '**' is too large");
  return Value::of(result);
}

Value arithmetic(const Runtime& r, Op op, const Value& a, const Value& b) {
  if (op == Op::pow) return power(r, a, b);
  if ((op == Op::div || op == Op::floordiv || op == Op::mod) && b.number() == 0) r.fail("'{}': division by zero", op_name(op));
  if (op == Op::div) return Value::of(a.number() / b.number());
  if (a.is(Kind::real) || b.is(Kind::real)) {
    double x = a.number(), y = b.number();
    switch (op) {
      case Op::add:
        return Value::of(x + y);
      case Op::sub:
        return Value::of(x - y);
      case Op::mul:
        return Value::of(x * y);
      case Op::floordiv:
        return Value::of(floor_divide(x, y).whole);
      default:
        return Value::of(floor_divide(x, y).rest);
    }
  }
  Int x = a.integer(), y = b.integer();
  switch (op) {
    case Op::add:
      return Value::of(checked(r, x + y));
    case Op::sub:
      return Value::of(checked(r, x - y));
    case Op::mul:
      return Value::of(multiply(r, x, y));
    case Op::floordiv:
      return Value::of(floor_divide(x, y));
    default:
      return Value::of(x - y * floor_divide(x, y));
  }
}

Value repeat(Runtime& r, const Value& v, Int count) {
  size_t n = count <= 0 ? 0 : count > Int{1} << 40 ? size_t{1} << 40 : static_cast<size_t>(count);
  if (v.is_string()) {
    const std::string& s = r.text(v);
    r.check_text(s.empty() ? 0 : s.size() > r.limits().text_bytes / std::max<size_t>(n, 1) ? r.limits().text_bytes + 1 : s.size() * n);
    std::string out;
    if (!s.empty()) {
      out.reserve(s.size() * n);
      for (size_t i = 0; i < n; i++) out += s;
    }
    return r.str(std::move(out), r.is_safe(v));
  }
  std::vector<Value> out;
  const auto& items = v.as<List>().v;
  for (size_t i = 0; i < n && !items.empty(); i++) {
    r.step(items.size());
    r.check_text((out.size() + items.size()) * sizeof(Value));
    out.insert(out.end(), items.begin(), items.end());
  }
  return v.is(Kind::list) ? r.list(std::move(out)) : r.tuple(std::move(out));
}

Value concatenate(Runtime& r, const Value& a, const Value& b) {
  if (a.is_string()) {
    bool safe = r.is_safe(a) || r.is_safe(b);  // a safe text escapes what is not
    auto part = [&](const Value& v) { return safe && !r.is_safe(v) ? html_escape(r.text(v)) : r.text(v); };
    std::string s = part(a);
    r.append(s, part(b));
    return r.str(std::move(s), safe);
  }
  std::vector<Value> items = a.as<List>().v;
  const auto& more = b.as<List>().v;
  r.step(items.size() + more.size());
  items.insert(items.end(), more.begin(), more.end());
  return a.is(Kind::list) ? r.list(std::move(items)) : r.tuple(std::move(items));
}

}  // namespace

Value Runtime::binary(Op op, const Value& a, const Value& b) {
  step();
  if (a.is_number() && b.is_number()) return arithmetic(*this, op, a, b);
  if (op == Op::add && a.kind() == b.kind() && (a.is_string() || a.is_sequence())) return concatenate(*this, a, b);
  if (op == Op::mod && a.is_string()) return str(percent(a, b), is_safe(a));
  if (op == Op::mul && (a.is_string() || a.is_sequence()) && b.is_whole()) return repeat(*this, a, b.integer());
  if (op == Op::mul && (b.is_string() || b.is_sequence()) && a.is_whole()) return repeat(*this, b, a.integer());
  if (a.is_undefined()) undefined_error(a);
  if (b.is_undefined()) undefined_error(b);
  fail("'{}' is not supported between '{}' and '{}'", op_name(op), type_name(a), type_name(b));
}

Value Runtime::negate(const Value& v, bool minus) {
  if (v.is_undefined()) undefined_error(v);
  if (!v.is_number()) fail("'{}' is not supported for '{}'", minus ? '-' : '+', type_name(v));
  if (v.is(Kind::real)) return Value::of(minus ? -v.real() : v.real());
  return Value::of(minus ? -v.integer() : v.integer());
}

void Runtime::undefined_error(const Value& v) const {
  if (v.object() == nullptr) fail("the value is undefined");
  fail("{}", v.as<Str>().s);
}

Int Runtime::to_index(const Value& v, const char* what) {
  if (v.is_undefined()) undefined_error(v);
  if (!v.is_whole()) fail("{} must be an integer, not '{}'", what, type_name(v));
  return v.integer();
}

static Value missing(Runtime& r, const Value& v, const std::string& name) {
  if (v.is_none()) return r.undefined(fmt::format("'None' has no attribute {}", name));
  return r.undefined(fmt::format("'{} object' has no attribute {}", r.type_name(v), name));
}

Value Runtime::attribute(const Value& v, std::string_view name) {
  if (v.is_undefined()) undefined_error(v);
  if (v.kind() >= Kind::string) {
    if (auto own = v.object()->attribute(*this, name)) return *own;
  }
  if (auto m = method(v, name)) return *m;
  if (v.is(Kind::tuple) && v.as<List>().group) {
    if (name == "grouper") return v.as<List>().v[0];
    if (name == "list") return v.as<List>().v[1];
  }
  if (v.is(Kind::dict)) {
    if (const Value* found = v.as<Dict>().find(*this, name)) return *found;
  }
  return missing(*this, v, quote(name));
}

Value Runtime::item(const Value& v, const Value& key) {
  if (v.is_undefined()) undefined_error(v);
  if (v.is(Kind::dict) && is_hashable(key)) {
    if (const Value* found = v.as<Dict>().find(*this, key)) return *found;
  }
  if (key.is_whole() && (v.is_string() || v.is_sequence() || v.is(Kind::range))) {
    Int n = *length(v), i = key.integer() < 0 ? key.integer() + n : key.integer();
    if (i < 0 || i >= n) return undefined(fmt::format("'{} object' has no element {}", type_name(v), int_text(key.integer())));
    if (v.is_sequence()) return v.as<List>().v[static_cast<size_t>(i)];
    if (v.is(Kind::range)) return Value::of(v.as<Range>().start + i * v.as<Range>().step);
    const std::string& s = text(v);
    size_t at = static_cast<Int>(s.size()) == n ? static_cast<size_t>(i) : byte_offset(s, static_cast<size_t>(i));
    return str(s.substr(at, char_bytes(s, at)), is_safe(v));
  }
  if (key.is_string()) {
    if (v.kind() >= Kind::string) {
      if (auto own = v.object()->attribute(*this, text(key))) return *own;
    }
    if (auto m = method(v, text(key))) return *m;
  }
  return missing(*this, v, to_repr(key));
}

Value Runtime::slice(const Value& v, const Value& start, const Value& stop, const Value& step_value) {
  if (v.is_undefined()) undefined_error(v);
  if (!v.is_string() && !v.is_sequence() && !v.is(Kind::range)) fail("a '{}' cannot be sliced", type_name(v));
  for (const Value* bound : {&start, &stop, &step_value}) {
    if (!bound->is_none() && !bound->is_whole()) fail("the bounds of a slice must be integers, not '{}'", type_name(*bound));
  }
  Int n = *length(v), by = step_value.is_none() ? 1 : step_value.integer();
  if (by == 0) fail("a slice cannot have step 0");
  auto clip = [&](const Value& bound, Int fallback) {
    if (bound.is_none()) return fallback;
    Int i = bound.integer() < 0 ? bound.integer() + n : bound.integer();
    Int low = by < 0 ? -1 : 0, high = by < 0 ? n - 1 : n;
    return i < low ? low : i > high ? high : i;
  };
  Int from = clip(start, by < 0 ? n - 1 : 0), to = clip(stop, by < 0 ? -1 : n);
  if (v.is(Kind::range)) {
    const Range& r = v.as<Range>();
    return Value::of(Kind::range, new Range(heap, r.start + from * r.step, r.start + to * r.step, multiply(*this, r.step, by)));
  }
  Int count = range_size(from, to, by);
  step(static_cast<size_t>(count) / 8);
  if (v.is_sequence()) {
    std::vector<Value> items;
    items.reserve(static_cast<size_t>(count));
    for (Int i = 0; i < count; i++) items.push_back(v.as<List>().v[static_cast<size_t>(from + i * by)]);
    return v.is(Kind::list) ? list(std::move(items)) : tuple(std::move(items));
  }
  const std::string& s = text(v);
  std::string out;
  if (by == 1) {
    if (count > 0) {
      bool ascii = static_cast<Int>(s.size()) == n;
      size_t first = ascii ? static_cast<size_t>(from) : byte_offset(s, static_cast<size_t>(from));
      size_t length = ascii ? static_cast<size_t>(count) : byte_offset(std::string_view(s).substr(first), static_cast<size_t>(count));
      out = s.substr(first, length);
    }
  } else {
    step(s.size());
    auto chars = split_chars(s);
    for (Int i = 0; i < count; i++) out += chars[static_cast<size_t>(from + i * by)];
  }
  return str(std::move(out), is_safe(v));
}

Value Runtime::call(const Value& fn, Args& args, std::string_view name) {
  if (fn.is_undefined()) undefined_error(fn);
  if (!fn.is(Kind::callable)) fail("'{}' ({}) is not a function", name, type_name(fn));
  Depth depth(*this);
  step();
  // The call may drop the last reference to what is being called.
  Value hold = fn;  // NOLINT(performance-unnecessary-copy-initialization)
  return static_cast<Callable*>(hold.object())->call(*this, args);
}

}  // namespace fewbit::text::jinja
