// IQ4_NL: 32 weights in 18 bytes = 4.5 bits per weight.  formats.md 4.19
//
//   w = d T[c],   c in 0..15,   T: 16 unevenly spaced levels
//
//   bytes 0..1   d (f16)
//   bytes 2..17  codes: low nibbles are elements 0..15, high nibbles 16..31
#pragma once
#include "format/codebooks/iq4nl.h"
#include "format/portable.h"

namespace fewbit {

struct IQ4_NL {
  FEWBIT_CONST int block = 32, bytes = 18, group = 32;
  FEWBIT_CONST int scale_at = 0, codes_at = 2;
  FEWBIT_CONST int words = 4, planes = 2, step = 1;
  static FEWBIT_FN constexpr int at(int t, int p) { return 4 * t + 16 * p; }
  static FEWBIT_FN constexpr u32 codes(u32 word, int p) { return word >> (4 * p) & 0x0f0f0f0fu; }
  static FEWBIT_FN i32 level_of(u32 code) { return byte_of(codebook::iq4nl_0, codebook::iq4nl_1, code); }

  static FEWBIT_FN f32 scale(BytePtr b, int) { return f16_at(b + scale_at); }
  static FEWBIT_FN i32 level(BytePtr b, int e) { return level_of(nibble_at(b + codes_at, e)); }
};

}  // namespace fewbit
