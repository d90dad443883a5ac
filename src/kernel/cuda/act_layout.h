// How an Act of layout q8_32 (or q8_128, q8_256, q8_per128, token8) lies on the GPU: in the order of the B registers of mma.m16n8k32.
//
// Columns go in groups of 8, inputs in units of 128; a block of 1536 bytes per (group, unit), stored [group][unit]:
//
//   bytes    0 .. 1023   q: half (k-steps 0, 1 | 2, 3), lane, 16 bytes = registers (lo, hi) of the two k-steps.
//                        lane = 4 n + t; register byte b: input 32 j + 16 f + 4 t + b of the column at n
//   bytes 1024 .. 1279   per column: f32 d[4], then per k-step the sums of q over inputs 0..15 and 16..31 as two i16
//   bytes 1280 .. 1535   q8_128, q8_256, per column: i32 s[j] 4^(3 - j) for the k-steps j, with d[j] = s[j] u; i32 -64 (sum of s q)
//                        of either half of the unit; f32 u, a power of two; f32 -1.5 * 2^23 u.  For sums in integers (matvec_few.cuh)
//
// Column c of a group stands at n = 2 c for c < 4, else 2 (c - 4) + 1: the accumulator of a lane then holds columns t and t + 4, and
// launches of at most 4 columns need only half of it.
//
// With more than 32 columns an image for the wide kernel (gemm.cuh) follows, per tile of 128 columns and unit, [tile][unit]:
//
//   bytes     0 .. 32767   f16, two halves of 64 inputs: row = column (128 bytes), 16-byte chunk c at c ^ (column % 8).
//                          Group of 16 inputs: chunk 2 g holds inputs (4t, 4t+2) at 4t, chunk 2 g + 1 inputs (4t+1, 4t+3)
//   bytes 32768 .. 34815   f32 d[k-step][column], columns in the order of wgmma's accumulators (act_image_d_of)
//   bytes 34816 .. 38911   f16 sums: row = column (32 bytes), 16-byte chunk of part p at p ^ (column / 4 % 2): two per k-step
//
// q8_per128: instead of the f16, q as bytes in one tile: row = column (128 bytes), 16-byte chunk of inputs c at c ^ (column % 8).
// q8_32, token8: the f16 are q, d is the scale, the sums are of q and their second part is zero.
// q8_128, q8_256: the f16 are the inputs themselves (s q 2^e) and d is 1, unless 2^e lies beyond what f16 can hold: then d, the same for
// every k-step, is the power of two that is left.  A sum's parts are its lowest five bits and the rest.
#pragma once
#include "format/portable.h"

namespace fewbit::kernel::cuda {

inline constexpr int act_block = 1536, act_d_at = 1024, act_whole_at = 1280;

// The most that the sums of |s q| of q8_128 and q8_256 may be.  Times a weight's largest integer they stay below 2^24, so that f32 sums are
// exact in any order: over 128 inputs for 135 (IQ1, Q3_K) and 1333 (IQ2).
FEWBIT_FN constexpr int act_most_of_128(bool is_256) { return is_256 ? 12585 : 124275; }

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
FEWBIT_FN constexpr int act_whole_of(int c) { return act_whole_at + 32 * c; }

FEWBIT_FN constexpr u64 act_q8_bytes(int n, int cols) { return u64((cols + 7) / 8) * u64(act_units(n)) * act_block; }

inline constexpr int act_image_d_at = 32768, act_image_sums_at = 34816, act_image_sums = 4096, act_image_block = 38912;
// Offset of d: a lane with columns 8 n + 2 t, 8 n + 2 t + 1 finds those of n and n + 1 (n even) in 16 bytes.
FEWBIT_FN constexpr int act_image_d_of(int c, int j) {
  return act_image_d_at + j * 512 + c % 128 / 64 * 256 + c % 64 / 16 * 64 + c % 8 / 2 * 16 + c / 8 % 2 * 8 + c % 2 * 4;
}
FEWBIT_FN constexpr int act_image_sum_of(int c, int j, int part) {
  return act_image_sums_at + c % 128 * 32 + ((part ^ c / 4 % 2) << 4) + 4 * j;
}
// 2^e that f16 holds exactly together with s q (at most 2032) and the sums of 16.
inline constexpr int act_image_min_e = -24, act_image_max_e = 1;
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

FEWBIT_FN constexpr int act_image_byte_at(int c, int k) { return c % 128 * 128 + ((k / 16 ^ c % 8) << 4) + k % 16; }

FEWBIT_FN constexpr u64 act_total_bytes(int n, int cols) {
  return act_has_image(cols) ? act_image_at(act_units(n), cols) + u64((cols + 127) / 128) * u64(act_units(n)) * act_image_block
                             : act_q8_bytes(n, cols);
}

}  // namespace fewbit::kernel::cuda
