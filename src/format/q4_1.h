// Q4_1: 32 weights in 20 bytes = 5 bits per weight.  formats.md 4.3
//
//   w = d c + m,   c in 0..15
//
//   bytes 0..1   d (f16)
//   bytes 2..3   m (f16)
//   bytes 4..19  codes: low nibbles are elements 0..15, high nibbles 16..31
#pragma once
#include "format/portable.h"

namespace fewbit {

struct Q4_1 {
  FEWBIT_CONST int block = 32, bytes = 20, group = 32;
  FEWBIT_CONST int scale_at = 0, min_at = 2, codes_at = 4;
  FEWBIT_CONST int zero = 0;
  FEWBIT_CONST int words = 4, planes = 2, step = 1;
  static FEWBIT_FN constexpr int at(int t, int p) { return 4 * t + 16 * p; }
  static FEWBIT_FN constexpr u32 codes(u32 word, int p) { return word >> (4 * p) & 0x0f0f0f0fu; }

  static FEWBIT_FN f32 scale(BytePtr b, int) { return f16_at(b + scale_at); }
  static FEWBIT_FN f32 offset(BytePtr b, int) { return f16_at(b + min_at); }
  static FEWBIT_FN i32 level(BytePtr b, int e) { return i32(nibble_at(b + codes_at, e)); }
};

}  // namespace fewbit
