// The activation quantiser for AVX2: the same bytes as quantize_q8_32_scalar, which says what they are.
#include "kernel/layout/record.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <cstring>

#define FEWBIT_VEC 256
#include "kernel/cpu/target_begin.inl"
namespace fewbit::kernel::cpu {
void quantize_q8_32_avx2(const f32* x, i64 n, void* record);  // used by layout/activation.cpp
namespace {

inline __m256 magnitude(__m256 x) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x); }

// Nearest integer, halves away from zero, kept within +-127.
inline __m256i rounded(__m256 x, __m256 d) {
  const __m256 r = _mm256_div_ps(x, d), whole = _mm256_round_ps(r, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
  const __m256 up = _mm256_cmp_ps(magnitude(_mm256_sub_ps(r, whole)), _mm256_set1_ps(0.5f), _CMP_GE_OQ);
  const __m256 one = _mm256_or_ps(_mm256_and_ps(r, _mm256_set1_ps(-0.0f)), _mm256_set1_ps(1.0f));
  const __m256 v = _mm256_add_ps(whole, _mm256_and_ps(up, one));
  return _mm256_cvttps_epi32(_mm256_max_ps(_mm256_min_ps(v, _mm256_set1_ps(127)), _mm256_set1_ps(-127)));
}

inline i32 lanes_sum(__m128i v) {
  v = _mm_add_epi32(v, _mm_shuffle_epi32(v, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(v, _mm_shuffle_epi32(v, 0xb1)));
}

// 32 inputs.
inline void group(const f32* x, f32* d, i16* sum, i8* q) {
  __m256 v[4];
  for (int i = 0; i < 4; i++) v[i] = _mm256_loadu_ps(x + 8 * i);
  // Magnitudes order like their bits; infinities and NaN come above all numbers.
  __m256i top = _mm256_castps_si256(magnitude(v[0]));
  for (int i = 1; i < 4; i++) top = _mm256_max_epu32(top, _mm256_castps_si256(magnitude(v[i])));
  __m128i t = _mm_max_epu32(_mm256_castsi256_si128(top), _mm256_extracti128_si256(top, 1));
  t = _mm_max_epu32(t, _mm_shuffle_epi32(t, 0x4e));
  t = _mm_max_epu32(t, _mm_shuffle_epi32(t, 0xb1));
  const u32 bits = u32(_mm_cvtsi128_si32(t));
  if (bits >= 0x7f800000u) {
    const u32 nan = 0x7fc00000u;
    std::memcpy(d, &nan, 4);
    return;
  }
  f32 largest;
  std::memcpy(&largest, &bits, 4);
  *d = largest / 127.0f;
  if (!(*d > 0)) return;
  const __m256 scale = _mm256_set1_ps(*d);
  const __m256i a = _mm256_packs_epi32(rounded(v[0], scale), rounded(v[1], scale)),
                b = _mm256_packs_epi32(rounded(v[2], scale), rounded(v[3], scale));
  const __m256i bytes = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(a, b), _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(q), bytes);
  const __m256i s = _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_set1_epi8(1), bytes), _mm256_set1_epi16(1));
  sum[0] = i16(lanes_sum(_mm256_castsi256_si128(s)));
  sum[1] = i16(lanes_sum(_mm256_extracti128_si256(s, 1)));
}

}  // namespace

void quantize_q8_32_avx2(const f32* x, i64 n, void* record) {
  f32* d = static_cast<f32*>(record);
  i16* sum = reinterpret_cast<i16*>(d + act_groups(n));
  i8* q = reinterpret_cast<i8*>(sum + 2 * act_groups(n));
  std::memset(record, 0, act_record_bytes(n));
  i64 g = 0;
  for (; (g + 1) * 32 <= n; g++) group(x + 32 * g, d + g, sum + 2 * g, q + 32 * g);
  if (32 * g < n) {
    f32 rest[32] = {};
    std::memcpy(rest, x + 32 * g, size_t(n - 32 * g) * 4);
    group(rest, d + g, sum + 2 * g, q + 32 * g);
  }
}

}  // namespace fewbit::kernel::cpu
#include "kernel/cpu/target_end.inl"
#endif
