// I2_S: BitNet's ternary weights, 128 in 32 bytes, with one scale per tensor.  formats.md 4.34
//
//   w = scale (c - 1),   c in {0, 1, 2}; 3 is invalid
//
//   per 128 weights 32 bytes: element e is bits 6 - 2 (e / 32) of byte e % 32 (first elements on top)
//   behind all codes of the tensor: scale (f32), 28 bytes of padding
#pragma once
#include "format/portable.h"

namespace fewbit {

struct I2_S {
  FEWBIT_CONST int block = 128, bytes = 32, group = 128;
  FEWBIT_CONST int codes_at = 0;
  FEWBIT_CONST int tail = 32;  // bytes behind the codes of a tensor; the scale comes first in it
  FEWBIT_CONST int zero = 1;
  FEWBIT_CONST int words = 8, planes = 4, step = 1;
  static FEWBIT_FN constexpr int at(int t, int p) { return 4 * t + 32 * (3 - p); }
  static FEWBIT_FN constexpr u32 codes(u32 word, int p) { return word >> (2 * p) & 0x03030303u; }

  static FEWBIT_FN i32 level(BytePtr b, int e) { return i32(b[codes_at + e % 32] >> (6 - 2 * (e / 32)) & 3) - zero; }
};

}  // namespace fewbit
