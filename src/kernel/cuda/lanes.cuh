// Exchanges between the lanes of a warp.
#pragma once
#include "kernel/cuda/common.cuh"

namespace fewbit::kernel::cuda {

// v[k] of lane t of each four -> v[u] is what lane u had as v[t].
__device__ __forceinline__ void transpose4(f32 (&v)[4], int t) {
#pragma unroll
  for (int m = 1; m < 4; m *= 2) {
    const bool up = t & m;
#pragma unroll
    for (int k = 0; k < 4; k++)
      if (!(k & m)) {
        const f32 other = __shfl_xor_sync(~0u, up ? v[k] : v[k + m], m);
        v[k] = up ? other : v[k], v[k + m] = up ? v[k + m] : other;
      }
  }
}

}  // namespace fewbit::kernel::cuda
