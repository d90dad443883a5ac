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
struct VocabKeys;  // vocab.h

// No normalisation, as in the reference: Hugging Face brings text to NFC first for Qwen, which differs for decomposed accents.
struct EncodeOptions {
  bool add_special = false;   // add BOS / EOS as the file asks
  bool parse_special = true;  // control tokens in the text become single ids
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
  // The bytes of a whole sequence: piece after piece, without the space that SPM put in front.  Of tokens that encode() did not make they
  // need not be well-formed UTF-8 (see utf8.h).  `special`: print control tokens literally.
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
  friend Result<Tokenizer> make_tokenizer(VocabKeys keys, std::string_view pre_override);
  std::unique_ptr<State> s_;
};

// Streaming detokeniser: tokens in, well-formed UTF-8 out; never half a character.  Holds back text that may become a stop string.
// What comes out does not depend on how the text is cut into tokens: the stop string that is complete first counts (of several that end at
// the same byte, the longest).
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
  struct Stop {
    explicit Stop(std::string s);
    bool step(char c);  // true: the text so far ends with this stop string
    std::string text;
    std::vector<size_t> border;  // longest proper prefix of text[0..i] that is also its suffix
    size_t matched = 0;
  };
  std::string release(bool end);
  const Tokenizer* tokenizer_;
  std::vector<Stop> stops_;
  std::string bytes_;  // the beginning of a character
  std::string held_;   // text that is not shown yet
  bool special_, stopped_ = false;
};

}  // namespace fewbit::text
