// NVFP4: 64 weights in 36 bytes = 4.5 bits per weight; 4 groups of 16.  formats.md 4.24
//
//   w = s T[c],   c in 0..15,   T: twice the E2M1 numbers,   s: half of an unsigned E4M3 number per group
//
//   bytes 0..3   scale bytes (bit 7 set is refused by the checks)
//   bytes 4..35  codes: 8 bytes per group, low nibbles are its elements 0..7, high nibbles 8..15
#pragma once
#include "format/codebooks/fp4_e2m1_doubled.h"
#include "format/portable.h"

namespace fewbit {

struct NVFP4 {
  FEWBIT_CONST int block = 64, bytes = 36, group = 16;
  FEWBIT_CONST int scales_at = 0, codes_at = 4;
  FEWBIT_CONST int words = 8, planes = 2, step = 1;
  static FEWBIT_FN constexpr int at(int t, int p) { return 16 * (t / 2) + 4 * (t % 2) + 8 * p; }
  static FEWBIT_FN constexpr u32 codes(u32 word, int p) { return word >> (4 * p) & 0x0f0f0f0fu; }
  static FEWBIT_FN i32 level_of(u32 code) { return byte_of(codebook::fp4_e2m1_doubled_0, codebook::fp4_e2m1_doubled_1, code); }

  // codebooks/ue4m3_halved.txt by arithmetic.  0x7f counts as 0; bit 7 is ignored otherwise, so 0xff is 240.
  static FEWBIT_FN f32 scale_of(u32 s) {
    u32 x = s >> 3 & 15, m = s & 7;
    if (s == 0x7f) return 0;
    return x == 0 ? f32(m) * 0x1p-10f : f32(8 + m) * f32_of_bits((x + 116) << 23);
  }
  static FEWBIT_FN f32 scale(BytePtr b, int g) { return scale_of(b[scales_at + g]); }
  static FEWBIT_FN i32 level(BytePtr b, int e) { return level_of(b[codes_at + 8 * (e / 16) + e % 8] >> (4 * (e / 8 % 2)) & 15); }
};

}  // namespace fewbit
