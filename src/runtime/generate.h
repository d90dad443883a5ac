// One sequence, one answer: prompt in, text out as it comes.
#pragma once
#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "runtime/engine.h"
#include "runtime/sampler.h"

namespace fewbit::runtime {

enum class StopReason { end_of_turn, stop_string, length, context, cancelled };

struct GenerateOptions {
  int max_tokens = -1;            // -1: until the model stops or the context is full
  std::vector<std::string> stop;  // stop strings, matched on decoded text
  bool ignore_end = false;        // go on after end-of-turn tokens
  bool special = false;           // show control tokens
  const std::atomic<bool>* cancel = nullptr;
};

struct GenerateResult {
  StopReason reason = StopReason::length;
  std::vector<Token> tokens;  // sampled ones; the end-of-turn token is the last if there was one
  std::string text;
  int prompt_tokens = 0;  // read; fewer than given if cancelled
  f64 prefill_s = 0, decode_s = 0;
  f64 prefill_rate() const { return prefill_s > 0 ? prompt_tokens / prefill_s : 0; }
  // The first token comes out of the prefill; the others each cost one step.
  f64 decode_rate() const { return decode_s > 0 && tokens.size() > 1 ? f64(tokens.size() - 1) / decode_s : 0; }
};

// Feeds `prompt` to the sequence (after what it already holds) and continues it.  All sampled tokens but the last are in the
// sequence afterwards.  `emit` gets complete characters only.
Result<GenerateResult> generate(Engine& engine, SequenceId seq, std::span<const Token> prompt, Sampler& sampler,
                                const GenerateOptions& options, const std::function<void(const std::string&)>& emit);

}  // namespace fewbit::runtime
