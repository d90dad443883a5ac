// MXFP4 and NVFP4: a scale from the largest magnitude, then the nearest of 16 values.  formats.md 4.23, 4.24
#include "format/encode.h"
#include "format/encode_math.h"

namespace fewbit {
namespace {

// The first of the 16 codes whose value lies nearest to x.
u8 nearest_fp4(f32 x, f32 scale) {
  u8 best = 0;
  f32 least = std::abs(f32(codebook::fp4_e2m1_doubled[0]) * scale - x);
  for (u8 c = 1; c < 16; c++) {
    const f32 error = std::abs(f32(codebook::fp4_e2m1_doubled[c]) * scale - x);
    if (error < least) least = error, best = c;
  }
  return best;
}

// Positive x to an unsigned E4M3 byte, half up at the first dropped bit.
u8 ue4m3(f32 x) {
  if (!(x > 0)) return 0;
  const u32 w = std::bit_cast<u32>(std::min(x, 448.0f));
  const i32 exponent = i32(w >> 23) - 127 + 7;
  if (exponent <= 0) return u8(trunc_to(x * 512 + 0.5f, 0, 7));
  const i32 rounded = (exponent << 3 | i32(w >> 20 & 7)) + i32(w >> 19 & 1);  // a carry moves into the exponent
  return u8(rounded >= 15 << 3 ? 0x7e : rounded);
}

}  // namespace

void encode(MXFP4, const f32* x, const f32*, i64 n, u8* out) {
  for (i64 i = 0; i < n / MXFP4::block; i++, x += MXFP4::block, out += MXFP4::bytes) {
    const f32 a = largest_magnitude(x, MXFP4::block);
    // The logarithm is rounded to f32 before the floor, so a value a hair below a power of two counts as that power.
    const u8 exponent = a > 0 ? u8(std::max(0, i32(std::floor(f32(std::log2(f64(a))))) - 2 + 127)) : 0;
    const f32 scale = MXFP4::scale_of(exponent);
    out[MXFP4::exponent_at] = exponent;
    for (int e = 0; e < 16; e++) out[MXFP4::codes_at + e] = u8(nearest_fp4(x[e], scale) | nearest_fp4(x[e + 16], scale) << 4);
  }
}

void encode(NVFP4, const f32* x, const f32*, i64 n, u8* out) {
  for (i64 i = 0; i < n / NVFP4::block; i++, x += NVFP4::block, out += NVFP4::bytes)
    for (int g = 0; g < NVFP4::block / NVFP4::group; g++) {
      const f32* xg = x + NVFP4::group * g;
      const u8 s = ue4m3(largest_magnitude(xg, NVFP4::group) / 6);
      const f32 scale = NVFP4::scale_of(s);
      out[NVFP4::scales_at + g] = s;
      for (int e = 0; e < 8; e++) out[NVFP4::codes_at + 8 * g + e] = u8(nearest_fp4(xg[e], scale) | nearest_fp4(xg[e + 8], scale) << 4);
    }
}

}  // namespace fewbit
