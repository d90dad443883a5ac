// Q4_0: 32 weights in 18 bytes = 4.5 bits per weight.  formats.md 4.2
//
//   w = d (c - 8),   c in 0..15
//
//   bytes 0..1   d (f16)
//   bytes 2..17  codes: low nibbles are elements 0..15, high nibbles 16..31
#pragma once
#include "format/portable.h"

namespace fewbit {

struct Q4_0 {
  FEWBIT_CONST int block = 32, bytes = 18, group = 32;
  FEWBIT_CONST int scale_at = 0, codes_at = 2;
  FEWBIT_CONST int zero = 8;  // the code of weight 0
  FEWBIT_CONST int words = 4, planes = 2, step = 1;
  static FEWBIT_FN constexpr int at(int t, int p) { return 4 * t + 16 * p; }
  static FEWBIT_FN constexpr u32 codes(u32 word, int p) { return word >> (4 * p) & 0x0f0f0f0fu; }

  static FEWBIT_FN f32 scale(BytePtr b, int) { return f16_at(b + scale_at); }
  static FEWBIT_FN i32 level(BytePtr b, int e) { return i32(nibble_at(b + codes_at, e)) - zero; }
};

}  // namespace fewbit
