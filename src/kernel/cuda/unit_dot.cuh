// One unit (16 rows x 128 inputs) times up to 8 columns on the int8 tensor cores, one warp.
//
// Maths    per k-step of 32 inputs: S = sum over the halves of sub * (sum of level q), an exact integer;  t = fma(S, a, t) with the
//          activation's scale a;  per scale block: acc = fma(t, d, acc).  Minima likewise: m = fma(min * sum q, a, m), acc = fma(-dmin, m,
//          acc).  per_128: the activations have one scale a per 128, and the whole unit's sum is an exact integer: acc = fma(a * sum, d,
//          acc).
// Trick 1  2-bit and 1-bit codes are not shifted down: w & (0x03030303 << 2j) is a u8 operand 4^j too large, and the product with
//          a * 4^-j is exact, so one logic operation makes 4 weights.  Without it: two.
// Trick 2  the accumulator starts at 0x4b400000, as a float 1.5 * 2^23; read as a float, minus that and the zero point's sum(q) 4^j, it
//          is the sum as a float, exact below 2^22.  Without it: a subtraction and an int-to-float more per accumulator.
#pragma once
#include "kernel/cuda/base3.cuh"
#include "kernel/cuda/shared.cuh"

namespace fewbit::kernel::cuda {

inline constexpr int float_bias_bits = 0x4b400000;
inline constexpr f32 float_bias = 12582912.0f;

template <bool is_signed>
__device__ __forceinline__ void mma32(int (&d)[4], const u32 (&a)[4], u32 b0, u32 b1, const int (&c)[4]) {
  if constexpr (is_signed)
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
        : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]));
  else
    asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
        : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]));
}
template <bool is_signed>
__device__ __forceinline__ void mma16(int (&d)[4], u32 a0, u32 a1, u32 b0, const int (&c)[4]) {
  if constexpr (is_signed)
    asm("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%7,%8,%9,%10};"
        : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
        : "r"(a0), "r"(a1), "r"(b0), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]));
  else
    asm("mma.sync.aligned.m16n8k16.row.col.s32.u8.s8.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%7,%8,%9,%10};"
        : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
        : "r"(a0), "r"(a1), "r"(b0), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]));
}

// What all lanes share the compiler keeps in uniform registers or as immediates, and copies it before every use: an instruction takes one
// of them.  zero: 0, but the compiler does not know.
__device__ __forceinline__ u32 in_register(u32 v, u32 zero) { return v | zero; }
__device__ __forceinline__ u32 unknown_zero(u32 at) {  // by way of shared memory
  u32 zero;
  asm volatile("st.volatile.shared.b32 [%1], 0;\nld.volatile.shared.b32 %0, [%1];" : "=r"(zero) : "r"(at) : "memory");
  return zero;
}

// ---- a lane's codes of a unit and the A registers of k-step j -------------------------------------------------------------------------

// The A registers of k-step j hold 2^this times the codes (q1: rows g; of rows g + 8 three more).
FEWBIT_FN constexpr int operand_shift(Code c, int j) {
  return c == Code::b2 ? 2 * j : c == Code::q1 ? j : c == Code::t5 ? (j < 3 ? 6 : 4) : 0;
}

struct Tables {
  u32 w[4];
  u32 fours = 0x44444444u;  // for the wide kernel, which keeps it in a register: two immediates would take two instructions
};

template <Code C>
struct Codes;

