// Blocks of random bits with sane scales, for tests, verify, ab and the start-up check.  Uniform bits matter: real weights make look-ups
// and branches diverge, patterned ones hide it.
#pragma once
#include <algorithm>
#include <cstring>
#include <random>

#include "base/bits.h"
#include "base/check.h"
#include "base/half.h"
#include "format/format.h"
#include "format/formats.h"

namespace fewbit::kernel::cpu {

struct RandomBlocks {
  std::mt19937_64 rng;
  std::normal_distribution<f32> normals;  // one for all calls: it makes numbers in pairs
  explicit RandomBlocks(u64 seed) : rng(seed) {}
  f32 uniform(f32 lo, f32 hi) { return lo + (hi - lo) * f32(rng() >> 40) * 0x1p-24f; }
  f32 normal() { return normals(rng); }

  // bytes: whole blocks of F.  Scales are about 1 / (largest level), some negative, one in 64 zero.
  template <class F>
  void fill(u8* bytes, u64 n_bytes) {
    if constexpr (requires { F::value(BytePtr(nullptr)); }) {
      for (u64 i = 0; i < n_bytes; i += F::bytes) {
        f32 v = normal();
        if constexpr (F::bytes == 4)
          store_le(bytes + i, v);
        else
          store_le(bytes + i, std::is_same_v<F, BF16> ? f32_to_bf16(v) : f32_to_half(v));
      }
    } else {
      for (u64 i = 0; i < n_bytes; i += 8) {
        const u64 eight = rng();
        std::memcpy(bytes + i, &eight, size_t(std::min<u64>(8, n_bytes - i)));
      }
      for (u64 i = 0; i + F::bytes <= n_bytes; i += F::bytes) scales<F>(bytes + i);
    }
  }

  void fill(Type type, u8* bytes, u64 n_bytes) {
    switch (type) {
#define FEWBIT_X(F, id) \
  case Type::F:         \
    return fill<F>(bytes, n_bytes);
      FEWBIT_WEIGHT_FORMATS(FEWBIT_X)
#undef FEWBIT_X
      default:
        FEWBIT_CHECK(false, "no random blocks of type %d", int(type));
    }
  }

 private:
  u16 half(f32 top) { return rng() % 64 == 0 ? u16(0) : f32_to_half(uniform(0.2f, 1.0f) * top * (rng() % 8 == 0 ? -1.0f : 1.0f)); }
  template <class F>
  void scales(u8* b) {
    if constexpr (std::is_same_v<F, I2_S>) {
      for (int i = 0; i < F::bytes; i++) b[i] &= u8(~(b[i] >> 1 & b[i] & 0x55));  // no code 3
    } else if constexpr (std::is_same_v<F, MXFP4>) {
      b[F::exponent_at] = u8(122 + rng() % 6);
    } else if constexpr (std::is_same_v<F, NVFP4>) {
      for (int g = 0; g < 4; g++) b[F::scales_at + g] = u8(rng() % 64);
    } else if constexpr (std::is_same_v<F, IQ1_M>) {
      const u16 d = half(0.1f);
      for (int i = 0; i < 4; i++) b[F::scales_at + 2 * i + 1] = u8((b[F::scales_at + 2 * i + 1] & 15) | (d >> (4 * i) & 15) << 4);
    } else {
      store_le(b + F::scale_at, half(F::block == 256 ? 0.02f : 0.1f));
      if constexpr (requires { F::min_at; }) store_le(b + F::min_at, half(F::block == 256 ? 0.02f : 0.5f));
    }
  }
};

}  // namespace fewbit::kernel::cpu
