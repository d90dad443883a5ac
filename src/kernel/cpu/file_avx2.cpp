// The file layout on AVX2 with FMA.
#include "kernel/cpu/file_rows.h"
#include "kernel/layout/integer_form.h"
#include "kernel/layout/record.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <cmath>
#include <cstring>

#define FEWBIT_VEC 256
#include "kernel/cpu/target_begin.inl"
namespace fewbit::kernel::cpu::avx2 {
namespace {

inline i32 lanes_sum(__m128i v) {
  v = _mm_add_epi32(v, _mm_shuffle_epi32(v, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(v, _mm_shuffle_epi32(v, 0xb1)));
}
inline i32 dot16(const i8* w, const i8* q) {
  const __m256i a = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(w)));
  const __m256i b = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(q)));
  const __m256i p = _mm256_madd_epi16(a, b);
  return lanes_sum(_mm_add_epi32(_mm256_castsi256_si128(p), _mm256_extracti128_si256(p, 1)));
}
inline void dot16x2(const i8* w, const i8* q, i32* s) {
  s[0] = dot16(w, q);
  s[1] = dot16(w + 16, q + 16);
}
inline f32 fused(f32 a, f32 b, f32 c) { return __builtin_fmaf(a, b, c); }
#include "kernel/cpu/vec16.inl"

#include "kernel/cpu/float_rows.inl"

#define FEWBIT_FAST_FLOAT
#define FEWBIT_FLOAT_TILE float_tile
#define FEWBIT_FILE_SET "avx2"
#include "kernel/cpu/file_rows.inl"

}  // namespace

std::span<const WeightKernels> file_kernels() { return file_kernel_list; }

}  // namespace fewbit::kernel::cpu::avx2
#include "kernel/cpu/target_end.inl"

#else
namespace fewbit::kernel::cpu::avx2 {
std::span<const WeightKernels> file_kernels() { return {}; }
}  // namespace fewbit::kernel::cpu::avx2
#endif
