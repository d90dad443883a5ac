// How an Act of layout q8_32 (or token8) lies on the GPU: in the order of the B registers of mma.m16n8k32.
//
// Columns go in groups of 8, inputs in units of 128; a block of 1280 bytes per (group, unit), stored [group][unit]:
//
//   bytes    0 .. 1023   q: half (k-steps 0, 1 | 2, 3), lane, 16 bytes = registers (lo, hi) of the two k-steps.
//                        lane = 4 n + t; register byte b: input 32 j + 16 f + 4 t + b of the column at n
//   bytes 1024 .. 1279   per column: f32 d[4], then per k-step the sums of q over inputs 0..15 and 16..31 as two i16
//
// Column c of a group stands at n = 2 c for c < 4, else 2 (c - 4) + 1: the accumulator of a lane then holds columns t and t + 4, and
// launches of at most 4 columns need only half of it.
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

}  // namespace fewbit::kernel::cuda
