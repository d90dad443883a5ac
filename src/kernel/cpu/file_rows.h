// The file-layout kernels of each instruction set, one entry per weight type.
#pragma once
#include <span>

#include "kernel/cpu/tile.h"

namespace fewbit::kernel::cpu {
namespace scalar {
std::span<const WeightKernels> file_kernels();
}
namespace avx2 {  // empty where the compiler's target is not x86-64
std::span<const WeightKernels> file_kernels();
}
namespace avx512 {               // x86-64 alone
TileFn float_kernel(Type type);  // F32, F16, BF16: up to max_panel columns; others: nullptr
}
}  // namespace fewbit::kernel::cpu
