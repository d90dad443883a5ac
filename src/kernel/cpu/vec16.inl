// V16: 16 floats that behave alike on every instruction set: one AVX-512 register, two of AVX2, four 128-bit vectors elsewhere.
//
// Lane l always holds element l, and sums fold the same way (l + 8, + 4, + 2, + 1), so code written over V16 has one float order.
// All operations round once per operation; fma() is fused on AVX2 and AVX-512 and two roundings on the baseline: code that uses
// only + - * / gives the same bits on all three, code with fma() the same on the two that have it.
//
// Included inside a namespace per set, with FEWBIT_VEC = 512, 256 or 128; standard headers and <immintrin.h> come before.

#if defined(__clang__)
#define FEWBIT_UNROLL _Pragma("unroll")
#else
#define FEWBIT_UNROLL _Pragma("GCC unroll 16")  // -O2 alone leaves arrays of registers in memory
#endif

#if FEWBIT_VEC == 512

struct V16 {
  __m512 v;
};
static inline V16 zero() { return {_mm512_setzero_ps()}; }
static inline V16 set1(f32 x) { return {_mm512_set1_ps(x)}; }
static inline V16 load(const f32* p) { return {_mm512_loadu_ps(p)}; }
static inline void store(f32* p, V16 a) { _mm512_storeu_ps(p, a.v); }
static inline V16 operator+(V16 a, V16 b) { return {_mm512_add_ps(a.v, b.v)}; }
static inline V16 operator-(V16 a, V16 b) { return {_mm512_sub_ps(a.v, b.v)}; }
static inline V16 operator*(V16 a, V16 b) { return {_mm512_mul_ps(a.v, b.v)}; }
static inline V16 operator/(V16 a, V16 b) { return {_mm512_div_ps(a.v, b.v)}; }
static inline V16 fma(V16 a, V16 b, V16 c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
static inline V16 max(V16 a, V16 b) { return {_mm512_max_ps(a.v, b.v)}; }  // b if either is NaN
static inline V16 min(V16 a, V16 b) { return {_mm512_min_ps(a.v, b.v)}; }
static inline V16 abs(V16 a) { return {_mm512_abs_ps(a.v)}; }
static inline V16 flip(V16 a, V16 s) { return {_mm512_xor_ps(a.v, s.v)}; }  // s: 0.0 or -0.0
static inline V16 where_lt(V16 a, V16 b, V16 yes, V16 no) {                 // a < b ? yes : no; NaN: no
  return {_mm512_mask_blend_ps(_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ), no.v, yes.v)};
}
static inline bool any_nan(V16 a) { return _mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q) != 0; }
// 2^n for integral n in [-126, 127].
static inline V16 exp2i(V16 n) {
  __m512i i = _mm512_cvtps_epi32(n.v);
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(i, _mm512_set1_epi32(127)), 23))};
}
static inline V16 load_f16(const u16* p) { return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))}; }
static inline void store_f16(u16* p, V16 a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT));
}
static inline V16 load_i8(const i8* p) {
  return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))))};
}
// Integral floats in [-128, 127] as bytes.
static inline void store_i8(i8* p, V16 a) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(a.v)));
}
// Lane l of the result is lane l ^ H.
template <int H>
static inline V16 swap(V16 a) {
  if constexpr (H == 1) return {_mm512_permute_ps(a.v, 0xb1)};
  if constexpr (H == 2) return {_mm512_permute_ps(a.v, 0x4e)};
  if constexpr (H == 4) return {_mm512_shuffle_f32x4(a.v, a.v, 0xb1)};
  if constexpr (H == 8) return {_mm512_shuffle_f32x4(a.v, a.v, 0x4e)};
}

#elif FEWBIT_VEC == 256

