// TQ2_0: ternary weights.  256 weights in 66 bytes = 2.0625 bits per weight.  formats.md 4.22
//
//   w = d (c - 1),   c in {0, 1, 2}; 3 is written by nobody and means +2
//
//   bytes  0..63  codes: 16 words; plane p of a byte belongs to the element 32 p further on
//   bytes 64..65  d (f16)
#pragma once
#include "format/portable.h"

namespace fewbit {

struct TQ2_0 {
  FEWBIT_CONST int block = 256, bytes = 66, group = 256;
  FEWBIT_CONST int codes_at = 0, scale_at = 64;
  FEWBIT_CONST int zero = 1;  // the code of weight 0
  FEWBIT_CONST int words = 16, planes = 4, step = 1;
  // Index of the first of the 4 weights, `step` apart, that plane p of word t holds, and their codes, one per byte.
  static FEWBIT_FN constexpr int at(int t, int p) { return 128 * (t / 8) + 32 * p + 4 * (t % 8); }
  static FEWBIT_FN constexpr u32 codes(u32 word, int p) { return word >> (2 * p) & 0x03030303u; }

  static FEWBIT_FN f32 scale(BytePtr b, int) { return f16_at(b + scale_at); }
  static FEWBIT_FN i32 level(BytePtr b, int e) { return i32(b[codes_at + 32 * (e / 128) + e % 32] >> (2 * (e / 32 % 4)) & 3) - zero; }
};

}  // namespace fewbit
