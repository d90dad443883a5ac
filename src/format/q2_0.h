// Q2_0 and PQ2_0: 2-bit weights, 64 in 18 bytes = 2.25 and 128 in 34 bytes = 2.125 bits per weight.  formats.md 4.31, 4.32
//
//   w = d (c - 1),   c in 0..3
//
//   bytes 0..1  d (f16)
//   bytes 2..   codes: four neighbours per byte, first in the low bits
#pragma once
#include "format/portable.h"

namespace fewbit {

template <int n>
struct TwoBit {
  FEWBIT_CONST int block = n, bytes = 2 + n / 4, group = n;
  FEWBIT_CONST int scale_at = 0, codes_at = 2;
  FEWBIT_CONST int zero = 1;
  FEWBIT_CONST int words = n / 16, planes = 4, step = 4;
  // Index of the first of the 4 weights, `step` apart, that plane p of word t holds, and their codes, one per byte.
  static FEWBIT_FN constexpr int at(int t, int p) { return 16 * t + p; }
  static FEWBIT_FN constexpr u32 codes(u32 word, int p) { return word >> (2 * p) & 0x03030303u; }

  static FEWBIT_FN f32 scale(BytePtr b, int) { return f16_at(b + scale_at); }
  static FEWBIT_FN i32 level(BytePtr b, int e) { return i32(b[codes_at + e / 4] >> (2 * (e % 4)) & 3) - zero; }
};

struct Q2_0 : TwoBit<64> {};
struct PQ2_0 : TwoBit<128> {};
struct Q2_0_LEGACY128 : TwoBit<128> {};  // what early builds wrote under the id of Q2_0

}  // namespace fewbit
