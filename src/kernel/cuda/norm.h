// Arguments of the norm kernels (norm.cu, norm_wide.cu).
#pragma once
#include "kernel/kernel.h"

namespace fewbit::kernel::cuda {

struct NormOut {
  void* data;
  ActLayout layout;
  int block;  // of the rotation, 1: none
  const f32* signs;
  int perm_k_heads, perm_rep, perm_width;
};
struct NormArgs {
  const f32* x;
  i64 ldx;
  int n, cols;
  bool aligned;  // rows start at multiples of 16 bytes and hold a multiple of 4 numbers
  const f32* w;
  f32 eps, reciprocal_n;
  int n_outs;
  NormOut outs[4];
};

// The same numbers by a kernel for many columns.  False: not for these arguments.
bool norm_wide(Ctx&, const NormArgs&);

}  // namespace fewbit::kernel::cuda
