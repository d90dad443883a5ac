// Q3_K: 256 weights in 110 bytes = 3.4375 bits per weight; 16 groups of 16.  formats.md 4.8
//
//   w = (d (s - 32)) (c - 4),   c in 0..7,   s in 0..63 per group
//
//   bytes   0..31   third bits: bit e / 32 of byte e % 32
//   bytes  32..95   low two bits: as Q2_K
//   bytes  96..103  low four bits of s: group j in byte j % 8, nibble j / 8
//   bytes 104..107  high two bits of s: group j in byte j % 4, bits 2 (j / 4)
//   bytes 108..109  d (f16)
#pragma once
#include "format/portable.h"

namespace fewbit {

struct Q3_K {
  FEWBIT_CONST int block = 256, bytes = 110, group = 16;
  FEWBIT_CONST int high_at = 0, codes_at = 32, scales_at = 96, scale_at = 108;
  FEWBIT_CONST int zero = 4;

  static FEWBIT_FN i32 scale_code(BytePtr b, int g) {
    return i32((b[scales_at + g % 8] >> (4 * (g / 8)) & 15) | (b[scales_at + 8 + g % 4] >> (2 * (g / 4)) & 3) << 4) - 32;
  }
  static FEWBIT_FN f32 scale(BytePtr b, int g) { return f16_at(b + scale_at) * f32(scale_code(b, g)); }
  static FEWBIT_FN i32 level(BytePtr b, int e) {
    i32 low = b[codes_at + 32 * (e / 128) + e % 32] >> (2 * (e / 32 % 4)) & 3;
    return (low | (b[high_at + e % 32] >> (e / 32) & 1) << 2) - zero;
  }
};

}  // namespace fewbit
