// The R16 kernels for ARM with 8-bit matrix products, which take two columns at a time; odd widths are those of neon_dotprod.
#include <vector>

#include "kernel/cpu/r16_sets.h"

#if defined(__aarch64__)
#include <arm_neon.h>

#define FEWBIT_VEC 128
#define FEWBIT_VNNI
#define FEWBIT_I8MM
#include "kernel/cpu/target_begin.inl"
namespace fewbit::kernel::cpu::neon_i8mm {
namespace {
#define FEWBIT_SET FEWBIT_NEON_I8MM
#define FEWBIT_SET_NAME "neon_i8mm"
#include "kernel/cpu/simd.h"

#include "kernel/cpu/r16.inl"
}  // namespace
}  // namespace fewbit::kernel::cpu::neon_i8mm
#include "kernel/cpu/target_end.inl"

namespace fewbit::kernel::cpu::neon_i8mm {
std::span<const WeightKernels> packed_kernels() {
  static const std::vector<WeightKernels> list = [] {
    std::vector<WeightKernels> v(std::begin(packed_list), std::end(packed_list));
    const std::span<const WeightKernels> by_dots = neon_dotprod::packed_kernels();
    for (size_t i = 0; i < v.size(); i++)
      for (int cols = 1; cols < 8; cols += 2) v[i].narrow[cols] = by_dots[i].narrow[cols];
    return v;
  }();
  return list;
}
WeightKernels wide_kernels(Type type) { return wide_of(type); }
}  // namespace fewbit::kernel::cpu::neon_i8mm
#endif
