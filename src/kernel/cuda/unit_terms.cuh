// unit_dot()'s operations for one column in two parts: the integer sums of a unit, and its float steps (matvec_experts.cuh does the first
// for four units at once).
//
// Codes    4-bit levels lie within -64..63: the table holds level - 64, whose bytes have their highest bit set.  A prmt whose selector has
//          bit 3 set repeats that bit, so looking up codes 0..7 in one half and codes 8..15 in the other gives ones where the code is not
//          of that half, and `and` joins them.
#pragma once
#include "kernel/cuda/unit_dot.cuh"

namespace fewbit::kernel::cuda {

// The A registers of k-step j; of n4: level - 64.
template <Code C>
__device__ __forceinline__ void entry_codes(const Codes<C>& codes, int j, u32 (&r)[4], const Tables& t) {
  if constexpr (C == Code::n4) {
#pragma unroll
    for (int f = 0; f < 2; f++) {
      const u32 lo = codes.w[2 * j + f], hi = lo ^ 0x88888888u;
      r[2 * f] = permute(t.w[0], t.w[1], lo) & permute(t.w[2], t.w[3], hi);
      r[2 * f + 1] = permute(t.w[0], t.w[1], lo >> 16) & permute(t.w[2], t.w[3], hi >> 16);
    }
  } else {
    codes.a(j, r, t);
  }
}

// Values and their factors in the order in which a unit adds them: acc = fma(value, factor, acc).
template <Scale S>
struct UnitTerms {
  static constexpr int n = S == Scale::g32 ? 4 : S == Scale::g64 || has_min(S) ? 2 : 1;
  f32 value[n][2], factor[n][2];  // [.][row half]
};

// Sums of the k-steps (by_16: of their halves) of one column, biased (float_bias_bits): [.][2 h] of row g + 8 h.
template <Code C, Scale S>
struct UnitSums {
  static constexpr bool by_16 = S == Scale::k16 || S == Scale::k16m, is_signed = Codes<C>::is_signed;
  int d[4][4], e[by_16 ? 4 : 1][4];

