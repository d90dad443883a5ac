// Models of a known shape with random weights of a given type: for measuring speed where no real file is at hand.
// Metadata, tensors and vocabulary are complete, so that other engines run the file too.  The same options give the same bytes.
#pragma once
#include <atomic>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "gguf/gguf.h"

namespace fewbit::gguf {

struct SynthOptions {
  std::string shape;      // one of synth_shapes()
  Type type = Type::F16;  // of the weight matrices.  Rows that its block does not divide: Q8_0, or F16 where that does not either
  int n_layers = 0;       // 0: as many as the shape has
  u64 seed = 1;
  int n_threads = 0;                          // for filling; 0: all cores
  const std::atomic<bool>* cancel = nullptr;  // looked at while filling: an error `cancelled`
  bool fill = true;  // false: synthesize() leaves all tensors in untouched zero pages, for those who only want the shapes
};

std::vector<std::string> synth_shapes();
// "SHAPE:TYPE", e.g. "qwen3-8b:PQ2_0" (the type in any case).  The error lists what there is.
Result<SynthOptions> parse_synthetic(std::string_view text);

// In memory, every tensor in pages of its own: File::drop() gives them back, after which the tensor reads as zeros.
Result<File> synthesize(const SynthOptions& options);
using SynthProgress = std::function<void(u64 done, u64 all)>;  // bytes
Status write_synthetic(const SynthOptions& options, const std::string& path, const SynthProgress& progress = {});

// Random, valid bytes of a tensor (a whole one, I2_S included) whose decoded values have about this standard deviation.
void fill_random(Type type, std::span<u8> bytes, f64 deviation, u64 seed);

}  // namespace fewbit::gguf
