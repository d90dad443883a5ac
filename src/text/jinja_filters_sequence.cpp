// Filters on lists and objects.
#include <algorithm>
#include <memory>

#include "text/jinja_runtime.h"

namespace fewbit::text::jinja {
namespace {

// The path "a.b.0" into an element; numbers are looked up as integers.
class Path {
 public:
  Path(Runtime& r, const Value* attribute) : r_(r) {
    if (!attribute || attribute->is_none()) return;
    if (!attribute->is_string()) {
      parts_.push_back(*attribute);
      return;
    }
    std::string_view s = r.text(*attribute);
    for (size_t at = 0; at <= s.size();) {
      size_t dot = std::min(s.find('.', at), s.size());
      std::string_view part = s.substr(at, dot - at);
      bool digits = !part.empty() && part.find_first_not_of("0123456789") == part.npos;
      parts_.push_back(digits ? Value::of(*parse_int(part, 10)) : r.str(std::string(part)));
      at = dot + 1;
    }
  }

  Value operator()(Value item, const Value* fallback = nullptr) const {
    for (const Value& part : parts_) {
      item = r_.item(item, part);
      if (fallback && !fallback->is_none() && item.is_undefined()) item = *fallback;
    }
    return item;
  }

 private:
  Runtime& r_;
  std::vector<Value> parts_;
};

Value ignore_case(Runtime& r, const Value& v, bool case_sensitive) {
  return v.is_string() && !case_sensitive ? r.str(lower(r.text(v))) : v;
}

// Stable sort of items by keys[i].
void sort_by(Runtime& r, std::vector<Value>& items, const std::vector<Value>& keys, bool reverse) {
  std::vector<size_t> order(items.size());
  for (size_t i = 0; i < order.size(); i++) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return reverse ? r.compare(keys[b], keys[a], Op::lt) == -1 : r.compare(keys[a], keys[b], Op::lt) == -1;
  });
  std::vector<Value> sorted;
  sorted.reserve(items.size());
  for (size_t i : order) sorted.push_back(items[i]);
  items = std::move(sorted);
}

Value filter_join(Runtime& r, const Value& v, Args& args) {
  Bind a(r, args, "join", {"d", "attribute"});
  std::string separator = a[0] ? r.to_str(*a[0]) : "", out;
  Path path(r, a[1]);
  Next next = r.iterate(v);
  bool first = true;
  for (Value e; next(e);) {
    if (!first) r.append(out, separator);
    first = false;
    r.append_str(out, path(e));
    r.check_text(out.size());
  }
  return r.str(std::move(out));
}

Value filter_list(Runtime& r, const Value& v, Args& args) {
  Bind a(r, args, "list", {});
  return r.list(r.to_vector(v));
}

Value filter_first(Runtime& r, const Value& v, Args& args) {
  Bind a(r, args, "first", {});
  Next next = r.iterate(v);
  Value e;
  return next(e) ? e : r.undefined("first: the sequence is empty");
}

Value filter_last(Runtime& r, const Value& v, Args& args) {
  Bind a(r, args, "last", {});
  if (v.is(Kind::iterator)) r.fail("last: a generator cannot be reversed (use '| list' first)");
  if (v.is_string() || v.is_sequence() || v.is(Kind::range)) {
    if (*r.length(v) > 0) return r.item(v, Value::of(Int{-1}));
    return r.undefined("last: the sequence is empty");
  }
  auto items = r.to_vector(v);
  return items.empty() ? r.undefined("last: the sequence is empty") : items.back();
}

Value filter_reverse(Runtime& r, const Value& v, Args& args) {
  Bind a(r, args, "reverse", {});
  if (v.is_string()) return r.slice(v, Value::none(), Value::none(), Value::of(Int{-1}));
  auto items = r.to_vector(v);
  std::reverse(items.begin(), items.end());
  Value reversed = r.list(std::move(items));
  return v.is(Kind::iterator) ? reversed : r.iterator(r.iterate(reversed));
}

Value filter_items(Runtime& r, const Value& v, Args& args) {
  Bind a(r, args, "items", {});
  if (v.is_undefined()) return r.iterator(r.iterate(v));
  if (!v.is(Kind::dict)) r.fail("items: an object is needed, not '{}'", r.type_name(v));
  return r.iterator(r.iterate(Value::of(Kind::view, new View(r.heap, v, View::items))));
}

Value filter_dictsort(Runtime& r, const Value& v, Args& args) {
  Bind a(r, args, "dictsort", {"case_sensitive", "by", "reverse"});
  std::string_view by = a.text(1, "key");
  if (by != "key" && by != "value") r.fail("dictsort: by must be key or value, not '{}'", by);
  if (!v.is(Kind::dict)) r.fail("dictsort: an object is needed, not '{}'", r.type_name(v));
  std::vector<Value> items, keys;
  for (const auto& [key, value] : v.as<Dict>().items) {
    items.push_back(r.tuple({key, value}));
    keys.push_back(ignore_case(r, by == "key" ? key : value, a.truth(0, false)));
  }
  sort_by(r, items, keys, a.truth(2, false));
  return r.list(std::move(items));
}