  // Multiplies a unit at a shared address; b: as for unit_dot().  `first`: else it adds.
  __device__ __forceinline__ void add(u32 unit, int lane, const uint4 (&b)[2], const Tables& table, bool first) {
    const Codes<C> codes(unit, lane);
#pragma unroll
    for (int j = 0; j < 4; j++) {
#pragma unroll
      for (int i = 0; i < 4; i++)
        if (first) d[j][i] = e[by_16 ? j : 0][i] = float_bias_bits;
      u32 r[4];
      entry_codes<C>(codes, j, r, table);
      const u32 lo = j % 2 ? b[j / 2].z : b[j / 2].x, hi = j % 2 ? b[j / 2].w : b[j / 2].y;
      if constexpr (by_16)
        mma16<is_signed>(d[j], r[0], r[1], lo, d[j]), mma16<is_signed>(e[j], r[2], r[3], hi, e[j]);
      else
        mma32<is_signed>(d[j], r, lo, hi, d[j]);
    }
  }
};

// The float steps of a unit as in unit_dot().  scales: shared address of the unit's scales; s: of its activations.
template <Code C, Scale S>
__device__ __forceinline__ void unit_terms(const UnitSums<C, S>& sums, u32 scales, int g, const ActScales& s, bool bf16,
                                           UnitTerms<S>& out) {
  constexpr bool halves = UnitSums<C, S>::by_16;
  const auto& d = sums.d;
  const auto& e = sums.e;
  auto a = [&](int j) { return operand_shift(C, j) ? s.d[j] * (1.0f / f32(1 << operand_shift(C, j))) : s.d[j]; };
  // The sum of the k-step in row half h as unit_dot() has it; z: what comes off per q.
  auto sum = [&](int j, int h, int z) {
    if (!z) return unbias(d[j][2 * h]);
    const int of = z << operand_shift(C, j);
    return __int_as_float(d[j][2 * h]) - __int_as_float(__dp2a_lo(s.sum[j], (of & 255) | (of & 255) << 8, float_bias_bits));
  };
  if constexpr (S == Scale::g128 || S == Scale::g64) {
    constexpr int parts = S == Scale::g64 ? 2 : 1, steps = 4 / parts;
    u32 w[parts];  // g128: rows; g64: of each row
    if constexpr (S == Scale::g128) {
      w[0] = shared_u32(scales + 4 * g);
    } else {
      const uint2 v = shared_u64(scales + 8 * g);
      w[0] = v.x, w[1] = v.y;
    }
#pragma unroll
    for (int h = 0; h < 2; h++)
#pragma unroll
      for (int i = 0; i < parts; i++) {
        f32 v = 0;
#pragma unroll
        for (int j = i * steps; j < (i + 1) * steps; j++) v = __fmaf_rn(sum(j, h, C == Code::q1 && h ? 8 : 1), a(j), v);
        const f32 f = S == Scale::g128 ? half_of(w[0], h) : half_of(w[S == Scale::g64 ? h : 0], i);
        out.value[i][h] = v, out.factor[i][h] = C == Code::q1 && h ? f * 0.125f : f;
      }
  } else if constexpr (S == Scale::g32) {
    const uint4 v = shared_u128(scales + 16 * g);
    const u32 w[2][2] = {{v.x, v.y}, {v.z, v.w}};
#pragma unroll
    for (int h = 0; h < 2; h++)
#pragma unroll
      for (int j = 0; j < 4; j++) {
        const u32 pair = w[h][j / 2];
        out.value[j][h] = sum(j, h, C == Code::n4 ? -64 : 0) * s.d[j];
        out.factor[j][h] = bf16 ? __uint_as_float((pair >> (16 * (j % 2))) << 16) : half_of(pair, j % 2);
      }
  } else {
    u32 sub[2][2], low[2] = {};
    f32 m[2] = {};
    if constexpr (halves) {
      const uint4 v = shared_u128(scales + 16 * g);
      sub[0][0] = v.x, sub[0][1] = v.y, sub[1][0] = v.z, sub[1][1] = v.w;
    } else {
      const uint2 v = shared_u64(scales + 8 * g);
      sub[0][0] = v.x, sub[1][0] = v.y;
      if constexpr (S == Scale::k32m) {
        const uint2 w = shared_u64(scales + 64 + 8 * g);
        low[0] = w.x, low[1] = w.y;
      }
    }
    const u32 d_at = scales + (halves || S == Scale::k32m ? 128 : 64);
    if constexpr (has_min(S)) {
      const uint2 v = shared_u64(d_at + 8 * g);
      out.factor[0][0] = half_of(v.x, 0), out.factor[0][1] = half_of(v.y, 0);
      out.factor[1][0] = -half_of(v.x, 1), out.factor[1][1] = -half_of(v.y, 1);
    } else {
      const u32 v = shared_u32(d_at + 4 * g);
      out.factor[0][0] = half_of(v, 0), out.factor[0][1] = half_of(v, 1);
    }
#pragma unroll
    for (int h = 0; h < 2; h++) {
      f32 v = 0;
#pragma unroll
      for (int j = 0; j < 4; j++) {
        f32 x;
        if constexpr (halves) {
          const u32 w = sub[h][j / 2];
          const int i = j % 2 * 2;
          const f32 s0 = S == Scale::k16m ? f32(w >> (8 * i) & 15) : signed_byte_float(w, i);
          const f32 s1 = S == Scale::k16m ? f32(w >> (8 * i + 8) & 15) : signed_byte_float(w, i + 1);
          x = __fmaf_rn(unbias(d[j][2 * h]), s0, unbias(e[j][2 * h]) * s1);
        } else if constexpr (S == Scale::k32d) {
          const u32 byte = sub[h][0] >> (8 * j) & 255;
          const f32 f = f32(byte & 127), sign = byte & 128 ? -f : f;
          x = __fmaf_rn(sum(j, h, 1), 8 * f, f32(s.total(j) << operand_shift(C, j)) * sign);
        } else {
          const f32 f = S == Scale::k32m ? byte_float(sub[h][0], j) : signed_byte_float(sub[h][0], j);
          x = sum(j, h, C == Code::n4 ? -64 : 0) * f;
        }
        v = __fmaf_rn(x, a(j), v);
        if constexpr (S == Scale::k16m) {
          const int mins = int(sub[h][j / 2] >> 4 & 0x0f0f0f0f);
          m[h] = __fmaf_rn(f32(j % 2 ? __dp2a_hi(s.sum[j], mins, 0) : __dp2a_lo(s.sum[j], mins, 0)), s.d[j], m[h]);
        } else if constexpr (S == Scale::k32m) {
          m[h] = __fmaf_rn(f32(s.total(j)) * byte_float(low[h], j), s.d[j], m[h]);
        }
      }
      out.value[0][h] = v;
      if constexpr (has_min(S)) out.value[1][h] = m[h];
    }
  }
}

}  // namespace fewbit::kernel::cuda
