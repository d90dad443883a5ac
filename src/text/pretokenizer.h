// Cuts a text into pre-tokens, the pieces that byte-level BPE never merges across.  spec: tokenizer.md section 4.
#pragma once
#include <memory>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace fewbit::text {

class PreTokenizer {
 public:
  // `name` as in tokenizer.ggml.pre ("" = the key is missing = "default").  An unknown name is an error that lists the known families.
  static Result<PreTokenizer> create(std::string_view name);
  static bool known(std::string_view name);
  PreTokenizer(PreTokenizer&&) noexcept;
  PreTokenizer& operator=(PreTokenizer&&) noexcept;
  ~PreTokenizer();

  // Appends the pre-tokens of `text` (well-formed UTF-8) to `out`; together they are the text.  Thread-safe.
  void split(std::string_view text, std::vector<std::string_view>& out) const;

  // A pre-token that is a token as a whole is taken before any merging (the llama-bpe family).
  bool ignore_merges() const { return ignore_merges_; }
  // tokenizer.ggml.add_bos_token if the file does not say.
  bool default_add_bos() const { return default_add_bos_; }

 private:
  struct Pattern;
  PreTokenizer();
  std::vector<std::unique_ptr<Pattern>> passes_;  // each applied to every piece the previous one left
  bool ignore_merges_ = false, default_add_bos_ = false;
};

}  // namespace fewbit::text
