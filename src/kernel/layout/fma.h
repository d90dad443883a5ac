// a * b + c, rounded once.  Machines without the instruction get the same bits from double arithmetic.
#pragma once
#include <bit>

#include "base/types.h"

namespace fewbit::kernel {

// The product of two floats is exact in binary64.  The sum is rounded to odd there (Boldo and Melquiond, "Emulation of FMA and
// correctly rounded sums", IEEE Trans. Computers 57, 2008), so that rounding it again to binary32 is as good as rounding once.
inline f32 fma_by_double(f32 a, f32 b, f32 c) {
  const f64 p = f64(a) * f64(b), s = p + f64(c);
  const f64 t = s - p, error = (p - (s - t)) + (f64(c) - t);
  u64 w = std::bit_cast<u64>(s);
  if (error != 0 && error == error && !(w & 1)) w = (error > 0) == (s > 0) ? w + 1 : w - 1;
  return f32(std::bit_cast<f64>(w));
}

}  // namespace fewbit::kernel
