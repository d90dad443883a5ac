// Q4_K: 256 weights in 144 bytes = 4.5 bits per weight; 8 groups of 32.  formats.md 4.9
//
//   w = (d s) c - (dmin m),   c in 0..15,   s, m in 0..63 per group
//
//   bytes  0..1    d (f16)
//   bytes  2..3    dmin (f16)
//   bytes  4..15   s and m, six bits each (k4_scale, k4_min)
//   bytes 16..143  codes: byte 32 (e / 64) + e % 32, low nibble for even e / 32
#pragma once
#include "format/portable.h"

namespace fewbit {

// Six-bit scale and minimum of group j from the 12 bytes that Q4_K and Q5_K share.
//   bytes 0..3   s0..s3 in bits 0..5, top bits of s4..s7 in bits 6..7
//   bytes 4..7   m0..m3 in bits 0..5, top bits of m4..m7 in bits 6..7
//   bytes 8..11  low nibbles of s4..s7 and (high) of m4..m7
FEWBIT_FN i32 k4_scale(BytePtr s, int j) { return j < 4 ? s[j] & 63 : (s[j + 4] & 15) | (s[j - 4] >> 6) << 4; }
FEWBIT_FN i32 k4_min(BytePtr s, int j) { return j < 4 ? s[j + 4] & 63 : (s[j + 4] >> 4) | (s[j] >> 6) << 4; }

struct Q4_K {
  FEWBIT_CONST int block = 256, bytes = 144, group = 32;
  FEWBIT_CONST int scale_at = 0, min_at = 2, scales_at = 4, codes_at = 16;
  FEWBIT_CONST int zero = 0;
  FEWBIT_CONST int words = 32, planes = 2, step = 1;
  static FEWBIT_FN constexpr int at(int t, int p) { return 64 * (t / 8) + 32 * p + 4 * (t % 8); }
  static FEWBIT_FN constexpr u32 codes(u32 word, int p) { return word >> (4 * p) & 0x0f0f0f0fu; }

  static FEWBIT_FN f32 scale(BytePtr b, int g) { return f16_at(b + scale_at) * f32(k4_scale(b + scales_at, g)); }
  static FEWBIT_FN f32 offset(BytePtr b, int g) { return -(f16_at(b + min_at) * f32(k4_min(b + scales_at, g))); }
  static FEWBIT_FN i32 level(BytePtr b, int e) { return b[codes_at + 32 * (e / 64) + e % 32] >> (4 * (e / 32 % 2)) & 15; }
};

}  // namespace fewbit
