// The R16 kernels for ARM with the dot product instructions.
#include "kernel/cpu/r16_sets.h"

#if defined(__aarch64__)
#include <arm_neon.h>

#define FEWBIT_VEC 128
#define FEWBIT_VNNI
#include "kernel/cpu/target_begin.inl"
namespace fewbit::kernel::cpu::neon_dotprod {
namespace {
#define FEWBIT_SET FEWBIT_NEON_DOTPROD
#define FEWBIT_SET_NAME "neon_dotprod"
#include "kernel/cpu/simd.h"

#include "kernel/cpu/r16.inl"
}  // namespace
}  // namespace fewbit::kernel::cpu::neon_dotprod
#include "kernel/cpu/target_end.inl"

namespace fewbit::kernel::cpu::neon_dotprod {
std::span<const WeightKernels> packed_kernels() { return packed_list; }
WeightKernels wide_kernels(Type type) { return wide_of(type); }
}  // namespace fewbit::kernel::cpu::neon_dotprod
#endif
