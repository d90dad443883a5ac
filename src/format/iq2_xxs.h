// IQ2_XXS: 256 weights in 66 bytes = 2.0625 bits per weight; 8 groups of 32.  formats.md 4.12
//
//   w = d (s + 1/2) / 4 * (+-magnitude),   s in 0..15 per group,   8 magnitudes from a grid of 256 points
//
//   bytes 0..1   d (f16)
//   bytes 2..65  per group 8 bytes: four grid indices; a word of four 7-bit sign codes and s in the top four bits
#pragma once
#include "format/codebooks/iq2xxs.h"
#include "format/portable.h"

namespace fewbit {

struct IQ2_XXS {
  FEWBIT_CONST int block = 256, bytes = 66, group = 32;
  FEWBIT_CONST int scale_at = 0, codes_at = 2;
  FEWBIT_CONST bool needs_importance = true;
  using Grid = u64;
  FEWBIT_CONST int grid_size = 256;
  static const Grid* host_grid() { return codebook::iq2xxs; }

  static FEWBIT_FN i32 scale_code(BytePtr b, int g) { return b[codes_at + 8 * g + 7] >> 4; }
  static FEWBIT_FN u32 index(BytePtr b, int k) { return b[codes_at + 8 * (k / 4) + k % 4]; }
  static FEWBIT_FN u32 signs(BytePtr b, int k) { return even_signs(u32_at(b + codes_at + 8 * (k / 4) + 4) >> (7 * (k % 4)) & 127); }

  static FEWBIT_FN f32 scale(BytePtr b, int g) { return f16_at(b + scale_at) * (0.5f + f32(scale_code(b, g))) * 0.25f; }
  static FEWBIT_FN u64 levels(BytePtr b, int k, const Grid* grid) { return negate_bytes(grid[index(b, k)], signs(b, k)); }
};

}  // namespace fewbit
