// Weights in the file's own layout, for tables that decode as they go: read where the file is mapped, or copied byte for byte.
#pragma once
#include <fmt/format.h>

#include <span>
#include <vector>

#include "kernel/kernel.h"

namespace fewbit::kernel {

inline Result<std::vector<Weight>> place_as_in_file(Ctx& ctx, std::span<const HostTensor> tensors, const PlaceOptions& options,
                                                    const char* kernel, std::vector<Buffer>& owned) {
  std::vector<Weight> placed;
  for (const HostTensor& t : tensors) {
    const FormatInfo* f = find_format(t.type);
    if (!f || !f->weights)
      return Error{Code::unsupported, fmt::format("tensor '{}': type {} cannot be multiplied", t.name, f ? f->name : "unknown")};
    Weight w;
    w.name = t.name;
    w.type = t.type;
    w.kernel = kernel;
    w.cols = t.cols;
    w.rows = t.rows;
    w.experts = t.experts;
    w.data = t.data.data();
    w.bytes = t.data.size();
    w.scale = t.scale;
    w.bias = t.bias;
    if (!options.mapped) {
      FEWBIT_TRY(Buffer copy, ctx.device->allocate(t.data.size()));
      ctx.device->upload(copy.data(), t.data.data(), t.data.size());
      w.data = copy.data();
      owned.push_back(std::move(copy));
    }
    placed.push_back(std::move(w));
  }
  return placed;
}

}  // namespace fewbit::kernel
