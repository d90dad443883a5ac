// F32, F16 and BF16 rows on AVX-512.
#include "format/formats.h"
#include "kernel/cpu/file_rows.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <cmath>
#include <cstring>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // both of the intrinsics' own undefined vectors (GCC bug 105593)
#endif

#define FEWBIT_VEC 512
#include "kernel/cpu/target_begin.inl"
namespace fewbit::kernel::cpu::avx512 {
namespace {
#include "kernel/cpu/vec16.inl"

#include "kernel/cpu/float_rows.inl"
}  // namespace
}  // namespace fewbit::kernel::cpu::avx512
#include "kernel/cpu/target_end.inl"

namespace fewbit::kernel::cpu::avx512 {
TileFn float_kernel(Type type) {
  switch (type) {
    case Type::F32:
      return float_tile<F32>;
    case Type::F16:
      return float_tile<F16>;
    case Type::BF16:
      return float_tile<BF16>;
    default:
      return nullptr;
  }
}
}  // namespace fewbit::kernel::cpu::avx512
#endif
