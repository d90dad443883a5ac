// IQ2_S: 256 weights in 82 bytes = 2.5625 bits per weight; 16 groups of 16.  formats.md 4.14
//
//   w = d (s + 1/2) / 4 * (+-magnitude),   s in 0..15 per group,   8 magnitudes from a grid of 1024 points
//
//   bytes  0..1   d (f16)
//   bytes  2..33  low eight bits of the grid index, one per 8 elements
//   bytes 34..65  signs, one byte per 8 elements, bit j = element j
//   bytes 66..73  high two bits of the indices, four per byte, low first
//   bytes 74..81  s, two nibbles per byte, low first
#pragma once
#include "format/codebooks/iq2s.h"
#include "format/portable.h"

namespace fewbit {

struct IQ2_S {
  FEWBIT_CONST int block = 256, bytes = 82, group = 16;
  FEWBIT_CONST int scale_at = 0, codes_at = 2, signs_at = 34, high_at = 66, scales_at = 74;
  using Grid = u64;
  FEWBIT_CONST int grid_size = 1024;
  static const Grid* host_grid() { return codebook::iq2s; }

  static FEWBIT_FN i32 scale_code(BytePtr b, int g) { return b[scales_at + g / 2] >> (4 * (g % 2)) & 15; }
  static FEWBIT_FN u32 index(BytePtr b, int k) { return b[codes_at + k] | (b[high_at + k / 4] >> (2 * (k % 4)) & 3u) << 8; }
  static FEWBIT_FN u32 signs(BytePtr b, int k) { return b[signs_at + k]; }

  static FEWBIT_FN f32 scale(BytePtr b, int g) { return f16_at(b + scale_at) * (0.5f + f32(scale_code(b, g))) * 0.25f; }
  static FEWBIT_FN u64 levels(BytePtr b, int k, const Grid* grid) { return negate_bytes(grid[index(b, k)], signs(b, k)); }
};

}  // namespace fewbit
