// IQ3_S: 256 weights in 110 bytes = 3.4375 bits per weight; 8 groups of 32.  formats.md 4.16
//
//   w = d (2 s + 1) * (+-magnitude),   s in 0..15 per group,   4 magnitudes from a grid of 512 points
//
//   bytes   0..1    d (f16)
//   bytes   2..65   low eight bits of the grid index, one per 4 elements
//   bytes  66..73   ninth bits, eight per byte, low first
//   bytes  74..105  signs, one byte per 8 elements, bit j = element j
//   bytes 106..109  s, two nibbles per byte, low first
#pragma once
#include "format/codebooks/iq3s.h"
#include "format/portable.h"

namespace fewbit {

struct IQ3_S {
  FEWBIT_CONST int block = 256, bytes = 110, group = 32;
  FEWBIT_CONST int scale_at = 0, codes_at = 2, high_at = 66, signs_at = 74, scales_at = 106;
  using Grid = u32;
  FEWBIT_CONST int grid_size = 512;
  static const Grid* host_grid() { return codebook::iq3s; }

  static FEWBIT_FN i32 scale_code(BytePtr b, int g) { return b[scales_at + g / 2] >> (4 * (g % 2)) & 15; }
  static FEWBIT_FN u32 index(BytePtr b, int k) {
    return b[codes_at + k] | (b[high_at + k / 8] >> (k % 8) & 1u) << 8;
  }  // k: fours, not eights
  static FEWBIT_FN u32 signs(BytePtr b, int k) { return b[signs_at + k]; }

  static FEWBIT_FN f32 scale(BytePtr b, int g) { return f16_at(b + scale_at) * f32(1 + 2 * scale_code(b, g)); }
  static FEWBIT_FN u64 levels(BytePtr b, int k, const Grid* grid) {
    return negate_bytes(grid[index(b, 2 * k)] | u64(grid[index(b, 2 * k + 1)]) << 32, signs(b, k));
  }
};

}  // namespace fewbit
