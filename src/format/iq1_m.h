// IQ1_M: 256 weights in 56 bytes = 1.75 bits per weight; 16 groups of 16.  formats.md 4.18
//
//   w = d (2 s + 1) (t +- 1/8),   s in 0..7 per group, the shift's sign per 8,   8 ternary t from IQ1_S's grid of 2048 points
//
//   bytes  0..31  low eight bits of the grid index, one per 8 elements
//   bytes 32..47  a nibble per 8 elements, low first: bits 0..2 = high three bits of the index, bit 3 = shift is negative
//   bytes 48..55  four u16: bits 0..11 = four s, bits 12..15 = a nibble of d (f16), lowest first
#pragma once
#include "format/iq1_s.h"

namespace fewbit {

struct IQ1_M {
  FEWBIT_CONST int block = 256, bytes = 56, group = 16;
  FEWBIT_CONST int codes_at = 0, high_at = 32, scales_at = 48;
  using Grid = u64;
  FEWBIT_CONST int grid_size = 2048;
  static const Grid* host_grid() { return codebook::iq1s; }

  static FEWBIT_FN i32 scale_code(BytePtr b, int g) { return i32(u16_at(b + scales_at + 2 * (g / 4)) >> (3 * (g % 4)) & 7); }
  static FEWBIT_FN u32 index(BytePtr b, int k) { return b[codes_at + k] | (b[high_at + k / 2] >> (4 * (k % 2)) & 7u) << 8; }
  static FEWBIT_FN bool minus(BytePtr b, int k) { return b[high_at + k / 2] >> (4 * (k % 2)) & 8; }
  static FEWBIT_FN u16 scale_bits(BytePtr b) {
    BytePtr s = b + scales_at;
    return u16(s[1] >> 4 | s[3] >> 4 << 4 | s[5] >> 4 << 8 | s[7] >> 4 << 12);
  }

  static FEWBIT_FN f32 scale(BytePtr b, int g) { return f32_of_f16(scale_bits(b)) * f32(2 * scale_code(b, g) + 1) * 0.125f; }
  static FEWBIT_FN u64 levels(BytePtr b, int k, const Grid* grid) { return shifted_ternary(grid[index(b, k)], minus(b, k)); }
};

}  // namespace fewbit
