#include "runtime/conversation.h"

#include <fmt/format.h>

namespace fewbit::runtime {

static constexpr const char* chatml =
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";
static constexpr const char* llama3 =
    "{{ bos_token }}{% for m in messages %}{{ '<|start_header_id|>' + m.role + '<|end_header_id|>\\n\\n' + m.content | trim + '<|eot_id|>' "
    "}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}";

Result<Conversation> Conversation::load(const gguf::File& file, const text::Tokenizer& tokenizer) {
  FEWBIT_TRY(std::string source, file.get_string("tokenizer.chat_template", ""));
  if (source.empty()) {
    auto knows = [&](const char* text) {
      auto ids = tokenizer.encode(text, {.add_special = false, .parse_special = true});
      return ids.size() == 1;
    };
    if (knows("<|im_start|>") && knows("<|im_end|>")) {
      source = chatml;
    } else if (knows("<|start_header_id|>")) {
      source = llama3;
    } else {
      return Error{Code::unsupported, fmt::format("{}: has no chat template and its vocabulary shows none (use --raw)", file.path())};
    }
  }
  auto t = text::ChatTemplate::parse(source);
  if (!t.ok()) return Error{t.error().code, fmt::format("{}: tokenizer.chat_template: {}", file.path(), t.error().what)};
  Conversation c(std::move(*t));
  if (tokenizer.bos() >= 0) c.variables_["bos_token"] = tokenizer.token_text(tokenizer.bos());
  if (tokenizer.eos() >= 0) c.variables_["eos_token"] = tokenizer.token_text(tokenizer.eos());
  return c;
}

Result<std::string> Conversation::prompt() const {
  Json v = variables_;
  v["messages"] = messages_;
  v["add_generation_prompt"] = true;
  return template_.render(v);
}

}  // namespace fewbit::runtime
