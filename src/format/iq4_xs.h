// IQ4_XS: 256 weights in 136 bytes = 4.25 bits per weight; 8 groups of 32.  formats.md 4.20
//
//   w = (d (s - 32)) T[c],   c in 0..15,   s in 0..63 per group,   T: the levels of IQ4_NL
//
//   bytes 0..1    d (f16)
//   bytes 2..3    high two bits of s, eight fields, low first
//   bytes 4..7    low four bits of s, two nibbles per byte, low first
//   bytes 8..135  codes: 16 bytes per group, low nibbles first
#pragma once
#include "format/iq4_nl.h"

namespace fewbit {

struct IQ4_XS {
  FEWBIT_CONST int block = 256, bytes = 136, group = 32;
  FEWBIT_CONST int scale_at = 0, high_at = 2, scales_at = 4, codes_at = 8;
  FEWBIT_CONST int words = 32, planes = 2, step = 1;
  static FEWBIT_FN constexpr int at(int t, int p) { return 32 * (t / 4) + 4 * (t % 4) + 16 * p; }
  static FEWBIT_FN constexpr u32 codes(u32 word, int p) { return word >> (4 * p) & 0x0f0f0f0fu; }
  static FEWBIT_FN i32 level_of(u32 code) { return IQ4_NL::level_of(code); }

  static FEWBIT_FN i32 scale_code(BytePtr b, int g) {
    return i32((b[scales_at + g / 2] >> (4 * (g % 2)) & 15) | (u16_at(b + high_at) >> (2 * g) & 3) << 4) - 32;
  }
  static FEWBIT_FN f32 scale(BytePtr b, int g) { return f16_at(b + scale_at) * f32(scale_code(b, g)); }
  static FEWBIT_FN i32 level(BytePtr b, int e) { return level_of(nibble_at(b + codes_at + 16 * (e / 32), e % 32)); }
};

}  // namespace fewbit
