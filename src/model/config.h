// What a file says about its graph: every number read, ranged and checked against the others, so that nothing behind this header divides by
// zero, overflows or allocates on the word of the file.  spec: models.md section 2.  One line per mistake, naming key and numbers.
#pragma once
#include <array>
#include <string>
#include <vector>

#include "base/result.h"
#include "gguf/gguf.h"
#include "kernel/kernel.h"

namespace fewbit::model {

// Rotary embedding, models.md 3.2.
struct RopeConfig {
  int n_rot = 0;     // rotated leading numbers of a head, even
  bool neox = true;  // pairs (i, i + n_rot/2); else (2i, 2i + 1)
  f64 base = 10000;
  f64 factor = 1;  // stretch: positions are divided by it
  f64 ext = 0;     // YaRN's mix; 0: linear scaling
  f64 attn_factor = 1;
  f64 beta_fast = 32, beta_slow = 1;
  f64 original_context = 0;
  bool multi_axis = false;  // `sections` decide which pairs turn with the position of text (models.md 8.4)
  std::array<i64, 4> sections{};
};

struct LayerConfig {
  bool recurrent = false;  // Gated DeltaNet instead of attention
  int n_heads = 0, n_kv_heads = 0;
  int n_ff = 0;  // 0: only experts
};

struct DeltaConfig {
  int k_heads = 0, v_heads = 0, dim = 0, conv = 0;
  int channels() const { return (2 * k_heads + v_heads) * dim; }
  int inner() const { return v_heads * dim; }
};

struct ExpertConfig {
  int count = 0, used = 0;
  int n_ff = 0, n_ff_shared = 0;
  f32 scale = 1;  // on the router's final weights
};

// What an architecture's graph needs to be told apart while reading.
struct ArchitectureTraits {
  const char* name;
  bool neox = true;
  bool rotation_verified = false;  // may carry prism.hadamard.* (hadamard.md 8, rule 5)
  bool experts = false;            // experts are required
  bool may_have_experts = false;
  bool shared_expert = false;
  bool delta = false;  // hybrid of DeltaNet and attention
  bool multi_axis = false;
  bool full_head_rotation = false;  // insists on n_rot == head_dim
  bool bitnet = false;
  bool relu2 = false;
};
const ArchitectureTraits* find_architecture(std::string_view name);
std::string architecture_names();  // "llama, qwen2, ..."

struct Config {
  const ArchitectureTraits* arch = nullptr;
  std::string architecture, name;
  int n_layers = 0;  // without MTP blocks
  int n_mtp = 0;
  int n_embd = 0, n_vocab = 0, n_ctx_train = 0, head_dim = 0;
  f32 eps = 0, attention_scale = 0;
  kernel::Glu activation = kernel::Glu::silu;
  RopeConfig rope;
  ExpertConfig experts;
  DeltaConfig delta;
  std::vector<LayerConfig> layers;

  static Result<Config> read(const gguf::File& file);
};

// (positions, n_rot / 2, 2) floats: cos and sin of every pair from position `first` on, computed in double, YaRN's factor inside.
// `freqs`: rope_freqs.weight (n_rot / 2) or empty.
std::vector<f32> rope_table(const RopeConfig& rope, std::span<const f32> freqs, int first, int positions);
// The angle per unit of position of each pair, and the factor on cos and sin (models.md section 14 has golden values).
std::vector<f64> rope_frequencies(const RopeConfig& rope, std::span<const f32> freqs);
f64 rope_magnitude(const RopeConfig& rope);

}  // namespace fewbit::model
