// The R16 kernels for avx512_vnni.
#include "kernel/cpu/r16_sets.h"

#if defined(__x86_64__)
#include <immintrin.h>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // of the intrinsics' own undefined vectors (GCC bug 105593)
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

#define FEWBIT_VEC 512
#define FEWBIT_VNNI
#include "kernel/cpu/target_begin.inl"
namespace fewbit::kernel::cpu::avx512_vnni {
namespace {
#define FEWBIT_SET FEWBIT_AVX512_VNNI
#define FEWBIT_SET_NAME "avx512_vnni"
#include "kernel/cpu/simd.h"

#include "kernel/cpu/r16.inl"
}  // namespace
}  // namespace fewbit::kernel::cpu::avx512_vnni
#include "kernel/cpu/target_end.inl"

namespace fewbit::kernel::cpu::avx512_vnni {
std::span<const WeightKernels> packed_kernels() { return packed_list; }
WeightKernels wide_kernels(Type type) { return wide_of(type); }
}  // namespace fewbit::kernel::cpu::avx512_vnni
#endif
