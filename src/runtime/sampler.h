// Logits to a token: penalties, top-k, top-p, min-p, temperature, draw, in this order.  spec: serving.md section 9.
//
// The same parameters, seed and logits give the same tokens on every machine: the generator and the exponential are our own, sums have one
// order, and ties go to the lowest id.
#pragma once
#include <array>
#include <span>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "gguf/gguf.h"
#include "text/tokenizer.h"

namespace fewbit::runtime {

using text::Token;

struct SampleParams {
  f32 temperature = 0.8f;                         // divides the logits; 0: greedy, the largest logit
  i32 top_k = 40;                                 // keep the k largest; 0: off
  f32 top_p = 0.95f;                              // keep the shortest prefix, by probability, with this mass; 1: off
  f32 min_p = 0.05f;                              // keep what is at least this likely relative to the likeliest; 0: off
  f32 repeat_penalty = 1;                         // a token of the window: logit > 0 divided by it, else multiplied; 1: off
  f32 presence_penalty = 0;                       // ... minus this
  f32 frequency_penalty = 0;                      // ... minus this times its count
  i32 penalty_last_n = 64;                        // the window: that many accepted tokens, prompt included; 0: off, -1: all
  i64 seed = -1;                                  // -1: from the system
  std::vector<std::pair<Token, f32>> logit_bias;  // added first; minus infinity forbids a token

  // An Error that names the field and the value: not a number, out of range.
  Status check() const;
};

// `base` with what general.sampling.* of the file recommends (models.md 2.1); a value that is no use is left out with a warning.
SampleParams sampling_defaults(const gguf::File& file, SampleParams base = {});

// xoshiro256** (Blackman and Vigna, "Scrambled linear pseudorandom number generators", 2021), seeded through splitmix64.
class Random {
 public:
  explicit Random(u64 seed);
  u64 next();
  f64 uniform() { return f64(next() >> 11) * 0x1p-53; }  // [0, 1)

 private:
  std::array<u64, 4> s_;
};

// One per sequence.
class Sampler {
 public:
  explicit Sampler(SampleParams params);

  // A token that now belongs to the sequence, of the prompt too: what penalties count.
  void accept(Token token);
  // Logits of the whole vocabulary -> a token, which is not accepted yet.  Not-a-number counts as minus infinity; if nothing else is left
  // the answer is 0, without any logits -1.
  Token sample(std::span<const f32> logits);

  // sample() is the position of the largest logit and nothing else: an engine may find it where the logits are.
  bool is_argmax() const;
  u64 seed() const { return seed_; }  // the one in use
  const SampleParams& params() const { return params_; }

 private:
  struct Candidate {
    f32 logit;
    Token token;
    bool operator<(const Candidate& o) const { return logit != o.logit ? logit > o.logit : token < o.token; }  // likeliest first
  };
  bool penalties_on() const;
  std::span<const f32> adjust(std::span<const f32> logits);
  void select_top_k(std::span<const f32> logits, size_t k);
  void select_at_least(std::span<const f32> logits, f32 least);
  void select_top_p(std::span<const f32> logits, f32 max);
  size_t draw(std::span<const f32> x, f32 max);

  SampleParams params_;
  u64 seed_;
  Random random_;
  std::vector<Token> window_;  // a ring, except for penalty_last_n = -1
  size_t window_at_ = 0;
  // Kept between calls, so that the token loop allocates nothing.
  std::vector<i32> count_;  // by token: how often in the window
  std::vector<u32> seen_;   // by token: call that met it last
  u32 call_ = 0;
  std::vector<f32> adjusted_, block_max_, order_, weights_, sums_;
  std::vector<f64> bin_mass_;
  std::vector<Candidate> candidates_, ties_;
};

}  // namespace fewbit::runtime