Value filter_sort(Runtime& r, const Value& v, Args& args) {
  Bind a(r, args, "sort", {"reverse", "case_sensitive", "attribute"});
  std::vector<Path> paths;  // "a,b": by a, then by b
  if (a.given(2) && a[2]->is_string()) {
    std::string_view s = r.text(*a[2]);
    for (size_t at = 0; at <= s.size();) {
      size_t comma = std::min(s.find(',', at), s.size());
      Value part = r.str(std::string(s.substr(at, comma - at)));
      paths.emplace_back(r, &part);
      at = comma + 1;
    }
  } else {
    paths.emplace_back(r, a[2]);
  }
  std::vector<Value> items = r.to_vector(v), keys;
  for (const Value& item : items) {
    std::vector<Value> key;
    for (const Path& path : paths) key.push_back(ignore_case(r, path(item), a.truth(1, false)));
    keys.push_back(r.list(std::move(key)));
  }
  sort_by(r, items, keys, a.truth(0, false));
  return r.list(std::move(items));
}

Value filter_unique(Runtime& r, const Value& v, Args& args) {
  Bind a(r, args, "unique", {"case_sensitive", "attribute"});
  return r.iterator([&r, next = r.iterate(v), path = Path(r, a[1]), sensitive = a.truth(0, false), seen = r.dict()](Value& out) mutable {
    while (next(out)) {
      Value key = ignore_case(r, path(out), sensitive);
      if (seen.as<Dict>().find(r, key)) continue;
      seen.as<Dict>().set(r, key, Value());
      return true;
    }
    return false;
  });
}

template <bool kMax>
Value extreme(Runtime& r, const Value& v, Args& args) {
  Bind a(r, args, kMax ? "max" : "min", {"case_sensitive", "attribute"});
  Path path(r, a[1]);
  Next next = r.iterate(v);
  Value best, best_key;
  if (!next(best)) return r.undefined(fmt::format("{}: the sequence is empty", kMax ? "max" : "min"));
  best_key = ignore_case(r, path(best), a.truth(0, false));
  for (Value e; next(e);) {
    Value key = ignore_case(r, path(e), a.truth(0, false));
    if (kMax ? r.compare(key, best_key, Op::gt) == 1 : r.compare(key, best_key, Op::lt) == -1) best = e, best_key = key;
  }
  return best;
}

Value filter_sum(Runtime& r, const Value& v, Args& args) {
  Bind a(r, args, "sum", {"attribute", "start"});
  Path path(r, a[0]);
  Value total = a[1] ? *a[1] : Value::of(Int{0});
  if (total.is_string()) r.fail("sum: strings cannot be summed (use join)");
  Next next = r.iterate(v);
  for (Value e; next(e);) total = r.binary(Op::add, total, path(e));
  return total;
}

// map('filter', args...) or map(attribute=path, default=value)
Value filter_map(Runtime& r, const Value& v, Args& args) {
  if (!r.is_iterable(v) && r.truth(v)) r.fail("'{}' cannot be looped over", r.type_name(v));
  Next next = r.truth(v) ? r.iterate(v) : [](Value&) { return false; };
  if (args.pos.empty()) {
    Bind a(r, args, "map", {"attribute", "default"});
    if (!a[0]) r.fail("map: needs the name of a filter, or attribute=");
    return r.iterator([next, path = Path(r, a[0]), fallback = a[1] ? *a[1] : Value::none()](Value& out) {
      if (!next(out)) return false;
      out = path(out, &fallback);
      return true;
    });
  }
  if (!args.pos[0].is_string()) r.fail("map: the filter's name must be a string");
  Args rest = args;
  rest.pos.erase(rest.pos.begin());
  return r.iterator([&r, next, name = r.text(args.pos[0]), rest](Value& out) mutable {
    if (!next(out)) return false;
    Args copy = rest;
    out = r.filter(name, out, copy);
    return true;
  });
}

// select('test', args...), selectattr('attribute', 'test', args...); without a test: by truth.
template <bool kAttribute, bool kReject>
Value select(Runtime& r, const Value& v, Args& args) {
  constexpr const char* name = kAttribute ? (kReject ? "rejectattr" : "selectattr") : (kReject ? "reject" : "select");
  if (!r.is_iterable(v) && r.truth(v)) r.fail("'{}' cannot be looped over", r.type_name(v));
  if (kAttribute && args.pos.empty()) r.fail("{}: needs the name of an attribute", name);
  size_t at = kAttribute ? 1 : 0;
  std::optional<std::string> test;
  if (args.pos.size() > at) {
    if (!args.pos[at].is_string()) r.fail("{}: the test's name must be a string", name);
    test = r.text(args.pos[at]);
    if (!Runtime::has_test(*test)) throw Failure{fmt::format("{}: test '{}' is not supported", name, *test), 0, Code::unsupported, false};
  }
  Args rest;
  rest.named = args.named;
  if (args.pos.size() > at + 1) rest.pos.assign(args.pos.begin() + static_cast<std::ptrdiff_t>(at + 1), args.pos.end());
  Next next = r.truth(v) ? r.iterate(v) : [](Value&) { return false; };
  return r.iterator([&r, next, path = Path(r, kAttribute ? &args.pos[0] : nullptr), test, rest](Value& out) {
    while (next(out)) {
      Value seen = path(out);
      Args copy = rest;
      if ((test ? r.test(*test, seen, copy) : r.truth(seen)) != kReject) return true;
    }
    return false;
  });
}

