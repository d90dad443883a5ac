// Q5_K: 256 weights in 176 bytes = 5.5 bits per weight; 8 groups of 32.  formats.md 4.10
//
//   w = (d s) c - (dmin m),   c in 0..31,   s, m in 0..63 per group
//
//   bytes  0..1    d (f16)
//   bytes  2..3    dmin (f16)
//   bytes  4..15   s and m, as Q4_K
//   bytes 16..47   fifth bits: bit e / 32 of byte e % 32
//   bytes 48..175  low four bits: as Q4_K
#pragma once
#include "format/q4_k.h"

namespace fewbit {

struct Q5_K {
  FEWBIT_CONST int block = 256, bytes = 176, group = 32;
  FEWBIT_CONST int scale_at = 0, min_at = 2, scales_at = 4, high_at = 16, codes_at = 48;
  FEWBIT_CONST int zero = 0;

  static FEWBIT_FN f32 scale(BytePtr b, int g) { return f16_at(b + scale_at) * f32(k4_scale(b + scales_at, g)); }
  static FEWBIT_FN f32 offset(BytePtr b, int g) { return -(f16_at(b + min_at) * f32(k4_min(b + scales_at, g))); }
  static FEWBIT_FN i32 level(BytePtr b, int e) {
    return (b[codes_at + 32 * (e / 64) + e % 32] >> (4 * (e / 32 % 2)) & 15) | (b[high_at + e % 32] >> (e / 32) & 1) << 4;
  }
};

}  // namespace fewbit
