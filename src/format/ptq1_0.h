// PTQ1_0: 128 ternary weights in 28 bytes = 1.75 bits per weight.  formats.md 4.33
//
//   w = d (t - 1),   t in {0, 1, 2}; bytes as TQ1_0
//
//   bytes  0..15  five digits each: element 16 n + i is digit n of byte i
//   bytes 16..23  five digits each: element 80 + 8 n + i is digit n of byte 16 + i
//   bytes 24..25  four digits each: element 120 + 2 n + i is digit n of byte 24 + i
//   bytes 26..27  d (f16)
#pragma once
#include "format/tq1_0.h"

namespace fewbit {

struct PTQ1_0 {
  FEWBIT_CONST int block = 128, bytes = 28, group = 128;
  FEWBIT_CONST int codes_at = 0, scale_at = 26;
  FEWBIT_CONST int zero = 1;

  static FEWBIT_FN constexpr int byte_of_element(int e) { return e < 80 ? e % 16 : e < 120 ? 16 + (e - 80) % 8 : 24 + (e - 120) % 2; }
  static FEWBIT_FN constexpr int digit_of_element(int e) { return e < 80 ? e / 16 : e < 120 ? (e - 80) / 8 : (e - 120) / 2; }

  static FEWBIT_FN f32 scale(BytePtr b, int) { return f16_at(b + scale_at); }
  static FEWBIT_FN i32 level(BytePtr b, int e) { return trit(b[codes_at + byte_of_element(e)], digit_of_element(e)) - zero; }
};

}  // namespace fewbit
