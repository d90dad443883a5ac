// Perplexity of a token stream, as llama-perplexity counts it, and its distance (KL) from stored logits.
//
// The ids are cut into windows of n_ctx from the start, an incomplete last window is dropped, every window starts from an empty
// state.  Counted are the predictions of tokens n_ctx/2 + 1 .. n_ctx - 1 of each window, from positions n_ctx/2 .. n_ctx - 2.
// Where the model wants a BOS, it takes the place of each window's first token.
#pragma once
#include <atomic>
#include <functional>
#include <string>

#include "runtime/engine.h"

namespace fewbit::runtime {

struct PerplexityOptions {
  int n_ctx = 512;
  int chunks = 0;       // 0 = all
  std::string kl_save;  // write the log-probabilities of every counted position here
  std::string kl_base;  // compare with such a file
  std::function<void(int done, int of, f64 perplexity)> progress;
  const std::atomic<bool>* cancel = nullptr;
};

struct KlStatistics {
  f64 mean = 0, mean_error = 0, median = 0, p90 = 0, p99 = 0, p999 = 0, max = 0;
  f64 same_top = 0;  // share of positions with the same most likely token
  f64 base_perplexity = 0;
};

struct PerplexityResult {
  f64 perplexity = 0, error = 0, mean_nll = 0;
  int chunks = 0, n_ctx = 0;
  i64 tokens = 0, counted = 0;  // of the text; predictions counted
  f64 seconds = 0;
  bool has_kl = false;
  KlStatistics kl;
};

// What perplexity() refuses before it computes anything: too short a text, ids that the vocabulary lacks.
Status check_text(std::span<const Token> tokens, const PerplexityOptions& options, int vocab);

// The engine must have room for n_ctx positions; with n_seqs > 1 several windows are evaluated together.
Result<PerplexityResult> perplexity(Engine& engine, std::span<const Token> tokens, const PerplexityOptions& options);

}  // namespace fewbit::runtime
