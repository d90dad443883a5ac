// Byte-level BPE: bytes -> symbols of a printable alphabet -> merged by rank.  spec: tokenizer.md section 3.
#pragma once
#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/pretokenizer.h"
#include "text/vocab.h"

namespace fewbit::text {

// The alphabet character (UTF-8) that stands for a byte, and back: the bytes that a token's text stands for.  Characters outside the
// alphabet stand for themselves.
const std::array<std::string, 256>& byte_alphabet();
void append_alphabet_bytes(std::string_view text, std::string& out);

class WordCache;

class Bpe {
 public:
  // Keeps a reference to `vocab` and takes its merges.
  Bpe(Vocab& vocab, PreTokenizer pre);
  Bpe(Bpe&&) noexcept;
  ~Bpe();

  // Appends the ids of `text`, well-formed UTF-8.  Thread-safe.
  void encode(std::string_view text, std::vector<Token>& out) const;

 private:
  struct Merges;
  struct Scratch;
  void encode_word(std::string_view word, Scratch& scratch, std::vector<Token>& out) const;
  void emit(u32 symbol, std::vector<Token>& out) const;

  const Vocab& vocab_;
  PreTokenizer pre_;
  // Symbols: a token's id, or, from vocab.size() on, a string that only merges or the alphabet know.
  std::array<u32, 256> symbol_of_byte_{};
  std::vector<std::vector<Token>> other_symbols_;  // what to emit for symbol vocab.size() + i
  std::unique_ptr<Merges> merges_;
  std::unique_ptr<WordCache> cache_;
};

}  // namespace fewbit::text
