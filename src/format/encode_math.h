// What the encoders share: the roundings of formats.md section 1 and extremes of a block.
#pragma once
#include <algorithm>
#include <cmath>

#include "base/bits.h"
#include "base/half.h"
#include "base/types.h"

namespace fewbit {

// The conversions clamp before they convert, so that no input (NaN goes to lo) is outside what C++ defines.
inline f32 clamped(f32 v, f32 lo, f32 hi) { return v > lo ? (v < hi ? v : hi) : lo; }

// trunc(v), lo <= 0 <= hi.
inline i32 trunc_to(f32 v, i32 lo, i32 hi) { return i32(clamped(v, f32(lo), f32(hi))); }
// Nearest integer, ties to even.  Adding 1.5 * 2^23 rounds at the units; |lo|, |hi| below 2^22.
inline i32 rint_to(f32 v, i32 lo, i32 hi) { return i32(clamped(v, f32(lo), f32(hi)) + 12582912.0f) - 12582912; }
// Nearest integer, ties away from zero.  The addend is the float below one half: with 0.5 itself, 0.49999997 would become 1.
inline i32 rhaz_to(f32 v, i32 lo, i32 hi) {
  const f32 c = clamped(v, f32(lo), f32(hi));
  return i32(c + std::copysign(0.49999997f, c));
}

// 1 / d, or 0 where d is 0 or so small that 1 / d is infinite: such a block counts as zero.
inline bool inverts(f32 d) { return std::abs(d) > 0x1p-128f; }
inline f32 inv(f32 d) { return inverts(d) ? 1 / d : 0; }

inline f32 largest_magnitude(const f32* x, int n) {
  f32 m = 0;
  for (int e = 0; e < n; e++) m = std::max(m, std::abs(x[e]));
  return m;
}
// The element of largest magnitude with its sign, the first of several.
inline f32 signed_largest(const f32* x, int n) {
  f32 a = 0, m = 0;
  for (int e = 0; e < n; e++)
    if (std::abs(x[e]) > a) a = std::abs(x[e]), m = x[e];
  return m;
}

inline void store_f16(u8* p, f32 v) { store_le(p, f32_to_half(v)); }

}  // namespace fewbit
