// The R16 kernels of each instruction set.
#pragma once
#include <array>
#include <cstring>
#include <utility>

#include "kernel/cpu/tile.h"
#include "kernel/layout/r16.h"

namespace fewbit::kernel::cpu {

#define FEWBIT_X(set)                                                                                 \
  namespace set {                                                                                     \
  std::span<const WeightKernels> packed_kernels();                                                    \
  WeightKernels wide_kernels(Type type); /* only the name and what is about spreading, from a file */ \
  }
#if defined(__x86_64__)
FEWBIT_X(avx2)
FEWBIT_X(avx_vnni)
FEWBIT_X(avx512_vnni)
#elif defined(__aarch64__)
FEWBIT_X(neon_dotprod)
FEWBIT_X(neon_i8mm)
#endif
#undef FEWBIT_X

}  // namespace fewbit::kernel::cpu
