// The dozen primitives that the R16 kernels need, per instruction set.  Included inside a namespace per set, after <immintrin.h> or
// <arm_neon.h>, between target_begin.inl and target_end.inl, with FEWBIT_SET one of the numbers below.
//
//   I, F       vectors of `lanes` 32-bit integers (also seen as bytes) and floats; a tile's 16 rows are 16 / lanes of them
//   Sum<U, n, paired, run>  sum over n steps of  codes (u8, at most U)  times  activations (i8), four neighbours at a time, into 32-bit
//   lanes wide_lanes         whether products are summed in 32-bit lanes.  Otherwise (AVX2) they are summed in 16-bit lanes for `run` steps
//                      (0: as many as surely fit), then multiplied by `factor`, a pair of i16 per lane, into 32-bit lanes
//   pairs(bits, p)  adds, per lane, the two 16-bit numbers at p where bits 0 and 16 of the lane are set
//
// levels_signed(U): whether codes up to U are multiplied as signed levels on this set.  field_limit: fields at
// this bit of their byte or above are shifted down by it; the others stay, which makes sums 2^b times as large, and the activation
// scales 2^-b times, exactly.
// right<n>, left<n>: each lane shifted by n bits
#define FEWBIT_SHIFTS(by_right, by_left) \
  template <int n>                       \
  static inline I right(I a) {           \
    if constexpr (n == 0)                \
      return a;                          \
    else                                 \
      return by_right;                   \
  }                                      \
  template <int n>                       \
  static inline I left(I a) {            \
    if constexpr (n == 0)                \
      return a;                          \
    else                                 \
      return by_left;                    \
  }

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
static inline I operand(const void* quad) { return _mm512_set1_epi32(load_le<i32>(quad)); }  // 4 bytes to every lane
static inline I both(I a, I b) { return _mm512_and_si512(a, b); }
static inline I either(I a, I b) { return _mm512_or_si512(a, b); }
static inline I pick(I mask, I a, I b) { return _mm512_ternarylogic_epi32(mask, a, b, 0xca); }  // mask ? a : b, bit by bit
FEWBIT_SHIFTS(_mm512_srli_epi32(a, n), _mm512_slli_epi32(a, n))
static inline I flip(I a, I b) { return _mm512_xor_si512(a, b); }
static inline I add8(I a, I b) { return _mm512_add_epi8(a, b); }
static inline I add32(I a, I b) { return _mm512_add_epi32(a, b); }
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
// 2 s + 1 of s in 0..15, or of the low (high) nibble of bytes that load_u8 spread out.
static inline F odd_numbers() { return _mm512_setr_ps(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31); }
static inline F odd_of(I s) { return _mm512_permutexvar_ps(s, odd_numbers()); }
static inline F negated_where(F a, I sign_bits) { return bits_to_f(flip(_mm512_castps_si512(a), sign_bits)); }
static inline I right_by(I a, int n) { return _mm512_srl_epi32(a, _mm_cvtsi32_si128(n)); }
static inline F odd_low(I z) { return odd_of(z); }  // the permutation looks at four bits
static inline F odd_high(I z) { return odd_of(_mm512_srli_epi32(z, 4)); }
static inline void prefetch(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0); }

typedef i32 i32_unaligned __attribute__((aligned(1), may_alias));
static constexpr bool levels_signed(int) { return false; }
static constexpr int field_limit = 8;  // fields may stay anywhere in the byte
static constexpr bool wide_lanes = true;

template <int U, int n, bool paired, int run>
struct Sum {
  I a;
  void begin(const i32* start) { a = operand(start); }
  // Written out because GCC 12 does not fold the broadcast into the instruction, which then costs a second slot per product.
  template <int i>
  void step(I u, const i8* quad, const i32*, I) {
#ifdef FEWBIT_EMULATED
    a = _mm512_dpbusd_epi32(a, u, _mm512_set1_epi32(*reinterpret_cast<const i32_unaligned*>(quad)));
#else
    asm("vpdpbusd %1%{1to16%}, %2, %0" : "+v"(a) : "m"(*reinterpret_cast<const i32_unaligned*>(quad)), "v"(u));
#endif
  }
  void pairs(I bits, const i32* pair) { a = _mm512_dpwssd_epi32(a, bits, operand(pair)); }
  I end(const i32*) const { return a; }
};

#elif FEWBIT_SET == FEWBIT_AVX2 || FEWBIT_SET == FEWBIT_AVX_VNNI

