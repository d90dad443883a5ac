// Q8_K: 256 activations in 292 bytes, with sums per 16.  Never the type of a weight.  formats.md 6
//
//   x = d q,   q in -127..127
//
//   bytes   0..3    d (f32)
//   bytes   4..259  q (i8)
//   bytes 260..291  16 sums of 16 neighbouring q (i16)
#pragma once
#include "format/portable.h"

namespace fewbit {

struct Q8_K {
  FEWBIT_CONST int block = 256, bytes = 292, group = 256;
  FEWBIT_CONST int f32_scale_at = 0, codes_at = 4, sums_at = 260;

  static FEWBIT_FN f32 scale(BytePtr b, int) { return f32_at(b + f32_scale_at); }
  static FEWBIT_FN i32 level(BytePtr b, int e) { return i8(b[codes_at + e]); }
};

}  // namespace fewbit
