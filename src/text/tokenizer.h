// Text to tokens and back.  spec: tokenizer.md.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gguf/gguf.h"

namespace fewbit::text {

using Token = i32;

struct EncodeOptions {
  bool add_special = false;    // add BOS / EOS as the file asks
  bool parse_special = true;   // control tokens in the text become single ids
  bool nfc = false;            // reserved: Hugging Face parity for Qwen (Unicode NFC first)
};

class Tokenizer {
 public:
  // Reads tokenizer.ggml.*.  `pre_override`: pre-tokeniser to use instead of an unknown tokenizer.ggml.pre ("" = refuse it).
  static Result<Tokenizer> load(const gguf::File& file, std::string_view pre_override = "");
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  // Invalid UTF-8 becomes U+FFFD first; never fails on text.  Thread-safe.
  std::vector<Token> encode(std::string_view text, const EncodeOptions& options = {}) const;
  // Whole sequence.  `special`: print control tokens literally.
  std::string decode(std::span<const Token> tokens, bool special = false) const;
  // The raw bytes of one token (may be part of a character).
  std::string piece(Token token, bool special = false) const;

  int vocab_size() const;
  Token bos() const;  // -1 if there is none
  Token eos() const;
  bool add_bos() const;
  bool is_end_of_generation(Token token) const;
  std::span<const Token> end_of_generation() const;
  std::string_view token_text(Token token) const;  // as stored in the file
  std::string_view model() const;                  // "gpt2", "llama"
  std::string_view pre() const;

 private:
  struct State;
  explicit Tokenizer(std::unique_ptr<State> s);
  std::unique_ptr<State> s_;
};

// Streaming detokeniser: bytes in, complete UTF-8 out; never half a character.  Holds back text that may become a stop string.
class Stream {
 public:
  Stream(const Tokenizer& tokenizer, std::vector<std::string> stop_strings = {}, bool special = false);
  // Text that can be shown now.
  std::string push(Token token);
  // The rest: an incomplete character becomes U+FFFD.
  std::string finish();
  // True once a stop string was found; nothing from it on is ever emitted.
  bool stopped() const { return stopped_; }

 private:
  std::string release(bool end);
  const Tokenizer* tokenizer_;
  std::vector<std::string> stops_;
  std::string bytes_, text_;
  bool special_, stopped_ = false, first_ = true;
};

}  // namespace fewbit::text
