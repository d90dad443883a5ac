// Any bytes as a template, with a conversation or with variables of its own (JSON after the first zero byte): no crash, no leak, an error
// of one line, the same result twice.
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

#include "base/fuzz.h"
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

std::string read(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream s;
  s << in.rdbuf();
  return s.str();
}

}  // namespace

// The published templates and the small cases of the tests.
extern "C" int LLVMFuzzerInitialize(int*, char***) {
  fuzz::write_seeds_if_asked([](auto write) {
    std::filesystem::path folder = std::filesystem::path(FEWBIT_SOURCE_DIR) / "tests/data/templates";
    auto put = [&](const std::string& name, const std::string& text) {
      write(name, std::span(reinterpret_cast<const u8*>(text.data()), text.size()));
    };
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (entry.path().extension() == ".jinja") put(entry.path().stem().string(), read(entry.path()));
    }
    Json file = Json::parse(read(folder / "jinja_cases.json"));
    int n = 0;
    for (const Json& c : file["cases"]) {
      put("case" + std::to_string(n++), c["template"].get<std::string>() + '\0' + file["contexts"][c["context"].get<std::string>()].dump());
    }
  });
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const u8* data, std::size_t size) {
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
  limits.steps = 5'000;
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
