// IEEE binary16 and bfloat16 to binary32 and back, bit for bit as spec: round to nearest even, subnormals kept, NaN -> 0x7E00 with the
// sign. Scalar and portable (any x86-64, any ARM); the vector paths of kernel/cpu use F16C and are tested against this.
#pragma once
#include <bit>

#include "base/types.h"

namespace fewbit {

inline f32 half_to_f32(u16 h) {
  u32 sign = u32(h & 0x8000) << 16, rest = h & 0x7fff;
  if (rest >= 0x7c00) return std::bit_cast<f32>(sign | 0x7f800000u | (rest & 0x3ff) << 13);  // infinity, NaN
  if (rest >= 0x0400) return std::bit_cast<f32>(sign | ((rest << 13) + 0x38000000u));
  return std::bit_cast<f32>(sign | std::bit_cast<u32>(f32(rest) * 0x1p-24f));  // subnormal: exact
}

inline u16 f32_to_half(f32 f) {
  u32 w = std::bit_cast<u32>(f), sign = w >> 16 & 0x8000, a = w & 0x7fffffff;
  if (a > 0x7f800000) return u16(sign | 0x7e00);
  if (a >= 0x477ff000) return u16(sign | 0x7c00);                     // 65520 and more
  if (a < 0x38800000) {                                               // below 2^-14: subnormal result
    f32 r = std::bit_cast<f32>(a) + std::bit_cast<f32>(0x3f000000u);  // adding 0.5 rounds at 2^-24, to nearest even
    return u16(sign | (std::bit_cast<u32>(r) - 0x3f000000u));
  }
  return u16(sign | ((a + 0xfff + (a >> 13 & 1) - 0x38000000u) >> 13));
}

inline f32 bf16_to_f32(u16 h) { return std::bit_cast<f32>(u32(h) << 16); }

inline u16 f32_to_bf16(f32 f) {
  u32 w = std::bit_cast<u32>(f);
  if ((w & 0x7fffffff) > 0x7f800000) return u16(w >> 16 | 0x40);
  return u16((w + 0x7fff + (w >> 16 & 1)) >> 16);
}

}  // namespace fewbit
