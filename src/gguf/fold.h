// Folding a plain model into rotated form: W_stored = W diag(s) H for each row, in blocks of B along the input axis, so that a loader
// which sends the input through the same signs and rotation computes the same product.  spec: hadamard.md sections 3, 4, 6.
#pragma once
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gguf/gguf.h"

namespace fewbit::gguf {

struct FoldOptions {
  int block = 0;      // B, a power of two
  bool signs = true;  // random signs; else identity
  u64 seed = 1;
};

// Sign vector of each width that occurs; empty vectors never, no widths at all: identity.
using FoldSigns = std::map<i64, std::vector<f32>>;

struct FoldPlan {
  std::vector<std::string> names;  // weights whose input will be transformed
  bool embedding = false;          // token_embd.weight too, undone after the lookup
  std::vector<std::string> left;   // could be rotated, but the block does not divide their rows
  FoldSigns signs;
  std::vector<KeyValue> keys;  // prism.hadamard.*
};
// Error: the file is rotated already, its architecture is not one whose graph applies the transform, B divides nothing.
Result<FoldPlan> plan_fold(const File& file, const FoldOptions& options);

// Kinds of weights that the contract may list (hadamard.md section 8, rule 4).
bool may_rotate(std::string_view name);

// One row (W) -> W diag(s) H, in f64, rounded once at the end.  signs: as wide as the row, or empty.  work: as wide as the row.
void fold_row(std::span<f32> row, std::span<const f32> signs, int block, std::span<f64> work);
// Mean squared inputs of the plain model -> of the rotated one, as if the inputs were uncorrelated: the mean over each block.
void fold_importance(std::span<f32> importance, int block);

}  // namespace fewbit::gguf
