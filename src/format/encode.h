// floats -> blocks, one function per format (inside this module).  Found by overloading on the description:
//
//   encode(F{}, x, q, n, out)    x: n finite floats, n a multiple of F::block     q: n weights >= 0, or nullptr     out: n / F::block
//   blocks
#pragma once
#include "format/formats.h"

namespace fewbit {

template <class F>
consteval bool has_encoder() {
  return requires(const f32* x, u8* out) { encode(F{}, x, x, i64(0), out); };
}

}  // namespace fewbit
