// Any bytes as a template, with a conversation or with variables of its own (JSON after the first zero byte): no crash, no leak, an error
// of one line, the same result twice.  Seeds: tests/data/templates.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "text/chat_template.h"

using namespace fewbit;
using namespace fewbit::text;

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

const Json& conversation() {
  static const Json variables = Json::parse(R"({
    "messages": [{"role": "system", "content": " s\u00e9 "}, {"role": "user", "content": "u"},
      {"role": "assistant", "content": null, "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": "{\"a\": [1, 2.5, null]}"}}]},
      {"role": "tool", "content": "t"}, {"role": "user", "content": [{"type": "text", "text": "p"}]},
      {"role": "assistant", "content": "<think>\nx\n</think>\n\ny"}, {"role": "user", "content": "z"}],
    "tools": [{"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object", "properties": {"a": {"type": "array"}}}}}],
    "add_generation_prompt": true, "bos_token": "<s>", "eos_token": "</s>", "n": 7, "x": -2.5, "l": [3, 1, [2]], "d": {"b": 1, "a": {}}
  })");
  return variables;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view input(reinterpret_cast<const char*>(data), size);
  std::size_t zero = input.find('\0');
  Json variables = conversation();
  if (zero != input.npos) {
    Json own = Json::parse(input.substr(zero + 1), nullptr, false);
    if (own.is_object()) variables.update(own);
    input = input.substr(0, zero);
  }
  auto t = ChatTemplate::parse(input);
  if (!t.ok()) {
    require(t.error().what.find('\n') == std::string::npos);
    return 0;
  }
  RenderLimits limits;
  limits.steps = 20'000;
  limits.text_bytes = 1 << 16;
  limits.heap_bytes = 1 << 20;
  limits.now = 0;
  auto first = t->render(variables, limits), second = t->render(variables, limits);
  require(first.ok() == second.ok());
  if (first.ok()) {
    require(*first == *second && first->size() <= limits.text_bytes);
  } else {
    require(first.error().what == second.error().what && first.error().what.find('\n') == std::string::npos);
  }
  return 0;
}
