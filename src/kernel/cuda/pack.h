// A file's blocks -> units of a device layout (layout.h), losslessly.  Runs on the GPU at load, on the CPU in tests.
#pragma once
#include <type_traits>

#include "format/formats.h"
#include "kernel/cuda/layout.h"

namespace fewbit::kernel::cuda {

// The layout of each format that has one: X(format, codes, scales)
// clang-format off
#define FEWBIT_CUDA_TARGETS(X)                                                                                      \
  X(Q1_0, q1, g128)                                                                                                 \
  X(PQ2_0, b2, g128) X(Q2_0_LEGACY128, b2, g128) X(PTQ1_0, b2, g128) X(TQ1_0, b2, g128) X(TQ2_0, b2, g128)          \
  X(I2_S, b2, g128) X(Q2_0, b2, g64) X(Q2_K, b2, k16m) X(IQ1_S, b2, k32d)                                           \
  X(IQ1_M, d2, k16) X(IQ2_XS, t3, k16) X(IQ2_S, t3, k16) X(Q3_K, t3, k16) X(IQ2_XXS, t3, k32)                       \
  X(Q4_0, n4, g32) X(IQ4_NL, n4, g32) X(MXFP4, n4, g32) X(IQ3_XXS, n4, k32) X(IQ3_S, n4, k32) X(IQ4_XS, n4, k32)    \
  X(Q4_K, n4, k32m) X(Q8_0, b8, g32) X(Q5_0, b8, g32) X(Q4_1, b8, g32m) X(Q5_1, b8, g32m) X(Q6_K, b8, k16)          \
  X(Q5_K, b8, k32m)
// and the smaller one of those that have two
#define FEWBIT_CUDA_DENSE_TARGETS(X) X(PTQ1_0, t5, g128) X(TQ1_0, t5, g128)
// clang-format on

template <class F, bool dense = false>
struct Target : Target<F> {};
#define FEWBIT_X(F, c, s)                       \
  template <>                                   \
  struct Target<F> {                            \
    FEWBIT_CONST int layout = layout_##c##_##s; \
    FEWBIT_CONST Code code = Code::c;           \
    FEWBIT_CONST Scale scale = Scale::s;        \
  };
FEWBIT_CUDA_TARGETS(FEWBIT_X)
#undef FEWBIT_X
#define FEWBIT_X(F, c, s)                       \
  template <>                                   \
  struct Target<F, true> {                      \
    FEWBIT_CONST int layout = layout_##c##_##s; \
    FEWBIT_CONST Code code = Code::c;           \
    FEWBIT_CONST Scale scale = Scale::s;        \
  };
FEWBIT_CUDA_DENSE_TARGETS(FEWBIT_X)
#undef FEWBIT_X

template <class F, class... G>
inline constexpr bool one_of = (std::is_same_v<F, G> || ...);

// Grid of a codebook format, or any pointer where there is none.
template <class F, class = void>
struct GridOf {
  using type = u64;
};
template <class F>
struct GridOf<F, std::void_t<typename F::Grid>> {
  using type = typename F::Grid;
};
template <class F>
inline constexpr bool has_grid = one_of<F, IQ1_S, IQ1_M, IQ2_XXS, IQ2_XS, IQ2_S, IQ3_XXS, IQ3_S>;

// The code that stands for an integer level of the format in its device layout.
template <class F>
FEWBIT_FN u32 code_of_level(i32 l) {
  if constexpr (std::is_same_v<F, Q1_0>)
    return u32(l + 1) / 2;
  else if constexpr (Target<F>::code == Code::b8)
    return u32(l) & 255;
  else
    return u32(l + F::zero);
}

// The same for four levels of a codebook format, one per byte.
template <class F>
FEWBIT_FN u32 codes_of_levels(u32 l) {
  constexpr u32 ones = 0x01010101;
  auto plus = [](u32 v, u32 n) { return ((v & ~(ones << 7)) + n * ones) ^ (v & ones << 7); };  // to each byte
  const u32 minus = l >> 7 & ones, size = (l ^ minus * 255) + minus;                           // no level is 0
  if constexpr (std::is_same_v<F, IQ1_S>) {
    return plus(l, 12) >> 3 & 3 * ones;  // 8 t +- 1: t + 1
  } else if constexpr (std::is_same_v<F, IQ1_M>) {
    const u32 v = plus(l, 9);  // of +-9, +-7, +-1: 0, 2, 8, 10, 16, 18
    return (v >> 3 & 3 * ones) | (v << 1 & 4 * ones);
  } else if constexpr (one_of<F, IQ2_XXS, IQ2_XS, IQ2_S>) {
    return (size >> 4 & 3 * ones) | minus << 2;  // 8, 25, 43
  } else if constexpr (std::is_same_v<F, IQ3_XXS>) {
    return (size >> 3 & 7 * ones) | minus << 3;  // 4, 12 .. 52, 62
  } else {
    return (size >> 1 & 7 * ones) | minus << 3;  // 1, 3 .. 15
  }
}

// Codes of the 4 inputs e .. e+3 (e % 4 == 0) of the block at b, one per byte.
template <class F>
FEWBIT_FN u32 four_codes(BytePtr b, int e, [[maybe_unused]] const typename GridOf<F>::type* grid) {
  u32 c = 0;
  if constexpr (has_grid<F>) {
    c = codes_of_levels<F>(u32(F::levels(b, e / 8, grid) >> (8 * (e % 8))));
  } else if constexpr (std::is_same_v<F, IQ4_NL>) {
    for (int i = 0; i < 4; i++) c |= nibble_at(b + F::codes_at, e + i) << (8 * i);
  } else if constexpr (std::is_same_v<F, MXFP4>) {
    for (int i = 0; i < 4; i++) c |= nibble_at(b + F::codes_at, e + i) << (8 * i);
  } else if constexpr (std::is_same_v<F, IQ4_XS>) {
    for (int i = 0; i < 4; i++) c |= nibble_at(b + F::codes_at + 16 * (e / 32), e % 32 + i) << (8 * i);
  } else {
    for (int i = 0; i < 4; i++) c |= code_of_level<F>(F::level(b, e + i)) << (8 * i);
  }
  return c;
}

// Of a file that loading holds on the GPU beside what it makes, at most.
inline constexpr u64 staging_bytes = 64 << 20;

// Where the rows of a row tile are: one matrix, or a pair whose rows alternate in eights.
struct PackSource {
  const u8* data[2] = {nullptr, nullptr};  // rows of blocks; [1] only for a pair
  i64 row_bytes = 0, rows = 0;             // rows of each
  int cols = 0;
  FEWBIT_FN const u8* row(i64 tile, int i) const {
    if (data[1]) {
      const i64 r = tile * 8 + i % 8;
      return r < rows ? (i < 8 ? data[0] : data[1]) + r * row_bytes : nullptr;
    }
    const i64 r = tile * 16 + i;
    return r < rows ? data[0] + r * row_bytes : nullptr;
  }
};

FEWBIT_FN void store_u32(u8* p, u32 v) { p[0] = u8(v), p[1] = u8(v >> 8), p[2] = u8(v >> 16), p[3] = u8(v >> 24); }
FEWBIT_FN void store_u16(u8* p, u32 v) { p[0] = u8(v), p[1] = u8(v >> 8); }

// Bits of the f16 (MXFP4: bf16) factor d of the block.
template <class F>
FEWBIT_FN u32 d_bits(BytePtr b) {
  if constexpr (std::is_same_v<F, I2_S>)
    return 0x3c00;  // 1: the tensor's own factor is a float and goes into the launch
  else if constexpr (std::is_same_v<F, MXFP4>)
    return b[F::exponent_at] < 2 ? 0x20u << b[F::exponent_at] : (b[F::exponent_at] - 1u) << 7;
  else if constexpr (std::is_same_v<F, IQ1_M>)
    return F::scale_bits(b);
  else
    return u16_at(b + F::scale_at);
}

// Integer factor of group g of a 256-block, and its minimum's.
template <class F>
FEWBIT_FN i32 sub_of(BytePtr b, int g) {
  if constexpr (std::is_same_v<F, Q2_K>)
    return b[F::scales_at + g] & 15;
  else if constexpr (one_of<F, Q4_K, Q5_K>)
    return k4_scale(b + F::scales_at, g);
  else if constexpr (std::is_same_v<F, Q6_K>)
    return i8(b[F::scales_at + g]);
  else if constexpr (one_of<F, Q3_K, IQ4_XS>)
    return F::scale_code(b, g);
  else
    return 2 * F::scale_code(b, g) + 1;
}

// Four bytes below 16 -> as many nibbles.
FEWBIT_FN u32 nibbles(u32 v) {
  v = (v | v >> 4) & 0x00ff00ffu;
  return (v | v >> 8) & 0xffffu;
}

// Where in a row the bytes of unit u's inputs begin.
template <class F>
FEWBIT_FN i64 unit_source_at(int u) {
  return i64(unit_k) * u / F::block * F::bytes;
}

// Codes of lane 4 g + t of k-step j of a row: four inputs of either half.  block(k): the block of the unit's input k, or nullptr; first:
// the place of the unit's first input in its block.  All lanes of a warp call it.
template <class F, class Block>
FEWBIT_FN void step_codes(const Block& block, int first, int j, int t, const typename GridOf<F>::type* grid, u32 (&c)[2]) {
#if defined(__CUDA_ARCH__)
  if constexpr (has_grid<F>) {  // eight levels are found at once: lanes 2 i and 2 i + 1 do one half's each, for both
    const int half = t % 2, k = 32 * j + 16 * half + t / 2 * 8;
    const u8* b = block(k);
    const u64 levels = b ? F::levels(b, (first + k) % F::block / 8, grid) : 0;
    const u32 lo = b ? codes_of_levels<F>(u32(levels)) : 0, up = b ? codes_of_levels<F>(u32(levels >> 32)) : 0;
    const u32 other = __shfl_xor_sync(~0u, half ? lo : up, 1);
    c[0] = half ? other : lo, c[1] = half ? up : other;
  } else
#endif
  {
    for (int f = 0; f < 2; f++) {
      const int k = 32 * j + 16 * f + 4 * t;
      const u8* b = block(k);
      c[f] = b ? four_codes<F>(b, (first + k) % F::block, grid) : 0;
    }
  }
}

// Lane `lane`'s share of unit u of a row tile of `cols` inputs; 32 lanes write the whole unit.  rows(i): the bytes of row i (of 16) that
// hold the unit's inputs, or nullptr.
template <class F, bool dense, class Rows>
FEWBIT_FN void pack_lane(const Rows& rows, int cols, int u, int lane, const typename GridOf<F>::type* grid, u8* unit) {
  constexpr Code code = Target<F, dense>::code;
  constexpr Scale scale = Target<F, dense>::scale;
  const int g = lane / 4, t = lane % 4, first = unit_k * u % F::block;
  auto block_of = [&](const u8* row, int k) -> const u8* {  // of input k of the unit, or nullptr
    return row && unit_k * u + k < cols ? row + (first + k) / F::block * F::bytes : nullptr;
  };
  u32 w[16] = {}, hi[2] = {};
  for (int h = 0; h < 2; h++) {
    const u8* row = rows(g + 8 * h);
    for (int j = 0; j < 4; j++) {
      u32 c[2];
      step_codes<F>([&](int k) { return block_of(row, k); }, first, j, t, grid, c);
      for (int f = 0; f < 2; f++) {
        const int x = h + 2 * f;
        if constexpr (code == Code::q1)
          w[f] |= c[f] << (4 * h + j);
        else if constexpr (code == Code::b2)
          w[x] |= c[f] << (2 * j);
        else if constexpr (code == Code::t3)
          w[j] |= nibbles(c[f] & 0x03030303u) << (16 * h + 2 * f), hi[j / 2] |= nibbles(c[f] >> 2 & 0x01010101u)
                                                                                << (16 * h + j % 2 * 2 + f);
        else if constexpr (code == Code::d2)
          w[j] |= nibbles(c[f] & 0x03030303u) << (16 * h + 2 * f), hi[0] |= (c[f] >> 2 & 1) << (8 * h + 2 * j + f);
        else if constexpr (code == Code::t5)
          w[f == 0 || j == 3 ? h : 2 + h] += c[f] * base3_worth(f, j);
        else if constexpr (code == Code::n4)
          w[2 * j + f] |= nibbles(c[f]) << (16 * h);
        else
          w[4 * j + x] = c[f];
      }
    }
  }
  if constexpr (code == Code::q1) {
    for (int f = 0; f < 2; f++) store_u32(unit + lane * 8 + 4 * f, w[f]);
  } else if constexpr (code == Code::t3) {
    for (int j = 0; j < 4; j++) store_u32(unit + lane * 16 + 4 * j, w[j]);
    for (int f = 0; f < 2; f++) store_u32(unit + 512 + lane * 8 + 4 * f, hi[f]);
  } else if constexpr (code == Code::t5) {
    for (int i = 0; i < 4; i++) w[i] += 0x01010101u * base3_least;
    for (int h = 0; h < 2; h++) store_u32(unit + lane * 8 + 4 * h, w[h]);
    store_u32(unit + 256 + lane * 4, w[2] << 3 | (w[3] & 0x07070707u));
    const u32 upper = w[3] >> 3 & 0x03030303u;
    unit[384 + lane] = u8(upper << 6 | upper >> 4 | upper >> 14 | upper >> 24);
  } else if constexpr (code == Code::d2) {
    for (int j = 0; j < 4; j++) store_u32(unit + lane * 16 + 4 * j, w[j]);
    if (t % 2 == 0) store_u16(unit + 512 + 4 * g + t, hi[0]);
  } else {
    for (int i = 0; i < code_bytes(code) / 128; i++) store_u32(unit + i / 4 * 512 + lane * 16 + i % 4 * 4, w[i]);
  }

  if (t >= 2) return;
  const int h = t, r = 2 * g + h;
  u8* s = unit + code_bytes(code);
  const u8* row = rows(g + 8 * h);
  auto block = [&](int k) { return block_of(row, k); };
  if constexpr (scale == Scale::g128) {
    const u8* b = block(0);
    store_u16(s + 2 * r, b ? d_bits<F>(b) : 0);
  } else if constexpr (scale == Scale::g64) {
    for (int i = 0; i < 2; i++) {
      const u8* b = block(64 * i);
      store_u16(s + 4 * r + 2 * i, b ? d_bits<F>(b) : 0);
    }
  } else if constexpr (scale == Scale::g32) {
    for (int j = 0; j < 4; j++) {
      const u8* b = block(32 * j);
      store_u16(s + 8 * r + 2 * j, b ? d_bits<F>(b) : 0);
    }
  } else if constexpr (scale == Scale::g32m) {
    for (int j = 0; j < 4; j++) {
      const u8* b = block(32 * j);
      store_u16(s + 16 * r + 2 * j, b ? d_bits<F>(b) : 0);
      store_u16(s + 16 * r + 8 + 2 * j, b ? u16_at(b + F::min_at) : 0);
    }
  } else {  // 256-blocks: the unit is one half
    const u8* b = block(0);
    const int half = u % 2;
    constexpr int groups = scale == Scale::k16 || scale == Scale::k16m ? 8 : 4;
    for (int i = 0; i < groups; i++) {
      const int gr = half * groups + i;
      u32 v = b ? u32(sub_of<F>(b, gr)) & 255 : 0;
      if constexpr (scale == Scale::k16m) v = b ? b[F::scales_at + gr] : 0;
      if constexpr (scale == Scale::k32d) v |= b && F::minus(b, 4 * gr) ? 128 : 0;
      s[groups * r + i] = u8(v);
      if constexpr (scale == Scale::k32m) s[64 + 4 * r + i] = u8(b ? k4_min(b + F::scales_at, gr) : 0);
    }
    const u32 d = b ? d_bits<F>(b) : 0;
    u8* at = s + 16 * groups;
    if constexpr (scale == Scale::k32m) at += 64;
    if constexpr (has_min(scale)) {
      store_u16(at + 4 * r, d);
      store_u16(at + 4 * r + 2, b ? u16_at(b + F::min_at) : 0);
    } else {
      store_u16(at + 2 * r, d);
    }
  }
}

}  // namespace fewbit::kernel::cuda
