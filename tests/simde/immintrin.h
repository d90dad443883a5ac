// Stands in for the compiler's header where the kernels for AVX-512 and AVX-VNNI are tested on a machine that has AVX2 alone
// (tests/build_emulated.sh simde): SIMDe's portable versions under the native names, and the few that it lacks, after Intel's description
// of each.
#include_next <immintrin.h>
#ifndef FEWBIT_TESTS_SIMDE
#define FEWBIT_TESTS_SIMDE
#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx2.h>
#include <simde/x86/avx512.h>
#include <simde/x86/f16c.h>
#include <simde/x86/fma.h>

#include <cmath>
#include <cstring>

namespace fewbit_simde {

// The lanes of a vector as numbers, and back.
template <class T, class V>
struct Lanes {
  static constexpr int n = int(sizeof(V) / sizeof(T));
  T at[n] = {};
  Lanes() = default;
  explicit Lanes(const V& v) { std::memcpy(at, &v, sizeof v); }
  V vector() const {
    V v;
    std::memcpy(&v, at, sizeof v);
    return v;
  }
};

// Each lane of the result from the lane of the argument with the same number.
template <class To, class ToVector, class From, class FromVector, class F>
inline ToVector each(const FromVector& v, F f) {
  const Lanes<From, FromVector> from(v);
  Lanes<To, ToVector> to;
  for (int i = 0; i < to.n; i++) to.at[i] = To(f(from.at[i]));
  return to.vector();
}

inline simde__m512 cvtepi32_ps(simde__m512i v) {
  return each<float, simde__m512, int, simde__m512i>(v, [](int x) { return float(x); });
}
// To the nearest, ties to even: the mode that every thread of the program keeps.
inline simde__m512i cvtps_epi32(simde__m512 v) {
  return each<int, simde__m512i, float, simde__m512>(v, [](float x) { return int(std::nearbyint(x)); });
}
inline simde__m512i cvtepi8_epi32(simde__m128i v) {
  return each<int, simde__m512i, signed char, simde__m128i>(v, [](int x) { return x; });
}
inline simde__m512i cvtepu8_epi32(simde__m128i v) {
  return each<int, simde__m512i, unsigned char, simde__m128i>(v, [](int x) { return x; });
}
inline simde__m512i cvtepu16_epi32(simde__m256i v) {
  return each<int, simde__m512i, unsigned short, simde__m256i>(v, [](int x) { return x; });
}
inline simde__m128i cvtepi32_epi8(simde__m512i v) {
  return each<unsigned char, simde__m128i, int, simde__m512i>(v, [](int x) { return unsigned(x) & 255; });
}

inline simde__m512 cvtph_ps(simde__m256i v) {
  const Lanes<simde__m128i, simde__m256i> half(v);
  Lanes<simde__m256, simde__m512> out;
  for (int i = 0; i < 2; i++) out.at[i] = simde_mm256_cvtph_ps(half.at[i]);
  return out.vector();
}
inline simde__m256i cvtps_ph(simde__m512 v) {
  const Lanes<simde__m256, simde__m512> half(v);
  Lanes<simde__m128i, simde__m256i> out;
  for (int i = 0; i < 2; i++) out.at[i] = simde_mm256_cvtps_ph(half.at[i], SIMDE_MM_FROUND_TO_NEAREST_INT);
  return out.vector();
}

// Within each group of four lanes, lane i becomes lane (order >> 2 i) & 3.
inline simde__m512 permute_ps(simde__m512 v, int order) {
  const Lanes<float, simde__m512> from(v);
  Lanes<float, simde__m512> to;
  for (int i = 0; i < 16; i++) to.at[i] = from.at[i / 4 * 4 + (order >> (i % 4 * 2) & 3)];
  return to.vector();
}

inline simde__mmask16 cmplt_epi32_mask(simde__m512i a, simde__m512i b) {
  const Lanes<int, simde__m512i> x(a), y(b);
  unsigned mask = 0;
  for (int i = 0; i < 16; i++) mask |= unsigned(x.at[i] < y.at[i]) << i;
  return simde__mmask16(mask);
}
inline simde__m512i mask_sllv_epi32(simde__m512i src, simde__mmask16 k, simde__m512i a, simde__m512i count) {
  const Lanes<unsigned, simde__m512i> from(a), by(count);
  Lanes<unsigned, simde__m512i> to(src);
  for (int i = 0; i < 16; i++) {
    if (k >> i & 1) to.at[i] = by.at[i] < 32 ? from.at[i] << by.at[i] : 0;
  }
  return to.vector();
}
inline simde__m512 i32gather_ps(simde__m512i index, const void* base, int scale) {
  const Lanes<int, simde__m512i> at(index);
  Lanes<float, simde__m512> to;
  for (int i = 0; i < 16; i++) std::memcpy(&to.at[i], static_cast<const char*>(base) + long(at.at[i]) * scale, 4);
  return to.vector();
}

// Signed products of 16 bits, two to a sum, without saturation.
inline simde__m256i dpwssd(simde__m256i sum, simde__m256i a, simde__m256i b) {
  const Lanes<short, simde__m256i> x(a), y(b);
  Lanes<int, simde__m256i> to(sum);
  for (int i = 0; i < 16; i++) to.at[i / 2] = int(unsigned(to.at[i / 2]) + unsigned(x.at[i] * y.at[i]));
  return to.vector();
}

}  // namespace fewbit_simde

#define _mm512_cvtepi32_ps(v) fewbit_simde::cvtepi32_ps(v)
#define _mm512_cvtps_epi32(v) fewbit_simde::cvtps_epi32(v)
#define _mm512_cvtepi8_epi32(v) fewbit_simde::cvtepi8_epi32(v)
#define _mm512_cvtepu8_epi32(v) fewbit_simde::cvtepu8_epi32(v)
#define _mm512_cvtepu16_epi32(v) fewbit_simde::cvtepu16_epi32(v)
#define _mm512_cvtepi32_epi8(v) fewbit_simde::cvtepi32_epi8(v)
#define _mm512_cvtph_ps(v) fewbit_simde::cvtph_ps(v)
#define _mm512_cvtps_ph(v, rounding) fewbit_simde::cvtps_ph(v)
#define _mm512_shuffle_f32x4(a, b, order) simde_mm512_shuffle_f32x4(a, b, order)
#define _mm512_permute_ps(v, order) fewbit_simde::permute_ps(v, order)
#define _mm512_cmplt_epi32_mask(a, b) fewbit_simde::cmplt_epi32_mask(a, b)
#define _mm512_mask_sllv_epi32(src, k, a, count) fewbit_simde::mask_sllv_epi32(src, k, a, count)
#define _mm512_i32gather_ps(index, base, scale) fewbit_simde::i32gather_ps(index, base, scale)
#define _mm512_cvtss_f32(v) (fewbit_simde::Lanes<float, simde__m512>(v).at[0])
#define _mm256_dpwssd_avx_epi32(sum, a, b) fewbit_simde::dpwssd(sum, a, b)
#define _mm256_dpbusd_avx_epi32(sum, a, b) simde_mm256_dpbusd_epi32(sum, a, b)
#endif
