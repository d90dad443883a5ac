// SentencePiece-style BPE: characters merged by score, bytes for what is no token.  spec: tokenizer.md section 5.
#pragma once
#include <array>
#include <memory>
#include <string_view>
#include <vector>

#include "text/vocab.h"

namespace fewbit::text {

class WordCache;

class Spm {
 public:
  explicit Spm(const Vocab& vocab);  // keeps a reference
  ~Spm();

  // Appends the ids of `text`, well-formed UTF-8, spaces not yet replaced.  `add_space`: one more space in front.  Thread-safe.
  void encode(std::string_view text, bool add_space, std::vector<Token>& out) const;

 private:
  struct Scratch;
  void encode_word(std::string_view word, Scratch& scratch, std::vector<Token>& out) const;

  const Vocab& vocab_;
  size_t longest_ = 0;                 // bytes of the longest token text
  std::array<Token, 256> byte_token_;  // what stands for a byte; unknown if nothing does
  std::array<bool, 256> glued_{};      // some token has a U+2581 right behind this byte
  std::unique_ptr<WordCache> cache_;
};

inline constexpr std::string_view spm_space = "\xE2\x96\x81";  // U+2581

}  // namespace fewbit::text
