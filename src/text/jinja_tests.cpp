// Tests: what stands after `is`.
#include "text/jinja_runtime.h"

namespace fewbit::text::jinja {
namespace {

using Test = bool (*)(Runtime&, const Value&, Args&);

Value argument(Runtime& r, Args& args, const char* name) {
  Bind a(r, args, name, {"other"}, 1);
  return *a[0];
}

template <Op kOp>
bool compare(Runtime& r, const Value& v, Args& args) {
  return r.compare_op(kOp, v, argument(r, args, op_name(kOp)));
}

Value modulo(Runtime& r, const Value& v, const Value& n) { return r.binary(Op::mod, v, n); }

bool has_case(Runtime& r, const Value& v, bool want_upper) {  // str.isupper, str.islower
  std::string s = r.to_str(v);
  r.step(s.size());
  bool any = false;
  for (std::string_view c : split_chars(s)) {
    char32_t code = code_point(c, 0);
    if (want_upper ? is_lower(code) : is_upper(code)) return false;
    any |= want_upper ? is_upper(code) : is_lower(code);
  }
  return any;
}

bool same(Runtime& r, const Value& v, Args& args) {
  Value other = argument(r, args, "sameas");
  if (v.kind() != other.kind()) return false;
  if (v.is_string() || v.kind() < Kind::string) return r.equal(v, other);
  return v.object() == other.object();
}

struct TestEntry {
  std::string_view name;
  Test fn;
  bool takes_argument = false;
};

constexpr TestEntry kTests[] = {
    {"!=", compare<Op::ne>, true},
    {"<", compare<Op::lt>, true},
    {"<=", compare<Op::le>, true},
    {"==", compare<Op::eq>, true},
    {">", compare<Op::gt>, true},
    {">=", compare<Op::ge>, true},
    {"boolean", [](Runtime&, const Value& v, Args&) { return v.is(Kind::boolean); }},
    {"callable", [](Runtime&, const Value& v, Args&) { return v.is(Kind::callable) || v.is_undefined(); }},
    {"defined", [](Runtime&, const Value& v, Args&) { return !v.is_undefined(); }},
    {"divisibleby", [](Runtime& r, const Value& v, Args& a) { return !r.truth(modulo(r, v, argument(r, a, "divisibleby"))); }, true},
    {"eq", compare<Op::eq>, true},
    {"equalto", compare<Op::eq>, true},
    {"escaped", [](Runtime& r, const Value& v, Args&) { return r.is_safe(v); }},
    {"even", [](Runtime& r, const Value& v, Args&) { return r.equal(modulo(r, v, Value::of(Int{2})), Value::of(Int{0})); }},
    {"false", [](Runtime&, const Value& v, Args&) { return v.is(Kind::boolean) && !v.boolean(); }},
    {"filter", [](Runtime& r, const Value& v, Args&) { return v.is_string() && Runtime::has_filter(r.text(v)); }},
    {"float", [](Runtime&, const Value& v, Args&) { return v.is(Kind::real); }},
    {"ge", compare<Op::ge>, true},
    {"greaterthan", compare<Op::gt>, true},
    {"gt", compare<Op::gt>, true},
    {"in", compare<Op::in>, true},
    {"integer", [](Runtime&, const Value& v, Args&) { return v.is(Kind::integer); }},
    {"iterable", [](Runtime& r, const Value& v, Args&) { return r.is_iterable(v); }},
    {"le", compare<Op::le>, true},
    {"lessthan", compare<Op::lt>, true},
    {"lower", [](Runtime& r, const Value& v, Args&) { return has_case(r, v, false); }},
    {"lt", compare<Op::lt>, true},
    {"mapping", [](Runtime&, const Value& v, Args&) { return v.is(Kind::dict); }},
    {"ne", compare<Op::ne>, true},
    {"none", [](Runtime&, const Value& v, Args&) { return v.is_none(); }},
    {"number", [](Runtime&, const Value& v, Args&) { return v.is_number(); }},
    {"odd", [](Runtime& r, const Value& v, Args&) { return r.equal(modulo(r, v, Value::of(Int{2})), Value::of(Int{1})); }},
    {"sameas", same, true},
    {"sequence",  // has a length and can be indexed: so do objects, and so does jinja2's undefined
     [](Runtime& r, const Value& v, Args&) { return r.length(v).has_value() && !v.is(Kind::view); }},
    {"string", [](Runtime&, const Value& v, Args&) { return v.is_string(); }},
    {"test", [](Runtime& r, const Value& v, Args&) { return v.is_string() && Runtime::has_test(r.text(v)); }},
    {"true", [](Runtime&, const Value& v, Args&) { return v.is(Kind::boolean) && v.boolean(); }},
    {"undefined", [](Runtime&, const Value& v, Args&) { return v.is_undefined(); }},
    {"upper", [](Runtime& r, const Value& v, Args&) { return has_case(r, v, true); }},
};

const TestEntry* find_test(std::string_view name) {
  for (const TestEntry& e : kTests) {
    if (e.name == name) return &e;
  }
  return nullptr;
}

}  // namespace

bool Runtime::has_test(std::string_view name) { return find_test(name) != nullptr; }

bool Runtime::test(std::string_view name, const Value& v, Args& args) {
  Depth depth(*this);
  step();
  const TestEntry* test = find_test(name);
  if (!test) throw Failure{fmt::format("test '{}' is not supported", name), 0, Code::unsupported, false};
  if (!test->takes_argument) Bind none(*this, args, name, {});
  return test->fn(*this, v, args);
}

}  // namespace fewbit::text::jinja