using I = __m256i;
using F = __m256;
static constexpr int lanes = 8;
static inline I load(const void* p) { return _mm256_loadu_si256(static_cast<const I*>(p)); }
static inline void store(void* p, I a) { _mm256_storeu_si256(static_cast<I*>(p), a); }
static inline I all32(u32 x) { return _mm256_set1_epi32(i32(x)); }
static inline I operand(const void* quad) { return _mm256_set1_epi32(load_le<i32>(quad)); }
static inline I both(I a, I b) { return _mm256_and_si256(a, b); }
static inline I either(I a, I b) { return _mm256_or_si256(a, b); }
static inline I pick(I mask, I a, I b) { return _mm256_or_si256(_mm256_and_si256(mask, a), _mm256_andnot_si256(mask, b)); }
FEWBIT_SHIFTS(_mm256_srli_epi32(a, n), _mm256_slli_epi32(a, n))
static inline I flip(I a, I b) { return _mm256_xor_si256(a, b); }
static inline I add8(I a, I b) { return _mm256_add_epi8(a, b); }
static inline I add32(I a, I b) { return _mm256_add_epi32(a, b); }
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
static inline F negated_where(F a, I sign_bits) { return bits_to_f(flip(_mm256_castps_si256(a), sign_bits)); }
static inline I right_by(I a, int n) { return _mm256_srl_epi32(a, _mm_cvtsi32_si128(n)); }
static inline void prefetch(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0); }

#if FEWBIT_SET == FEWBIT_AVX_VNNI
static constexpr bool levels_signed(int) { return false; }
static constexpr int field_limit = 8;
static constexpr bool wide_lanes = true;

template <int U, int n, bool paired, int run>
struct Sum {
  I a;
  void begin(const i32* start) { a = operand(start); }
  template <int i>
  void step(I u, const i8* quad, const i32*, I) {
    a = _mm256_dpbusd_avx_epi32(a, u, operand(quad));
  }
  void pairs(I bits, const i32* pair) { a = _mm256_dpwssd_avx_epi32(a, bits, operand(pair)); }
  I end(const i32*) const { return a; }
};
#else
static constexpr bool levels_signed(int largest) { return largest > 128; }
static constexpr int field_limit = 4;  // fields of the upper half are shifted down first, so that 8 steps fit in 16 bits
static constexpr bool wide_lanes = false;
static inline I all_ones16() { return _mm256_set1_epi16(1); }
static inline I pair_of(F whole) {  // integral floats -> the same i16 twice
  const I x = _mm256_cvtps_epi32(whole);
  return either(both(x, all32(0xffff)), left<16>(x));
}
static inline I low_bytes16(I a) { return _mm256_srai_epi16(_mm256_slli_epi16(a, 8), 8); }  // of 16-bit lanes, as signed numbers
static inline I high_bytes16(I a) { return _mm256_srai_epi16(a, 8); }

// maddubs adds two products in 16 bits, so 2 * U * 127 per step: 8 steps fit for U <= 16, 4 for 32, 2 for 64, 1 for 128.
// Above 128 a pair of products could saturate: there u is the signed level itself, and its sign moves to the activation.
// With pair_run, each run begins at a pair of i16, -zero * (sum of its q): then the sums are those of levels, which fit for longer than
// those of codes; additions wrap around on the way.
template <int U, int n, bool paired, int pair_run>
struct Sum {
  static constexpr int run = pair_run ? pair_run : U <= 16 ? 8 : U <= 32 ? 4 : U <= 64 ? 2 : 1;
  I a, s, p;
  void pairs(I bits, const i32* pair) { p = _mm256_madd_epi16(bits, operand(pair)); }
  void begin(const i32*) {}
  template <int i>
  void step(I u, const i8* quad, const i32* start, I factor) {
    const I q = operand(quad);
    I p;
    if constexpr (U <= 128)
      p = _mm256_maddubs_epi16(u, q);
    else
      p = _mm256_maddubs_epi16(_mm256_abs_epi8(u), _mm256_sign_epi8(q, u));
    if (i % run != 0)
      s = _mm256_add_epi16(s, p);
    else
      s = start ? _mm256_add_epi16(p, operand(start)) : p;
    asm("" : "+x"(s));  // keeps GCC from regrouping the sums, which needs more registers than there are
    if constexpr (i % run == run - 1 || i == n - 1) {
      const I whole = _mm256_madd_epi16(s, factor);
      a = i < run ? whole : _mm256_add_epi32(a, whole);
    }
  }
  I end(const i32* start) const {
    const I t = paired ? _mm256_add_epi32(a, p) : a;
    return start ? _mm256_add_epi32(t, operand(start)) : t;
  }
};
#endif

#elif FEWBIT_SET == FEWBIT_NEON_DOTPROD || FEWBIT_SET == FEWBIT_NEON_I8MM

