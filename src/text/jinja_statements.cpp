// Statements.
#include <algorithm>

#include "text/jinja_parser.h"

namespace fewbit::text::jinja {

Tree Parser::run() {
  Node root{};
  tree_.body = block(root, "", {});
  return std::move(tree_);
}

Tree parse(std::string_view source) { return Parser(tokenize(source)).run(); }

void Parser::set_body(Nodes Node::*list, Node& parent, Nodes nodes) const {
  for (NodePtr& node : nodes) add_to(list, parent, std::move(node));
}

Nodes Parser::block(const Node& opener, std::string_view tag, std::initializer_list<std::string_view> ends) {
  Nest nest(*this);
  Nodes nodes;
  while (current().type != Tok::end) {
    if (current().type == Tok::data) {
      NodePtr node = make(Is::data, current().line);
      node->text = current().text;
      nodes.push_back(std::move(node));
      advance();
    } else if (current().type == Tok::variable_begin) {
      NodePtr node = make(Is::output, current().line);
      advance();
      add(*node, tuple(Plain::no));
      expect(Tok::variable_end, "'}}'");
      nodes.push_back(std::move(node));
    } else {
      expect(Tok::block_begin, "'{%'");
      for (std::string_view end : ends) {
        if (is_name(end)) return nodes;
      }
      nodes.push_back(statement());
      expect(Tok::block_end, "'%}'");
    }
  }
  if (ends.size() > 0) fail(opener.line, fmt::format("'{{% {} %}}' is not closed: no '{{% {} %}}' follows", tag, *(ends.end() - 1)));
  return nodes;
}

// The rest of an opening tag, its body, and the name of the closing tag.
void Parser::body(Node& parent, std::string_view tag, std::string_view end) {
  take_op(":");
  expect(Tok::block_end, "'%}'");
  set_body(&Node::body, parent, block(parent, tag, {end}));
  advance();
}

NodePtr Parser::statement() {
  int line = current().line;
  std::string tag = expect_any_name();
  if (tag == "if") return if_statement(line);
  if (tag == "for") return for_statement(line);
  if (tag == "set") return set_statement(line);
  if (tag == "macro") return macro_statement(line);
  if (tag == "call") return call_statement(line);
  if (tag == "with") return with_statement(line);
  if (tag == "filter") {
    NodePtr node = make(Is::filter_block, line);
    add(*node, filter_chain());
    body(*node, tag, "endfilter");
    return node;
  }
  if (tag == "generation") {  // marks what the model wrote, for training: its content is rendered
    NodePtr node = make(Is::scope, line);
    body(*node, tag, "endgeneration");
    return node;
  }
  if (tag == "do") {
    NodePtr node = make(Is::evaluate, line);
    add(*node, tuple(Plain::no));
    return node;
  }
  if (tag == "print") {
    NodePtr node = make(Is::scope, line);
    while (current().type != Tok::block_end) {
      if (!node->body.empty()) expect_op(",");
      NodePtr output = make(Is::output, line);
      add(*output, expression());
      add_to(&Node::body, *node, std::move(output));
    }
    return node;
  }
  if (tag == "break" || tag == "continue") {
    if (loops_ == 0) fail(line, fmt::format("'{{% {} %}}' outside of a loop", tag));
    return make(tag == "break" ? Is::loop_break : Is::loop_continue, line);
  }
  if (tag == "include" || tag == "import" || tag == "from" || tag == "extends") {
    fail(line, fmt::format("'{{% {} %}}' is refused: a chat template reads no other file", tag), Code::unsupported);
  }
  if (tag.starts_with("end") || tag == "elif" || tag == "else") fail(line, fmt::format("'{{% {} %}}' closes nothing that is open", tag));
  fail(line, fmt::format("'{{% {} %}}' is not supported", tag), Code::unsupported);
}

NodePtr Parser::if_statement(int line) {
  NodePtr node = make(Is::if_block, line);
  bool otherwise = false;
  while (true) {
    NodePtr branch = make(Is::branch, line);
    add(*branch, otherwise ? nullptr : tuple(Plain::yes));
    take_op(":");
    expect(Tok::block_end, "'%}'");
    set_body(&Node::body, *branch, otherwise ? block(*node, "if", {"endif"}) : block(*node, "if", {"elif", "else", "endif"}));
    add(*node, std::move(branch));
    line = current().line;
    if (take_name("endif")) return node;
    otherwise = take_name("else");
    if (!otherwise) expect_name("elif");
  }
}

NodePtr Parser::for_statement(int line) {
  NodePtr node = make(Is::for_loop, line);
  add(*node, target("in", false));
  expect_name("in");
  add(*node, tuple(Plain::yes, false, "recursive"));
  add(*node, take_name("if") ? expression() : nullptr);
  node->flag = take_name("recursive");
  take_op(":");
  expect(Tok::block_end, "'%}'");
  loops_++;
  set_body(&Node::body, *node, block(*node, "for", {"else", "endfor"}));
  loops_--;
  if (take_name("else")) {
    take_op(":");
    expect(Tok::block_end, "'%}'");
    set_body(&Node::other, *node, block(*node, "for", {"endfor"}));
  }
  expect_name("endfor");
  return node;
}

NodePtr Parser::set_statement(int line) {
  NodePtr to = target({}, true);
  if (take_op("=")) {
    NodePtr node = make(Is::set, line);
    add(*node, std::move(to));
    add(*node, tuple(Plain::no));
    return node;
  }
  NodePtr node = make(Is::set_block, line);
  add(*node, std::move(to));
  add(*node, take_op("|") ? filter_chain() : nullptr);
  body(*node, "set", "endset");
  return node;
}

void Parser::parameters(Node& macro) {
  expect_op("(");
  bool defaults = false;
  while (!is_op(")")) {
    if (!macro.kids.empty()) expect_op(",");
    NodePtr parameter = make(Is::parameter, current().line);
    parameter->text = expect_any_name();
    parameter->id = tree_.names.id(parameter->text);
    bool has_default = take_op("=");
    if (defaults && !has_default)
      fail(parameter->line, fmt::format("macro parameter '{}' without a default follows one with", parameter->text));
    defaults |= has_default;
    add(*parameter, has_default ? expression() : nullptr);
    add(macro, std::move(parameter));
  }
  expect_op(")");
}

NodePtr Parser::macro_statement(int line) {
  NodePtr node = make(Is::macro, line);
  node->text = expect_any_name();
  node->id = tree_.names.id(node->text);
  parameters(*node);
  int loops = std::exchange(loops_, 0);
  macros_.push_back(node.get());
  body(*node, "macro", "endmacro");
  macros_.pop_back();
  loops_ = loops;
  return node;
}

// {% call(parameters) f(arguments) %} block {% endcall %}: f gets the block as the macro `caller`.
NodePtr Parser::call_statement(int line) {
  NodePtr block_macro = make(Is::macro, line);
  block_macro->text = "caller";
  if (is_op("(")) parameters(*block_macro);
  NodePtr node = make(Is::call_block, line);
  NodePtr callee = expression();
  if (callee->is != Is::call) fail(line, "'{% call %}' needs a call");
  add(*node, std::move(callee));
  int loops = std::exchange(loops_, 0);
  macros_.push_back(block_macro.get());
  body(*block_macro, "call", "endcall");
  macros_.pop_back();
  loops_ = loops;
  add(*node, std::move(block_macro));
  return node;
}

NodePtr Parser::with_statement(int line) {
  NodePtr node = make(Is::with, line);
  while (current().type != Tok::block_end) {
    if (!node->kids.empty()) expect_op(",");
    add(*node, target_element(false));
    expect_op("=");
    add(*node, expression());
  }
  body(*node, "with", "endwith");
  return node;
}

}  // namespace fewbit::text::jinja
