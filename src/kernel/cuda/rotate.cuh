// Walsh-Hadamard transform of blocks of B numbers by a block of threads, 4 neighbours in each thread (hadamard.md section 4).
#pragma once
#include "kernel/cuda/common.cuh"

namespace fewbit::kernel::cuda {

inline constexpr int max_rotation = 4096;
// Threads of a block that transforms: 4 numbers each, at least 1024 numbers so that small blocks go several at a time.
inline int rotation_threads(int block) { return block > 1024 ? block / 4 : 256; }

// v: numbers 4 tid .. 4 tid + 3 of the thread block's 4 * blockDim.x.  `shared`: blockDim.x float4, used for B > 128 only.
// Every thread calls it.  Natural order, scaled by 1 / sqrt(B).  B: the block where it is known, with 4 blockDim.x = B or 1024.
template <int B = 0>
__device__ __forceinline__ float4 rotate4(float4 v, int any_block, float4* shared) {
  const int block = B ? B : any_block;
  if (block >= 2) v = make_float4(v.x + v.y, v.x - v.y, v.z + v.w, v.z - v.w);
  if (block >= 4) v = make_float4(v.x + v.z, v.y + v.w, v.x - v.z, v.y - v.w);
  const int lane = int(threadIdx.x % 32), warp = int(threadIdx.x / 32);
#pragma unroll
  for (int m = 1; m < 32; m *= 2) {
    if (block >= 8 * m) {
      const f32 sign = lane & m ? -1.0f : 1.0f;
      v.x = __fmaf_rn(sign, v.x, __shfl_xor_sync(~0u, v.x, m));
      v.y = __fmaf_rn(sign, v.y, __shfl_xor_sync(~0u, v.y, m));
      v.z = __fmaf_rn(sign, v.z, __shfl_xor_sync(~0u, v.z, m));
      v.w = __fmaf_rn(sign, v.w, __shfl_xor_sync(~0u, v.w, m));
    }
  }
  if (block > 128) {
    const int warps = block / 128, first = warp / warps * warps;
    shared[threadIdx.x] = v;
    __syncthreads();
    float4 s = shared[first * 32 + lane];
#pragma unroll B ? B / 128 : 1
    for (int w = 1; w < warps; w++) {
      const float4 o = shared[(first + w) * 32 + lane];
      const f32 sign = __popc(w & (warp - first)) & 1 ? -1.0f : 1.0f;
      s.x = __fmaf_rn(sign, o.x, s.x), s.y = __fmaf_rn(sign, o.y, s.y), s.z = __fmaf_rn(sign, o.z, s.z), s.w = __fmaf_rn(sign, o.w, s.w);
    }
    v = s;
  }
  const f32 scale = rsqrtf(f32(block));
  const f32 exact = __popc(block) == 1 && (31 - __clz(block)) % 2 == 0 ? 1.0f / f32(1 << (31 - __clz(block)) / 2) : scale;
  return make_float4(v.x * exact, v.y * exact, v.z * exact, v.w * exact);
}

}  // namespace fewbit::kernel::cuda
