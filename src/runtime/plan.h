// Everything that is known before anything large is allocated: the file read and checked, the device open, the bytes counted.
#pragma once
#include <memory>
#include <optional>

#include "model/model.h"
#include "runtime/engine.h"
#include "runtime/state_cache.h"

namespace fewbit::runtime {

struct Prepared {
  EngineOptions options;  // with the defaults filled in
  gguf::File file;
  std::optional<text::Tokenizer> tokenizer;
  std::string tokenizer_problem;
  std::unique_ptr<Device> device;
  const kernel::Kernels* kernels = nullptr;
  int n_vocab = 0, n_ctx_train = 0;
  model::StateSpec state;
  StateOptions state_options;
  u64 arena_bytes = 0, scratch_bytes = 0;
  MemoryPlan plan;
};

// Error: what Model::load refuses; a plan that does not fit, with the numbers and what would.
Result<Prepared> prepare(const EngineOptions& options);
// The device to open: for the exact path "auto" is the CPU, which alone has it.
std::string device_for(const std::string& device, bool exact);
// Error: sizes that the kernels of a kind of device are not written for.
Status check_kernel_limits(const model::Config&, DeviceKind);

// A synthetic model's tensors are made only with `fill`; without, they are empty pages that serve to count.
Result<gguf::File> open_file(const EngineOptions& options, bool fill);
model::LoadOptions load_options(const EngineOptions& options, bool dry);

}  // namespace fewbit::runtime
