// Inside of Tokenizer, and the way to make one without a file (tests, fuzzing).
#pragma once
#include <memory>
#include <string_view>

#include "text/bpe.h"
#include "text/special.h"
#include "text/spm.h"
#include "text/tokenizer.h"
#include "text/vocab.h"

namespace fewbit::text {

struct Tokenizer::State {
  Vocab vocab;  // the others refer to it: a State does not move
  SpecialTokens special;
  std::unique_ptr<Bpe> bpe;  // one of the two
  std::unique_ptr<Spm> spm;
};

Result<Tokenizer> make_tokenizer(VocabKeys keys, std::string_view pre_override = "");

}  // namespace fewbit::text
