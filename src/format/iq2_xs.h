// IQ2_XS: 256 weights in 74 bytes = 2.3125 bits per weight; 16 groups of 16.  formats.md 4.13
//
//   w = d (s + 1/2) / 4 * (+-magnitude),   s in 0..15 per group,   8 magnitudes from a grid of 512 points
//
//   bytes  0..1   d (f16)
//   bytes  2..65  per 8 elements a u16: grid index in bits 0..8, sign code in bits 9..15
//   bytes 66..73  s, two nibbles per byte, low first
#pragma once
#include "format/codebooks/iq2xs.h"
#include "format/portable.h"

namespace fewbit {

struct IQ2_XS {
  FEWBIT_CONST int block = 256, bytes = 74, group = 16;
  FEWBIT_CONST int scale_at = 0, codes_at = 2, scales_at = 66;
  FEWBIT_CONST bool needs_importance = true;
  using Grid = u64;
  FEWBIT_CONST int grid_size = 512;
  static const Grid* host_grid() { return codebook::iq2xs; }

  static FEWBIT_FN i32 scale_code(BytePtr b, int g) { return b[scales_at + g / 2] >> (4 * (g % 2)) & 15; }
  static FEWBIT_FN u32 index(BytePtr b, int k) { return u16_at(b + codes_at + 2 * k) & 511; }
  static FEWBIT_FN u32 signs(BytePtr b, int k) { return even_signs(b[codes_at + 2 * k + 1] >> 1); }

  static FEWBIT_FN f32 scale(BytePtr b, int g) { return f16_at(b + scale_at) * (0.5f + f32(scale_code(b, g))) * 0.25f; }
  static FEWBIT_FN u64 levels(BytePtr b, int k, const Grid* grid) { return negate_bytes(grid[index(b, k)], signs(b, k)); }
};

}  // namespace fewbit
