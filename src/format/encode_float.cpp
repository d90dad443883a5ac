#include "format/encode.h"
#include "format/encode_math.h"

namespace fewbit {

void encode(F32, const f32* x, const f32*, i64 n, u8* out) { std::memcpy(out, x, size_t(n) * 4); }
void encode(F16, const f32* x, const f32*, i64 n, u8* out) {
  for (i64 i = 0; i < n; i++) store_le(out + 2 * i, f32_to_half(x[i]));
}
void encode(BF16, const f32* x, const f32*, i64 n, u8* out) {
  for (i64 i = 0; i < n; i++) store_le(out + 2 * i, f32_to_bf16(x[i]));
}

}  // namespace fewbit