template <>
struct Codes<Code::q1> {
  static constexpr bool is_signed = false;
  u32 w[2], up[2];
  __device__ __forceinline__ Codes(u32 unit, int lane) {
    const uint2 v = shared_u64(unit + lane * 8);
    w[0] = v.x, w[1] = v.y, up[0] = v.x << 1, up[1] = v.y << 1;
  }
  // Operands are 2^j (row g) and 2^(j + 3) (row g + 8) times 2 c.
  __device__ __forceinline__ void a(int j, u32 (&r)[4], const Tables&) const {
    r[0] = up[0] & (0x02020202u << j), r[2] = up[1] & (0x02020202u << j);
    r[1] = w[0] & (0x10101010u << j), r[3] = w[1] & (0x10101010u << j);
  }
};
template <>
struct Codes<Code::b2> {
  static constexpr bool is_signed = false;
  uint4 w;
  __device__ __forceinline__ Codes(u32 unit, int lane) : w(shared_u128(unit + lane * 16)) {}
  __device__ __forceinline__ void a(int j, u32 (&r)[4], const Tables&) const {  // 4^j times c
    const u32 m = 0x03030303u << (2 * j);
    r[0] = w.x & m, r[1] = w.y & m, r[2] = w.z & m, r[3] = w.w & m;
  }
};
template <>
struct Codes<Code::t3> {
  static constexpr bool is_signed = true;
  u32 w[4], hi[2];
  __device__ __forceinline__ Codes(u32 unit, int lane) {
    const uint4 v = shared_u128(unit + lane * 16);
    const uint2 h = shared_u64(unit + 512 + lane * 8);
    w[0] = v.x, w[1] = v.y, w[2] = v.z, w[3] = v.w, hi[0] = h.x, hi[1] = h.y;
  }
  __device__ __forceinline__ void a(int j, u32 (&r)[4], const Tables& t) const {
#pragma unroll
    for (int f = 0; f < 2; f++) {
      const int p = j % 2 * 2 + f;
      const u32 h = p < 3 ? hi[j / 2] << (2 - p) : hi[j / 2] >> 1;
      const u32 s = (w[j] >> (2 * f) & 0x33333333u) | (h & 0x44444444u);
      r[2 * f] = permute(t.w[0], t.w[1], s), r[2 * f + 1] = permute(t.w[0], t.w[1], s >> 16);
    }
  }
};
template <>
struct Codes<Code::d2> {
  static constexpr bool is_signed = true;
  u32 w[4], third;  // third bits of row g in the lower half, of row g + 8 in the upper
  __device__ __forceinline__ Codes(u32 unit, int lane) {
    const uint4 v = shared_u128(unit + lane * 16);
    w[0] = v.x, w[1] = v.y, w[2] = v.z, w[3] = v.w;
    third = permute(shared_u16(unit + 512 + lane / 2 * 2), 0, 0x4140);
  }
  __device__ __forceinline__ void a(int j, u32 (&r)[4], const Tables& t) const {
#pragma unroll
    for (int f = 0; f < 2; f++) {
      const int i = 2 * j + f, p = i % 3;  // a product puts a bit at four places, from 2 on
      const u32 bits = third >> (i - p) & (0x00010001u << p);
      const u32 s = (w[j] >> (2 * f) & 0x33333333u) + bits * (0x4444u >> p);
      r[2 * f] = permute(t.w[0], t.w[1], s), r[2 * f + 1] = permute(t.w[0], t.w[1], s >> 16);
    }
  }
};
template <>
struct Codes<Code::n4> {
  static constexpr bool is_signed = true;
  u32 w[8];
  __device__ __forceinline__ Codes(u32 unit, int lane) {
    const uint4 v = shared_u128(unit + lane * 16), u = shared_u128(unit + 512 + lane * 16);
    w[0] = v.x, w[1] = v.y, w[2] = v.z, w[3] = v.w, w[4] = u.x, w[5] = u.y, w[6] = u.z, w[7] = u.w;
  }
  __device__ __forceinline__ void a(int j, u32 (&r)[4], const Tables& t) const {
#pragma unroll
    for (int f = 0; f < 2; f++) {
      const u32 v = w[2 * j + f], m = v & 0x77777777u, s = (v >> 1 & 0x44444444u) | 0x32103210u;
      r[2 * f] = permute(permute(t.w[0], t.w[1], m), permute(t.w[2], t.w[3], m), s);
      r[2 * f + 1] = permute(permute(t.w[0], t.w[1], m >> 16), permute(t.w[2], t.w[3], m >> 16), s >> 16);
    }
  }
};
template <>
struct Codes<Code::b8> {
  static constexpr bool is_signed = true;
  u32 at;
  __device__ __forceinline__ Codes(u32 unit, int lane) : at(unit + lane * 16) {}
  __device__ __forceinline__ void a(int j, u32 (&r)[4], const Tables&) const {
    const uint4 v = shared_u128(at + 512 * j);
    r[0] = v.x, r[1] = v.y, r[2] = v.z, r[3] = v.w;
  }
};

