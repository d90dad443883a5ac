// Functions that every template can call.
#include <algorithm>

#include "text/jinja_runtime.h"

namespace fewbit::text::jinja {
namespace {

constexpr Int kMaxRange = 100'000;  // jinja2's sandbox has the same bound

Value global_range(Runtime& r, const Value&, Args& args) {
  Bind a(r, args, "range", {"start", "stop", "step"}, 1);
  auto bound = [&](size_t i, Int fallback) {
    if (!a[i]) return fallback;
    Int x = r.to_index(*a[i], "range: the argument");
    if (x > Int{1} << 62 || x < -(Int{1} << 62)) r.fail("range: {} is out of bounds", int_text(x));
    return x;
  };
  Int start = a[1] ? bound(0, 0) : 0, stop = a[1] ? bound(1, 0) : bound(0, 0), step = bound(2, 1);
  if (step == 0) r.fail("range: the step is 0");
  Int n = range_size(start, stop, step);
  if (n > kMaxRange) r.fail("range: {} elements, at most {} are allowed", int_text(n), int_text(kMaxRange));
  return Value::of(Kind::range, new Range(r.heap, start, stop, step));
}

Value global_dict(Runtime& r, const Value&, Args& args) {
  Value out = r.dict();
  r.call(*r.method(out, "update"), args, "dict");
  return out;
}

Value global_namespace(Runtime& r, const Value&, Args& args) {
  Value initial = global_dict(r, {}, args);
  Value out = Value::of(Kind::space, new Space(r.heap));
  for (const auto& [key, value] : initial.as<Dict>().items) out.as<Space>().set(r.to_str(key), value);
  return out;
}

Value global_raise(Runtime& r, const Value&, Args& args) {
  Bind a(r, args, "raise_exception", {"message"}, 1);
  r.fail("raise_exception: {}", r.to_str(*a[0]));
}

Value global_strftime_now(Runtime& r, const Value&, Args& args) {
  Bind a(r, args, "strftime_now", {"format"}, 1);
  std::string format(a.text(0, ""));
  if (r.fixed_date) return r.str(*r.fixed_date);
  if (format.size() > 256) r.fail("strftime_now: a format of {} bytes", format.size());
  std::time_t now = r.limits().now ? *r.limits().now : std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char buffer[4096];
  size_t n = std::strftime(buffer, sizeof buffer, format.c_str(), &local);
  return r.str(std::string(buffer, n));
}

// joiner(", "): gives "" when first called, then the separator.
struct Joiner final : Callable {
  Joiner(Heap& h, Value s) : Callable(h, sizeof(Joiner)), separator(std::move(s)) {}
  void clear() override { separator = Value(); }
  Value call(Runtime& r, Args&) override { return std::exchange(used, true) ? separator : r.str(""); }
  Value separator;
  bool used = false;
};

Value global_joiner(Runtime& r, const Value&, Args& args) {
  Bind a(r, args, "joiner", {"sep"});
  return Value::of(Kind::callable, new Joiner(r.heap, a[0] ? *a[0] : r.str(", ")));
}

struct Cycler final : Object {
  Cycler(Heap& h, std::vector<Value> v) : Object(h, sizeof(Cycler) + v.size() * sizeof(Value)), items(std::move(v)) {}
  void clear() override { items.clear(); }
  std::optional<Value> attribute(Runtime& r, std::string_view name) override {
    if (name == "current") return items[at];
    Value self = Value::of(Kind::other, this);
    if (name == "next") return Value::of(Kind::callable, new Function(r.heap, "next", next, self));
    if (name == "reset") return Value::of(Kind::callable, new Function(r.heap, "reset", reset, self));
    return {};
  }
  static Value next(Runtime&, const Value& self, Args&) {
    Cycler& c = self.as<Cycler>();
    Value out = c.items[c.at];
    c.at = (c.at + 1) % c.items.size();
    return out;
  }
  static Value reset(Runtime&, const Value& self, Args&) {
    self.as<Cycler>().at = 0;
    return Value::none();
  }
  const char* type_name() const override { return "Cycler"; }
  std::vector<Value> items;
  size_t at = 0;
};

Value global_cycler(Runtime& r, const Value&, Args& args) {
  if (args.pos.empty() || !args.named.empty()) r.fail("cycler: needs the elements to cycle through");
  return Value::of(Kind::other, new Cycler(r.heap, args.pos));
}

constexpr Entry kGlobals[] = {
    {"cycler", global_cycler},
    {"dict", global_dict},
    {"joiner", global_joiner},
    {"namespace", global_namespace},
    {"range", global_range},
    {"raise_exception", global_raise},
    {"strftime_now", global_strftime_now},
};

}  // namespace

std::optional<Value> Runtime::global(std::string_view name) {
  for (const Entry& e : kGlobals) {
    if (e.name == name) return Value::of(Kind::callable, new Function(heap, e.name, e.fn, {}));
  }
  return {};
}

}  // namespace fewbit::text::jinja
