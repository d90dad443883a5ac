// Q5_0: 32 weights in 22 bytes = 5.5 bits per weight.  formats.md 4.4
//
//   w = d (c - 16),   c in 0..31
//
//   bytes 0..1   d (f16)
//   bytes 2..5   fifth bits: bit e belongs to element e
//   bytes 6..21  low four bits: low nibbles are elements 0..15, high nibbles 16..31
#pragma once
#include "format/portable.h"

namespace fewbit {

struct Q5_0 {
  FEWBIT_CONST int block = 32, bytes = 22, group = 32;
  FEWBIT_CONST int scale_at = 0, high_at = 2, codes_at = 6;
  FEWBIT_CONST int zero = 16;

  static FEWBIT_FN f32 scale(BytePtr b, int) { return f16_at(b + scale_at); }
  static FEWBIT_FN i32 level(BytePtr b, int e) {
    return i32(nibble_at(b + codes_at, e) | u32(b[high_at + e / 8] >> (e % 8) & 1) << 4) - zero;
  }
};

}  // namespace fewbit
