// Q6_K: 256 weights in 210 bytes = 6.5625 bits per weight; 16 groups of 16.  formats.md 4.11
//
//   w = (d s) (c - 32),   c in 0..63,   s in -128..127 per group
//
//   bytes   0..127  low four bits: byte 64 (e / 128) + e % 64, low nibble for even e / 64
//   bytes 128..191  high two bits: as the codes of Q2_K
//   bytes 192..207  s (i8)
//   bytes 208..209  d (f16)
#pragma once
#include "format/portable.h"

namespace fewbit {

struct Q6_K {
  FEWBIT_CONST int block = 256, bytes = 210, group = 16;
  FEWBIT_CONST int codes_at = 0, high_at = 128, scales_at = 192, scale_at = 208;
  FEWBIT_CONST int zero = 32;

  static FEWBIT_FN f32 scale(BytePtr b, int g) { return f16_at(b + scale_at) * f32(i8(b[scales_at + g])); }
  static FEWBIT_FN i32 level(BytePtr b, int e) {
    i32 low = b[codes_at + 64 * (e / 128) + e % 64] >> (4 * (e / 64 % 2)) & 15;
    return (low | (b[high_at + 32 * (e / 128) + e % 32] >> (2 * (e / 32 % 4)) & 3) << 4) - zero;
  }
};

}  // namespace fewbit
