// Q8_0: 32 weights in 34 bytes = 8.5 bits per weight; also what activations become.  formats.md 4.6
//
//   w = d q,   q in -128..127
//
//   bytes 0..1   d (f16)
//   bytes 2..33  q (i8)
#pragma once
#include "format/portable.h"

namespace fewbit {

struct Q8_0 {
  FEWBIT_CONST int block = 32, bytes = 34, group = 32;
  FEWBIT_CONST int scale_at = 0, codes_at = 2;

  static FEWBIT_FN f32 scale(BytePtr b, int) { return f16_at(b + scale_at); }
  static FEWBIT_FN i32 level(BytePtr b, int e) { return i8(b[codes_at + e]); }
};

}  // namespace fewbit
