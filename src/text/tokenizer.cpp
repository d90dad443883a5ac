#include "text/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/log.h"
#include "text/bpe.h"
#include "text/special.h"
#include "text/spm.h"
#include "text/tokenizer_state.h"
#include "text/utf8.h"
#include "text/vocab.h"

namespace fewbit::text {

Result<Tokenizer> Tokenizer::load(const gguf::File& file, std::string_view pre_override) {
  FEWBIT_TRY(VocabKeys keys, read_vocab_keys(file));
  auto t = make_tokenizer(std::move(keys), pre_override);
  if (!t.ok()) return Error{t.error().code, fmt::format("{}: {}", file.path(), t.error().what)};
  return t;
}

Result<Tokenizer> make_tokenizer(VocabKeys keys, std::string_view pre_override) {
  std::optional<PreTokenizer> pre;
  if (keys.model == "gpt2") {
    bool known = keys.pre && PreTokenizer::known(*keys.pre);
    if (!known && !pre_override.empty()) {
      keys.pre = std::string(pre_override);
    } else if (!keys.pre) {
      log::warn("tokenizer.ggml.pre is missing: 'default' is used, which may not be what the model was trained with");
      keys.pre = "default";
    }
    FEWBIT_TRY(pre, PreTokenizer::create(*keys.pre));
  }
  auto s = std::make_unique<Tokenizer::State>();
  FEWBIT_TRY(s->vocab, Vocab::build(std::move(keys), pre && pre->default_add_bos()));
  s->special = SpecialTokens(s->vocab);
  if (pre)
    s->bpe = std::make_unique<Bpe>(s->vocab, std::move(*pre));
  else
    s->spm = std::make_unique<Spm>(s->vocab);
  return Tokenizer(std::move(s));
}

Tokenizer::Tokenizer(std::unique_ptr<State> s) : s_(std::move(s)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

std::vector<Token> Tokenizer::encode(std::string_view raw, const EncodeOptions& options) const {
  std::string text = to_valid_utf8(raw);
  const Vocab& v = s_->vocab;
  std::vector<Token> out;
  out.reserve(text.size() / 3 + 2);
  if (options.add_special && v.add_bos) out.push_back(v.bos);
  bool after_special = true;
  for (const Fragment& f : s_->special.split(text, options.parse_special)) {
    if (f.token >= 0)
      out.push_back(f.token);
    else if (s_->bpe)
      s_->bpe->encode(f.text, out);
    else
      s_->spm->encode(f.text, v.add_space_prefix && after_special, out);
    after_special = f.token >= 0;
  }
  if (options.add_special && v.add_eos) out.push_back(v.eos);
  return out;
}

std::string Tokenizer::piece(Token token, bool special) const {
  const Vocab& v = s_->vocab;
  if (token < 0 || token >= v.size()) return {};
  std::string_view text = v.texts[size_t(token)];
  std::string out;
  switch (v.types[size_t(token)]) {
    case TokenType::unknown:
    case TokenType::control:
      if (special) out = text;
      break;
    case TokenType::user_defined:
      out = text;
      break;
    case TokenType::unused:
      break;
    case TokenType::byte:
      if (int b = byte_of_text(text); b >= 0) {
        out = char(b);
        break;
      }
      [[fallthrough]];
    case TokenType::normal:
      if (!v.spm) {
        append_alphabet_bytes(text, out);
        break;
      }
      for (size_t at = 0; at < text.size();) {
        bool space = text.substr(at, spm_space.size()) == spm_space;
        out += space ? ' ' : text[at];
        at += space ? spm_space.size() : 1;
      }
      break;
  }
  return out;
}

std::string Tokenizer::decode(std::span<const Token> tokens, bool special) const {
  std::string out;
  for (size_t i = 0; i < tokens.size(); i++) {
    std::string p = piece(tokens[i], special);
    // The space that encode() put in front of the text.
    out.append(p, i == 0 && s_->vocab.add_space_prefix && !p.empty() && p[0] == ' ' ? 1 : 0);
  }
  return out;
}

int Tokenizer::vocab_size() const { return s_->vocab.size(); }
Token Tokenizer::bos() const { return s_->vocab.bos; }
Token Tokenizer::eos() const { return s_->vocab.eos; }
bool Tokenizer::add_bos() const { return s_->vocab.add_bos; }
bool Tokenizer::is_end_of_generation(Token token) const {
  return std::binary_search(end_of_generation().begin(), end_of_generation().end(), token);
}
std::span<const Token> Tokenizer::end_of_generation() const { return s_->vocab.end_of_generation; }
std::string_view Tokenizer::token_text(Token token) const {
  return token >= 0 && token < vocab_size() ? std::string_view(s_->vocab.texts[size_t(token)]) : std::string_view();
}
std::string_view Tokenizer::model() const { return s_->vocab.model; }
std::string_view Tokenizer::pre() const { return s_->vocab.pre; }

}  // namespace fewbit::text
