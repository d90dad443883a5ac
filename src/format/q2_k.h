// Q2_K: 256 weights in 84 bytes = 2.625 bits per weight; 16 groups of 16.  formats.md 4.7
//
//   w = (d s) c - (dmin m),   c in 0..3,   s, m in 0..15 per group
//
//   bytes  0..15  s (low nibble) and m (high nibble) of each group
//   bytes 16..79  codes: 16 words; plane p of a byte belongs to the element 32 p further on
//   bytes 80..81  d (f16)
//   bytes 82..83  dmin (f16)
#pragma once
#include "format/portable.h"

namespace fewbit {

struct Q2_K {
  FEWBIT_CONST int block = 256, bytes = 84, group = 16;
  FEWBIT_CONST int scales_at = 0, codes_at = 16, scale_at = 80, min_at = 82;
  FEWBIT_CONST int zero = 0;
  FEWBIT_CONST int words = 16, planes = 4, step = 1;
  // Index of the first of the 4 weights, `step` apart, that plane p of word t holds, and their codes, one per byte.
  static FEWBIT_FN constexpr int at(int t, int p) { return 128 * (t / 8) + 32 * p + 4 * (t % 8); }
  static FEWBIT_FN constexpr u32 codes(u32 word, int p) { return word >> (2 * p) & 0x03030303u; }

  static FEWBIT_FN f32 scale(BytePtr b, int g) { return f16_at(b + scale_at) * f32(b[scales_at + g] & 15); }
  static FEWBIT_FN f32 offset(BytePtr b, int g) { return -(f16_at(b + min_at) * f32(b[scales_at + g] >> 4)); }
  static FEWBIT_FN i32 level(BytePtr b, int e) { return b[codes_at + 32 * (e / 128) + e % 32] >> (2 * (e / 32 % 4)) & 3; }
};

}  // namespace fewbit
