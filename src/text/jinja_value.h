// Values of a template: Python's objects as far as chat templates can tell.
//
//   Value   16-byte aligned tagged union; small kinds inline, the rest a counted reference to an Object
//   Heap    owns every Object of one rendering: counts their bytes against a limit, frees without recursion, and breaks the
//           reference cycles a template may have built (a list appended to itself, a macro and its scope) when it is destroyed
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/result.h"

namespace fewbit::text::jinja {

// Python's integers have no bound; 127 bits hold every integer of a JSON document (to 2^64 - 1) with room to compute.  Beyond: an error.
__extension__ typedef __int128 Int;
__extension__ typedef unsigned __int128 UnsignedInt;

// Thrown inside the interpreter, never out of ChatTemplate.
struct Failure {
  std::string what;
  int line = 0;  // 0: filled in by the statement being run
  Code code = Code::invalid_argument;
  bool limit = false;  // a bound on steps, depth or size: trying again is pointless
};

enum class Kind : std::uint8_t {
  undefined,
  none,
  boolean,
  integer,
  real,
  string,
  list,
  tuple,
  dict,
  range,
  view,
  iterator,
  space,
  callable,
  other
};

class Heap;
class Runtime;
class Value;

class Object {
 public:
  Object(Heap& heap, size_t n_bytes);
  virtual ~Object();
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;

  // Gives up references to other objects (the heap is being destroyed).
  virtual void clear() {}
  // Attribute `name` where the object has its own (loop.index, ns.x); nothing for lists, strings, ...: those have methods.
  virtual std::optional<Value> attribute(Runtime&, std::string_view);
  virtual const char* type_name() const { return "object"; }

  void grow(size_t n_bytes);  // charges more bytes to this object

  Heap& heap;

 private:
  friend class Heap;
  friend class Value;
  Object *prev_ = nullptr, *next_ = nullptr;
  std::uint32_t refs_ = 0;
  size_t bytes_;
};

class Heap {
 public:
  explicit Heap(size_t limit) : limit_(limit) {}
  ~Heap();
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;
  void charge(size_t n_bytes);  // throws Failure
  void release(size_t n_bytes) { used_ -= n_bytes; }
  void destroy(Object*);  // last reference gone

 private:
  friend class Object;
  Object* first_ = nullptr;
  std::vector<Object*> dead_;
  bool draining_ = false;
  size_t used_ = 0, limit_;
};

class Value {
 public:
  Value() = default;
  Value(const Value& v) : kind_(v.kind_), marked_(v.marked_), p_(v.p_) {
    if (holds()) p_.object->refs_++;
  }
  Value(Value&& v) noexcept : kind_(v.kind_), marked_(v.marked_), p_(v.p_) {
    v.kind_ = Kind::undefined;
    v.p_ = {};
  }
  Value& operator=(Value v) noexcept {
    std::swap(kind_, v.kind_);
    std::swap(marked_, v.marked_);
    std::swap(p_, v.p_);
    return *this;
  }
  ~Value() {
    if (holds() && --p_.object->refs_ == 0) p_.object->heap.destroy(p_.object);
  }

  static Value none(bool marked = false) {
    Value v;
    v.kind_ = Kind::none;
    v.marked_ = marked;
    return v;
  }
  static Value of(bool b) {
    Value v;
    v.kind_ = Kind::boolean;
    v.p_.integer = b;
    return v;
  }
  static Value of(Int i) {
    Value v;
    v.kind_ = Kind::integer;
    v.p_.integer = i;
    return v;
  }
  static Value of(double d) {
    Value v;
    v.kind_ = Kind::real;
    v.p_.real = d;
    return v;
  }
  static Value of_size(size_t n) { return of(static_cast<Int>(n)); }
  static Value of(Kind kind, Object* o) {
    Value v;
    v.kind_ = kind;
    v.p_.object = o;
    if (o) o->refs_++;
    return v;
  }

  Kind kind() const { return kind_; }
  bool is(Kind k) const { return kind_ == k; }
  bool is_undefined() const { return kind_ == Kind::undefined; }
  bool is_none() const { return kind_ == Kind::none; }
  bool is_string() const { return kind_ == Kind::string; }
  bool is_sequence() const { return kind_ == Kind::list || kind_ == Kind::tuple; }
  bool is_whole() const { return kind_ == Kind::integer || kind_ == Kind::boolean; }  // bool is an int in Python
  bool is_number() const { return is_whole() || kind_ == Kind::real; }
  bool marked() const { return marked_; }  // the None that stands for a message without content

