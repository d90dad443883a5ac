// MXFP4: 32 weights in 17 bytes = 4.25 bits per weight.  formats.md 4.23
//
//   w = 2^(x - 128) T[c],   c in 0..15,   T: twice the E2M1 numbers
//
//   byte  0      x (u8; 255 is refused by the checks)
//   bytes 1..16  codes: low nibbles are elements 0..15, high nibbles 16..31
#pragma once
#include "format/codebooks/fp4_e2m1_doubled.h"
#include "format/portable.h"

namespace fewbit {

struct MXFP4 {
  FEWBIT_CONST int block = 32, bytes = 17, group = 32;
  FEWBIT_CONST int exponent_at = 0, codes_at = 1;
  FEWBIT_CONST int words = 4, planes = 2, step = 1;
  static FEWBIT_FN constexpr int at(int t, int p) { return 4 * t + 16 * p; }
  static FEWBIT_FN constexpr u32 codes(u32 word, int p) { return word >> (4 * p) & 0x0f0f0f0fu; }
  static FEWBIT_FN i32 level_of(u32 code) { return byte_of(codebook::fp4_e2m1_doubled_0, codebook::fp4_e2m1_doubled_1, code); }

  // 2^(x - 128); x = 0 and 1 are subnormal.
  static FEWBIT_FN f32 scale_of(u32 x) { return f32_of_bits(x < 2 ? 0x00200000u << x : (x - 1) << 23); }
  static FEWBIT_FN f32 scale(BytePtr b, int) { return scale_of(b[exponent_at]); }
  static FEWBIT_FN i32 level(BytePtr b, int e) { return level_of(nibble_at(b + codes_at, e)); }
};

}  // namespace fewbit
