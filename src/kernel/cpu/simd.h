// The dozen primitives that the R16 kernels need, per instruction set.  Included inside a namespace per set, after <immintrin.h> or
// <arm_neon.h>, between target_begin.inl and target_end.inl, with FEWBIT_SET one of the numbers below.
//
//   I, F       vectors of `lanes` 32-bit integers (also seen as bytes) and floats; a tile's 16 rows are 16 / lanes of them
//   Sum<U, n>  sum over n steps of  codes (u8, at most U)  times  activations (i8), four neighbours at a time, into 32-bit lanes
//
// levels_signed(U): whether codes up to U are multiplied as signed levels on this set.  field_limit: fields at
// this bit of their byte or above are shifted down by it; the others stay, which makes sums 2^b times as large, and the activation
// scales 2^-b times, exactly.
#ifndef FEWBIT_SET_NUMBERS
#define FEWBIT_SET_NUMBERS
#define FEWBIT_AVX2 1
#define FEWBIT_AVX_VNNI 2
#define FEWBIT_AVX512_VNNI 3
#define FEWBIT_NEON_DOTPROD 4
#define FEWBIT_NEON_I8MM 5
#endif

#if FEWBIT_SET == FEWBIT_AVX512_VNNI

using I = __m512i;
using F = __m512;
static constexpr int lanes = 16;
static inline I load(const void* p) { return _mm512_loadu_si512(p); }
static inline void store(void* p, I a) { _mm512_storeu_si512(p, a); }
static inline I all32(u32 x) { return _mm512_set1_epi32(i32(x)); }
static inline I all8(int x) { return _mm512_set1_epi8(char(x)); }
static inline I operand(const void* quad) { return _mm512_set1_epi32(load_le<i32>(quad)); }  // 4 bytes to every lane
static inline I both(I a, I b) { return _mm512_and_si512(a, b); }
static inline I either(I a, I b) { return _mm512_or_si512(a, b); }
static inline I pick(I mask, I a, I b) { return _mm512_ternarylogic_epi32(mask, a, b, 0xca); }  // mask ? a : b, bit by bit
template <int n>
static inline I right(I a) {
  if constexpr (n == 0)
    return a;
  else
    return _mm512_srli_epi32(a, n);
}
template <int n>
static inline I left(I a) {
  if constexpr (n == 0)
    return a;
  else
    return _mm512_slli_epi32(a, n);
}
static inline I flip(I a, I b) { return _mm512_xor_si512(a, b); }
static inline I add8(I a, I b) { return _mm512_add_epi8(a, b); }
static inline I table16(const i8* bytes) { return _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes))); }
// Entry of the low nibble of each byte; the high nibble must not matter where `clean` is false.
static inline I look_up(I table, I index) { return _mm512_permutexvar_epi8(index, table); }
static constexpr bool look_up_needs_mask = false;
static inline F zero() { return _mm512_setzero_ps(); }
static inline F all(f32 x) { return _mm512_set1_ps(x); }
static inline F load_f(const f32* p) { return _mm512_loadu_ps(p); }
static inline void store_f(f32* p, F a) { _mm512_storeu_ps(p, a); }
static inline F to_f(I a) { return _mm512_cvtepi32_ps(a); }
static inline F mul(F a, F b) { return _mm512_mul_ps(a, b); }
static inline F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
static inline F load_f16(const void* p) { return _mm512_cvtph_ps(_mm256_loadu_si256(static_cast<const __m256i*>(p))); }
static inline I load_i8(const void* p) { return _mm512_cvtepi8_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p))); }
static inline I load_u8(const void* p) { return _mm512_cvtepu8_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p))); }
static inline F bits_to_f(I a) { return _mm512_castsi512_ps(a); }
// 2^(x - 128) for x in 0..255; subnormal for x < 2.
static inline F exponent_to_f(I x) {
  const I normal = left<23>(_mm512_sub_epi32(x, _mm512_set1_epi32(1)));
  return bits_to_f(_mm512_mask_sllv_epi32(normal, _mm512_cmplt_epi32_mask(x, _mm512_set1_epi32(2)), _mm512_set1_epi32(0x00200000), x));
}
// 2 s + 1 of the low (high) nibble of bytes that load_u8 spread out.
static inline F odd_numbers() { return _mm512_setr_ps(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31); }
static inline F odd_low(I z) { return _mm512_permutexvar_ps(z, odd_numbers()); }
static inline F odd_high(I z) { return _mm512_permutexvar_ps(_mm512_srli_epi32(z, 4), odd_numbers()); }
static inline void prefetch(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0); }

typedef i32 i32_unaligned __attribute__((aligned(1), may_alias));
static constexpr bool levels_signed(int) { return false; }
static constexpr int field_limit = 8;  // fields may stay anywhere in the byte

template <int U, int n>
struct Sum {
  I a;
  void begin(const i32* start) { a = operand(start); }
  // Written out because GCC 12 does not fold the broadcast into the instruction, which then costs a second slot per product.
  template <int i>
  void step(I u, const i8* quad) {
    asm("vpdpbusd %1%{1to16%}, %2, %0" : "+v"(a) : "m"(*reinterpret_cast<const i32_unaligned*>(quad)), "v"(u));
  }
  I end(const i32*) const { return a; }
};

#elif FEWBIT_SET == FEWBIT_AVX2 || FEWBIT_SET == FEWBIT_AVX_VNNI

