// Q8_1: 32 activations in 36 bytes, with their sum.  Never the type of a weight.  formats.md 6
//
//   x = d q,   q in -128..127
//
//   bytes 0..1   d (f16)
//   bytes 2..3   s (f16) = d * sum of q
//   bytes 4..35  q (i8)
#pragma once
#include "format/portable.h"

namespace fewbit {

struct Q8_1 {
  FEWBIT_CONST int block = 32, bytes = 36, group = 32;
  FEWBIT_CONST int scale_at = 0, sum_at = 2, codes_at = 4;

  static FEWBIT_FN f32 scale(BytePtr b, int) { return f16_at(b + scale_at); }
  static FEWBIT_FN i32 level(BytePtr b, int e) { return i8(b[codes_at + e]); }
};

}  // namespace fewbit
