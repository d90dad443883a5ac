// Any bytes as text, any numbers as tokens: no crash, and what encode() made decodes to the well-formed reading of the text.
#include <array>
#include <cstddef>
#include <cstdlib>
#include <string>
#include <vector>

#include "text/test_vocab.h"
#include "text/tokenizer_state.h"
#include "text/utf8.h"

using namespace fewbit;
using namespace fewbit::text;

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

std::string stream(const Tokenizer& t, const std::vector<Token>& ids, std::vector<std::string> stops) {
  Stream s(t, std::move(stops), true);
  std::string out;
  auto show = [&](const std::string& text) {
    require(is_valid_utf8(text));
    out += text;
  };
  for (Token id : ids) show(s.push(id));
  show(s.finish());
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const u8* data, size_t size) {
  static const auto all = [] {
    std::vector<Tokenizer> v;
    for (const char* pre : {"gpt-2", "smollm", "qwen2", "qwen35", "llama-bpe", "default"})
      v.push_back(std::move(make_tokenizer(tiny_bpe(pre))).value());
    v.push_back(std::move(make_tokenizer(tiny_spm())).value());
    return v;
  }();
  if (size < 2) return 0;
  const Tokenizer& t = all[data[0] % all.size()];
  bool parse_special = data[1] & 1;
  std::string text(reinterpret_cast<const char*>(data) + 2, size - 2), valid = to_valid_utf8(text);

  std::vector<Token> ids = t.encode(text, {.add_special = (data[1] & 2) != 0, .parse_special = parse_special});
  for (Token id : ids) require(id >= 0 && id < t.vocab_size());
  ids = t.encode(text, {.parse_special = parse_special});
  // SPM makes a space of U+2581 and puts one behind every special token that it finds.
  bool lossy =
      t.model() == "llama" && (parse_special || valid.find("<mark>") != std::string::npos || valid.find(spm_space) != std::string::npos);
  if (!lossy) require(t.decode(ids, true) == valid);

  std::string whole = stream(t, ids, {});
  size_t cut = valid.size() / 3;
  std::string stop = to_valid_utf8(std::string_view(valid).substr(cut, 5));
  std::string shown = stream(t, ids, {stop, "\xFF"});
  size_t at = stop.empty() ? std::string::npos : whole.find(stop);
  size_t replaced = whole.find(replacement_character);
  if (replaced == std::string::npos) require(shown == whole.substr(0, at));

  // The same bytes as tokens, which need not make sense.
  ids.clear();
  for (size_t i = 2; i < size; i++) ids.push_back(Token(data[i]) + (data[1] & 4 ? 100 : -3));
  std::string bytes;
  for (Token id : ids) bytes += t.piece(id, true);
  require(stream(t, ids, {}) == to_valid_utf8(bytes));
  return 0;
}
