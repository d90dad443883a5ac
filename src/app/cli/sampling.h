// The sampling options that run and chat share.
#pragma once
#include <optional>

#include "app/cli/common.h"
#include "runtime/sampler.h"

namespace fewbit::cli {

// What the user gave overrides what the file recommends (general.sampling.*), which overrides the built-in defaults.
struct SamplingOptions {
  std::optional<f64> temp, top_p, min_p, repeat, presence, frequency;
  std::optional<int> top_k, last_n;
  std::optional<i64> seed;

  void add(CLI::App& app);
  Result<runtime::SampleParams> resolve(const gguf::File& file) const;
};

}  // namespace fewbit::cli
