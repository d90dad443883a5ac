// What templates can do with values, after Python and jinja2: text, truth, order, arithmetic, attributes, iteration, filters, tests,
// methods and functions.  Knows nothing of syntax.  Every operation counts its work, and throws Failure when it is not allowed.
#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json_fwd.hpp>
#include <span>

#include "text/jinja_unicode.h"
#include "text/jinja_value.h"
#include "text/render_limits.h"

namespace fewbit::text::jinja {

using Json = nlohmann::ordered_json;  // as in base/json.h, without its cost: two files of the interpreter need more than the name

enum class Op : std::uint8_t { add, sub, mul, div, floordiv, mod, pow, eq, ne, lt, le, gt, ge, in, not_in };
const char* op_name(Op);

class Runtime {
 public:
  explicit Runtime(const RenderLimits& limits) : heap(limits.heap_bytes), limits_(limits) {}
  virtual ~Runtime() = default;
  Heap heap;  // first member: destroyed last

  // --- bounds
  // n units of work (about one operation on a value, or 64 bytes of text).
  void step(size_t n = 1) {
    steps_ += n;
    if (steps_ > limits_.steps) out_of_steps();
  }
  // Text about to grow to n_bytes.
  void check_text(size_t n_bytes) {
    if (n_bytes > limits_.text_bytes) text_too_long();
  }
  void append(std::string& out, std::string_view s) {
    step(s.size() / 64);
    check_text(out.size() + s.size());
    out += s;
  }
  // Held while a function calls itself for something nested.
  class Depth {
   public:
    explicit Depth(Runtime& r) : r_(r) {
      if (++r.depth_ > r.limits_.depth) r.too_deep();
    }
    ~Depth() { r_.depth_--; }
    Depth(const Depth&) = delete;
    Depth& operator=(const Depth&) = delete;

   private:
    Runtime& r_;
  };
  const RenderLimits& limits() const { return limits_; }

  template <class... T>
  [[noreturn]] void fail(fmt::format_string<T...> f, T&&... args) const {
    throw Failure{fmt::format(f, std::forward<T>(args)...), 0, Code::invalid_argument, false};
  }

  // --- making values
  Value str(std::string s, bool safe = false);
  Value list(std::vector<Value> v) { return Value::of(Kind::list, new List(heap, std::move(v))); }
  Value tuple(std::vector<Value> v) { return Value::of(Kind::tuple, new List(heap, std::move(v))); }
  Value dict() { return Value::of(Kind::dict, new Dict(heap)); }
  Value iterator(Next next) { return Value::of(Kind::iterator, new Iterator(heap, std::move(next))); }
  Value undefined(std::string why) { return Value::of(Kind::undefined, new Str(heap, std::move(why), false)); }
  Value from_json(const Json&);

  // --- text: jinja_runtime.cpp
  const std::string& text(const Value& v) const { return v.as<Str>().s; }  // of a string
  bool is_safe(const Value& v) const { return v.is_string() && v.as<Str>().safe; }
  void append_str(std::string& out, const Value&);   // Python's str()
  void append_repr(std::string& out, const Value&);  // Python's repr()
  std::string to_str(const Value& v) {
    std::string s;
    append_str(s, v);
    return s;
  }
  std::string to_repr(const Value& v) {
    std::string s;
    append_repr(s, v);
    return s;
  }
  std::string type_name(const Value&) const;
  // A list of parts, a missing content or parsed arguments were printed as Python prints them: the template does not know such values.
  bool printed_watched = false;

  // --- comparison: jinja_runtime.cpp
  bool truth(const Value&);
  bool equal(const Value&, const Value&);
  bool is_hashable(const Value&) const;
  size_t hash(const Value&);  // fails for what is not hashable
  // < 0, 0, > 0; fails for values without an order.  NaN compares as neither (2).
  int compare(const Value&, const Value&, Op);
  bool contains(const Value& container, const Value& item);
  bool compare_op(Op, const Value&, const Value&);

  // --- sequences: jinja_runtime.cpp
  Next iterate(const Value&);  // fails when not iterable
  bool is_iterable(const Value&) const;
  std::vector<Value> to_vector(const Value&);
  std::optional<Int> length(const Value&);  // nothing: has no len()

  // --- operators: jinja_operators.cpp
  Value binary(Op, const Value&, const Value&);
  Value negate(const Value&, bool minus);
  Value attribute(const Value&, std::string_view name);  // x.name: attribute, then key
  Value item(const Value&, const Value& key);            // x[key]: key, then attribute
  Value slice(const Value&, const Value& start, const Value& stop, const Value& step);
  Value call(const Value& fn, Args&, std::string_view name = {});
  [[noreturn]] void undefined_error(const Value&) const;
  Int to_index(const Value&, const char* what);  // an integer; fails for others

  // --- the library: jinja_filters.cpp, jinja_tests.cpp, jinja_methods.cpp, jinja_globals.cpp
  Value filter(std::string_view name, const Value&, Args&);
  bool test(std::string_view name, const Value&, Args&);
  static bool has_filter(std::string_view name);
  static bool has_test(std::string_view name);
  std::optional<Value> method(const Value&, std::string_view name);
  std::optional<Value> global(std::string_view name);

  // --- formatting: jinja_format.cpp, jinja_json.cpp
  std::string percent(const Value& format, const Value& args);                         // "%s" % args
  std::string format(std::string_view format, Args& args, size_t* counter = nullptr);  // "{}".format(args); counter: of the bare {}
  std::string format_value(const Value&, std::string_view spec);                       // format(value, spec)
  std::string to_json(const Value&, const struct JsonStyle&);

  std::optional<std::string> fixed_date;  // what strftime_now gives, when the caller pins the date

 private:
  [[noreturn]] void out_of_steps() const;
  [[noreturn]] void text_too_long() const;
  [[noreturn]] void too_deep() const;

  const RenderLimits limits_;
  size_t steps_ = 0;
  int depth_ = 0;
};

size_t hash_text(std::string_view);
std::string float_repr(double);  // Python's repr of a float
std::string int_text(Int);
// Python's int(text, base) and float(text); nothing when the text is not a number.
std::optional<Int> parse_int(std::string_view, int base);
std::optional<double> parse_float(std::string_view);

struct JsonStyle {
  std::optional<std::string> indent;
  std::string item_separator = ", ", key_separator = ": ";
  bool ensure_ascii = false, sort_keys = false;
};

// Arguments by name: `Bind a(r, args, "replace", {"old", "new", "count"}, 2)`; a[i] is nullptr when not given.
class Bind {
 public:
  Bind(Runtime&, Args&, std::string_view function, std::initializer_list<std::string_view> names, size_t n_required = 0);
  const Value* operator[](size_t i) const { return values_[i]; }
  // Argument i, or `fallback` when it is not given (or given as None, where the Python function's default is None).
  Int integer(size_t i, Int fallback) const;
  bool truth(size_t i, bool fallback) const;
  std::string_view text(size_t i, std::string_view fallback) const;  // fails for what is not a string
  bool given(size_t i) const { return values_[i] != nullptr && !values_[i]->is_none(); }

 private:
  Runtime& r_;
  std::string_view function_;
  std::vector<const Value*> values_;
};

struct Entry {
  std::string_view name;
  Builtin fn;
};
// The tables of the library, each defined beside its functions.
std::span<const Entry> text_filters();
std::span<const Entry> sequence_filters();
std::span<const Entry> string_methods();

}  // namespace fewbit::text::jinja
