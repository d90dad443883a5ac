// IQ3_XXS: 256 weights in 98 bytes = 3.0625 bits per weight; 8 groups of 32.  formats.md 4.15
//
//   w = d (s + 1/2) / 2 * (+-magnitude),   s in 0..15 per group,   4 magnitudes from a grid of 256 points
//
//   bytes  0..1   d (f16)
//   bytes  2..65  grid indices, one per 4 elements
//   bytes 66..97  per group a word: four 7-bit sign codes, s in the top four bits
#pragma once
#include "format/codebooks/iq3xxs.h"
#include "format/portable.h"

namespace fewbit {

struct IQ3_XXS {
  FEWBIT_CONST int block = 256, bytes = 98, group = 32;
  FEWBIT_CONST int scale_at = 0, codes_at = 2, signs_at = 66;
  using Grid = u32;
  FEWBIT_CONST int grid_size = 256;
  static const Grid* host_grid() { return codebook::iq3xxs; }

  static FEWBIT_FN i32 scale_code(BytePtr b, int g) { return b[signs_at + 4 * g + 3] >> 4; }
  static FEWBIT_FN u32 index(BytePtr b, int k) { return b[codes_at + k]; }  // k: fours, not eights
  static FEWBIT_FN u32 signs(BytePtr b, int k) { return even_signs(u32_at(b + signs_at + 4 * (k / 4)) >> (7 * (k % 4)) & 127); }

  static FEWBIT_FN f32 scale(BytePtr b, int g) { return f16_at(b + scale_at) * (0.5f + f32(scale_code(b, g))) * 0.5f; }
  static FEWBIT_FN u64 levels(BytePtr b, int k, const Grid* grid) {
    return negate_bytes(grid[index(b, 2 * k)] | u64(grid[index(b, 2 * k + 1)]) << 32, signs(b, k));
  }
};

}  // namespace fewbit
