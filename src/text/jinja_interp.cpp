// Statements, macros and loops.
#include "text/jinja_interp.h"

#include "base/json.h"

namespace fewbit::text::jinja {

// Marks the values of a message that a template may not know how to print.
void Interp::watch(const Value& message, bool arguments) {
  if (!message.is(Kind::dict)) return;
  if (Value* content = message.as<Dict>().find(*this, "content")) {
    if (content->is(Kind::list)) content->as<List>().watched = true;
    if (content->is_none()) *content = Value::none(true);
  }
  const Value* calls = arguments ? message.as<Dict>().find(*this, "tool_calls") : nullptr;
  if (!calls || !calls->is(Kind::list)) return;
  for (const Value& call : calls->as<List>().v) {
    if (!call.is(Kind::dict)) continue;
    const Value* function = call.as<Dict>().find(*this, "function");
    const Value& holder = function && function->is(Kind::dict) ? *function : call;
    const Value* found = holder.as<Dict>().find(*this, "arguments");
    if (found && found->is(Kind::dict)) found->as<Dict>().watched = true;
  }
}

std::string Interp::render(const Json& variables, bool watch_arguments) {
  std::string out;
  out_ = &out;
  try {
    for (const auto& [key, value] : variables.items()) {
      Value v = from_json(value);
      if (key == "messages" && v.is(Kind::list)) {
        for (const Value& message : v.as<List>().v) watch(message, watch_arguments);
      }
      if (key == "date_string" && v.is_string()) fixed_date = text(v);
      define(key, v);
    }
    run(tree_.body);
  } catch (Failure& f) {
    if (f.line == 0) f.line = line_;
    throw;
  }
  return out;
}

void Interp::write(std::string_view s) {
  append(*out_, s);
  heap.charge(s.size());
}

void Interp::print(const Value& v) {
  if (v.is_string()) return write(text(v));
  write(to_str(v));
}

Interp::Flow Interp::run(const Nodes& nodes) {
  for (const NodePtr& node : nodes) {
    Flow flow = run(*node);
    if (flow != Flow::on) return flow;
  }
  return Flow::on;
}

Interp::Flow Interp::run_scoped(const Nodes& nodes) {
  Inner inner(*this, scope_);
  return run(nodes);
}

Value Interp::capture(const Nodes& nodes) {
  Captured captured(*this);
  run_scoped(nodes);
  return str(captured.text());
}

Interp::Flow Interp::run(const Node& n) {
  Depth depth(*this);
  step();
  line_ = n.line;
  switch (n.is) {
    case Is::data:
      write(n.text);
      return Flow::on;
    case Is::output: {
      Value v = eval(*n.kids[0]);
      line_ = n.line;
      print(v);
      return Flow::on;
    }
    case Is::if_block:
      for (const NodePtr& branch : n.kids) {
        if (!branch->kids[0] || truth(eval(*branch->kids[0]))) return run(branch->body);
      }
      return Flow::on;
    case Is::for_loop:
      return run_for(n);
    case Is::set: {
      Value v = eval(*n.kids[1]);
      line_ = n.line;
      assign(*n.kids[0], std::move(v));
      return Flow::on;
    }
    case Is::set_block:
    case Is::filter_block: {
      size_t filter = n.is == Is::set_block ? 1 : 0;
      Value v = capture(n.body);
      if (n.kids[filter]) {
        const Value* outer = std::exchange(piped_, &v);
        Value filtered = eval(*n.kids[filter]);
        piped_ = outer;
        v = std::move(filtered);
      }
      line_ = n.line;
      n.is == Is::set_block ? assign(*n.kids[0], std::move(v)) : print(v);
      return Flow::on;
    }
    case Is::macro:
      define(n.id, Value::of(Kind::callable, new Macro(*this, n, scope_)));
      return Flow::on;
    case Is::call_block: {
      Value caller = Value::of(Kind::callable, new Macro(*this, *n.kids[1], scope_));
      print(call_node(*n.kids[0], &caller));
      return Flow::on;
    }
    case Is::with: {
      std::vector<Value> values;
      for (size_t i = 1; i < n.kids.size(); i += 2) values.push_back(eval(*n.kids[i]));
      Inner inner(*this, scope_);
      for (size_t i = 0; i < values.size(); i++) assign(*n.kids[2 * i], std::move(values[i]));
      return run(n.body);
    }
    case Is::scope:
      return run_scoped(n.body);
    case Is::evaluate:
      eval(*n.kids[0]);
      return Flow::on;
    case Is::loop_break:
      return Flow::break_loop;
    case Is::loop_continue:
      return Flow::continue_loop;
    default:
      FEWBIT_CHECK(false, "node %d is no statement", static_cast<int>(n.is));
  }
}

void Interp::define(std::uint32_t name, Value v) {
  Scope& scope = scope_.as<Scope>();
  step(scope.vars.size() / 16);
  for (auto& [id, value] : scope.vars) {
    if (id == name) {
      value = std::move(v);
      return;
    }
  }
  scope.grow(sizeof(scope.vars[0]));
  scope.vars.emplace_back(name, std::move(v));
}

void Interp::assign(const Node& target, Value v) {
  if (target.is == Is::name) return define(target.id, std::move(v));
  if (target.is == Is::space_target) {
    Value space = variable(target.id);
    if (!space.is(Kind::space)) {
      fail("cannot set '{}.{}': '{}' is no namespace but '{}'", tree_.names.name(target.id), target.text, tree_.names.name(target.id),
           type_name(space));
    }
    return space.as<Space>().set(target.text, std::move(v));
  }
  if (!is_iterable(v)) fail("cannot unpack '{}' into {} names", type_name(v), target.kids.size());
  std::vector<Value> items = to_vector(v);
  if (items.size() != target.kids.size()) fail("cannot unpack {} value(s) into {} names", items.size(), target.kids.size());
  for (size_t i = 0; i < items.size(); i++) assign(*target.kids[i], std::move(items[i]));
}

Interp::Flow Interp::run_for(const Node& n) {
  Value sequence = eval(*n.kids[1]);
  line_ = n.line;
  return run_loop(n, sequence, 0);
}

Interp::Flow Interp::run_loop(const Node& n, const Value& sequence, int depth0) {
  Value outer = scope_;
  Next next = iterate(sequence);
  bool filtered = n.kids[2] != nullptr;
  if (filtered) {  // asked for one element at a time: the body may change what the filter sees
    next = [this, &n, outer, all = std::move(next)](Value& out) {
      while (all(out)) {
        Inner inner(*this, outer);
        assign(*n.kids[0], out);
        if (truth(eval(*n.kids[2]))) return true;
      }
      return false;
    };
  }
  Value loop = Value::of(Kind::callable, new Loop(*this, n, outer, std::move(next), filtered ? Value() : sequence, depth0));
  bool any = false;
  for (Value item; loop.as<Loop>().advance(item);) {
    Inner inner(*this, outer);
    line_ = n.line;
    define("loop", loop);
    assign(*n.kids[0], std::move(item));
    Flow flow = run(n.body);
    if (flow == Flow::break_loop) break;
    any |= flow == Flow::on;  // jinja2 takes the `else` also when every round was cut short
  }
  loop.as<Loop>().clear();  // the loop refers to scopes that may refer to it
  return any ? Flow::on : run_scoped(n.other);
}

void Loop::clear() {
  scope = sequence = Value();
  next = nullptr;
  before = current = after = changed = {};
}

bool Loop::peek() {
  if (after) return true;
  Value v;
  if (!next || !next(v)) return false;
  after = std::move(v);
  return true;
}

bool Loop::advance(Value& out) {
  if (!peek()) return false;
  out = *std::exchange(after, {});
  before = std::exchange(current, out);
  index0++;
  return true;
}

Int Loop::count() {
  if (length) return *length;
  std::optional<Int> n = sequence.is_undefined() ? std::nullopt : interp.Runtime::length(sequence);
  if (!n) {  // a generator: the rest has to be walked through first
    std::vector<Value> rest;
    for (Value v; next && next(v);) {
      interp.check_text(rest.size() * sizeof(Value));
      rest.push_back(std::move(v));
    }
    n = static_cast<Int>(rest.size()) + index0 + 1 + after.has_value();
    next = interp.iterate(interp.list(std::move(rest)));
  }
  length = n;
  return *n;
}

Value Loop::cycle(Runtime& r, const Value& self, Args& args) {
  if (args.pos.empty()) r.fail("loop.cycle: nothing to cycle through");
  return args.pos[static_cast<size_t>(self.as<Loop>().index0 % static_cast<Int>(args.pos.size()))];
}

Value Loop::has_changed(Runtime& r, const Value& self, Args& args) {
  Value now = r.tuple(args.pos);
  Loop& loop = self.as<Loop>();
  if (loop.changed && r.equal(*loop.changed, now)) return Value::of(false);
  loop.changed = now;
  return Value::of(true);
}

std::optional<Value> Loop::attribute(Runtime& r, std::string_view name) {
  auto method = [&](const char* n, Builtin fn) {
    return Value::of(Kind::callable, new Function(r.heap, n, fn, Value::of(Kind::callable, this)));
  };
  if (name == "index") return Value::of(index0 + 1);
  if (name == "index0") return Value::of(index0);
  if (name == "first") return Value::of(index0 == 0);
  if (name == "last") return Value::of(!peek());
  if (name == "length") return Value::of(count());
  if (name == "revindex") return Value::of(count() - index0);
  if (name == "revindex0") return Value::of(count() - index0 - 1);
  if (name == "previtem") return before ? *before : r.undefined("there is no previous item");
  if (name == "nextitem") return peek() ? *after : r.undefined("there is no next item");
  if (name == "depth") return Value::of(Int{depth0} + 1);
  if (name == "depth0") return Value::of(Int{depth0});
  if (name == "cycle") return method("cycle", cycle);
  if (name == "changed") return method("changed", has_changed);
  return {};
}

Value Loop::call(Runtime& r, Args& args) {
  Bind a(r, args, "loop", {"iterable"}, 1);
  if (!node.flag) r.fail("loop(...) needs a loop marked 'recursive'");
  Interp::Captured captured(interp);
  Interp::Inner inner(interp, scope);
  interp.run_loop(node, *a[0], depth0 + 1);
  return r.str(captured.text());
}

std::optional<Value> Macro::attribute(Runtime& r, std::string_view name) {
  if (name == "name") return r.str(node.text);
  if (name == "arguments") {
    std::vector<Value> names;
    for (const NodePtr& parameter : node.kids) names.push_back(r.str(parameter->text));
    return r.tuple(std::move(names));
  }
  return {};
}

Value Macro::call(Runtime& r, Args& args) {
  Interp::Captured captured(interp);
  Interp::Inner inner(interp, scope);
  auto take = [&](std::string_view name) -> std::optional<Value> {
    for (auto it = args.named.begin(); it != args.named.end(); ++it) {
      if (it->first != name) continue;
      Value v = std::move(it->second);
      args.named.erase(it);
      return v;
    }
    return {};
  };
  size_t n = node.kids.size();
  std::vector<std::optional<Value>> given(n);
  bool takes_caller = false;
  for (size_t i = 0; i < n; i++) {
    const Node& parameter = *node.kids[i];
    given[i] = i < args.pos.size() ? args.pos[i] : take(parameter.text);
    takes_caller |= parameter.text == "caller";
  }
  // Its body's use of varargs, kwargs or caller is what makes a macro accept them.
  if ((node.uses & uses_caller) && !takes_caller) {
    auto caller = take("caller");
    interp.define("caller", caller ? *caller : r.undefined("the macro was not called by '{% call %}'"));
  }
  if (node.uses & uses_kwargs) {
    Value rest = r.dict();
    for (auto& [name, value] : args.named) rest.as<Dict>().set(r, r.str(name), value);
    interp.define("kwargs", rest);
  } else if (!args.named.empty()) {
    r.fail("macro '{}' has no parameter '{}'", node.text, args.named[0].first);
  }
  if (node.uses & uses_varargs) {
    std::vector<Value> rest;
    for (size_t i = n; i < args.pos.size(); i++) rest.push_back(args.pos[i]);
    interp.define("varargs", r.tuple(std::move(rest)));
  } else if (args.pos.size() > n) {
    r.fail("macro '{}' takes at most {} argument(s), not {}", node.text, n, args.pos.size());
  }
  for (size_t i = 0; i < n; i++) {
    const Node& parameter = *node.kids[i];
    if (given[i]) {
      interp.define(parameter.id, *given[i]);
    } else if (parameter.kids[0]) {
      interp.define(parameter.id, interp.eval(*parameter.kids[0]));
    } else {
      interp.define(parameter.id, r.undefined(fmt::format("parameter '{}' was not provided", parameter.text)));
    }
  }
  interp.run(node.body);
  return r.str(captured.text());
}

}  // namespace fewbit::text::jinja
