// Expressions.
#include "text/jinja_parser.h"

#include <algorithm>

namespace fewbit::text::jinja {

void Parser::fail(int line, std::string what, Code code) const { throw Failure{std::move(what), line, code, false}; }

std::string Parser::describe(const Token& t) const {
  switch (t.type) {
    case Tok::data:
      return "text";
    case Tok::variable_begin:
      return "'{{'";
    case Tok::variable_end:
      return "'}}'";
    case Tok::block_begin:
      return "'{%'";
    case Tok::block_end:
      return "'%}'";
    case Tok::string:
      return "a string";
    case Tok::end:
      return "the end of the template";
    default:
      return "'" + t.text + "'";
  }
}

void Parser::expect_op(std::string_view op) {
  if (!take_op(op)) fail(current().line, fmt::format("expected '{}', got {}", op, describe(current())));
}
void Parser::expect_name(std::string_view name) {
  if (!take_name(name)) fail(current().line, fmt::format("expected '{}', got {}", name, describe(current())));
}
std::string Parser::expect_any_name() {
  if (current().type != Tok::name) fail(current().line, fmt::format("expected a name, got {}", describe(current())));
  std::string name = current().text;
  advance();
  return name;
}
void Parser::expect(Tok type, std::string_view what) {
  if (current().type != type) fail(current().line, fmt::format("expected {}, got {}", what, describe(current())));
  advance();
}

Parser::Nest::Nest(Parser& p) : p_(p) {
  if (++p.nesting_ > kMaxParseDepth) {
    p.nesting_--;
    p.fail(p.current().line, fmt::format("nested deeper than {} levels", kMaxParseDepth));
  }
}

NodePtr Parser::make(Is is, int line) const {
  auto node = std::make_unique<Node>();
  node->is = is;
  node->line = line;
  return node;
}

void Parser::add_to(Nodes Node::*list, Node& parent, NodePtr child) const {
  if (child) parent.depth = std::max(parent.depth, child->depth + 1);
  if (parent.depth > kMaxTreeDepth) fail(parent.line, fmt::format("an expression or block of more than {} levels", kMaxTreeDepth));
  (parent.*list).push_back(std::move(child));
}
void Parser::add(Node& parent, NodePtr child) const { add_to(&Node::kids, parent, std::move(child)); }

NodePtr Parser::binary(Is is, Op op, int line, NodePtr left, NodePtr right) const {
  NodePtr node = make(is, line);
  node->op = op;
  add(*node, std::move(left));
  add(*node, std::move(right));
  return node;
}

NodePtr Parser::name_node(const std::string& name, int line) {
  NodePtr node = make(Is::name, line);
  node->id = tree_.names.id(name);
  for (Node* macro : macros_) {
    if (name == "varargs") macro->uses |= uses_varargs;
    if (name == "kwargs") macro->uses |= uses_kwargs;
    if (name == "caller") macro->uses |= uses_caller;
  }
  return node;
}

NodePtr Parser::text_node(std::string text, int line) {
  NodePtr node = make(Is::text, line);
  node->text = std::move(text);
  node->id = tree_.n_constants++;
  return node;
}

NodePtr Parser::expression() {
  Nest nest(*this);
  int line = current().line;
  NodePtr value = logical_or();
  while (take_name("if")) {
    NodePtr node = make(Is::conditional, line);
    add(*node, logical_or());
    add(*node, std::move(value));
    add(*node, take_name("else") ? expression() : nullptr);
    value = std::move(node);
    line = current().line;
  }
  return value;
}

NodePtr Parser::logical_or() {
  NodePtr left = logical_and();
  for (int line = current().line; take_name("or"); line = current().line) {
    left = binary(Is::logical_or, Op::add, line, std::move(left), logical_and());
  }
  return left;
}

NodePtr Parser::logical_and() {
  NodePtr left = logical_not();
  for (int line = current().line; take_name("and"); line = current().line) {
    left = binary(Is::logical_and, Op::add, line, std::move(left), logical_not());
  }
  return left;
}

NodePtr Parser::logical_not() {
  int line = current().line;
  if (!take_name("not")) return comparison();
  Nest nest(*this);
  NodePtr node = make(Is::logical_not, line);
  add(*node, logical_not());
  return node;
}

NodePtr Parser::comparison() {
  static constexpr Op ops[] = {Op::eq, Op::ne, Op::lt, Op::le, Op::gt, Op::ge};
  NodePtr first = sum(), node;
  while (true) {
    int line = current().line;
    std::optional<Op> op;
    for (Op o : ops) {
      if (is_op(op_name(o))) op = o;
    }
    if (is_name("in")) op = Op::in;
    if (is_name("not") && ahead().type == Tok::name && ahead().text == "in") {
      op = Op::not_in;
      advance();
    }
    if (!op) break;
    advance();
    if (!node) {
      node = make(Is::compare, line);
      add(*node, std::move(first));
    }
    NodePtr operand = make(Is::operand, line);
    operand->op = *op;
    add(*operand, sum());
    add(*node, std::move(operand));
  }
  return node ? std::move(node) : std::move(first);
}

NodePtr Parser::sum() {
  NodePtr left = concat();
  while (is_op("+") || is_op("-")) {
    int line = current().line;
    Op op = is_op("+") ? Op::add : Op::sub;
    advance();
    left = binary(Is::binary, op, line, std::move(left), concat());
  }
  return left;
}

NodePtr Parser::concat() {
  int line = current().line;
  NodePtr first = product();
  if (!is_op("~")) return first;
  NodePtr node = make(Is::concat, line);
  add(*node, std::move(first));
  while (take_op("~")) add(*node, product());
  return node;
}

NodePtr Parser::product() {
  NodePtr left = power();
  while (is_op("*") || is_op("/") || is_op("//") || is_op("%")) {
    int line = current().line;
    Op op = is_op("*") ? Op::mul : is_op("/") ? Op::div : is_op("//") ? Op::floordiv : Op::mod;
    advance();
    left = binary(Is::binary, op, line, std::move(left), power());
  }
  return left;
}

NodePtr Parser::power() {  // jinja2 groups ** from the left, unlike Python
  NodePtr left = unary(true);
  for (int line = current().line; take_op("**"); line = current().line)
    left = binary(Is::binary, Op::pow, line, std::move(left), unary(true));
  return left;
}

NodePtr Parser::unary(bool with_filter) {
  Nest nest(*this);
  int line = current().line;
  NodePtr node;
  if (is_op("-") || is_op("+")) {
    bool minus = is_op("-");
    advance();
    node = make(Is::negate, line);
    node->flag = minus;
    add(*node, unary(false));
  } else {
    node = primary();
  }
  node = postfix(std::move(node));
  return with_filter ? postfix_filter(std::move(node)) : std::move(node);
}

NodePtr Parser::primary() {
  const Token token = current();
  switch (token.type) {
    case Tok::name: {
      advance();
      const std::string& s = token.text;
      if (s == "true" || s == "True" || s == "false" || s == "False") {
        NodePtr node = make(Is::boolean, token.line);
        node->integer = s[0] == 't' || s[0] == 'T';
        return node;
      }
      if (s == "none" || s == "None") return make(Is::none, token.line);
      return name_node(s, token.line);
    }
    case Tok::string: {
      std::string text;
      for (; current().type == Tok::string; advance()) text += current().text;  // neighbours join
      return text_node(std::move(text), token.line);
    }
    case Tok::integer: {
      advance();
      NodePtr node = make(Is::integer, token.line);
      node->integer = token.integer;
      return node;
    }
    case Tok::real: {
      advance();
      NodePtr node = make(Is::real, token.line);
      node->real = token.real;
      return node;
    }
    default:
      break;
  }
  if (take_op("(")) {
    NodePtr node = tuple(Plain::no, true);
    expect_op(")");
    return node;
  }
  if (is_op("[")) return list();
  if (is_op("{")) return dict();
  fail(token.line, fmt::format("expected an expression, got {}", describe(token)));
}

NodePtr Parser::list() {
  NodePtr node = make(Is::list, current().line);
  expect_op("[");
  while (!is_op("]")) {
    if (!node->kids.empty()) expect_op(",");
    if (is_op("]")) break;
    add(*node, expression());
  }
  expect_op("]");
  return node;
}

NodePtr Parser::dict() {
  NodePtr node = make(Is::dict, current().line);
  expect_op("{");
  while (!is_op("}")) {
    if (!node->kids.empty()) expect_op(",");
    if (is_op("}")) break;
    add(*node, expression());
    expect_op(":");
    add(*node, expression());
  }
  expect_op("}");
  return node;
}

bool Parser::at_tuple_end(std::string_view end_name) const {
  Tok t = current().type;
  return t == Tok::variable_end || t == Tok::block_end || is_op(")") || (!end_name.empty() && is_name(end_name));
}

// `a`, or a tuple `a, b` (also `a,`); `()` only inside parentheses.
NodePtr Parser::tuple(Plain without_conditional, bool parentheses, std::string_view end_name) {
  int line = current().line;
  Nodes items;
  bool is_tuple = false;
  while (true) {
    if (!items.empty()) expect_op(",");
    if (at_tuple_end(end_name)) break;
    items.push_back(without_conditional == Plain::yes ? logical_or() : expression());
    if (!is_op(",")) break;
    is_tuple = true;
  }
  if (!is_tuple && !items.empty()) return std::move(items[0]);
  if (!is_tuple && !parentheses) fail(current().line, fmt::format("expected an expression, got {}", describe(current())));
  NodePtr node = make(Is::tuple, line);
  for (NodePtr& item : items) add(*node, std::move(item));
  return node;
}

NodePtr Parser::postfix(NodePtr node) {
  while (is_op(".") || is_op("[") || is_op("(")) node = is_op("(") ? call(std::move(node)) : subscript(std::move(node));
  return node;
}

NodePtr Parser::postfix_filter(NodePtr node) {
  while (true) {
    if (is_op("|")) {
      node = filter(std::move(node));
    } else if (is_name("is")) {
      node = test(std::move(node));
    } else if (is_op("(")) {
      node = call(std::move(node));
    } else {
      return node;
    }
  }
}

NodePtr Parser::subscript(NodePtr object) {
  int line = current().line;
  if (take_op(".")) {
    if (current().type == Tok::integer) {
      NodePtr key = primary();
      return binary(Is::item, Op::add, line, std::move(object), std::move(key));
    }
    NodePtr node = make(Is::attribute, line);
    add(*node, std::move(object));
    node->text = expect_any_name();
    return node;
  }
  expect_op("[");
  Nodes keys;
  bool comma = false;
  while (!is_op("]")) {
    if (!keys.empty()) {
      expect_op(",");
      comma = true;
    }
    NodePtr start = is_op(":") ? nullptr : expression();
    if (!is_op(":")) {
      keys.push_back(std::move(start));
      continue;
    }
    advance();
    NodePtr slice = make(Is::slice, line);
    add(*slice, std::move(object));
    add(*slice, std::move(start));
    add(*slice, is_op("]") || is_op(":") || is_op(",") ? nullptr : expression());
    add(*slice, take_op(":") && !is_op("]") && !is_op(",") ? expression() : nullptr);
    if (!keys.empty() || comma || !is_op("]")) fail(line, "a slice beside other subscripts is not supported", Code::unsupported);
    expect_op("]");
    return slice;
  }
  expect_op("]");
  if (keys.size() == 1) return binary(Is::item, Op::add, line, std::move(object), std::move(keys[0]));
  NodePtr key = make(Is::tuple, line);
  for (NodePtr& k : keys) add(*key, std::move(k));
  return binary(Is::item, Op::add, line, std::move(object), std::move(key));
}

void Parser::arguments(Node& call) {
  int line = current().line;
  expect_op("(");
  bool need_comma = false, named = false, spread = false, spread_dict = false;
  while (!is_op(")")) {
    if (need_comma) {
      expect_op(",");
      if (is_op(")")) break;
    }
    need_comma = true;
    NodePtr argument;
    if (take_op("*")) {
      if (spread || spread_dict) fail(line, "a call with more than one '*' argument");
      spread = true;
      argument = make(Is::spread, line);
    } else if (take_op("**")) {
      if (spread_dict) fail(line, "a call with more than one '**' argument");
      spread_dict = true;
      argument = make(Is::spread_dict, line);
    } else if (current().type == Tok::name && ahead().type == Tok::op && ahead().text == "=") {
      if (spread_dict) fail(line, "a named argument after '**'");
      named = true;
      argument = make(Is::keyword, line);
      argument->text = expect_any_name();
      advance();
    } else {
      if (named || spread || spread_dict) fail(line, "a positional argument after named ones");
      argument = make(Is::positional, line);
    }
    add(*argument, expression());
    add(call, std::move(argument));
  }
  expect_op(")");
}

NodePtr Parser::call(NodePtr callee) {
  NodePtr node = make(Is::call, current().line);
  add(*node, std::move(callee));
  arguments(*node);
  return node;
}

NodePtr Parser::filter(NodePtr piped) {
  while (take_op("|")) {
    NodePtr node = make(Is::filter, current().line);
    add(*node, std::move(piped));
    node->text = expect_any_name();
    while (take_op(".")) node->text += "." + expect_any_name();
    if (is_op("(")) arguments(*node);
    piped = std::move(node);
  }
  return piped;
}

NodePtr Parser::filter_chain() {
  NodePtr node = make(Is::filter, current().line);
  add(*node, nullptr);
  node->text = expect_any_name();
  while (take_op(".")) node->text += "." + expect_any_name();
  if (is_op("(")) arguments(*node);
  return filter(std::move(node));
}

NodePtr Parser::test(NodePtr value) {
  NodePtr node = make(Is::test, current().line);
  expect_name("is");
  bool negated = take_name("not");
  add(*node, std::move(value));
  node->text = expect_any_name();
  while (take_op(".")) node->text += "." + expect_any_name();
  Tok t = current().type;
  if (is_op("(")) {
    arguments(*node);
  } else if (is_op("[") || is_op("{") || t == Tok::string || t == Tok::integer || t == Tok::real ||
             (t == Tok::name && !is_name("else") && !is_name("or") && !is_name("and"))) {
    if (is_name("is")) fail(current().line, "tests cannot be chained with 'is'");
    NodePtr argument = make(Is::positional, current().line);
    add(*argument, postfix(primary()));
    add(*node, std::move(argument));
  }
  if (!negated) return node;
  NodePtr inverse = make(Is::logical_not, node->line);
  add(*inverse, std::move(node));
  return inverse;
}

NodePtr Parser::target_element(bool with_space) {
  Nest nest(*this);
  int line = current().line;
  if (take_op("(") || is_op("[")) {
    bool bracket = take_op("[");
    NodePtr node = make(Is::tuple, line);
    while (!is_op(bracket ? "]" : ")")) {
      if (!node->kids.empty()) expect_op(",");
      if (is_op(bracket ? "]" : ")")) break;
      add(*node, target_element(with_space));
    }
    expect_op(bracket ? "]" : ")");
    return node;
  }
  if (current().type != Tok::name) fail(line, fmt::format("cannot assign to {}", describe(current())));
  std::string name = expect_any_name();
  if (name == "true" || name == "false" || name == "none" || name == "True" || name == "False" || name == "None") {
    fail(line, fmt::format("cannot assign to '{}'", name));
  }
  if (with_space && take_op(".")) {
    NodePtr node = make(Is::space_target, line);
    node->id = tree_.names.id(name);
    node->text = expect_any_name();
    return node;
  }
  NodePtr node = make(Is::name, line);
  node->id = tree_.names.id(name);
  return node;
}

NodePtr Parser::target(std::string_view end_name, bool with_space) {
  int line = current().line;
  NodePtr first = target_element(with_space);
  if (!is_op(",")) return first;
  NodePtr node = make(Is::tuple, line);
  add(*node, std::move(first));
  while (take_op(",")) {
    if (at_tuple_end(end_name) || is_op("=")) break;
    add(*node, target_element(with_space));
  }
  return node;
}

}  // namespace fewbit::text::jinja
