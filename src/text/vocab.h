// The vocabulary of a model: texts, types and scores of its tokens, the special ones by name, and what ends generation.
// spec: tokenizer.md sections 1 and 7.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gguf/gguf.h"
#include "text/tokenizer.h"

namespace fewbit::text {

enum class TokenType : u8 { normal = 1, unknown, control, user_defined, unused, byte };

// What a file says, before anything is concluded from it.
struct VocabKeys {
  std::string model;
  std::optional<std::string> pre;
  std::vector<std::string> tokens;  // (n_vocab)
  std::vector<i64> types;           // (n_vocab) or empty
  std::vector<f32> scores;          // (n_vocab) or empty
  std::vector<std::string> merges;  // "left right", best first; BPE only
  std::map<std::string, i64> ids;   // "bos", "eos", "eot", "fim_pre", ...
  std::optional<bool> add_bos, add_eos, add_space_prefix;
};
Result<VocabKeys> read_vocab_keys(const gguf::File& file);

struct Vocab {
  bool spm = false;
  std::string model, pre;
  std::vector<std::string> texts;  // (n_vocab)
  std::vector<TokenType> types;    // (n_vocab)
  std::vector<f32> scores;         // (n_vocab), no NaN; empty = all 0
  std::vector<std::string> merges;
  Token bos = -1, eos = -1, eot = -1, eom = -1, unk = -1, pad = -1;
  Token fim_pre = -1, fim_suf = -1, fim_mid = -1, fim_pad = -1, fim_rep = -1, fim_sep = -1;
  bool add_bos = false, add_eos = false, add_space_prefix = false;
  std::vector<Token> end_of_generation;  // ascending

  int size() const { return int(texts.size()); }
  Token find(std::string_view text) const;  // -1 if no token has this text

  // `default_add_bos`: of the pre-tokeniser.
  static Result<Vocab> build(VocabKeys keys, bool default_add_bos);

 private:
  void find_special(const VocabKeys& keys);
  void find_end_of_generation();
  // Text -> id: open addressing.  The tag, the upper half of the hash, keeps misses from touching the texts: a lookup that fails, and most
  // do, costs one cache line.
  struct Slot {
    u32 tag = 0;
    Token id = -1;  // -1: free
  };
  size_t slot_of(std::string_view text, u64 hash) const;
  std::vector<Slot> slots_;  // (a power of two, at least twice the tokens)
};

// <0x0A> -> 10; -1 if `text` is not of this form.
int byte_of_text(std::string_view text);

}  // namespace fewbit::text
