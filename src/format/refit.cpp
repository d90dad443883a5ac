#include "format/refit.h"

#include <cmath>

#include "format/decode.h"
#include "format/encode_math.h"

namespace fewbit {

void refit_scales(Type type, std::span<const f32> x, std::span<const f32> importance, std::span<u8> blocks) {
  using F = IQ2_XS;
  if (type != Type::IQ2_XS || importance.empty()) return;
  for (size_t b = 0; b < x.size() / F::block; b++) {
    u8* out = blocks.data() + b * F::bytes;
    f32 y[F::block];
    decode_block<F>(out, y);
    f64 square = 0, xy = 0, yy = 0;
    for (size_t e = 0; e < F::block; e++) square += f64(x[b * F::block + e]) * f64(x[b * F::block + e]);
    for (size_t e = 0; e < F::block; e++) {
      const f64 v = f64(x[b * F::block + e]);
      const f64 w = f64(importance[b * F::block + e]) * std::sqrt(square / F::block + v * v);
      xy += w * v * f64(y[e]);
      yy += w * f64(y[e]) * f64(y[e]);
    }
    if (!(xy > 0 && yy > 0)) continue;
    const u16 d = f32_to_half(f32(f64(f16_at(out + F::scale_at)) * (1.07 * xy / yy)));
    if (const f32 v = half_to_f32(d); v != 0 && std::isfinite(v)) store_le(out + F::scale_at, d);
  }
}

}  // namespace fewbit
