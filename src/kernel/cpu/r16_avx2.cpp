// The R16 kernels for avx2.
#include "kernel/cpu/r16_sets.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define FEWBIT_VEC 256
#include "kernel/cpu/target_begin.inl"
namespace fewbit::kernel::cpu::avx2 {
namespace {
#define FEWBIT_SET FEWBIT_AVX2
#define FEWBIT_SET_NAME "avx2"
#include "kernel/cpu/simd.h"

#include "kernel/cpu/r16.inl"
}  // namespace
}  // namespace fewbit::kernel::cpu::avx2
#include "kernel/cpu/target_end.inl"

namespace fewbit::kernel::cpu::avx2 {
std::span<const WeightKernels> packed_kernels() { return packed_list; }
WeightKernels wide_kernels(Type type) { return wide_of(type); }
}  // namespace fewbit::kernel::cpu::avx2
#endif
