// Every block format seen as integers, which is what the 8-bit path multiplies:
//
//   w[e] = d * sub[e / 16] * level[e] - dmin * min[e / 16]
//
// level: i8;  sub, min: small integers (1 and 0 where the format has none);  d, dmin: one float per block.  sub of NVFP4 is a float.
//
// The float order of the CPU's fast path.  It depends on K alone; every layout, instruction set and width follows it, so all of
// them give the same bits.  With activations q (integers, one scale a per 32 inputs), for one row and one column:
//
//   acc = 0
//   for each span of `span` inputs, in order:               span = what shares d: the block, but 128 for TQ1_0, TQ2_0 and I2_S
//     t = m = 0
//     for each group of 32 inputs in it, in order:
//       S = sum over the group's two halves of sub * (sum of level * q)     exact integers below 2^24 (rounded for NVFP4 alone)
//       t = fma(a, S, t)
//       m = fma(min, a * (sum of q), m)                                     once, or for each half where halves differ
//     acc = fma(d, t, acc);   acc = fma(-dmin, m, acc)
//   y = acc [* tensor scale] [* scale] [+ bias], each rounded
#pragma once
#include "format/decode.h"

namespace fewbit::kernel::cpu {

template <class F>
inline constexpr bool has_min = HasOffset<F>;
template <class F>
inline constexpr int span_of = F::block;
template <>
inline constexpr int span_of<TQ1_0> = 128;
template <>
inline constexpr int span_of<TQ2_0> = 128;

template <class F>
inline constexpr bool has_scale_code = requires(BytePtr b) {
  F::scale_code(b, 0);
};

// d is the block's f16 times this (a power of two), and dmin its f16 times dmin_sign.
template <class F>
inline constexpr f32 d_factor = 1.0f;
template <>
inline constexpr f32 d_factor<IQ1_S> = 0.125f;
template <>
inline constexpr f32 d_factor<IQ1_M> = 0.125f;
template <>
inline constexpr f32 d_factor<IQ2_XXS> = 0.125f;
template <>
inline constexpr f32 d_factor<IQ2_XS> = 0.125f;
template <>
inline constexpr f32 d_factor<IQ2_S> = 0.125f;
template <>
inline constexpr f32 d_factor<IQ3_XXS> = 0.25f;
template <class F>
inline constexpr f32 dmin_sign = std::is_same_v<F, Q4_1> || std::is_same_v<F, Q5_1> ? -1.0f : 1.0f;  // these add m

template <class F>
inline f32 block_d(BytePtr b) {
  if constexpr (std::is_same_v<F, I2_S> || std::is_same_v<F, NVFP4>)
    return 1.0f;
  else if constexpr (std::is_same_v<F, MXFP4>)
    return F::scale(b, 0);
  else if constexpr (std::is_same_v<F, IQ1_M>)
    return f32_of_f16(F::scale_bits(b)) * d_factor<F>;
  else
    return f16_at(b + F::scale_at) * d_factor<F>;
}

// Integer factor of the group of F::group inputs.  Not for NVFP4.
template <class F>
inline i32 block_sub_code(BytePtr b, int g) {
  if constexpr (std::is_same_v<F, Q2_K>)
    return b[F::scales_at + g] & 15;
  else if constexpr (std::is_same_v<F, Q4_K> || std::is_same_v<F, Q5_K>)
    return k4_scale(b + F::scales_at, g);
  else if constexpr (std::is_same_v<F, Q6_K>)
    return i8(b[F::scales_at + g]);
  else if constexpr (std::is_same_v<F, Q3_K> || std::is_same_v<F, IQ4_XS>)
    return F::scale_code(b, g);
  else if constexpr (has_scale_code<F>)
    return 2 * F::scale_code(b, g) + 1;  // IQ1_*, IQ2_*, IQ3_*
  else
    return 1;
}
template <class F>
inline f32 block_sub(BytePtr b, int g) {
  if constexpr (std::is_same_v<F, NVFP4>)
    return F::scale(b, g);
  else
    return f32(block_sub_code<F>(b, g));
}

template <class F>
inline f32 block_dmin(BytePtr b) {
  if constexpr (has_min<F>)
    return dmin_sign<F> * f16_at(b + F::min_at);
  else
    return 0;
}
template <class F>
inline i32 block_min_code(BytePtr b, int g) {
  if constexpr (!has_min<F>)
    return 0;
  else if constexpr (std::is_same_v<F, Q4_1> || std::is_same_v<F, Q5_1>)
    return 1;
  else if constexpr (std::is_same_v<F, Q2_K>)
    return b[F::scales_at + g] >> 4;
  else
    return k4_min(b + F::scales_at, g);
}

// Whether sub and min are the same for both halves of 32 inputs.
template <class F>
inline constexpr bool halves_differ = F::group < 32;

// One block in integers; `levels` holds F::block bytes.
template <class F>
struct IntegerBlock {
  static constexpr int groups = F::group < F::block ? F::block / F::group : 1;
  alignas(32) i8 level[F::block];
  f32 sub[groups], min[groups];
  f32 d, dmin;

  explicit IntegerBlock(BytePtr b) : d(block_d<F>(b)), dmin(block_dmin<F>(b)) {
    block_levels<F>(b, level);
    for (int g = 0; g < groups; g++) {
      sub[g] = block_sub<F>(b, g);
      min[g] = f32(block_min_code<F>(b, g));
    }
  }
  // The weight itself: bit for bit what decode_block gives (tested), because d * sub and its product with a level are exact.
  f32 value(int e) const {
    const int g = e / (F::block / groups);
    f32 v = d * sub[g] * f32(level[e]);
    if constexpr (has_min<F>) v = v + -(dmin * min[g]);
    return v;
  }
};

}  // namespace fewbit::kernel::cpu
