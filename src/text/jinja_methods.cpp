// Methods of lists, tuples, objects and numbers, and the look-up of methods by name.
#include <algorithm>
#include <cmath>

#include "text/jinja_runtime.h"

namespace fewbit::text::jinja {
namespace {

using Items = std::vector<Value>;

Value list_append(Runtime& r, const Value& self, Args& args) {
  Bind a(r, args, "append", {"object"}, 1);
  self.as<List>().push(*a[0]);
  return Value::none();
}

Value list_extend(Runtime& r, const Value& self, Args& args) {
  Bind a(r, args, "extend", {"iterable"}, 1);
  for (Value& v : r.to_vector(*a[0])) self.as<List>().push(std::move(v));
  return Value::none();
}

Value list_insert(Runtime& r, const Value& self, Args& args) {
  Bind a(r, args, "insert", {"index", "object"}, 2);
  List& list = self.as<List>();
  Int n = static_cast<Int>(list.v.size()), i = a.integer(0, 0);
  i = std::clamp<Int>(i < 0 ? i + n : i, 0, n);
  r.step(list.v.size() / 16);
  list.push(*a[1]);
  std::rotate(list.v.begin() + static_cast<std::ptrdiff_t>(i), list.v.end() - 1, list.v.end());
  return Value::none();
}

Value list_pop(Runtime& r, const Value& self, Args& args) {
  Bind a(r, args, "pop", {"index"});
  Items& v = self.as<List>().v;
  Int n = static_cast<Int>(v.size()), i = a.integer(0, -1);
  if (i < 0) i += n;
  if (i < 0 || i >= n) r.fail("pop: the list has {} element(s), none at {}", v.size(), int_text(a.integer(0, -1)));
  Value out = v[static_cast<size_t>(i)];
  r.step(v.size() / 16);
  v.erase(v.begin() + static_cast<std::ptrdiff_t>(i));
  return out;
}

std::optional<size_t> position(Runtime& r, const Value& self, const Value& x) {
  for (size_t i = 0; i < self.as<List>().v.size(); i++) {
    if (r.equal(self.as<List>().v[i], x)) return i;
  }
  return {};
}

Value list_remove(Runtime& r, const Value& self, Args& args) {
  Bind a(r, args, "remove", {"value"}, 1);
  auto at = position(r, self, *a[0]);
  if (!at) r.fail("remove: {} is not in the list", r.to_repr(*a[0]));
  Items& v = self.as<List>().v;
  v.erase(v.begin() + static_cast<std::ptrdiff_t>(*at));
  return Value::none();
}

Value list_index(Runtime& r, const Value& self, Args& args) {
  Bind a(r, args, "index", {"value"}, 1);
  auto at = position(r, self, *a[0]);
  if (!at) r.fail("index: {} is not in the list", r.to_repr(*a[0]));
  return Value::of_size(*at);
}

Value list_count(Runtime& r, const Value& self, Args& args) {
  Bind a(r, args, "count", {"value"}, 1);
  size_t n = 0;
  for (const Value& v : self.as<List>().v) n += r.equal(v, *a[0]);
  return Value::of_size(n);
}

Value list_reverse(Runtime& r, const Value& self, Args& args) {
  Bind a(r, args, "reverse", {});
  r.step(self.as<List>().v.size() / 16);
  std::reverse(self.as<List>().v.begin(), self.as<List>().v.end());
  return Value::none();
}

Value list_sort(Runtime& r, const Value& self, Args& args) {
  Bind a(r, args, "sort", {"reverse"});
  Args options;
  options.named = {{"case_sensitive", Value::of(true)}, {"reverse", Value::of(a.truth(0, false))}};
  self.as<List>().v = r.filter("sort", self, options).as<List>().v;
  return Value::none();
}

Value list_copy(Runtime& r, const Value& self, Args& args) {
  Bind a(r, args, "copy", {});
  r.step(self.as<List>().v.size() / 16);
  return r.list(self.as<List>().v);
}

Value list_clear(Runtime& r, const Value& self, Args& args) {
  Bind a(r, args, "clear", {});
  self.as<List>().v.clear();
  return Value::none();
}

Value dict_get(Runtime& r, const Value& self, Args& args) {
  Bind a(r, args, "get", {"key", "default"}, 1);
  const Value* found = self.as<Dict>().find(r, *a[0]);
  return found ? *found : a[1] ? *a[1] : Value::none();
}

template <View::What kWhat>
Value dict_view(Runtime& r, const Value& self, Args& args) {
  Bind a(r, args, "view", {});
  return Value::of(Kind::view, new View(r.heap, self, kWhat));
}

Value dict_copy(Runtime& r, const Value& self, Args& args) {
  Bind a(r, args, "copy", {});
  Value out = r.dict();
  for (const auto& [key, value] : self.as<Dict>().items) {
    r.step();
    out.as<Dict>().set(r, key, value);
  }
  return out;
}

void update(Runtime& r, const Value& target, const Value& from) {
  if (from.is(Kind::dict)) {
    auto items = from.as<Dict>().items;  // a copy: an object may be updated with itself
    r.step(items.size());
    for (const auto& [key, value] : items) target.as<Dict>().set(r, key, value);
    return;
  }
  for (const Value& pair : r.to_vector(from)) {
    auto items = r.to_vector(pair);
    if (items.size() != 2) r.fail("update: an element of length {}, not a pair", items.size());
    target.as<Dict>().set(r, items[0], items[1]);
  }
}

Value dict_update(Runtime& r, const Value& self, Args& args) {
  if (args.pos.size() > 1) r.fail("update: takes at most 1 argument, not {}", args.pos.size());
  if (!args.pos.empty()) update(r, self, args.pos[0]);
  for (auto& [name, value] : args.named) self.as<Dict>().set(r, r.str(name), value);
  return Value::none();
}

Value dict_pop(Runtime& r, const Value& self, Args& args) {
  Bind a(r, args, "pop", {"key", "default"}, 1);
  if (const Value* found = self.as<Dict>().find(r, *a[0])) {
    Value out = *found;
    self.as<Dict>().erase(r, *a[0]);
    return out;
  }
  if (!a[1]) r.fail("pop: the object has no key {}", r.to_repr(*a[0]));
  return *a[1];
}

Value dict_setdefault(Runtime& r, const Value& self, Args& args) {
  Bind a(r, args, "setdefault", {"key", "default"}, 1);
  if (const Value* found = self.as<Dict>().find(r, *a[0])) return *found;
  Value v = a[1] ? *a[1] : Value::none();
  self.as<Dict>().set(r, *a[0], v);
  return v;
}

Value dict_clear(Runtime& r, const Value& self, Args& args) {
  Bind a(r, args, "clear", {});
  self.as<Dict>().clear();
  return Value::none();
}

Value float_is_integer(Runtime& r, const Value& self, Args& args) {
  Bind a(r, args, "is_integer", {});
  return Value::of(std::isfinite(self.real()) && self.real() == std::floor(self.real()));
}

Value int_bit_length(Runtime& r, const Value& self, Args& args) {
  Bind a(r, args, "bit_length", {});
  Int n = 0;
  for (Int u = self.integer() < 0 ? -self.integer() : self.integer(); u > 0; u /= 2) n++;
  return Value::of(n);
}

constexpr Entry kListMethods[] = {
    {"append", list_append}, {"clear", list_clear},     {"copy", list_copy},     {"count", list_count},
    {"extend", list_extend}, {"index", list_index},     {"insert", list_insert}, {"pop", list_pop},
    {"remove", list_remove}, {"reverse", list_reverse}, {"sort", list_sort},
};
constexpr Entry kTupleMethods[] = {{"count", list_count}, {"index", list_index}};
constexpr Entry kDictMethods[] = {
    {"clear", dict_clear},
    {"copy", dict_copy},
    {"get", dict_get},
    {"items", dict_view<View::items>},
    {"keys", dict_view<View::keys>},
    {"pop", dict_pop},
    {"setdefault", dict_setdefault},
    {"update", dict_update},
    {"values", dict_view<View::values>},
};
constexpr Entry kIntMethods[] = {{"bit_length", int_bit_length}};
constexpr Entry kFloatMethods[] = {{"is_integer", float_is_integer}};

}  // namespace

std::optional<Value> Runtime::method(const Value& v, std::string_view name) {
  std::span<const Entry> methods;
  switch (v.kind()) {
    case Kind::string:
      methods = string_methods();
      break;
    case Kind::list:
      methods = kListMethods;
      break;
    case Kind::tuple:
      methods = kTupleMethods;
      break;
    case Kind::dict:
      methods = kDictMethods;
      break;
    case Kind::boolean:
    case Kind::integer:
      methods = kIntMethods;
      break;
    case Kind::real:
      methods = kFloatMethods;
      break;
    default:
      return {};
  }
  for (const Entry& e : methods) {
    if (e.name == name) return Value::of(Kind::callable, new Function(heap, e.name, e.fn, v));
  }
  return {};
}

}  // namespace fewbit::text::jinja
