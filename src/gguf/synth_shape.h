// Inside of synth: what a model of a known shape consists of.
#pragma once
#include "gguf/synth.h"

namespace fewbit::gguf {

// How a tensor is filled.
enum class Filling {
  weights,    // random codes, standard deviation `deviation`
  norm,       // 1 +- 0.1
  decay,      // ssm_a: -0.1 to -1
  step_bias,  // ssm_dt.bias: -3 to 0
};

struct Planned {
  TensorInfo info;
  Filling filling = Filling::weights;
  f64 deviation = 1;
};

struct Plan {
  std::vector<KeyValue> metadata;
  std::vector<Planned> tensors;
};

// Fills a tensor in chunks that do not depend on each other, so that threads can share them.
class Filler {
 public:
  Filler(Type type, f64 deviation, u64 seed) : type_(type), deviation_(deviation), seed_(seed) {}
  size_t chunks(size_t tensor_bytes) const;
  void chunk(std::span<u8> tensor, size_t i) const;

 private:
  size_t chunk_size() const;
  Type type_;
  f64 deviation_;
  u64 seed_;
};

Result<Plan> plan_synthetic(const SynthOptions& options);

}  // namespace fewbit::gguf
