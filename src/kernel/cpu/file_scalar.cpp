// The file layout on any processor.
#include "kernel/cpu/file_rows.h"
#include "kernel/layout/fma.h"
#include "kernel/layout/integer_form.h"
#include "kernel/layout/record.h"

namespace fewbit::kernel::cpu::scalar {
namespace {

inline void dot16x2(const i8* w, const i8* q, i32* s) {
  s[0] = s[1] = 0;
  for (int i = 0; i < 16; i++) s[0] += w[i] * q[i];
  for (int i = 16; i < 32; i++) s[1] += w[i] * q[i];
}
#if defined(__FMA__) || defined(__aarch64__)
inline f32 fused(f32 a, f32 b, f32 c) { return __builtin_fmaf(a, b, c); }
#else
inline f32 fused(f32 a, f32 b, f32 c) { return fma_by_double(a, b, c); }
#endif
inline void fma16(const f32* w, const f32* x, f32* p) {
  for (int l = 0; l < 16; l++) p[l] = fused(w[l], x[l], p[l]);
}

#define FEWBIT_FILE_SET "scalar"
#define FEWBIT_FLOAT_TILE file_tile_float
#include "kernel/cpu/file_rows.inl"

}  // namespace

std::span<const WeightKernels> file_kernels() { return file_kernel_list; }

}  // namespace fewbit::kernel::cpu::scalar