struct V16 {
  __m256 a, b;
};
static inline V16 zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
static inline V16 set1(f32 x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
static inline V16 load(const f32* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
static inline void store(f32* p, V16 x) { _mm256_storeu_ps(p, x.a), _mm256_storeu_ps(p + 8, x.b); }
static inline V16 operator+(V16 x, V16 y) { return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)}; }
static inline V16 operator-(V16 x, V16 y) { return {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)}; }
static inline V16 operator*(V16 x, V16 y) { return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)}; }
static inline V16 operator/(V16 x, V16 y) { return {_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)}; }
static inline V16 fma(V16 x, V16 y, V16 z) { return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)}; }
static inline V16 max(V16 x, V16 y) { return {_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)}; }
static inline V16 min(V16 x, V16 y) { return {_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)}; }
static inline V16 abs(V16 x) {
  __m256 s = _mm256_set1_ps(-0.0f);
  return {_mm256_andnot_ps(s, x.a), _mm256_andnot_ps(s, x.b)};
}
static inline V16 flip(V16 x, V16 s) { return {_mm256_xor_ps(x.a, s.a), _mm256_xor_ps(x.b, s.b)}; }
static inline V16 where_lt(V16 x, V16 y, V16 yes, V16 no) {
  return {_mm256_blendv_ps(no.a, yes.a, _mm256_cmp_ps(x.a, y.a, _CMP_LT_OQ)),
          _mm256_blendv_ps(no.b, yes.b, _mm256_cmp_ps(x.b, y.b, _CMP_LT_OQ))};
}
static inline bool any_nan(V16 x) {
  return _mm256_movemask_ps(_mm256_or_ps(_mm256_cmp_ps(x.a, x.a, _CMP_UNORD_Q), _mm256_cmp_ps(x.b, x.b, _CMP_UNORD_Q))) != 0;
}
static inline __m256 exp2i8(__m256 n) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23));
}
static inline V16 exp2i(V16 n) { return {exp2i8(n.a), exp2i8(n.b)}; }
static inline V16 load_f16(const u16* p) {
  auto q = reinterpret_cast<const __m128i*>(p);
  return {_mm256_cvtph_ps(_mm_loadu_si128(q)), _mm256_cvtph_ps(_mm_loadu_si128(q + 1))};
}
static inline void store_f16(u16* p, V16 x) {
  auto q = reinterpret_cast<__m128i*>(p);
  _mm_storeu_si128(q, _mm256_cvtps_ph(x.a, _MM_FROUND_TO_NEAREST_INT));
  _mm_storeu_si128(q + 1, _mm256_cvtps_ph(x.b, _MM_FROUND_TO_NEAREST_INT));
}
static inline void store_i8(i8* p, V16 x) {
  __m256i w = _mm256_permute4x64_epi64(_mm256_packs_epi32(_mm256_cvtps_epi32(x.a), _mm256_cvtps_epi32(x.b)), 0xd8);
  __m128i q = _mm_packs_epi16(_mm256_castsi256_si128(w), _mm256_extracti128_si256(w, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), q);
}
template <int H>
static inline V16 swap(V16 x) {
  if constexpr (H == 1) return {_mm256_permute_ps(x.a, 0xb1), _mm256_permute_ps(x.b, 0xb1)};
  if constexpr (H == 2) return {_mm256_permute_ps(x.a, 0x4e), _mm256_permute_ps(x.b, 0x4e)};
  if constexpr (H == 4) return {_mm256_permute2f128_ps(x.a, x.a, 1), _mm256_permute2f128_ps(x.b, x.b, 1)};
  if constexpr (H == 8) return {x.b, x.a};
}

#else

typedef f32 V4 __attribute__((vector_size(16)));
typedef i32 I4 __attribute__((vector_size(16)));
struct V16 {
  V4 v[4];
};
// Applies an expression over the 4 quarters.
#define FEWBIT_QUARTERS(expr)                  \
  V16 r;                                       \
  FEWBIT_UNROLL                                \
  for (int i = 0; i < 4; i++) r.v[i] = (expr); \
  return r
