// IQ1_S: 256 weights in 50 bytes = 1.5625 bits per weight; 8 groups of 32.  formats.md 4.17
//
//   w = d (2 s + 1) (t +- 1/8),   s in 0..7 and the shift's sign per group,   8 ternary t from a grid of 2048 points
//
//   bytes  0..1   d (f16)
//   bytes  2..33  low eight bits of the grid index, one per 8 elements
//   bytes 34..49  per group a u16: bits 3l.. = high three bits of index l, bits 12..14 = s, bit 15 = shift is negative
#pragma once
#include "format/codebooks/iq1s.h"
#include "format/portable.h"

namespace fewbit {

// 8 t + 1 or 8 t - 1 in each byte (-9 .. 9) from ternary bytes t.  The bias of 128 keeps borrows inside the bytes.
FEWBIT_FN u64 shifted_ternary(u64 t, bool minus) {
  u64 biased = (t << 3 & all_bytes(0xf8)) ^ all_bytes(0x80);
  return (minus ? biased - all_bytes(1) : biased + all_bytes(1)) ^ all_bytes(0x80);
}

struct IQ1_S {
  FEWBIT_CONST int block = 256, bytes = 50, group = 32;
  FEWBIT_CONST int scale_at = 0, codes_at = 2, high_at = 34;
  FEWBIT_CONST bool needs_importance = true;
  using Grid = u64;
  FEWBIT_CONST int grid_size = 2048;
  static const Grid* host_grid() { return codebook::iq1s; }

  static FEWBIT_FN i32 scale_code(BytePtr b, int g) { return b[high_at + 2 * g + 1] >> 4 & 7; }
  static FEWBIT_FN u32 index(BytePtr b, int k) { return b[codes_at + k] | (u16_at(b + high_at + 2 * (k / 4)) >> (3 * (k % 4)) & 7) << 8; }
  static FEWBIT_FN bool minus(BytePtr b, int k) { return b[high_at + 2 * (k / 4) + 1] >> 7; }

  // Levels are eight times t +- 1/8, so that they are integers; the eighth is in the scale.  Both products are exact.
  static FEWBIT_FN f32 scale(BytePtr b, int g) { return f16_at(b + scale_at) * f32(2 * scale_code(b, g) + 1) * 0.125f; }
  static FEWBIT_FN u64 levels(BytePtr b, int k, const Grid* grid) { return shifted_ternary(grid[index(b, k)], minus(b, k)); }
};

}  // namespace fewbit
