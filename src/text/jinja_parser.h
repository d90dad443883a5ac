// Recursive descent over the tokens; jinja2's grammar, precedence included.  Used only by parse() of jinja_ast.h.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja_ast.h"
#include "text/jinja_lexer.h"

namespace fewbit::text::jinja {

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}
  Tree run();

 private:
  // --- tokens
  const Token& current() const { return tokens_[at_]; }
  const Token& ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  bool is_op(std::string_view op) const { return current().type == Tok::op && current().text == op; }
  bool is_name(std::string_view name) const { return current().type == Tok::name && current().text == name; }
  bool take_op(std::string_view op) { return is_op(op) && advance(); }
  bool take_name(std::string_view name) { return is_name(name) && advance(); }
  bool advance() {
    if (at_ + 1 < tokens_.size()) at_++;
    return true;
  }
  void expect_op(std::string_view op);
  void expect_name(std::string_view name);
  std::string expect_any_name();
  void expect(Tok, std::string_view what);
  [[noreturn]] void fail(int line, std::string what, Code code = Code::invalid_argument) const;
  std::string describe(const Token&) const;

  // --- nodes
  NodePtr make(Is is, int line) const;
  // Adds a child (null for one left out) and keeps the depth.
  void add(Node& parent, NodePtr child) const;
  void add_to(Nodes Node::*list, Node& parent, NodePtr child) const;
  NodePtr binary(Is is, Op op, int line, NodePtr left, NodePtr right) const;
  NodePtr name_node(const std::string& name, int line);
  NodePtr text_node(std::string text, int line);

  // --- expressions: jinja_parser.cpp
  NodePtr expression();  // with `a if b else c`
  NodePtr logical_or();
  NodePtr logical_and();
  NodePtr logical_not();
  NodePtr comparison();
  NodePtr sum();
  NodePtr concat();
  NodePtr product();
  NodePtr power();
  NodePtr unary(bool with_filter);
  NodePtr primary();
  NodePtr list();
  NodePtr dict();
  NodePtr postfix(NodePtr);
  NodePtr postfix_filter(NodePtr);
  NodePtr subscript(NodePtr);
  NodePtr call(NodePtr);
  void arguments(Node& call);
  NodePtr filter(NodePtr piped);
  NodePtr filter_chain();  // of a block: the innermost filter has no piped value
  NodePtr test(NodePtr);
  enum class Plain { no, yes };
  NodePtr tuple(Plain without_conditional, bool parentheses = false, std::string_view end_name = {});
  bool at_tuple_end(std::string_view end_name) const;
  NodePtr target(std::string_view end_name, bool with_space);
  NodePtr target_element(bool with_space);

  // --- statements: jinja_statements.cpp
  // Statements up to one of the tags `ends`, whose name is left as the current token; to the end of the template without `ends`.
  Nodes block(const Node& opener, std::string_view tag, std::initializer_list<std::string_view> ends);
  void body(Node& parent, std::string_view tag, std::string_view end);
  NodePtr statement();
  NodePtr if_statement(int line);
  NodePtr for_statement(int line);
  NodePtr set_statement(int line);
  NodePtr macro_statement(int line);
  NodePtr call_statement(int line);
  NodePtr with_statement(int line);
  void parameters(Node& macro);
  void set_body(Nodes Node::*list, Node& parent, Nodes nodes) const;

  class Nest {
   public:
    explicit Nest(Parser& p);
    ~Nest() { p_.nesting_--; }
    Nest(const Nest&) = delete;
    Nest& operator=(const Nest&) = delete;

   private:
    Parser& p_;
  };

  std::vector<Token> tokens_;
  size_t at_ = 0;
  int nesting_ = 0;
  int loops_ = 0;              // open `for` bodies, for break and continue
  std::vector<Node*> macros_;  // open macros, for their use of varargs, kwargs and caller
  Tree tree_;
};

}  // namespace fewbit::text::jinja