static inline V4 splat4(f32 x) { return V4{x, x, x, x}; }
static inline V16 set1(f32 x) { FEWBIT_QUARTERS(splat4(x)); }
static inline V16 zero() { return set1(0); }
static inline V16 load(const f32* p) {
  V16 r;
  std::memcpy(&r, p, sizeof r);
  return r;
}
static inline void store(f32* p, V16 x) { std::memcpy(p, &x, sizeof x); }
static inline V16 operator+(V16 x, V16 y) { FEWBIT_QUARTERS(x.v[i] + y.v[i]); }
static inline V16 operator-(V16 x, V16 y) { FEWBIT_QUARTERS(x.v[i] - y.v[i]); }
static inline V16 operator*(V16 x, V16 y) { FEWBIT_QUARTERS(x.v[i] * y.v[i]); }
static inline V16 operator/(V16 x, V16 y) { FEWBIT_QUARTERS(x.v[i] / y.v[i]); }
static inline V16 fma(V16 x, V16 y, V16 z) { FEWBIT_QUARTERS(x.v[i] * y.v[i] + z.v[i]); }  // two roundings
static inline V4 blend4(I4 m, V4 yes, V4 no) { return V4((m & I4(yes)) | (~m & I4(no))); }
static inline V16 max(V16 x, V16 y) { FEWBIT_QUARTERS(blend4(x.v[i] > y.v[i], x.v[i], y.v[i])); }
static inline V16 min(V16 x, V16 y) { FEWBIT_QUARTERS(blend4(x.v[i] < y.v[i], x.v[i], y.v[i])); }
static inline V16 abs(V16 x) { FEWBIT_QUARTERS(V4(I4(x.v[i]) & 0x7fffffff)); }
static inline V16 flip(V16 x, V16 s) { FEWBIT_QUARTERS(V4(I4(x.v[i]) ^ I4(s.v[i]))); }
static inline V16 where_lt(V16 x, V16 y, V16 yes, V16 no) { FEWBIT_QUARTERS(blend4(x.v[i] < y.v[i], yes.v[i], no.v[i])); }
static inline bool any_nan(V16 x) {
  // NOLINTNEXTLINE(misc-redundant-expression)
  I4 m = (x.v[0] != x.v[0]) | (x.v[1] != x.v[1]) | (x.v[2] != x.v[2]) | (x.v[3] != x.v[3]);
  return (m[0] | m[1] | m[2] | m[3]) != 0;
}
static inline V16 exp2i(V16 n) { FEWBIT_QUARTERS(V4((__builtin_convertvector(n.v[i], I4) + 127) << 23)); }
static inline V16 load_f16(const u16* p) {
  V16 r;
  for (int i = 0; i < 16; i++) r.v[i / 4][i % 4] = half_to_f32(p[i]);
  return r;
}
static inline void store_f16(u16* p, V16 x) {
  for (int i = 0; i < 16; i++) p[i] = f32_to_half(x.v[i / 4][i % 4]);
}
static inline void store_i8(i8* p, V16 x) {
  for (int i = 0; i < 16; i++) p[i] = i8(x.v[i / 4][i % 4]);
}
template <int H>
static inline V16 swap(V16 x) {
  if constexpr (H == 1) { FEWBIT_QUARTERS(__builtin_shufflevector(x.v[i], x.v[i], 1, 0, 3, 2)); }
  if constexpr (H == 2) { FEWBIT_QUARTERS(__builtin_shufflevector(x.v[i], x.v[i], 2, 3, 0, 1)); }
  if constexpr (H == 4) { FEWBIT_QUARTERS(x.v[i ^ 1]); }
  if constexpr (H == 8) { FEWBIT_QUARTERS(x.v[i ^ 2]); }
}
#undef FEWBIT_QUARTERS

#endif

// ---- one register of a V16 --------------------------------------------------------------------------------------------------------
// Inner loops that must count registers work on one of the V16's `regs` registers at a time: lanes [h * 16 / regs, ...).

#if FEWBIT_VEC == 512
typedef __m512 Reg;
static constexpr int regs = 1;
static inline Reg reg_load(const f32* p) { return _mm512_loadu_ps(p); }
static inline void reg_store(f32* p, Reg a) { _mm512_storeu_ps(p, a); }
static inline Reg reg_set1(f32 x) { return _mm512_set1_ps(x); }
static inline Reg reg_mul(Reg a, Reg b) { return _mm512_mul_ps(a, b); }
static inline Reg reg_fma(Reg a, Reg b, Reg c) { return _mm512_fmadd_ps(a, b, c); }
static inline Reg reg_load_f16(const u16* p) { return load_f16(p).v; }
static inline Reg reg_load_i8(const i8* p) { return load_i8(p).v; }
#elif FEWBIT_VEC == 256
typedef __m256 Reg;
static constexpr int regs = 2;
static inline Reg reg_load(const f32* p) { return _mm256_loadu_ps(p); }
static inline void reg_store(f32* p, Reg a) { _mm256_storeu_ps(p, a); }
static inline Reg reg_set1(f32 x) { return _mm256_set1_ps(x); }
static inline Reg reg_mul(Reg a, Reg b) { return _mm256_mul_ps(a, b); }
static inline Reg reg_fma(Reg a, Reg b, Reg c) { return _mm256_fmadd_ps(a, b, c); }
static inline Reg reg_load_f16(const u16* p) { return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))); }
static inline Reg reg_load_i8(const i8* p) {
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
}
#else
typedef V4 Reg;
static constexpr int regs = 4;
static inline Reg reg_load(const f32* p) {
  Reg r;
  std::memcpy(&r, p, sizeof r);
  return r;
}
static inline void reg_store(f32* p, Reg a) { std::memcpy(p, &a, sizeof a); }
static inline Reg reg_set1(f32 x) { return splat4(x); }
static inline Reg reg_mul(Reg a, Reg b) { return a * b; }
static inline Reg reg_fma(Reg a, Reg b, Reg c) { return a * b + c; }
static inline Reg reg_load_f16(const u16* p) { return Reg{half_to_f32(p[0]), half_to_f32(p[1]), half_to_f32(p[2]), half_to_f32(p[3])}; }
static inline Reg reg_load_i8(const i8* p) { return Reg{f32(p[0]), f32(p[1]), f32(p[2]), f32(p[3])}; }
#endif
static constexpr int reg_lanes = 16 / regs;

