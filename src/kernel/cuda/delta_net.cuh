// What the DeltaNet kernels share: arguments, two rows of the state in 8 lanes.
#pragma once
#include "kernel/cuda/common.cuh"

namespace fewbit::kernel::cuda::delta {

constexpr int few_columns = 8;  // of one sequence, up to which one launch does everything
constexpr int held = 2;         // rows of a thread

struct Args {
  DeltaNetArgs d;
  const i32* first;
  const i32* slot;
  const i32* seq;
  f32* y;         // scratch (cols, channels): q, k, v after the convolution
  f32* gates;     // scratch (cols, v_heads, 2): e, beta
  f32* kq;        // scratch (cols, k_heads)
  u32* counters;  // (seqs, k_heads), zero between launches
  int channels, cols;
  bool aligned;  // columns of qkv and z start at multiples of 16 bytes
};

// Two rows of a head's state in 8 lanes.
template <int DIM>
struct Rows {
  static constexpr int VEC = DIM >= 32 ? 4 : 2, chunks = DIM / 8 / VEC;
  f32 S[held][chunks][VEC];

  __device__ __forceinline__ void load(const f32* state, int l) {  // state: the first of the rows
#pragma unroll
    for (int r = 0; r < held; r++)
#pragma unroll
      for (int i = 0; i < chunks; i++) {
        const f32* from = state + r * DIM + (i * 8 + l) * VEC;
        if constexpr (VEC == 4) {
          const float4 x = *reinterpret_cast<const float4*>(from);
          S[r][i][0] = x.x, S[r][i][1] = x.y, S[r][i][2] = x.z, S[r][i][3] = x.w;
        } else {
          const float2 x = *reinterpret_cast<const float2*>(from);
          S[r][i][0] = x.x, S[r][i][1] = x.y;
        }
      }
  }
  __device__ __forceinline__ void store(f32* state, int l) const {
#pragma unroll
    for (int r = 0; r < held; r++)
#pragma unroll
      for (int i = 0; i < chunks; i++) {
        f32* to = state + r * DIM + (i * 8 + l) * VEC;
        if constexpr (VEC == 4)
          *reinterpret_cast<float4*>(to) = make_float4(S[r][i][0], S[r][i][1], S[r][i][2], S[r][i][3]);
        else
          *reinterpret_cast<float2*>(to) = make_float2(S[r][i][0], S[r][i][1]);
      }
  }
  // One column: S <- e S + delta k^T; returns o of the rows in every one of the 8 lanes.  q, k, v in shared memory, aligned.  k and q are
  // read twice rather than held.
  __device__ __forceinline__ float2 lean_step(const f32* q, const f32* k, float2 v, f32 e, f32 beta, f32 kq, int l) {
    f32 r[held][VEC] = {}, o[held][VEC] = {}, sr[held], so[held];
#pragma unroll
    for (int i = 0; i < chunks; i++)
#pragma unroll
      for (int x = 0; x < VEC; x++) {
        const f32 kk = k[(i * 8 + l) * VEC + x], qq = q[(i * 8 + l) * VEC + x];
#pragma unroll
        for (int h = 0; h < held; h++) r[h][x] = __fmaf_rn(S[h][i][x], kk, r[h][x]), o[h][x] = __fmaf_rn(S[h][i][x], qq, o[h][x]);
      }
#pragma unroll
    for (int h = 0; h < held; h++) {
      sr[h] = r[h][0] + r[h][1], so[h] = o[h][0] + o[h][1];
      if constexpr (VEC == 4) sr[h] += r[h][2] + r[h][3], so[h] += o[h][2] + o[h][3];
    }
#pragma unroll
    for (int m = 4; m; m /= 2)
#pragma unroll
      for (int h = 0; h < held; h++) sr[h] += __shfl_xor_sync(~0u, sr[h], m), so[h] += __shfl_xor_sync(~0u, so[h], m);
    f32 delta[held], out[held];
#pragma unroll
    for (int h = 0; h < held; h++) delta[h] = beta * ((h ? v.y : v.x) - e * sr[h]), out[h] = __fmaf_rn(delta[h], kq, e * so[h]);
#pragma unroll
    for (int i = 0; i < chunks; i++)
#pragma unroll
      for (int x = 0; x < VEC; x++) {
        const f32 kk = k[(i * 8 + l) * VEC + x];
#pragma unroll
        for (int h = 0; h < held; h++) S[h][i][x] = __fmaf_rn(delta[h], kk, e * S[h][i][x]);
      }
    return make_float2(out[0], out[1]);
  }
};

// Up to 8 columns per sequence in one launch (delta_net_few.cu).
void launch_few(Ctx& ctx, const Batch& batch, const Args& a);

}  // namespace fewbit::kernel::cuda::delta