using I = __m256i;
using F = __m256;
static constexpr int lanes = 8;
static inline I load(const void* p) { return _mm256_loadu_si256(static_cast<const I*>(p)); }
static inline void store(void* p, I a) { _mm256_storeu_si256(static_cast<I*>(p), a); }
static inline I all32(u32 x) { return _mm256_set1_epi32(i32(x)); }
static inline I all8(int x) { return _mm256_set1_epi8(char(x)); }
static inline I operand(const void* quad) { return _mm256_set1_epi32(load_le<i32>(quad)); }
static inline I both(I a, I b) { return _mm256_and_si256(a, b); }
static inline I either(I a, I b) { return _mm256_or_si256(a, b); }
static inline I pick(I mask, I a, I b) { return _mm256_or_si256(_mm256_and_si256(mask, a), _mm256_andnot_si256(mask, b)); }
template <int n>
static inline I right(I a) {
  if constexpr (n == 0)
    return a;
  else
    return _mm256_srli_epi32(a, n);
}
template <int n>
static inline I left(I a) {
  if constexpr (n == 0)
    return a;
  else
    return _mm256_slli_epi32(a, n);
}
static inline I flip(I a, I b) { return _mm256_xor_si256(a, b); }
static inline I add8(I a, I b) { return _mm256_add_epi8(a, b); }
static inline I table16(const i8* bytes) { return _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes))); }
static inline I look_up(I table, I index) { return _mm256_shuffle_epi8(table, index); }
static constexpr bool look_up_needs_mask = true;
static inline F zero() { return _mm256_setzero_ps(); }
static inline F all(f32 x) { return _mm256_set1_ps(x); }
static inline F load_f(const f32* p) { return _mm256_loadu_ps(p); }
static inline void store_f(f32* p, F a) { _mm256_storeu_ps(p, a); }
static inline F to_f(I a) { return _mm256_cvtepi32_ps(a); }
static inline F mul(F a, F b) { return _mm256_mul_ps(a, b); }
static inline F fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
static inline F load_f16(const void* p) { return _mm256_cvtph_ps(_mm_loadu_si128(static_cast<const __m128i*>(p))); }
static inline I load_i8(const void* p) { return _mm256_cvtepi8_epi32(_mm_loadl_epi64(static_cast<const __m128i*>(p))); }
static inline I load_u8(const void* p) { return _mm256_cvtepu8_epi32(_mm_loadl_epi64(static_cast<const __m128i*>(p))); }
static inline F bits_to_f(I a) { return _mm256_castsi256_ps(a); }
static inline F exponent_to_f(I x) {
  const I normal = left<23>(_mm256_sub_epi32(x, _mm256_set1_epi32(1))), tiny = _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), x);
  return bits_to_f(pick(_mm256_cmpgt_epi32(x, _mm256_set1_epi32(1)), normal, tiny));
}
static inline F odd_low(I z) { return to_f(either(both(left<1>(z), all32(30)), all32(1))); }
static inline F odd_high(I z) { return to_f(either(both(right<3>(z), all32(30)), all32(1))); }
static inline void prefetch(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0); }

#if FEWBIT_SET == FEWBIT_AVX_VNNI
static constexpr bool levels_signed(int) { return false; }
static constexpr int field_limit = 8;

template <int U, int n>
struct Sum {
  I a;
  void begin(const i32* start) { a = operand(start); }
  template <int i>
  void step(I u, const i8* quad) {
    a = _mm256_dpbusd_avx_epi32(a, u, operand(quad));
  }
  I end(const i32*) const { return a; }
};
#else
static constexpr bool levels_signed(int largest) { return largest > 128; }
static constexpr int field_limit = 4;  // fields of the upper half are shifted down first, so that 8 steps fit in 16 bits

// maddubs adds two products in 16 bits, so 2 * U * 127 per step: 8 steps fit for U <= 16, 4 for 32, 2 for 64, 1 for 128.
// Above 128 a pair of products could saturate: there u is the signed level itself, and its sign moves to the activation.
template <int U, int n>
struct Sum {
  static constexpr int run = U <= 16 ? 8 : U <= 32 ? 4 : U <= 64 ? 2 : 1;
  I a, s;
  void begin(const i32*) {
    s = _mm256_setzero_si256();
    if constexpr (n > run) a = _mm256_setzero_si256();
  }
  template <int i>
  void step(I u, const i8* quad) {
    const I q = operand(quad);
    I p;
    if constexpr (U <= 128)
      p = _mm256_maddubs_epi16(u, q);
    else { p = _mm256_maddubs_epi16(_mm256_abs_epi8(u), _mm256_sign_epi8(q, u)); }
    s = i % run == 0 ? p : _mm256_add_epi16(s, p);
    asm("" : "+x"(s));  // keeps GCC from regrouping the sums, which needs more registers than there are
    if constexpr (n > run && (i + 1) % run == 0) a = _mm256_add_epi32(a, _mm256_madd_epi16(s, _mm256_set1_epi16(1)));
  }
  I end(const i32* start) const {
    I t;
    if constexpr (n > run)
      t = a;
    else
      t = _mm256_madd_epi16(s, _mm256_set1_epi16(1));
    return start ? _mm256_add_epi32(t, operand(start)) : t;
  }
};
#endif
#endif
