// How an Act of layout q8_32 (or q8_128, token8) lies on the GPU: in the order of the B registers of mma.m16n8k32.
//
// Columns go in groups of 8, inputs in units of 128; a block of 1280 bytes per (group, unit), stored [group][unit]:
//
//   bytes    0 .. 1023   q: half (k-steps 0, 1 | 2, 3), lane, 16 bytes = registers (lo, hi) of the two k-steps.
//                        lane = 4 n + t; register byte b: input 32 j + 16 f + 4 t + b of the column at n
//   bytes 1024 .. 1279   per column: f32 d[4], then per k-step the sums of q over inputs 0..15 and 16..31 as two i16
//
// Column c of a group stands at n = 2 c for c < 4, else 2 (c - 4) + 1: the accumulator of a lane then holds columns t and t + 4, and
// launches of at most 4 columns need only half of it.
//
// With more than 32 columns an image for the wide kernel (gemm.cuh) follows, per tile of 128 columns and unit, [tile][unit]:
//
//   bytes     0 .. 32767   q (q8_128: s q) as f16, two halves of 64 inputs: row = column (128 bytes), 16-byte chunk c at c ^ (column % 8).
//                          Group of 16 inputs: chunk 2 g holds inputs (4t, 4t+2) at 4t, chunk 2 g + 1 inputs (4t+1, 4t+3)
//   bytes 32768 .. 34815   f32 d[half of the columns][k-step][column], columns in the order of wgmma's accumulators (act_image_d_of);
//                          q8_128: 2^e, the same for every k-step
//   bytes 34816 .. 36863   sums as f16, per column 16 bytes: two per k-step
#pragma once
#include "format/portable.h"

namespace fewbit::kernel::cuda {

inline constexpr int act_block = 1280, act_d_at = 1024;

FEWBIT_FN constexpr int act_units(int n) { return (n + 127) / 128; }
FEWBIT_FN constexpr int act_n_of_column(int c) { return c < 4 ? 2 * c : 2 * (c - 4) + 1; }
FEWBIT_FN constexpr int act_column_of_n(int n) { return n / 2 + n % 2 * 4; }
// Byte offset of the block of (column, unit).
FEWBIT_FN constexpr u64 act_block_at(int units, int col, int unit) { return (u64(col / 8) * u64(units) + u64(unit)) * act_block; }
// Inside the block: q of input k (0..127) of column c (0..7); d and sums of k-step j.
FEWBIT_FN constexpr int act_q_at(int c, int k) {
  const int j = k / 32, f = k / 16 % 2, t = k % 16 / 4, b = k % 4;
  return j / 2 * 512 + (4 * act_n_of_column(c) + t) * 16 + (j % 2 * 2 + f) * 4 + b;
}
FEWBIT_FN constexpr int act_d_of(int c, int j) { return act_d_at + 32 * c + 4 * j; }
FEWBIT_FN constexpr int act_sum_of(int c, int j) { return act_d_at + 32 * c + 16 + 4 * j; }

FEWBIT_FN constexpr u64 act_q8_bytes(int n, int cols) { return u64((cols + 7) / 8) * u64(act_units(n)) * act_block; }

inline constexpr int act_image_d_at = 32768, act_image_sums_at = 34816, act_image_sums = 2048, act_image_block = 36864;
// Offset of d: a lane with columns 8 n + 2 t, 8 n + 2 t + 1 finds those of n and n + 1 (n even) in 16 bytes.
FEWBIT_FN constexpr int act_image_d_of(int c, int j) {
  return act_image_d_at + c % 128 / 64 * 1024 + j * 256 + c % 64 / 16 * 64 + c % 8 / 2 * 16 + c / 8 % 2 * 8 + c % 2 * 4;
}
FEWBIT_FN constexpr bool act_has_image(int cols) { return cols > 32; }
FEWBIT_FN constexpr u64 act_image_at(int units, int cols) { return (act_q8_bytes(units * 128, cols) + 1023) / 1024 * 1024; }
FEWBIT_FN constexpr u64 act_image_block_at(int units, int cols, int col, int unit) {
  return act_image_at(units, cols) + (u64(col / 128) * u64(units) + u64(unit)) * act_image_block;
}
// Inputs (k, k + 2) of column c for k % 4 == 0, and (k + 1, k + 3) for k % 4 == 1: two f16 each.
FEWBIT_FN constexpr int act_image_q_at(int c, int k) {
  const int group = k / 16 % 4, t = k % 16 / 4, chunk = 2 * group + k % 4;
  return k / 64 * 16384 + c % 128 * 128 + ((chunk ^ c % 8) << 4) + 4 * t;
}

FEWBIT_FN constexpr u64 act_total_bytes(int n, int cols) {
  return act_has_image(cols) ? act_image_at(act_units(n), cols) + u64((cols + 127) / 128) * u64(act_units(n)) * act_image_block
                             : act_q8_bytes(n, cols);
}

}  // namespace fewbit::kernel::cuda
