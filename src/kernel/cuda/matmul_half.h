// Large F16 and BF16 matrices (half_layout.h): laid out at load, multiplied.
#pragma once
#include <optional>
#include <span>

#include "kernel/kernel.h"

namespace fewbit::kernel::cuda {

// Whether place() lays it out so, as far as type and shape say.
bool half_wanted(const HostTensor&);
u64 half_bytes_of(const HostTensor&);
// One matrix, or a pair whose rows alternate in eights (up: not nullptr); nothing if it would not be exact.
Result<std::optional<Buffer>> place_half(Ctx&, const HostTensor&, const HostTensor* up);

// The products from `first` on that have its activations and such weights; marks them as done.
void half_matmul(Ctx&, std::span<const Kernels::Product>, size_t first, std::span<bool> done);
void half_glu(Ctx&, const Weight& gate, const Weight& up, const Act&, Glu, f32* h);

}  // namespace fewbit::kernel::cuda
