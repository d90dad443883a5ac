// Runs a parsed template.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja_ast.h"
#include "text/jinja_runtime.h"

namespace fewbit::text::jinja {

// Variables of one block; names not found are looked for in `parent`.
struct Scope final : Object {
  Scope(Heap& h, Value p) : Object(h, sizeof(Scope)), parent(std::move(p)) {}
  void clear() override { vars.clear(), parent = Value(); }
  std::vector<std::pair<std::uint32_t, Value>> vars;
  Value parent;
};

class Interp final : public Runtime {
 public:
  Interp(const Tree& tree, const RenderLimits& limits) : Runtime(limits), tree_(tree), constants_(tree.n_constants) {
    scope_ = Value::of(Kind::other, new Scope(heap, {}));
  }

  // Throws Failure, with its line.  variables: an object.  watch_arguments: note when a tool call's arguments are printed as an object.
  std::string render(const Json& variables, bool watch_arguments);

 private:
  friend struct Macro;
  friend struct Loop;
  enum class Flow { on, break_loop, continue_loop };

  // --- statements: jinja_interp.cpp
  void watch(const Value& message, bool arguments);
  Flow run(const Nodes&);
  Flow run(const Node&);
  Flow run_scoped(const Nodes&);  // in a scope of its own
  Flow run_for(const Node&);
  // The loop over `sequence`; depth0 counts the recursion of `recursive` loops.
  Flow run_loop(const Node&, const Value& sequence, int depth0);
  void assign(const Node& target, Value);
  void define(std::uint32_t name, Value);
  void define(std::string_view name, Value v) {  // nothing to do for a name the template never mentions
    if (auto id = tree_.names.find(name)) define(*id, std::move(v));
  }
  Value capture(const Nodes&);  // what they print; in a scope of its own
  void write(std::string_view);
  void print(const Value&);

  // --- expressions: jinja_eval.cpp
  Value eval(const Node&);
  Value eval_kid(const Node& parent, size_t i) { return parent.kids[i] ? eval(*parent.kids[i]) : Value::none(); }
  Value variable(std::uint32_t name);
  Value compare_chain(const Node&);
  Value concat(const Node&);
  Value call_node(const Node&, const Value* caller);
  void arguments(const Node&, size_t first, Args&);

  // Scope, output and line while something nested runs; put back also when it throws.
  class Inner {
   public:
    Inner(Interp& i, Value parent) : i_(i), scope_(std::exchange(i.scope_, Value::of(Kind::other, new Scope(i.heap, std::move(parent))))) {}
    ~Inner() { i_.scope_ = std::move(scope_); }
    Inner(const Inner&) = delete;
    Inner& operator=(const Inner&) = delete;

   private:
    Interp& i_;
    Value scope_;
  };
  class Captured {
   public:
    explicit Captured(Interp& i) : i_(i), outer_(std::exchange(i.out_, &text_)) {}
    ~Captured() {
      i_.out_ = outer_;
      i_.heap.release(text_.size());
    }
    Captured(const Captured&) = delete;
    Captured& operator=(const Captured&) = delete;
    std::string text() const { return text_; }

   private:
    Interp& i_;
    std::string text_;
    std::string* outer_;
  };

  const Tree& tree_;
  std::vector<Value> constants_;
  Value scope_;                   // a Scope
  const Value* piped_ = nullptr;  // what a block's filter works on
  std::string* out_ = nullptr;
  int line_ = 1;
};

struct Macro final : Callable {
  Macro(Interp& i, const Node& n, Value s) : Callable(i.heap, sizeof(Macro)), interp(i), node(n), scope(std::move(s)) {}
  void clear() override { scope = Value(); }
  Value call(Runtime&, Args&) override;
  std::optional<Value> attribute(Runtime&, std::string_view name) override;
  const char* type_name() const override { return "Macro"; }
  Interp& interp;
  const Node& node;
  Value scope;
};

// The variable `loop`.
struct Loop final : Callable {
  Loop(Interp& i, const Node& n, Value s, Next nx, Value seq, int d)
      : Callable(i.heap, sizeof(Loop)), interp(i), node(n), scope(std::move(s)), next(std::move(nx)), sequence(std::move(seq)), depth0(d) {}
  void clear() override;
  bool advance(Value& out);
  Value call(Runtime&, Args&) override;  // loop(children), in a loop marked `recursive`
  std::optional<Value> attribute(Runtime&, std::string_view name) override;
  const char* type_name() const override { return "LoopContext"; }

  Interp& interp;
  const Node& node;
  Value scope;
  Next next;
  Value sequence;  // what is walked over, for its length; undefined when it has none
  int depth0;
  Int index0 = -1;
  std::optional<Value> before, current, after, changed;
  std::optional<Int> length;

 private:
  bool peek();
  Int count();
  static Value cycle(Runtime&, const Value& self, Args&);
  static Value has_changed(Runtime&, const Value& self, Args&);
};

}  // namespace fewbit::text::jinja