// ---- the same text for all sets ------------------------------------------------------------------------------------------------

// The first n < 16 elements, zeros behind.
static inline V16 load_n(const f32* p, int n) {
  f32 t[16] = {};
  for (int i = 0; i < n; i++) t[i] = p[i];
  return load(t);
}
static inline void store_n(f32* p, V16 a, int n) {
  f32 t[16];
  store(t, a);
  for (int i = 0; i < n; i++) p[i] = t[i];
}
// p[0], p[stride], ..., p[15 stride]
static inline V16 load_strided(const f32* p, int stride) {
#if FEWBIT_VEC == 512
  const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  return {_mm512_i32gather_ps(_mm512_mullo_epi32(lane, _mm512_set1_epi32(stride)), p, 4)};
#elif FEWBIT_VEC == 256
  const __m256i at = _mm256_mullo_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32(stride));
  return {_mm256_i32gather_ps(p, at, 4), _mm256_i32gather_ps(p + 8 * stride, at, 4)};
#else
  f32 t[16];
  for (int i = 0; i < 16; i++) t[i] = p[i * stride];
  return load(t);
#endif
}
static inline f32 lane0(V16 a) {
#if FEWBIT_VEC == 512
  return _mm512_cvtss_f32(a.v);
#elif FEWBIT_VEC == 256
  return _mm256_cvtss_f32(a.a);
#else
  return a.v[0][0];
#endif
}
static inline f32 sum(V16 a) {
  a = a + swap<8>(a);
  a = a + swap<4>(a);
  a = a + swap<2>(a);
  return lane0(a + swap<1>(a));
}
// Lane i of the result is sum(a[i]), folded in the same order.
static inline V16 sum16(const V16* a) {
#if FEWBIT_VEC == 512
  __m512 p[8], q[4];
  FEWBIT_UNROLL
  for (int i = 0; i < 8; i++) {  // a[j], a[j + 4] -> 8 lanes each
    __m512 x = a[i / 4 * 8 + i % 4].v, y = a[i / 4 * 8 + i % 4 + 4].v;
    p[i] = _mm512_add_ps(_mm512_shuffle_f32x4(x, y, 0x44), _mm512_shuffle_f32x4(x, y, 0xee));
  }
  FEWBIT_UNROLL
  for (int i = 0; i < 4; i++) {  // chunk c of q[i] belongs to a[4 c + i]
    q[i] = _mm512_add_ps(_mm512_shuffle_f32x4(p[i], p[i + 4], 0x88), _mm512_shuffle_f32x4(p[i], p[i + 4], 0xdd));
  }
  __m512 u = _mm512_add_ps(_mm512_shuffle_ps(q[0], q[1], 0x44), _mm512_shuffle_ps(q[0], q[1], 0xee));
  __m512 w = _mm512_add_ps(_mm512_shuffle_ps(q[2], q[3], 0x44), _mm512_shuffle_ps(q[2], q[3], 0xee));
  return {_mm512_add_ps(_mm512_shuffle_ps(u, w, 0x88), _mm512_shuffle_ps(u, w, 0xdd))};
#elif FEWBIT_VEC == 256
  __m256 r[2];
  FEWBIT_UNROLL
  for (int h = 0; h < 2; h++) {
    __m256 q[4];
    FEWBIT_UNROLL
    for (int i = 0; i < 4; i++) {  // half c of q[i] belongs to a[8 h + 4 c + i]
      const V16 &x = a[8 * h + i], &y = a[8 * h + i + 4];
      __m256 s = _mm256_add_ps(x.a, x.b), t = _mm256_add_ps(y.a, y.b);
      q[i] = _mm256_add_ps(_mm256_permute2f128_ps(s, t, 0x20), _mm256_permute2f128_ps(s, t, 0x31));
    }
    __m256 u = _mm256_add_ps(_mm256_shuffle_ps(q[0], q[1], 0x44), _mm256_shuffle_ps(q[0], q[1], 0xee));
    __m256 w = _mm256_add_ps(_mm256_shuffle_ps(q[2], q[3], 0x44), _mm256_shuffle_ps(q[2], q[3], 0xee));
    r[h] = _mm256_add_ps(_mm256_shuffle_ps(u, w, 0x88), _mm256_shuffle_ps(u, w, 0xdd));
  }
  return {r[0], r[1]};
#else
  f32 t[16];
  for (int i = 0; i < 16; i++) t[i] = sum(a[i]);
  return load(t);
#endif
}
static inline f32 largest(V16 a) {
  a = max(a, swap<8>(a));
  a = max(a, swap<4>(a));
  a = max(a, swap<2>(a));
  return lane0(max(a, swap<1>(a)));
}