template <>
struct Codes<Code::t5> {
  static constexpr bool is_signed = false;
  u32 five[2], three[2];  // of rows g, g + 8
  __device__ __forceinline__ Codes(u32 unit, int lane) {
    const uint2 v = shared_u64(unit + lane * 8);
    const u32 w = shared_u32(unit + 256 + lane * 4), upper = shared_u8(unit + 384 + lane);
    five[0] = v.x, five[1] = v.y;
    three[0] = w >> 3 & 0x1f1f1f1fu, three[1] = (w & 0x07070707u) | (upper * 0x40100401u >> 3 & 0x18181818u);
  }
  __device__ __forceinline__ void a(int j, u32 (&r)[4], const Tables&) const {
#pragma unroll
    for (int h = 0; h < 2; h++) {
      const Base3 v(five[h], three[h]);  // the compiler does it once for all j
      r[h] = j == 0 ? v.c(0) : j == 1 ? v.a[0] : j == 2 ? v.b[0] : v.p;
      r[2 + h] = j == 0 ? v.c(1) : j == 1 ? v.a[1] : j == 2 ? v.b[1] : v.q();
    }
  }
  // The same with 9 a + 3 b + c + 3 in place of 64 c, 3 p + q in place of q: fewer instructions (matvec_one.cuh).
  __device__ __forceinline__ void mixed(int j, u32 (&r)[4], const Base3Constants& k) const {
#pragma unroll
    for (int h = 0; h < 2; h++) {
      const Base3 v(five[h], three[h], k);
      r[h] = j == 0 ? v.n[0] : j == 1 ? v.a[0] : j == 2 ? v.b[0] : v.p;
      r[2 + h] = j == 0 ? v.n[1] : j == 1 ? v.a[1] : j == 2 ? v.b[1] : v.pq;
    }
  }
};

// ---- the dot product -------------------------------------------------------------------------------------------------------------------

// Scales of one column's activations in a unit.
struct ActScales {
  f32 d[4];
  int sum[4];  // per k-step two i16
  __device__ __forceinline__ void load(const u8* p) {
    const float4 f = *reinterpret_cast<const float4*>(p);
    const int4 s = *reinterpret_cast<const int4*>(p + 16);
    d[0] = f.x, d[1] = f.y, d[2] = f.z, d[3] = f.w, sum[0] = s.x, sum[1] = s.y, sum[2] = s.z, sum[3] = s.w;
  }
  __device__ __forceinline__ int total(int j) const { return __dp2a_lo(sum[j], 0x0101, 0); }
};

__device__ __forceinline__ f32 half_of(u32 pair, int i) { return __half2float(__ushort_as_half(u16(pair >> (16 * i)))); }
__device__ __forceinline__ f32 byte_float(u32 w, int i) { return f32(w >> (8 * i) & 255); }
__device__ __forceinline__ f32 signed_byte_float(u32 w, int i) { return f32(int(w << (24 - 8 * i)) >> 24); }
__device__ __forceinline__ f32 unbias(int c) { return __int_as_float(c) - float_bias; }

