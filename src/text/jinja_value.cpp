#include "text/jinja_value.h"

#include "text/jinja_runtime.h"

namespace fewbit::text::jinja {

Object::Object(Heap& h, size_t n_bytes) : heap(h), bytes_(n_bytes) {
  heap.charge(n_bytes);
  next_ = heap.first_;
  if (next_) next_->prev_ = this;
  heap.first_ = this;
}

Object::~Object() {
  if (prev_) prev_->next_ = next_;
  if (next_) next_->prev_ = prev_;
  if (heap.first_ == this) heap.first_ = next_;
  heap.release(bytes_);
}

std::optional<Value> Object::attribute(Runtime&, std::string_view) { return {}; }

void Object::grow(size_t n_bytes) {
  heap.charge(n_bytes);
  bytes_ += n_bytes;
}

void Heap::charge(size_t n_bytes) {
  if (n_bytes > limit_ - used_)
    throw Failure{fmt::format("the template needs more than {} MiB of memory", limit_ >> 20), 0, Code::invalid_argument, true};
  used_ += n_bytes;
}

// An object's destructor drops the objects it holds, which arrive here again: they wait in line, so that a chain of any length takes
// no stack.
void Heap::destroy(Object* o) {
  dead_.push_back(o);
  if (draining_) return;
  draining_ = true;
  while (!dead_.empty()) {
    Object* next = dead_.back();
    dead_.pop_back();
    delete next;
  }
  draining_ = false;
}

Heap::~Heap() {
  for (Object* o = first_; o; o = o->next_) o->refs_++;
  for (Object* o = first_; o; o = o->next_) o->clear();
  while (first_) {
    FEWBIT_CHECK(first_->refs_ == 1, "a template value outlives its heap");
    delete first_;
  }
}

// Place of the key for which same(key) holds; keys with that property have this hash.
template <class Same>
size_t Dict::locate(Runtime& r, size_t hash, Same same) {
  if (items.size() <= 8) {
    for (size_t i = 0; i < items.size(); i++) {
      if (same(items[i].first)) return i;
    }
    return npos;
  }
  auto [first, last] = index_.equal_range(hash);
  for (auto it = first; it != last; ++it) {
    r.step();
    if (same(items[it->second].first)) return it->second;
  }
  return npos;
}

Value* Dict::find(Runtime& r, const Value& key) {
  size_t i = locate(r, r.hash(key), [&](const Value& k) { return r.equal(k, key); });
  return i == npos ? nullptr : &items[i].second;
}

Value* Dict::find(Runtime& r, std::string_view key) {
  size_t i = locate(r, hash_text(key), [&](const Value& k) { return k.is_string() && r.text(k) == key; });
  return i == npos ? nullptr : &items[i].second;
}

void Dict::set(Runtime& r, const Value& key, Value value) {
  size_t hash = r.hash(key);
  size_t i = locate(r, hash, [&](const Value& k) { return r.equal(k, key); });
  if (i != npos) {
    items[i].second = std::move(value);
    return;
  }
  grow(2 * sizeof(Value) + 4 * sizeof(size_t));
  items.emplace_back(key, std::move(value));
  index_.emplace(hash, items.size() - 1);
}

bool Dict::erase(Runtime& r, const Value& key) {
  size_t i = locate(r, r.hash(key), [&](const Value& k) { return r.equal(k, key); });
  if (i == npos) return false;
  r.step(items.size());
  items.erase(items.begin() + static_cast<std::ptrdiff_t>(i));
  index_.clear();
  for (size_t k = 0; k < items.size(); k++) index_.emplace(r.hash(items[k].first), k);
  return true;
}

std::optional<Value> Space::attribute(Runtime&, std::string_view name) {
  for (auto& [key, value] : items) {
    if (key == name) return value;
  }
  return {};
}

void Space::set(std::string_view name, Value v) {
  for (auto& [key, value] : items) {
    if (key == name) {
      value = std::move(v);
      return;
    }
  }
  grow(sizeof(items[0]) + name.size());
  items.emplace_back(name, std::move(v));
}

Int range_size(Int start, Int stop, Int step) {
  if (step > 0) return start < stop ? (stop - start - 1) / step + 1 : 0;
  return start > stop ? (start - stop - 1) / -step + 1 : 0;
}

Value View::at(Runtime& r, size_t i) const {
  const auto& [key, value] = dict.as<Dict>().items[i];
  if (what == keys) return key;
  if (what == jinja::View::values) return value;
  return r.tuple({key, value});
}

}  // namespace fewbit::text::jinja
