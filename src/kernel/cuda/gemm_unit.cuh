// A unit's scales, and its weights as f16 in wgmma's A registers.
#pragma once
#include "kernel/cuda/layout.h"
#include "kernel/cuda/wgmma.cuh"

namespace fewbit::kernel::cuda {

// f16 1024 twice: or-ed with an integer below 1024, the f16 1024 + integer.  A kernel argument, so that it sits in a register: a mask and
// this as immediates would take two instructions.
inline constexpr u32 half_bias_bits = 0x64006400u;

// Scales of a lane's rows g (h = 0) and g + 8 (h = 1) of a unit, as they lie in memory.
template <Scale S>
struct UnitScales {
  static constexpr bool by_16 = S == Scale::k16 || S == Scale::k16m;
  static constexpr bool has_sub = by_16 || S == Scale::k32 || S == Scale::k32d || S == Scale::k32m;
  static constexpr int words = scale_bytes(S) / 32;  // of two of the unit's 16 rows
  u32 v[words];

  __device__ __forceinline__ void load(u32 at, int g) {
    if constexpr (S == Scale::g128) {
      v[0] = shared_u32(at + 4 * g);
    } else if constexpr (S == Scale::g64) {
      const uint2 a = shared_u64(at + 8 * g);
      v[0] = a.x, v[1] = a.y;
    } else if constexpr (S == Scale::g32 || by_16) {
      const uint4 a = shared_u128(at + 16 * g);
      v[0] = a.x, v[1] = a.y, v[2] = a.z, v[3] = a.w;
      if constexpr (S == Scale::k16) v[4] = shared_u32(at + 128 + 4 * g);
      if constexpr (S == Scale::k16m) {
        const uint2 d = shared_u64(at + 128 + 8 * g);
        v[4] = d.x, v[5] = d.y;
      }
    } else if constexpr (S == Scale::g32m) {
      const uint4 a = shared_u128(at + 32 * g), b = shared_u128(at + 32 * g + 16);
      v[0] = a.x, v[1] = a.y, v[2] = a.z, v[3] = a.w, v[4] = b.x, v[5] = b.y, v[6] = b.z, v[7] = b.w;
    } else {
      const uint2 a = shared_u64(at + 8 * g);
      v[0] = a.x, v[1] = a.y;
      if constexpr (S == Scale::k32m) {
        const uint2 m = shared_u64(at + 64 + 8 * g), d = shared_u64(at + 128 + 8 * g);
        v[2] = m.x, v[3] = m.y, v[4] = d.x, v[5] = d.y;
      } else {
        v[2] = shared_u32(at + 64 + 4 * g);
      }
    }
  }
  // The scale of k-step j, and that of its minima.
  __device__ __forceinline__ f32 d(int h, int j, bool bf16) const {
    if constexpr (S == Scale::g64) return half_of(v[h], j / 2);
    if constexpr (S == Scale::g32) {
      const u32 pair = v[2 * h + j / 2];
      return bf16 ? __uint_as_float((pair >> (16 * (j % 2))) << 16) : half_of(pair, j % 2);
    }
    if constexpr (S == Scale::g32m) return half_of(v[4 * h + j / 2], j % 2);
    if constexpr (has_min(S)) return half_of(v[4 + h], 0);
    return half_of(v[words - 1], h);
  }
  __device__ __forceinline__ f32 dmin(int h, int j) const {
    if constexpr (S == Scale::g32m) return half_of(v[4 * h + 2 + j / 2], j % 2);
    if constexpr (has_min(S)) return -half_of(v[4 + h], 1);
    return 0;
  }
  // The integer factor of half f of k-step j, twice as f16.
  __device__ __forceinline__ u32 sub(int h, int j, int f, u32 bias) const {
    constexpr bool is_signed = S == Scale::k16 || S == Scale::k32;
    u32 word = v[by_16 ? 2 * h + j / 2 : h];
    const int byte = by_16 ? j % 2 * 2 + f : j;
    if constexpr (S == Scale::k16m) word &= 0x0f0f0f0fu;
    if constexpr (S == Scale::k32d) word &= 0x7f7f7f7fu;
    if constexpr (is_signed) word ^= 0x80808080u;
    return hadd2(permute(word, bias, 0x5050 + 0x0101 * byte), h2(is_signed ? -1152 : -1024));
  }
  // The same of k16 and k32 as an integer.
  __device__ __forceinline__ int sub_int(int h, int j, int f) const {
    const u32 byte = by_16 ? j % 2 * 2 + f : j;
    return int(permute(v[by_16 ? 2 * h + j / 2 : h], 0, byte + (byte + 8) * 0x1110));  // 8: its sign
  }
  // k32d: what comes off 8 c sub.
  __device__ __forceinline__ u32 shift(int h, int j, u32 sub) const { return hmul2(sub, v[h] >> (8 * j + 7) & 1 ? h2(-9) : h2(-7)); }
  // Factors of the sums of the halves of k-step j: two f16.
  __device__ __forceinline__ u32 mins(int h, int j, u32 bias) const {
    if constexpr (S == Scale::k16m)
      return hadd2(permute((j < 2 ? v[2 * h] : v[2 * h + 1]) >> 4 & 0x0f0f0f0fu, bias, 0x5150 + 0x0202 * u32(j % 2)), h2(-1024));
    if constexpr (S == Scale::k32m) return hadd2(permute(v[2 + h], bias, 0x5050 + 0x0101 * u32(j)), h2(-1024));
    return h2(1);
  }
};

// A lane's codes of a unit; bytes all at once where there are registers for them.
template <Code C, bool held>
struct UnitCodes : Codes<C> {
  using Codes<C>::Codes;
};
template <bool held>
struct UnitCodes<Code::n4, held> : Codes<Code::n4> {
  using Codes<Code::n4>::Codes;
  __device__ __forceinline__ void a(int j, u32 (&r)[4], const Tables& t) const {
#pragma unroll
    for (int f = 0; f < 2; f++) {
      const u32 v = w[2 * j + f], m = v & 0x77777777u, s = and_or(v >> 1, t.fours, 0x32103210u);
      r[2 * f] = permute(permute(t.w[0], t.w[1], m), permute(t.w[2], t.w[3], m), s);
      r[2 * f + 1] = permute(permute(t.w[0], t.w[1], m >> 16), permute(t.w[2], t.w[3], m >> 16), s >> 16);
    }
  }
};
template <>
struct UnitCodes<Code::b8, true> {
  uint4 v[4];
  __device__ __forceinline__ UnitCodes(u32 unit, int lane) {
#pragma unroll
    for (int j = 0; j < 4; j++) v[j] = shared_u128(unit + u32(512 * j + lane * 16));
  }
  __device__ __forceinline__ void a(int j, u32 (&r)[4], const Tables&) const { r[0] = v[j].x, r[1] = v[j].y, r[2] = v[j].z, r[3] = v[j].w; }
};

// Weights of k-step j: a[4 f + x'], x' = h: bytes 0 and 2 of row half h; x' = 2 + h: bytes 1 and 3.  Plain nibbles: level = c - 8, or c
// (Q4_K), without a table.  halves: the table's bytes are the upper bytes of f16 (MXFP4).
template <Code C, Scale S, int factor, bool plain, bool halves = false, class UnitCodes>
__device__ __forceinline__ void half_step(const UnitCodes& codes, const Tables& table, int j, const UnitScales<S>& scales, u32 bias,
                                          u32 (&a)[8]) {
  constexpr bool has_sub = UnitScales<S>::has_sub;
  if constexpr ((C == Code::b2 || C == Code::q1) && !has_sub) {
#pragma unroll
    for (int x = 0; x < 4; x++) {  // 1024 + a multiple of the code, then the level
      const int h = x % 2, f = x / 2;
      u32 w, mask;
      f32 s = 1.0f / f32(1 << j);
      if constexpr (C == Code::b2)
        w = x == 0 ? codes.w.x : x == 1 ? codes.w.y : x == 2 ? codes.w.z : codes.w.w, mask = 0x00030003u << (2 * j), s *= s;
      else
        w = h ? codes.w[f] : codes.up[f], mask = (h ? 0x00100010u : 0x00020002u) << j, s *= h ? 0.125f : 1.0f;
      a[4 * f + h] = hfma2(and_or(w, mask, bias), h2(s), h2(-1024 * s - 1));
      a[4 * f + 2 + h] = hfma2(and_or(w >> 8, mask, bias), h2(s), h2(-1024 * s - 1));
    }
  } else if constexpr (C == Code::t5) {
    u32 r[4];
    codes.a(j, r, table);
    const f32 s = 1.0f / f32(1 << operand_shift(C, j));
#pragma unroll
    for (int x = 0; x < 4; x++) {
      const int h = x % 2, f = x / 2;
      a[4 * f + h] = hfma2(permute(r[x], bias, 0x5250), h2(s), h2(-1024 * s - 1));
      a[4 * f + 2 + h] = hfma2(permute(r[x], bias, 0x5351), h2(s), h2(-1024 * s - 1));
    }
  } else if constexpr (C == Code::b2) {
    const u32 w[4] = {codes.w.x, codes.w.y, codes.w.z, codes.w.w};
    const u32 mask = 0x00030003u << (2 * j);
    const f32 s = 1.0f / f32(1 << (2 * j));
#pragma unroll
    for (int x = 0; x < 4; x++) {
      const int h = x % 2, f = x / 2;
      u32 v[2] = {and_or(w[x], mask, bias), and_or(w[x] >> 8, mask, bias)};  // 1024 + 4^j c
#pragma unroll
      for (int i = 0; i < 2; i++) {
        const u32 sub = scales.sub(h, j, f, bias);
        if constexpr (S == Scale::k32d)
          v[i] = hfma2(hfma2(v[i], h2(8 * s), h2(-8192 * s)), sub, scales.shift(h, j, sub));  // 8 c sub + (sign - 8) sub
        else
          v[i] = hmul2(hfma2(v[i], h2(s), h2(-1024 * s)), sub);
        a[4 * f + 2 * i + h] = v[i];
      }
    }
  } else if constexpr (C == Code::n4 && plain) {
#pragma unroll
    for (int h = 0; h < 2; h++) {
      u32 sub = h2(1), off = h2(-1032), sub16 = h2(1.0f / 16), off16 = h2(-72);
      if constexpr (S == Scale::k32m)
        sub = scales.sub(h, j, 0, bias), off = hmul2(sub, h2(-1024)), sub16 = hmul2(sub, h2(1.0f / 16)), off16 = hmul2(sub, h2(-64));
#pragma unroll
      for (int f = 0; f < 2; f++) {
        const u32 v = permute(codes.w[2 * j + f], bias, h ? 0x5352 : 0x5150);  // 1024 + two nibbles, twice
        a[4 * f + h] = hfma2(v & 0xff0fff0fu, sub, off), a[4 * f + 2 + h] = hfma2(v & 0xfff0fff0u, sub16, off16);
      }
    }
  } else {  // the table's bytes are 128 + level; so become the codes without a table
    u32 r[4];
    codes.a(j, r, table);
#pragma unroll
    for (int x = 0; x < 4; x++) {
      const int h = x % 2, f = x / 2;
      if constexpr (halves) {
        a[4 * f + h] = permute(r[x], 0, 0x2404), a[4 * f + 2 + h] = permute(r[x], 0, 0x3414);
        continue;
      }
      if constexpr (C == Code::b8) r[x] ^= 0x80808080u;
      u32 v[2] = {permute(r[x], bias, 0x5250), permute(r[x], bias, 0x5351)};  // 1024 + 128 + level
      u32 sub = 0, off = 0;
      if constexpr (has_sub) sub = scales.sub(h, j, S == Scale::k16 ? f : 0, bias), off = hmul2(sub, h2(-1152));
#pragma unroll
      for (int i = 0; i < 2; i++) {
        if constexpr (S == Scale::k32m)  // 1152 sub could be beyond f16
          v[i] = hmul2(hadd2(v[i], h2(-1152)), sub);
        else if constexpr (has_sub)
          v[i] = hfma2(v[i], sub, off);  // 1152 sub is 9 sub times a power of two, so exact
        else
          v[i] = hadd2(v[i], h2(-1152));
        a[4 * f + 2 * i + h] = v[i];
      }
    }
  }
}

// Weights of k-step j for two planes of bytes, level * sub = 256 hi + lo with lo unsigned, from 8-bit codes or tables (128 + level) and
// scales k16, k32.  Two levels c = 128 + level at a time, in 16 bits each: c sub - 128 sub + 2^15 stays within them.
inline constexpr u32 byte_bias_bits = 0x80008000u;
template <Code C, Scale S, class UnitCodes>
__device__ __forceinline__ void byte_pairs(const UnitCodes& codes, const Tables& table, int j, const UnitScales<S>& scales, u32 bias,
                                           u32 (&a)[4], u32 (&b)[4]) {
  u32 r[4];
  codes.a(j, r, table);
#pragma unroll
  for (int x = 0; x < 4; x++) {
    if constexpr (C == Code::b8) r[x] ^= 0x80808080u;
    const u32 sub = u32(scales.sub_int(x % 2, j, S == Scale::k16 ? x / 2 : 0)), off = sub * u32(-0x00800080) + bias;
    a[x] = permute(r[x], 0, 0x4140) * sub + off, b[x] = permute(r[x], 0, 0x4342) * sub + off;
  }
}
__device__ __forceinline__ u32 upper_bytes(u32 a, u32 b) { return permute(a, b, 0x7531) ^ 0x80808080u; }
__device__ __forceinline__ u32 lower_bytes(u32 a, u32 b) { return permute(a, b, 0x6420); }

}  // namespace fewbit::kernel::cuda
