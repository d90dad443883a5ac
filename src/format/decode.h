// Scalar decode of whole blocks, from the descriptions: the definition that every faster decoder is held to.
#pragma once
#include "format/formats.h"

namespace fewbit {

template <class F>
concept HasGrid = requires {
  typename F::Grid;
};
template <class F>
concept HasOffset = requires(BytePtr b) {
  F::offset(b, 0);
};
template <class F>
concept HasValue = requires(BytePtr b) {
  F::value(b);
};  // types without blocks
template <class F>
concept HasTail = requires {
  F::tail;
};  // I2_S: scale behind the codes of the tensor

// The integer levels of a block (block of them).
template <class F>
inline void block_levels(BytePtr b, i8* out) {
  if constexpr (HasGrid<F>) {
    for (int k = 0; k < F::block / 8; k++) {
      u64 v = F::levels(b, k, F::host_grid());
      for (int j = 0; j < 8; j++) out[8 * k + j] = i8(byte_at(v, j));
    }
  } else {
    for (int e = 0; e < F::block; e++) out[e] = i8(F::level(b, e));
  }
}

// The weights of a block.  Not for I2_S.
template <class F>
inline void decode_block(BytePtr b, f32* out) {
  if constexpr (HasValue<F>) {
    *out = F::value(b);
  } else {
    i8 level[F::block];
    block_levels<F>(b, level);
    for (int g = 0; g < F::block / F::group; g++) {
      const f32 scale = F::scale(b, g);
      f32* o = out + g * F::group;
      const i8* l = level + g * F::group;
      if constexpr (HasOffset<F>) {
        const f32 offset = F::offset(b, g);
        for (int e = 0; e < F::group; e++) o[e] = scale * f32(l[e]) + offset;
      } else {
        for (int e = 0; e < F::group; e++) o[e] = scale * f32(l[e]);
      }
    }
  }
}

}  // namespace fewbit
