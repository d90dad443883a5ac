// The tree of a parsed template.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/jinja_runtime.h"

namespace fewbit::text::jinja {

struct Node;
using NodePtr = std::unique_ptr<Node>;
using Nodes = std::vector<NodePtr>;

// What `kids` holds; [x] may be null.
enum class Is : std::uint8_t {
  // expressions
  text,         // constant `text`
  integer,      // constant `integer`
  real,         // constant `real`
  boolean,      // constant `integer`
  none,         //
  name,         // variable `id`
  list,         // elements
  tuple,        // elements
  dict,         // key, value, key, value, ...
  attribute,    // object; `text`
  item,         // object, key
  slice,        // object, [start], [stop], [step]
  call,         // callee, arguments...
  filter,       // [piped value], arguments...; `text`
  test,         // value, arguments...; `text`
  positional,   // argument: expression
  keyword,      // argument: expression; `text`
  spread,       // argument: *expression
  spread_dict,  // argument: **expression
  negate,       // expression; `flag` for minus
  logical_not,  // expression
  logical_and,  // left, right
  logical_or,   // left, right
  binary,       // left, right; `op`
  concat,       // expressions
  compare,      // first, operands...
  operand,      // expression; `op`
  conditional,  // condition, then, [otherwise]
  // statements
  data,          // `text`
  output,        // expression
  if_block,      // branches
  branch,        // [condition]; `body`
  for_loop,      // target, sequence, [filter]; `body`, `other` (else); `flag` for recursive
  set,           // target, value
  set_block,     // target, [filter]; `body`
  space_target,  // target ns.attribute: `id`, `text`
  macro,         // parameters...; `text`, `id`, `body`, `uses`
  parameter,     // [default]; `text`, `id`
  call_block,    // call, macro (the block)
  filter_block,  // filter; `body`
  with,          // target, value, target, value, ...; `body`
  scope,         // `body`
  evaluate,      // expression (do)
  loop_break,
  loop_continue,
};

enum Uses : std::uint8_t { uses_varargs = 1, uses_kwargs = 2, uses_caller = 4 };

struct Node {
  Is is;
  Op op = Op::add;
  bool flag = false;
  std::uint8_t uses = 0;
  int line = 0;
  int depth = 1;         // of the tree below: bounds every recursion over it
  std::uint32_t id = 0;  // of a variable name; of a constant
  std::string text;
  Int integer = 0;
  double real = 0;
  Nodes kids, body, other;
};

// Names of variables, numbered.
class Names {
 public:
  std::uint32_t id(std::string_view name) {
    auto it = ids_.find(std::string(name));
    if (it != ids_.end()) return it->second;
    names_.emplace_back(name);
    ids_.emplace(names_.back(), static_cast<std::uint32_t>(names_.size() - 1));
    return static_cast<std::uint32_t>(names_.size() - 1);
  }
  // Nothing when the template never mentions the name.
  std::optional<std::uint32_t> find(std::string_view name) const {
    auto it = ids_.find(std::string(name));
    return it == ids_.end() ? std::nullopt : std::optional(it->second);
  }
  const std::string& name(std::uint32_t id) const { return names_[id]; }
  size_t size() const { return names_.size(); }

 private:
  std::vector<std::string> names_;
  std::unordered_map<std::string, std::uint32_t> ids_;
};

struct Tree {
  Nodes body;
  Names names;
  std::uint32_t n_constants = 0;  // Is::text nodes, numbered by `id`
};

constexpr int kMaxParseDepth = 200;  // nested brackets and blocks
constexpr int kMaxTreeDepth = 500;   // of the tree: also a long chain a + b + c + ... is deep

// Throws Failure with line and construct.
Tree parse(std::string_view source);

}  // namespace fewbit::text::jinja
