// A loaded model: config, weights in place, and the forward pass.  What state a sequence of it needs is declared here and allotted by the
// runtime.  One file per architecture; the list is in model.cpp.
#pragma once
#include <memory>

#include "model/blocks.h"
#include "model/config.h"
#include "model/pass.h"
#include "model/weights.h"

namespace fewbit::model {

// Per layer, what one sequence keeps.
struct StateSpec {
  struct Layer {
    int n_kv_heads = 0, head_dim = 0;       // attention
    i64 conv_floats = 0, state_floats = 0;  // DeltaNet
    bool recurrent() const { return state_floats != 0; }
  };
  std::vector<Layer> layers;
  bool any_recurrent() const;
  u64 recurrent_bytes() const;  // of one sequence
};

class Model {
 public:
  // Every refusal of a file comes from here, in one line.  `ctx` must stay where it is; the file's bytes too.
  static Result<std::unique_ptr<Model>> load(const gguf::File& file, kernel::Ctx& ctx, const LoadOptions& options);
  virtual ~Model() = default;
  Model(const Model&) = delete;

  const Config& config() const { return config_; }
  const Footprint& footprint() const { return storage_.footprint; }
  std::span<const kernel::Weight> weights() const { return storage_.weights; }
  const f32* rope() const { return rope_; }
  StateSpec state() const;
  // Weights that one decoded token reads: of experts those used, of the embedding a row.
  u64 bytes_per_token() const;
  u64 macs_per_token() const;  // multiplications of those weights with one column
  int max_width() const;       // of any vector between operations, not the logits

  // Bytes of arena that a pass of so many columns needs, of which so many are wanted.
  u64 arena_bytes(kernel::Ctx& ctx, int cols, int wanted) const;
  // The residual stream (cols, n_embd) after all layers, in the pass's arena.
  f32* trunk(Pass& p) const;
  // logits (count, vocabulary) of columns index[0 .. count) of x; index == nullptr: the first `count` columns.
  void head(Pass& p, const f32* x, const i32* index, int count, f32* logits) const;

 protected:
  Model() = default;

 private:
  bool tied() const;
  // Layer `i`: reads what belongs to it (called in order), and runs it: x (cols, n_embd) += ...
  virtual void read_layer(Builder& b, int i) = 0;
  virtual void run_layer(Pass& p, int i, f32* x) const = 0;

  Config config_;
  Storage storage_;
  Linear embedding_, head_;
  const f32* output_norm_ = nullptr;
  const f32* rope_ = nullptr;
};

// One per file.
std::unique_ptr<Model> make_llama();  // llama, qwen2
std::unique_ptr<Model> make_qwen3();
std::unique_ptr<Model> make_qwen3moe();
std::unique_ptr<Model> make_qwen35();
std::unique_ptr<Model> make_qwen35moe();
std::unique_ptr<Model> make_qwen3next();
std::unique_ptr<Model> make_bitnet();  // bitnet, bitnet-b1.58, bitnet-25

}  // namespace fewbit::model
