// Q5_1: 32 weights in 24 bytes = 6 bits per weight.  formats.md 4.5
//
//   w = d c + m,   c in 0..31
//
//   bytes 0..1   d (f16)
//   bytes 2..3   m (f16)
//   bytes 4..7   fifth bits: bit e belongs to element e
//   bytes 8..23  low four bits: low nibbles are elements 0..15, high nibbles 16..31
#pragma once
#include "format/portable.h"

namespace fewbit {

struct Q5_1 {
  FEWBIT_CONST int block = 32, bytes = 24, group = 32;
  FEWBIT_CONST int scale_at = 0, min_at = 2, high_at = 4, codes_at = 8;
  FEWBIT_CONST int zero = 0;

  static FEWBIT_FN f32 scale(BytePtr b, int) { return f16_at(b + scale_at); }
  static FEWBIT_FN f32 offset(BytePtr b, int) { return f16_at(b + min_at); }
  static FEWBIT_FN i32 level(BytePtr b, int e) { return i32(nibble_at(b + codes_at, e) | u32(b[high_at + e / 8] >> (e % 8) & 1) << 4); }
};

}  // namespace fewbit
