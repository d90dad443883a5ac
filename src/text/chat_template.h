// A conversation to a prompt: a small, safe interpreter of the Jinja subset that published chat templates use.
// No file access; bounded steps, depth and output.  spec: tokenizer.md section 9.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"

namespace fewbit::text {

class ChatTemplate {
 public:
  // Parses.  The error names line and construct.
  static Result<ChatTemplate> parse(std::string_view source);
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  // `variables`: an object; every key becomes a template variable (messages, tools, add_generation_prompt, enable_thinking, ...).
  // Preprocessing as tokenizer.md 9.1 (string tool arguments become objects, ...).
  Result<std::string> render(const Json& variables) const;

 private:
  struct State;
  explicit ChatTemplate(std::unique_ptr<State> s);
  std::unique_ptr<State> s_;
};

}  // namespace fewbit::text
