#include "kernel/layout/activation.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "base/cpu_features.h"

namespace fewbit::kernel::cpu {

u64 act_bytes(ActLayout layout, int n, int cols) {
  switch (layout) {
    case ActLayout::f32:
      return u64(n) * u64(cols) * 4;
    case ActLayout::q8_32:
    case ActLayout::token8:
      return act_record_bytes(n) * u64(cols);
    case ActLayout::q8_128:
    case ActLayout::q8_256:
    case ActLayout::q8_per128:
    case ActLayout::f16:
      break;  // no CPU kernel takes it
  }
  FEWBIT_CHECK(false, "activation layout %d", int(layout));
}

namespace {

struct Writer {
  f32* d;
  i16* sum;
  i8* q;
  Writer(void* record, i64 n)
      : d(static_cast<f32*>(record)), sum(reinterpret_cast<i16*>(d + act_groups(n))), q(reinterpret_cast<i8*>(sum + 2 * act_groups(n))) {}
};

void sums_of(const Writer& w, i64 g) {
  for (int h = 0; h < 2; h++) {
    int s = 0;
    for (int i = 0; i < 16; i++) s += w.q[g * 32 + h * 16 + i];
    w.sum[2 * g + h] = i16(s);
  }
}

}  // namespace

void quantize_q8_32_scalar(const f32* x, i64 n, void* record) {
  Writer w(record, n);
  std::memset(record, 0, act_record_bytes(n));
  for (i64 g = 0; g * 32 < n; g++) {
    const f32* v = x + g * 32;
    const int len = n - g * 32 < 32 ? int(n - g * 32) : 32;
    f32 top = 0;
    bool finite = true;
    for (int i = 0; i < len; i++) {
      f32 a = std::fabs(v[i]);
      finite = finite && a <= std::numeric_limits<f32>::max();
      top = a > top ? a : top;
    }
    w.d[g] = finite ? top / 127.0f : std::numeric_limits<f32>::quiet_NaN();
    if (!(w.d[g] > 0)) continue;
    for (int i = 0; i < len; i++) {
      f32 r = v[i] / w.d[g], whole = std::trunc(r);
      if (std::fabs(r - whole) >= 0.5f) whole += r < 0 ? -1.0f : 1.0f;  // r - whole is exact
      whole = whole > 127 ? 127.0f : whole < -127 ? -127.0f : whole;    // beyond 127 only where d is subnormal
      w.q[g * 32 + i] = i8(whole);
    }
    sums_of(w, g);
  }
}

#if defined(__x86_64__)
void quantize_q8_32_avx2(const f32* x, i64 n, void* record);  // cpu/quantize_avx2.cpp
#endif

QuantizeFn quantize_q8_32() {
#if defined(__x86_64__)
  if (cpu_features().avx2) return quantize_q8_32_avx2;
#endif
  return quantize_q8_32_scalar;
}

void quantize_token8(const f32* x, i64 n, void* record) {
  Writer w(record, n);
  std::memset(record, 0, act_record_bytes(n));
  f32 top = 0;
  bool finite = true;
  for (i64 i = 0; i < n; i++) {
    f32 a = std::fabs(x[i]);
    finite = finite && a <= std::numeric_limits<f32>::max();
    top = a > top ? a : top;
  }
  const f32 s = 127.0f / (top > 1e-5f ? top : 1e-5f);
  const f32 d = finite ? 1.0f / s : std::numeric_limits<f32>::quiet_NaN();
  for (i64 g = 0; g < div_up(n, 32); g++) w.d[g] = d;
  if (!finite) return;
  for (i64 i = 0; i < n; i++) {
    f32 r = std::nearbyint(x[i] * s);
    w.q[i] = i8(r > 127 ? 127.0f : r < -128 ? -128.0f : r);
  }
  for (i64 g = 0; g < div_up(n, 32); g++) sums_of(w, g);
}

}  // namespace fewbit::kernel::cpu