// Nearest integer, ties to even, for |x| < 2^22: the usual trick, one rounding.
static inline V16 rint(V16 x) {
  V16 big = set1(12582912.0f);
  return (x + big) - big;
}
// Nearest integer, ties away from zero, for |x| < 2^22.
static inline V16 round_away(V16 x) {
  V16 a = abs(x), r = rint(a);
  r = where_lt(a - r, set1(0.5f), r, r + set1(1.0f));  // a - r is exact, 0.5 only where a tie went down
  return flip(r, flip(x, a));                          // x xor |x| is x's sign
}
// Toward zero, for 0 <= x < 2^22.
static inline V16 trunc_positive(V16 x) {
  V16 r = rint(x);
  return where_lt(x, r, r - set1(1.0f), r);
}

// exp(x): x = n ln 2 + r with |r| <= ln 2 / 2, a polynomial of degree 6 for e^r, then 2^n.  No fused operation: the same bits everywhere.
// Largest relative error 1.3e-7 (measured over every float in [-87.3, 88.7], see steps_test); 0 below -87.33, infinite above 88.72.
static inline V16 exp(V16 x) {
  V16 lo = set1(-87.33f), hi = set1(88.72f);
  V16 c = min(max(x, lo), hi);
  V16 n = rint(c * set1(1.44269504f));
  V16 r = (c - n * set1(0.693359375f)) - n * set1(-2.12194440e-4f);  // ln 2 in two parts; the first product is exact
  V16 p = set1(1.9875691500e-4f);
  p = p * r + set1(1.3981999507e-3f);
  p = p * r + set1(8.3334519073e-3f);
  p = p * r + set1(4.1665795894e-2f);
  p = p * r + set1(1.6666665459e-1f);
  p = p * r + set1(5.0000001201e-1f);
  p = (p * (r * r) + r) + set1(1.0f);
  V16 h = rint(n * set1(0.5f));  // 2^n in two factors: n reaches 128
  V16 e = (p * exp2i(h)) * exp2i(n - h);
  e = where_lt(x, lo, zero(), e);
  e = where_lt(hi, x, set1(INFINITY), e);
  return where_lt(x, set1(INFINITY), e, where_lt(zero(), x, set1(INFINITY), x));  // the last: NaN stays NaN
}
// The same for x <= 0 (or NaN), without the cases that cannot be: below -87.33 it is exp(-87.33) = 1.2e-38.
static inline V16 exp_down(V16 x) {
  V16 c = max(set1(-87.33f), x);
  V16 n = rint(c * set1(1.44269504f));
  V16 r = (c - n * set1(0.693359375f)) - n * set1(-2.12194440e-4f);
  V16 p = set1(1.9875691500e-4f);
  p = p * r + set1(1.3981999507e-3f);
  p = p * r + set1(8.3334519073e-3f);
  p = p * r + set1(4.1665795894e-2f);
  p = p * r + set1(1.6666665459e-1f);
  p = p * r + set1(5.0000001201e-1f);
  p = (p * (r * r) + r) + set1(1.0f);
  return p * exp2i(n);
}
static inline f32 exp1(f32 x) { return lane0(exp(set1(x))); }
static inline V16 sigmoid(V16 x) { return set1(1.0f) / (set1(1.0f) + exp(zero() - x)); }
static inline V16 silu(V16 x) { return x / (set1(1.0f) + exp(zero() - x)); }
