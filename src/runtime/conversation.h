// Messages to a prompt, with the template of the model's file (or ChatML / Llama-3 form where the vocabulary shows them).
#pragma once
#include <string>
#include <vector>

#include "base/json.h"
#include "gguf/gguf.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace fewbit::runtime {

class Conversation {
 public:
  // Error: no template and a vocabulary that shows none, or a template that cannot be read.
  static Result<Conversation> load(const gguf::File& file, const text::Tokenizer& tokenizer);

  void add(const std::string& role, const std::string& content) { messages_.push_back({{"role", role}, {"content", content}}); }
  void pop() { messages_.erase(messages_.end() - 1); }
  void clear() { messages_ = Json::array(); }
  const Json& messages() const { return messages_; }
  Json& variables() { return variables_; }  // enable_thinking, tools, ...

  // The prompt that asks for the assistant's next turn.
  Result<std::string> prompt() const;

 private:
  explicit Conversation(text::ChatTemplate t) : template_(std::move(t)) {}
  text::ChatTemplate template_;
  Json messages_ = Json::array(), variables_ = Json::object();
};

}  // namespace fewbit::runtime
