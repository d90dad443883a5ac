// Large F16 and BF16 matrices as f16 for the tensor cores, and the f16 activations that they meet.
//
// Weights    A row tile is 16 rows (of a pair: 8 of gate, then the same 8 of up), stored [tile][unit of 128 inputs]; a unit is 4096
//            bytes: [32 inputs: 4][row half: 2][8 inputs: 4][row: 8][input: 8] f16.  128 bytes of 8 rows x 8 inputs are what ldmatrix
//            and wgmma (without swizzle) take, so mma.sync and wgmma read the same bytes.  Behind the last tile: a power of two per
//            row, f32, in the order of the rows in the tiles.  The number of tiles is even; rows and inputs beyond the matrix are zero.
// Lossless   F16 as it is, with powers of 1.  BF16 becomes f16 times 2^e, so that a row's largest number lies in 2^15 .. 2^16: exact as
//            long as no number needs a bit below 2^-24 there, that is for rows of up to 2^32 from the largest to the smallest number.
//            Other matrices, and those with infinities or NaN, stay rows.
// Activations  a column is d times f16: d the power of two that brings its largest number below 2^15, each x / d rounded to nearest.
//            Columns go in groups of 8, groups in tiles of at most 256 columns, stored [tile][32 inputs][group][8 inputs: 4][column: 8]
//            [input: 8] f16; behind them d, f32 per column.
// Order      sums go through the tensor core in one chain, 16 inputs at a time from the first to the last: the order depends on nothing.
//            That mma.sync.m16n8k16 and wgmma (k16, any width) give the same bits was measured (gemm_half.cu).
// Accuracy   of a product of 5120 inputs, relative: 2.1e-4 by the activations' rounding (int8 activations: 5e-3), 6e-6 by the
//            tensor core, which cuts sums off towards zero.
#pragma once
#include "format/portable.h"

namespace fewbit::kernel::cuda {

// From how many weights on a matrix is laid out so.  Small ones (gates of few rows) ride along with other products in f32.
inline constexpr i64 half_least_weights = i64(1) << 21;

inline constexpr int half_unit = 4096, half_chunk = 1024;  // bytes of 16 rows x 128 inputs; of 32 inputs

struct HalfUnits {
  i64 tiles = 0, units = 0;
  FEWBIT_FN constexpr HalfUnits(i64 rows, i64 cols) : tiles((rows + 31) / 32 * 2), units((cols + 127) / 128) {}
  FEWBIT_FN constexpr u64 scales_at() const { return u64(tiles) * u64(units) * half_unit; }
  FEWBIT_FN constexpr u64 bytes() const { return scales_at() + u64(tiles) * 16 * 4; }
};
// Byte of row i (0..15), input k (0..127) in a unit.
FEWBIT_FN constexpr int half_weight_at(int i, int k) {
  return k / 32 * half_chunk + i / 8 * 512 + k % 32 / 8 * 128 + i % 8 * 16 + k % 8 * 2;
}

// ---- activations ------------------------------------------------------------------------------------------------------------------------

inline constexpr int half_tile_groups = 32, half_group = 512;  // groups of a tile, at most; bytes of 32 inputs of a group
FEWBIT_FN constexpr int half_groups(int cols) { return cols > 8 * half_tile_groups ? half_tile_groups : (cols + 7) / 8; }
// Of 32 inputs of a tile.
FEWBIT_FN constexpr int half_act_chunk(int groups) { return groups * half_group; }
FEWBIT_FN constexpr u64 half_act_tile(int groups, int units) { return u64(units) * 4 * u64(half_act_chunk(groups)); }
FEWBIT_FN constexpr u64 half_act_scales_at(int units, int cols) {
  return u64((cols + 255) / 256) * half_act_tile(half_groups(cols), units);
}
FEWBIT_FN constexpr u64 half_act_bytes(int n, int cols) { return half_act_scales_at((n + 127) / 128, cols) + u64((cols + 7) / 8) * 32; }
// Byte of input k of column c.
FEWBIT_FN constexpr u64 half_act_at(int units, int cols, int c, int k) {
  const int groups = half_groups(cols);
  return u64(c / 256) * half_act_tile(groups, units) + u64(k / 32) * u64(half_act_chunk(groups)) +
         u64(c % 256 / 8 * half_group + k % 32 / 8 * 128 + c % 8 * 16 + k % 8 * 2);
}

// ---- BF16 rows --------------------------------------------------------------------------------------------------------------------------

// The exponent e of a row whose largest magnitude has these bf16 bits: that number divided by 2^e lies in 2^15 .. 2^16.
FEWBIT_FN constexpr int half_row_exponent(u32 largest) {
  const int e = int(largest >> 7) - 127 - 15;
  return e < -100 ? -100 : e;
}
// A finite bf16 number divided by 2^e as f16 bits; `exact`: whether that lost nothing.
FEWBIT_FN u32 half_of_bf16(u32 bits, int e, bool& exact) {
  const u32 field = bits >> 7 & 255;
  const i32 significand = i32(field ? (bits & 127) | 128 : bits & 127);  // times 2^(max(field, 1) - 134)
  const int shift = (field ? int(field) : 1) - 134 - e + 24;             // to units of 2^-24
  exact = true;
  if (!significand) return bits & 0x8000;
  if (shift < 0) {
    const int down = shift < -8 ? 8 : -shift;
    exact = (significand & ((1 << down) - 1)) == 0 && shift >= -8;
    return (bits & 0x8000) | u32(significand >> down);  // a subnormal f16
  }
  // significand < 2^8 times 2^shift units of 2^-24
  int top = 7;
  while (!(significand >> top & 1)) top--;
  const int exponent = top + shift - 24;  // of the leading bit
  if (exponent < -14) return (bits & 0x8000) | u32(significand << shift);
  return (bits & 0x8000) | u32(exponent + 15) << 10 | (u32(significand << (10 - top)) & 0x3ff);
}

}  // namespace fewbit::kernel::cuda
