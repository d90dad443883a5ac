// Expressions.
#include "text/jinja_interp.h"

namespace fewbit::text::jinja {

Value Interp::variable(std::uint32_t name) {
  for (const Value* s = &scope_; !s->is_undefined(); s = &s->as<Scope>().parent) {
    const auto& vars = s->as<Scope>().vars;
    step(1 + vars.size() / 16);
    for (const auto& [id, value] : vars) {
      if (id == name) return value;
    }
  }
  const std::string& text = tree_.names.name(name);
  if (auto g = global(text)) return *g;
  return undefined(fmt::format("'{}' is undefined", text));
}

Value Interp::eval(const Node& n) {
  Depth depth(*this);
  step();
  line_ = n.line;
  switch (n.is) {
    case Is::text:
      if (constants_[n.id].is_undefined()) constants_[n.id] = str(n.text);
      return constants_[n.id];
    case Is::integer:
      return Value::of(n.integer);
    case Is::real:
      return Value::of(n.real);
    case Is::boolean:
      return Value::of(n.integer != 0);
    case Is::none:
      return Value::none();
    case Is::name:
      return variable(n.id);
    case Is::list:
    case Is::tuple: {
      std::vector<Value> items;
      items.reserve(n.kids.size());
      for (const NodePtr& kid : n.kids) items.push_back(eval(*kid));
      return n.is == Is::list ? list(std::move(items)) : tuple(std::move(items));
    }
    case Is::dict: {
      Value d = dict();
      for (size_t i = 0; i < n.kids.size(); i += 2) {
        Value key = eval(*n.kids[i]), value = eval(*n.kids[i + 1]);
        line_ = n.line;
        d.as<Dict>().set(*this, key, std::move(value));
      }
      return d;
    }
    case Is::attribute: {
      Value object = eval(*n.kids[0]);
      line_ = n.line;
      return attribute(object, n.text);
    }
    case Is::item: {
      Value object = eval(*n.kids[0]), key = eval(*n.kids[1]);
      line_ = n.line;
      return item(object, key);
    }
    case Is::slice: {
      Value object = eval(*n.kids[0]), start = eval_kid(n, 1), stop = eval_kid(n, 2), by = eval_kid(n, 3);
      line_ = n.line;
      return slice(object, start, stop, by);
    }
    case Is::call:
      return call_node(n, nullptr);
    case Is::filter: {
      Value piped = n.kids[0] ? eval(*n.kids[0]) : *piped_;
      Args args;
      arguments(n, 1, args);
      line_ = n.line;
      return filter(n.text, piped, args);
    }
    case Is::test: {
      Value value = eval(*n.kids[0]);
      Args args;
      arguments(n, 1, args);
      line_ = n.line;
      return Value::of(test(n.text, value, args));
    }
    case Is::negate: {
      Value value = eval(*n.kids[0]);
      line_ = n.line;
      return negate(value, n.flag);
    }
    case Is::logical_not:
      return Value::of(!truth(eval(*n.kids[0])));
    case Is::logical_and:
    case Is::logical_or: {
      Value left = eval(*n.kids[0]);
      return truth(left) == (n.is == Is::logical_or) ? left : eval(*n.kids[1]);
    }
    case Is::binary: {
      Value left = eval(*n.kids[0]), right = eval(*n.kids[1]);
      line_ = n.line;
      return binary(n.op, left, right);
    }
    case Is::concat:
      return concat(n);
    case Is::compare:
      return compare_chain(n);
    case Is::conditional: {
      bool yes = truth(eval(*n.kids[0]));
      if (yes) return eval(*n.kids[1]);
      if (n.kids[2]) return eval(*n.kids[2]);
      return undefined("the inline if-expression was false and has no else");
    }
    default:
      FEWBIT_CHECK(false, "node %d is no expression", static_cast<int>(n.is));
  }
}

Value Interp::compare_chain(const Node& n) {
  Value left = eval(*n.kids[0]);
  for (size_t i = 1; i < n.kids.size(); i++) {
    Value right = eval(*n.kids[i]->kids[0]);
    line_ = n.kids[i]->line;
    if (!compare_op(n.kids[i]->op, left, right)) return Value::of(false);
    left = std::move(right);
  }
  return Value::of(true);
}

Value Interp::concat(const Node& n) {
  std::string out;
  for (const NodePtr& kid : n.kids) {
    Value v = eval(*kid);
    line_ = n.line;
    append_str(out, v);
  }
  return str(std::move(out));
}

void Interp::arguments(const Node& n, size_t first, Args& args) {
  for (size_t i = first; i < n.kids.size(); i++) {
    const Node& argument = *n.kids[i];
    Value v = eval(*argument.kids[0]);
    line_ = argument.line;
    switch (argument.is) {
      case Is::positional:
        args.pos.push_back(std::move(v));
        break;
      case Is::keyword:
        args.named.emplace_back(argument.text, std::move(v));
        break;
      case Is::spread:
        for (Value& e : to_vector(v)) args.pos.push_back(std::move(e));
        break;
      default:
        if (!v.is(Kind::dict)) fail("'**' needs an object, not '{}'", type_name(v));
        for (const auto& [key, value] : v.as<Dict>().items) {
          if (!key.is_string()) fail("'**' needs an object whose keys are strings");
          args.named.emplace_back(text(key), value);
        }
    }
  }
}

Value Interp::call_node(const Node& n, const Value* caller) {
  const Node& callee = *n.kids[0];
  Value fn = eval(callee);
  Args args;
  arguments(n, 1, args);
  if (caller) args.named.emplace_back("caller", *caller);
  line_ = n.line;
  Value out = call(fn, args, callee.is == Is::name ? std::string_view(tree_.names.name(callee.id)) : std::string_view(callee.text));
  line_ = n.line;
  return out;
}

}  // namespace fewbit::text::jinja