// acc[column half][row half] += the unit's product.  NC: 1 = columns 0..3 of the group only, 2 = all 8.
// unit: shared address.  b: the lane's B registers as two 16-byte loads (k-steps 0, 1 and 2, 3).  s: scales of columns t and t + 4.
template <Code C, Scale S, int NC, bool per_128>
__device__ __forceinline__ void unit_dot(u32 unit, int lane, const uint4 (&b)[2], const ActScales (&s)[NC], const Tables& table, bool bf16,
                                         f32 (&acc)[NC][2]) {
  const Codes<C> codes(unit, lane);
  const u32 scales = unit + code_bytes(C);
  const int g = lane / 4;
  constexpr bool is_signed = Codes<C>::is_signed;
  constexpr f32 row8 = C == Code::q1 ? 0.125f : 1.0f;  // row g + 8 of q1 is 8 times larger still
  constexpr int c[4] = {float_bias_bits, float_bias_bits, float_bias_bits, float_bias_bits};
  auto b0 = [&](int j) { return j % 2 ? b[j / 2].z : b[j / 2].x; };
  auto b1 = [&](int j) { return j % 2 ? b[j / 2].w : b[j / 2].y; };
  auto scaled = [&](f32 d, int j) { return operand_shift(C, j) ? d * (1.0f / f32(1 << operand_shift(C, j))) : d; };

  // Sums of the k-step as floats, times 2^operand_shift: out[column half][row half].  With a zero point of one: minus the sum of q, which
  // is taken off together with the bias (bias + sum times the same, as a float, is what the integer dot product below gives).
  auto step = [&](int j, bool zero_one, f32(&out)[NC][2]) {
    u32 a[4];
    codes.a(j, a, table);
    int d[4];
    mma32<is_signed>(d, a, b0(j), b1(j), c);
#pragma unroll
    for (int n = 0; n < NC; n++) {
      if (zero_one) {
        const int z = 1 << operand_shift(C, j), z8 = C == Code::q1 ? 8 * z : z;
        const f32 off = __int_as_float(__dp2a_lo(s[n].sum[j], z | z << 8, float_bias_bits));
        const f32 off8 = C == Code::q1 ? __int_as_float(__dp2a_lo(s[n].sum[j], z8 | z8 << 8, float_bias_bits)) : off;
        out[n][0] = __int_as_float(d[n]) - off, out[n][1] = __int_as_float(d[2 + n]) - off8;
      } else {
        out[n][0] = unbias(d[n]), out[n][1] = unbias(d[2 + n]);
      }
    }
  };
  // The same for the two halves of 16 inputs.
  auto half_steps = [&](int j, f32(&lo)[NC][2], f32(&hi)[NC][2]) {
    u32 a[4];
    codes.a(j, a, table);
    int d[4], e[4];
    mma16<is_signed>(d, a[0], a[1], b0(j), c);
    mma16<is_signed>(e, a[2], a[3], b1(j), c);
#pragma unroll
    for (int n = 0; n < NC; n++) {
      lo[n][0] = unbias(d[n]), lo[n][1] = unbias(d[2 + n]);
      hi[n][0] = unbias(e[n]), hi[n][1] = unbias(e[2 + n]);
    }
  };

  if constexpr (S == Scale::g128 || S == Scale::g64) {
    constexpr int parts = S == Scale::g64 ? 2 : 1;
    f32 d[2][parts];
    if constexpr (S == Scale::g128) {
      const u32 v = shared_u32(scales + 4 * g);
      d[0][0] = half_of(v, 0), d[1][0] = half_of(v, 1);
    } else {
      const uint2 v = shared_u64(scales + 8 * g);
      d[0][0] = half_of(v.x, 0), d[0][parts - 1] = half_of(v.x, 1), d[1][0] = half_of(v.y, 0), d[1][parts - 1] = half_of(v.y, 1);
    }
#pragma unroll
    for (int part = 0; part < parts; part++) {
      f32 t[NC][2] = {};
#pragma unroll
      for (int j = part * 4 / parts; j < (part + 1) * 4 / parts; j++) {
        f32 v[NC][2];
        step(j, true, v);
#pragma unroll
        for (int n = 0; n < NC; n++) {
          const f32 a = scaled(s[n].d[j], j);
          t[n][0] = __fmaf_rn(v[n][0], a, t[n][0]), t[n][1] = __fmaf_rn(v[n][1], a, t[n][1]);
        }
      }
#pragma unroll
      for (int n = 0; n < NC; n++)
#pragma unroll
        for (int h = 0; h < 2; h++) acc[n][h] = __fmaf_rn(t[n][h], h && row8 != 1.0f ? d[h][part] * row8 : d[h][part], acc[n][h]);
    }
  } else if constexpr (S == Scale::g32 || S == Scale::g32m) {
    uint2 dv[2], mv[2] = {};
    if constexpr (S == Scale::g32) {
      const uint4 v = shared_u128(scales + 16 * g);
      dv[0] = make_uint2(v.x, v.y), dv[1] = make_uint2(v.z, v.w);
    } else {
#pragma unroll
      for (int h = 0; h < 2; h++) {
        const uint4 v = shared_u128(scales + 32 * g + 16 * h);
        dv[h] = make_uint2(v.x, v.y), mv[h] = make_uint2(v.z, v.w);
      }
    }
#pragma unroll
    for (int j = 0; j < 4; j++) {
      f32 v[NC][2];
      step(j, false, v);
#pragma unroll
      for (int h = 0; h < 2; h++) {
        const u32 pair = j < 2 ? dv[h].x : dv[h].y;
        const f32 d = bf16 ? __uint_as_float((pair >> (16 * (j % 2))) << 16) : half_of(pair, j % 2);
#pragma unroll
        for (int n = 0; n < NC; n++) acc[n][h] = __fmaf_rn(v[n][h] * s[n].d[j], d, acc[n][h]);
        if constexpr (S == Scale::g32m) {
          const f32 m = half_of(j < 2 ? mv[h].x : mv[h].y, j % 2);
#pragma unroll
          for (int n = 0; n < NC; n++) acc[n][h] = __fmaf_rn(f32(s[n].total(j)) * s[n].d[j], m, acc[n][h]);
        }
      }
    }
  } else if constexpr (per_128) {
    constexpr bool halves = S == Scale::k16;
    static_assert(S == Scale::k16 || S == Scale::k32);
    u32 sub[2][2], d2;
    if constexpr (halves) {
      const uint4 v = shared_u128(scales + 16 * g);
      sub[0][0] = v.x, sub[0][1] = v.y, sub[1][0] = v.z, sub[1][1] = v.w, d2 = shared_u32(scales + 128 + 4 * g);
    } else {
      const uint2 v = shared_u64(scales + 8 * g);
      sub[0][0] = v.x, sub[1][0] = v.y, d2 = shared_u32(scales + 64 + 4 * g);
    }
    int total[NC][2] = {};
#pragma unroll
    for (int j = 0; j < 4; j++) {
      u32 a[4];
      codes.a(j, a, table);
      constexpr int none[4] = {};
      int d[4], e[4];
      if constexpr (halves)
        mma16<is_signed>(d, a[0], a[1], b0(j), none), mma16<is_signed>(e, a[2], a[3], b1(j), none);
      else
        mma32<is_signed>(d, a, b0(j), b1(j), none);
#pragma unroll
      for (int h = 0; h < 2; h++) {
        // Sub i of the row: a byte with its sign.
        auto sub_of = [&](int i) { return int(permute(halves ? sub[h][j / 2] : sub[h][0], 0, u32(i + (i + 8) * 0x1110))); };
#pragma unroll
        for (int n = 0; n < NC; n++) {
          if constexpr (halves)
            total[n][h] += d[2 * h + n] * sub_of(j % 2 * 2) + e[2 * h + n] * sub_of(j % 2 * 2 + 1);
          else
            total[n][h] += d[2 * h + n] * sub_of(j);
        }
      }
    }
#pragma unroll
    for (int n = 0; n < NC; n++)
#pragma unroll
      for (int h = 0; h < 2; h++) acc[n][h] = __fmaf_rn(f32(total[n][h]) * s[n].d[0], half_of(d2, h), acc[n][h]);
  } else {
    constexpr bool halves = S == Scale::k16 || S == Scale::k16m;
    u32 sub[2][2], low[2] = {};
    f32 d[2], dmin[2] = {};
    const u32 d_at = scales + (halves ? 128 : S == Scale::k32m ? 128 : 64);
    if constexpr (halves) {
      const uint4 v = shared_u128(scales + 16 * g);
      sub[0][0] = v.x, sub[0][1] = v.y, sub[1][0] = v.z, sub[1][1] = v.w;
    } else {
      const uint2 v = shared_u64(scales + 8 * g);
      sub[0][0] = v.x, sub[1][0] = v.y;
      if constexpr (S == Scale::k32m) {
        const uint2 m = shared_u64(scales + 64 + 8 * g);
        low[0] = m.x, low[1] = m.y;
      }
    }
    if constexpr (has_min(S)) {
      const uint2 v = shared_u64(d_at + 8 * g);
      d[0] = half_of(v.x, 0), dmin[0] = half_of(v.x, 1), d[1] = half_of(v.y, 0), dmin[1] = half_of(v.y, 1);
    } else {
      const u32 v = shared_u32(d_at + 4 * g);
      d[0] = half_of(v, 0), d[1] = half_of(v, 1);
    }
    f32 t[NC][2] = {}, m[NC][2] = {};
#pragma unroll
    for (int j = 0; j < 4; j++) {
      f32 v[NC][2];
      if constexpr (halves) {
        f32 lo[NC][2], hi[NC][2];
        half_steps(j, lo, hi);
#pragma unroll
        for (int h = 0; h < 2; h++) {
          const u32 w = sub[h][j / 2];
          const int i = j % 2 * 2;
          const f32 s0 = S == Scale::k16m ? f32(w >> (8 * i) & 15) : signed_byte_float(w, i);
          const f32 s1 = S == Scale::k16m ? f32(w >> (8 * i + 8) & 15) : signed_byte_float(w, i + 1);
#pragma unroll
          for (int n = 0; n < NC; n++) v[n][h] = __fmaf_rn(lo[n][h], s0, hi[n][h] * s1);  // exact: integers below 2^24
        }
      } else {
        step(j, S == Scale::k32d, v);
#pragma unroll
        for (int h = 0; h < 2; h++) {
          if constexpr (S == Scale::k32d) {
            const u32 byte = sub[h][0] >> (8 * j) & 255;
            const f32 f = f32(byte & 127), sign = byte & 128 ? -f : f;
#pragma unroll
            for (int n = 0; n < NC; n++) v[n][h] = __fmaf_rn(v[n][h], 8 * f, f32(s[n].total(j) << operand_shift(C, j)) * sign);
          } else {
            const f32 f = S == Scale::k32m ? byte_float(sub[h][0], j) : signed_byte_float(sub[h][0], j);
#pragma unroll
            for (int n = 0; n < NC; n++) v[n][h] = v[n][h] * f;
          }
        }
      }
#pragma unroll
      for (int n = 0; n < NC; n++) {
        const f32 a = scaled(s[n].d[j], j);
#pragma unroll
        for (int h = 0; h < 2; h++) t[n][h] = __fmaf_rn(v[n][h], a, t[n][h]);
        if constexpr (S == Scale::k16m) {
#pragma unroll
          for (int h = 0; h < 2; h++) {
            const int mins = int(sub[h][j / 2] >> 4 & 0x0f0f0f0f);
            m[n][h] = __fmaf_rn(f32(j % 2 ? __dp2a_hi(s[n].sum[j], mins, 0) : __dp2a_lo(s[n].sum[j], mins, 0)), s[n].d[j], m[n][h]);
          }
        } else if constexpr (S == Scale::k32m) {
          const f32 total = f32(s[n].total(j));
#pragma unroll
          for (int h = 0; h < 2; h++) m[n][h] = __fmaf_rn(total * byte_float(low[h], j), s[n].d[j], m[n][h]);
        }
      }
    }
#pragma unroll
    for (int n = 0; n < NC; n++)
#pragma unroll
      for (int h = 0; h < 2; h++) {
        acc[n][h] = __fmaf_rn(t[n][h], d[h], acc[n][h]);
        if constexpr (has_min(S)) acc[n][h] = __fmaf_rn(m[n][h], -dmin[h], acc[n][h]);
      }
  }
}

}  // namespace fewbit::kernel::cuda
