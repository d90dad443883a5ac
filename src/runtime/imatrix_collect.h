// Collects an importance matrix: runs a model over a text and sums the squares of every input of every weight, per expert where there
// are experts.  spec: gguf.md, importance matrices.
#pragma once
#include <atomic>
#include <functional>
#include <span>

#include "gguf/imatrix.h"
#include "runtime/engine.h"

namespace fewbit::runtime {

struct CollectOptions {
  int n_ctx = 512;            // tokens of a chunk; each chunk is a sequence of its own; a shorter rest is dropped
  int chunks = 0;             // at most so many; 0: all
  i64 skip = 0;               // chunks of the text that are already in `into`
  bool process_head = false;  // output.weight too (costs all logits)
  const std::atomic<bool>* cancel = nullptr;
  std::function<Status(i64 done, i64 all)> after_chunk;  // progress, saving; `into` is complete up to here; an error stops
};

// Adds to `into` (empty, or of the same model), chunk by chunk.  Error: the text is shorter than a chunk; cancelled: the chunks so far are
// in.
Status collect_imatrix(Engine& engine, std::span<const Token> tokens, const CollectOptions& options, gguf::Imatrix& into);

}  // namespace fewbit::runtime