using I = int32x4_t;
using F = float32x4_t;
static constexpr int lanes = 4;
static inline uint32x4_t as_u(I a) { return vreinterpretq_u32_s32(a); }
static inline I as_s(uint32x4_t a) { return vreinterpretq_s32_u32(a); }
static inline I load(const void* p) { return vreinterpretq_s32_u8(vld1q_u8(static_cast<const u8*>(p))); }
static inline void store(void* p, I a) { vst1q_u8(static_cast<u8*>(p), vreinterpretq_u8_s32(a)); }
static inline I all32(u32 x) { return as_s(vdupq_n_u32(x)); }
static inline I operand(const void* quad) { return vdupq_n_s32(load_le<i32>(quad)); }
static inline I both(I a, I b) { return vandq_s32(a, b); }
static inline I either(I a, I b) { return vorrq_s32(a, b); }
static inline I pick(I mask, I a, I b) { return vbslq_s32(as_u(mask), a, b); }
FEWBIT_SHIFTS(as_s(vshrq_n_u32(as_u(a), n)), vshlq_n_s32(a, n))
static inline I flip(I a, I b) { return veorq_s32(a, b); }
static inline I add8(I a, I b) { return vreinterpretq_s32_u8(vaddq_u8(vreinterpretq_u8_s32(a), vreinterpretq_u8_s32(b))); }
static inline I add32(I a, I b) { return vaddq_s32(a, b); }
static inline I table16(const i8* bytes) { return vreinterpretq_s32_s8(vld1q_s8(bytes)); }
static inline I look_up(I table, I index) {
  return vreinterpretq_s32_u8(vqtbl1q_u8(vreinterpretq_u8_s32(table), vreinterpretq_u8_s32(index)));
}
static constexpr bool look_up_needs_mask = true;
static inline F zero() { return vdupq_n_f32(0); }
static inline F all(f32 x) { return vdupq_n_f32(x); }
static inline F load_f(const f32* p) { return vld1q_f32(p); }
static inline void store_f(f32* p, F a) { vst1q_f32(p, a); }
static inline F to_f(I a) { return vcvtq_f32_s32(a); }
static inline F mul(F a, F b) { return vmulq_f32(a, b); }
static inline F fma(F a, F b, F c) { return vfmaq_f32(c, a, b); }
static inline F load_f16(const void* p) { return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(static_cast<const u16*>(p)))); }
static inline I load_i8(const void* p) { return vmovl_s16(vget_low_s16(vmovl_s8(vreinterpret_s8_u32(vdup_n_u32(load_le<u32>(p)))))); }
static inline I load_u8(const void* p) { return as_s(vmovl_u16(vget_low_u16(vmovl_u8(vreinterpret_u8_u32(vdup_n_u32(load_le<u32>(p))))))); }
static inline F bits_to_f(I a) { return vreinterpretq_f32_s32(a); }
static inline F exponent_to_f(I x) {
  const I normal = left<23>(vsubq_s32(x, vdupq_n_s32(1))), tiny = vshlq_s32(vdupq_n_s32(0x00200000), x);
  return bits_to_f(pick(as_s(vcgtq_s32(x, vdupq_n_s32(1))), normal, tiny));
}
static inline F negated_where(F a, I sign_bits) { return bits_to_f(flip(vreinterpretq_s32_f32(a), sign_bits)); }
static inline I right_by(I a, int n) { return as_s(vshlq_u32(as_u(a), vdupq_n_s32(-n))); }
static inline void prefetch(const void* p) { __builtin_prefetch(p); }
static constexpr bool levels_signed(int largest) { return largest > 127; }  // sdot multiplies signed bytes
static constexpr int field_limit = 6;
static constexpr bool wide_lanes = true;

template <int U, int n, bool paired, int run>
struct Sum {
  I a;
  void begin(const i32* start) { a = vld1q_dup_s32(start); }
  template <int i>
  void step(I codes, const i8* quad, const i32*, I) {
    a = vdotq_s32(a, vreinterpretq_s8_s32(codes), vreinterpretq_s8_s32(operand(quad)));
  }
  void pairs(I bits, const i32* pair) { a = vpadalq_s16(a, vmulq_s16(vreinterpretq_s16_s32(bits), vreinterpretq_s16_s32(operand(pair)))); }
  I end(const i32*) const { return a; }
};
#endif

#if FEWBIT_SET != FEWBIT_AVX2  // nothing multiplies by pairs
static inline I all_ones16() { return all32(0); }
static inline I pair_of(F) { return all32(0); }
static inline I low_bytes16(I a) { return a; }
static inline I high_bytes16(I a) { return a; }
#endif
#if FEWBIT_SET != FEWBIT_AVX512_VNNI
static inline F odd_of(I s) { return to_f(either(left<1>(s), all32(1))); }
static inline F odd_low(I z) { return to_f(either(both(left<1>(z), all32(30)), all32(1))); }
static inline F odd_high(I z) { return to_f(either(both(right<3>(z), all32(30)), all32(1))); }
#endif

static inline I in_all_bytes(I a) {  // the low byte of each lane (others 0) in all four
  a = either(a, left<8>(a));
  return either(a, left<16>(a));
}
#undef FEWBIT_SHIFTS