Value filter_batch(Runtime& r, const Value& v, Args& args) {
  Bind a(r, args, "batch", {"linecount", "fill_with"}, 1);
  Int n = a.integer(0, 0);
  std::vector<Value> rows, row;
  for (Value& e : r.to_vector(v)) {
    if (static_cast<Int>(row.size()) == n) rows.push_back(r.list(std::exchange(row, {})));
    row.push_back(std::move(e));
  }
  if (!row.empty()) {
    if (a.given(1) && n > 100'000) r.fail("batch: rows of {}", int_text(n));
    while (a.given(1) && static_cast<Int>(row.size()) < n) row.push_back(*a[1]);
    rows.push_back(r.list(std::move(row)));
  }
  return r.iterator(r.iterate(r.list(std::move(rows))));
}

Value filter_slice(Runtime& r, const Value& v, Args& args) {
  Bind a(r, args, "slice", {"slices", "fill_with"}, 1);
  std::vector<Value> items = r.to_vector(v), rows;
  Int count = a.integer(0, 0);
  if (count < 1 || count > 100'000) r.fail("slice: {} slices", int_text(count));
  size_t n = static_cast<size_t>(count), each = items.size() / n, extra = items.size() % n, at = 0;
  for (size_t k = 0; k < n; k++) {
    r.step();
    size_t size = each + (k < extra);
    std::vector<Value> row(items.begin() + static_cast<std::ptrdiff_t>(at), items.begin() + static_cast<std::ptrdiff_t>(at + size));
    if (a.given(1) && k >= extra) row.push_back(*a[1]);
    rows.push_back(r.list(std::move(row)));
    at += size;
  }
  return r.iterator(r.iterate(r.list(std::move(rows))));
}

Value filter_groupby(Runtime& r, const Value& v, Args& args) {
  Bind a(r, args, "groupby", {"attribute", "default", "case_sensitive"}, 1);
  Path path(r, a[0]);
  std::vector<Value> items = r.to_vector(v), pairs, keys;
  for (const Value& item : items) {
    keys.push_back(ignore_case(r, path(item, a[1]), a.truth(2, false)));
    pairs.push_back(r.tuple({keys.back(), item}));
  }
  sort_by(r, pairs, keys, false);
  std::vector<Value> groups;
  for (size_t i = 0; i < pairs.size();) {
    const Value& key = pairs[i].as<List>().v[0];
    std::vector<Value> members;
    size_t first = i;
    for (; i < pairs.size() && r.equal(pairs[i].as<List>().v[0], key); i++) members.push_back(pairs[i].as<List>().v[1]);
    if (i == first) i++;  // a key that does not equal itself (NaN)
    Value group = r.tuple({members.empty() ? key : path(members[0], a[1]), r.list(members)});
    group.as<List>().group = true;
    groups.push_back(group);
  }
  return r.list(std::move(groups));
}

// An attribute, never a key.
Value filter_attr(Runtime& r, const Value& v, Args& args) {
  Bind a(r, args, "attr", {"name"}, 1);
  std::string_view name = a.text(0, "");
  if (v.is_undefined()) r.undefined_error(v);
  if (v.kind() >= Kind::string) {
    if (auto own = v.object()->attribute(r, name)) return *own;
  }
  if (auto m = r.method(v, name)) return *m;
  return r.undefined(fmt::format("'{} object' has no attribute {}", r.type_name(v), quote(name)));
}

constexpr Entry kSequenceFilters[] = {
    {"attr", filter_attr},
    {"batch", filter_batch},
    {"dictsort", filter_dictsort},
    {"first", filter_first},
    {"groupby", filter_groupby},
    {"items", filter_items},
    {"join", filter_join},
    {"last", filter_last},
    {"list", filter_list},
    {"map", filter_map},
    {"max", extreme<true>},
    {"min", extreme<false>},
    {"reject", select<false, true>},
    {"rejectattr", select<true, true>},
    {"reverse", filter_reverse},
    {"select", select<false, false>},
    {"selectattr", select<true, false>},
    {"slice", filter_slice},
    {"sort", filter_sort},
    {"sum", filter_sum},
    {"unique", filter_unique},
};

}  // namespace

std::span<const Entry> sequence_filters() { return kSequenceFilters; }

}  // namespace fewbit::text::jinja
