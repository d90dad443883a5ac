// TQ1_0: 256 ternary weights in 54 bytes = 1.6875 bits per weight.  formats.md 4.21
//
//   w = d (t - 1),   t in {0, 1, 2}
//
//   bytes  0..31  five digits each: element 32 n + i is digit n of byte i
//   bytes 32..47  five digits each: element 160 + 16 n + i is digit n of byte 32 + i
//   bytes 48..51  four digits each: element 240 + 4 n + i is digit n of byte 48 + i
//   bytes 52..53  d (f16)
#pragma once
#include "format/portable.h"

namespace fewbit {

// A byte holds five base-3 digits as a fraction, ceil(number * 256 / 243), first digit most significant.  Digit n falls out of the top
// when the fraction is multiplied by 3^n: no division.
FEWBIT_FN u32 power_of_3(int n) { return u32(0x511b090301ull >> (8 * n)) & 255; }
FEWBIT_FN i32 trit(u32 byte, int n) { return i32((byte * power_of_3(n) & 255) * 3 >> 8); }

struct TQ1_0 {
  FEWBIT_CONST int block = 256, bytes = 54, group = 256;
  FEWBIT_CONST int codes_at = 0, scale_at = 52;
  FEWBIT_CONST int zero = 1;

  static FEWBIT_FN constexpr int byte_of_element(int e) { return e < 160 ? e % 32 : e < 240 ? 32 + (e - 160) % 16 : 48 + (e - 240) % 4; }
  static FEWBIT_FN constexpr int digit_of_element(int e) { return e < 160 ? e / 32 : e < 240 ? (e - 160) / 16 : (e - 240) / 4; }

  static FEWBIT_FN f32 scale(BytePtr b, int) { return f16_at(b + scale_at); }
  static FEWBIT_FN i32 level(BytePtr b, int e) { return trit(b[codes_at + byte_of_element(e)], digit_of_element(e)) - zero; }
};

}  // namespace fewbit
