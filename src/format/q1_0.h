// Q1_0: 128 binary weights in 18 bytes = 1.125 bits per weight.  formats.md 4.30
//
//   w = d or -d
//
//   bytes 0..1   d (f16)
//   bytes 2..17  signs: bit e % 8 of byte e / 8, set for +d
#pragma once
#include "format/portable.h"

namespace fewbit {

struct Q1_0 {
  FEWBIT_CONST int block = 128, bytes = 18, group = 128;
  FEWBIT_CONST int scale_at = 0, codes_at = 2;

  static FEWBIT_FN f32 scale(BytePtr b, int) { return f16_at(b + scale_at); }
  static FEWBIT_FN i32 level(BytePtr b, int e) { return 2 * i32(b[codes_at + e / 8] >> (e % 8) & 1) - 1; }
};

}  // namespace fewbit