  bool boolean() const { return p_.integer != 0; }
  Int integer() const { return p_.integer; }  // integer and boolean
  double real() const { return p_.real; }
  double number() const { return kind_ == Kind::real ? p_.real : static_cast<double>(p_.integer); }
  Object* object() const { return p_.object; }
  template <class T>
  T& as() const {
    return *static_cast<T*>(p_.object);
  }

 private:
  bool holds() const { return (kind_ == Kind::undefined || kind_ >= Kind::string) && p_.object != nullptr; }

  union Payload {
    Object* object = nullptr;
    Int integer;
    double real;
  };
  Kind kind_ = Kind::undefined;
  bool marked_ = false;
  Payload p_;
};

using Next = std::function<bool(Value&)>;  // the next element of an iteration; false at its end

struct Str final : Object {
  Str(Heap& h, std::string text, bool is_safe) : Object(h, sizeof(Str) + text.size()), s(std::move(text)), safe(is_safe) {}
  const char* type_name() const override { return "str"; }
  const std::string s;
  const bool safe;  // marked by the filter `safe`: + escapes what is joined to it
};

// List and tuple (Kind tells which).
struct List final : Object {
  List(Heap& h, std::vector<Value> items) : Object(h, sizeof(List) + items.size() * sizeof(Value)), v(std::move(items)) {}
  void clear() override { v.clear(); }
  void push(Value x) {
    grow(sizeof(Value));
    v.push_back(std::move(x));
  }
  std::vector<Value> v;
  bool watched = false;  // a message's content as an array of parts: the runtime notes when it is printed whole
  bool group = false;    // a tuple of the filter groupby, with attributes grouper and list
};

// Keys in insertion order.  Keys that Python calls equal (1, 1.0, True) are one key.
struct Dict final : Object {
  explicit Dict(Heap& h) : Object(h, sizeof(Dict)) {}
  void clear() override { items.clear(), index_.clear(); }
  bool watched = false;                     // arguments of a tool call that came as a string: see List::watched
  Value* find(Runtime&, const Value& key);  // throws Failure for an unhashable key
  Value* find(Runtime&, std::string_view key);
  void set(Runtime&, const Value& key, Value value);
  bool erase(Runtime&, const Value& key);
  std::vector<std::pair<Value, Value>> items;

 private:
  static constexpr size_t npos = ~size_t{0};
  template <class Same>
  size_t locate(Runtime&, size_t hash, Same same);
  std::unordered_multimap<size_t, size_t> index_;  // hash -> place in items
};

// Attributes set by `{% set ns.x = ... %}`.
struct Space final : Object {
  explicit Space(Heap& h) : Object(h, sizeof(Space)) {}
  void clear() override { items.clear(); }
  std::optional<Value> attribute(Runtime&, std::string_view name) override;
  const char* type_name() const override { return "Namespace"; }
  void set(std::string_view name, Value v);
  std::vector<std::pair<std::string, Value>> items;
};

Int range_size(Int start, Int stop, Int step);  // step != 0
struct Range final : Object {
  Range(Heap& h, Int a, Int b, Int c) : Object(h, sizeof(Range)), start(a), stop(b), step(c) {}
  Int size() const { return range_size(start, stop, step); }
  const Int start, stop, step;
};

// dict.keys(), values(), items(): looks at the dict as it is now.
struct View final : Object {
  enum What { keys, values, items };
  View(Heap& h, Value d, What w) : Object(h, sizeof(View)), dict(std::move(d)), what(w) {}
  void clear() override { dict = Value(); }
  Value at(Runtime&, size_t i) const;
  Value dict;
  const What what;
};

// Generators and reversed(): can be walked through once.
struct Iterator final : Object {
  Iterator(Heap& h, Next n) : Object(h, sizeof(Iterator)), next(std::move(n)) {}
  void clear() override { next = nullptr; }
  Next next;
};

struct Args {
  std::vector<Value> pos;
  std::vector<std::pair<std::string, Value>> named;
};

struct Callable : Object {
  using Object::Object;
  virtual Value call(Runtime&, Args&) = 0;
  const char* type_name() const override { return "function"; }
};

using Builtin = Value (*)(Runtime&, const Value& self, Args&);

// A global function (self undefined) or a method bound to its object.
struct Function final : Callable {
  Function(Heap& h, std::string_view n, Builtin f, Value s) : Callable(h, sizeof(Function)), name(n), fn(f), self(std::move(s)) {}
  void clear() override { self = Value(); }
  Value call(Runtime& r, Args& a) override { return fn(r, self, a); }
  std::string_view name;
  Builtin fn;
  Value self;
};

}  // namespace fewbit::text::jinja
