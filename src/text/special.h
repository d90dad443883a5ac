// Finds the tokens that are recognised in the text itself, before any merging.  spec: tokenizer.md section 6.
#pragma once
#include <array>
#include <string_view>
#include <vector>

#include "text/vocab.h"

namespace fewbit::text {

struct Fragment {
  std::string_view text;  // raw text, if token < 0
  Token token = -1;
};

class SpecialTokens {
 public:
  SpecialTokens() = default;
  explicit SpecialTokens(const Vocab& vocab);  // keeps views into it

  // Control, user-defined and unknown tokens become single fragments; without `parse_special` user-defined ones only.
  // Longer texts win over shorter ones wherever they stand, ties by id; `text` is well-formed UTF-8 and so is every raw fragment.
  std::vector<Fragment> split(std::string_view text, bool parse_special) const;

 private:
  struct Entry {
    std::string_view text;
    Token token;
    bool always;  // user-defined
  };
  std::vector<Entry> entries_;                    // by text, so that all texts with a common beginning are neighbours
  std::array<std::pair<u32, u32>, 256> first_{};  // range of entries by first byte
};

}  // namespace fewbit::text
