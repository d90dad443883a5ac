// Gated DeltaNet in its recurrent order at every width (models.md 8.5).
//
//   1 convolve   causal convolution, SiLU; q and k of unit length, q / sqrt(dim); into scratch (cols, channels)
//   2 step       a block per (V head, sequence) keeps the head's state in registers over all columns of the sequence:
//                S = e S;  r = S k;  S += beta (v - r) k^T;  o = S q;  out = rms(o) w silu(z).  Then the convolution's window moves on.
//
// Layout   8 lanes share a row of S (V index), VEC neighbours of K at a time: dots are 16 terms and a tree of 3.
#include "kernel/cuda/common.cuh"
#include "kernel/cuda/ops.h"

namespace fewbit::kernel::cuda {

namespace {

struct Args {
  DeltaNetArgs d;
  const i32* first;
  const i32* slot;
  const i32* seq;
  f32* y;  // scratch (cols, channels)
  int channels;
};

// Input `index` of a sequence (index < 0: from the window kept of earlier steps).
__device__ __forceinline__ f32 input_at(const Args& a, int first, i64 slot, int index, int channel) {
  if (index >= 0) return a.d.qkv[i64(first + index) * a.d.ldqkv + channel];
  return a.d.conv_state[(slot * (a.d.conv - 1) + a.d.conv - 1 + index) * a.channels + channel];
}

__global__ void __launch_bounds__(128) convolve_kernel(const __grid_constant__ Args a) {
  __shared__ f32 partial[4];
  early_launch();
  early_wait();
  const DeltaNetArgs& d = a.d;
  const int head = int(blockIdx.x), c = int(blockIdx.y), i = int(threadIdx.x), channel = head * d.dim + i;
  const int s = a.seq[c], first = a.first[s];
  const i64 slot = a.slot[s];
  f32 y = 0;
  if (i < d.dim) {
    for (int j = 0; j < d.conv; j++) y = __fmaf_rn(d.conv_w[i64(channel) * d.conv + j], input_at(a, first, slot, c - first - (d.conv - 1) + j, channel), y);
    y = silu(y);
  }
  if (head < 2 * d.k_heads) {
    const f32 norm = sqrtf(block_sum(y * y, partial));
    y /= fmaxf(norm, d.eps);
    if (head < d.k_heads) y /= sqrtf(f32(d.dim));
  }
  if (i < d.dim) a.y[i64(c) * a.channels + channel] = y;
}

template <int DIM>
__global__ void __launch_bounds__(DIM * 8 < 512 ? DIM * 8 : 512) step_kernel(const __grid_constant__ Args a) {
  constexpr int threads = DIM * 8 < 512 ? DIM * 8 : 512, per_pass = threads / 8, passes = DIM / per_pass;
  constexpr int VEC = DIM >= 32 ? 4 : 2, chunks = DIM / 8 / VEC;
  __shared__ f32 q[2][DIM], k[2][DIM], v[2][DIM], o[DIM], partial[16];
  early_launch();
  early_wait();
  const DeltaNetArgs& d = a.d;
  const int h = int(blockIdx.x), s = int(blockIdx.y), tid = int(threadIdx.x), l = tid % 8;
  const int c0 = a.first[s], c1 = a.first[s + 1];
  if (c0 == c1) return;
  const i64 slot = a.slot[s];
  const int kh = d.tiled ? h % d.k_heads : h / (d.v_heads / d.k_heads);
  f32* state = d.state + (slot * d.v_heads + h) * DIM * DIM;

  f32 S[passes][chunks][VEC];
#pragma unroll
  for (int p = 0; p < passes; p++)
#pragma unroll
    for (int i = 0; i < chunks; i++)
#pragma unroll
      for (int e = 0; e < VEC; e++) S[p][i][e] = state[(p * per_pass + tid / 8) * DIM + (i * 8 + l) * VEC + e];

  auto fetch = [&](int c, int at) {
    const f32* y = a.y + i64(c) * a.channels;
    for (int i = tid; i < 3 * DIM; i += threads) {
      const int which = i / DIM, e = i % DIM;
      f32* to = which == 0 ? q[at] : which == 1 ? k[at] : v[at];
      to[e] = y[which == 0 ? kh * DIM + e : which == 1 ? (d.k_heads + kh) * DIM + e : (2 * d.k_heads + h) * DIM + e];
    }
  };
  fetch(c0, 0);
  __syncthreads();
  for (int c = c0; c < c1; c++) {
    const int at = (c - c0) & 1;
    if (c + 1 < c1) fetch(c + 1, at ^ 1);
    const f32 beta = sigmoid(d.beta[c * d.ldab + h]);
    const f32 x = d.alpha[c * d.ldab + h] + d.dt[h];
    const f32 e = expf(d.a[h] * (x > 20.0f ? x : log1pf(expf(x))));
#pragma unroll
    for (int p = 0; p < passes; p++) {
      const int row = p * per_pass + tid / 8;
      f32 r = 0;
#pragma unroll
      for (int i = 0; i < chunks; i++)
#pragma unroll
        for (int n = 0; n < VEC; n++) {
          S[p][i][n] *= e;
          r = __fmaf_rn(S[p][i][n], k[at][(i * 8 + l) * VEC + n], r);
        }
#pragma unroll
      for (int m = 4; m; m /= 2) r += __shfl_xor_sync(~0u, r, m);
      const f32 delta = beta * (v[at][row] - r);
      f32 t = 0;
#pragma unroll
      for (int i = 0; i < chunks; i++)
#pragma unroll
        for (int n = 0; n < VEC; n++) {
          S[p][i][n] = __fmaf_rn(delta, k[at][(i * 8 + l) * VEC + n], S[p][i][n]);
          t = __fmaf_rn(S[p][i][n], q[at][(i * 8 + l) * VEC + n], t);
        }
#pragma unroll
      for (int m = 4; m; m /= 2) t += __shfl_xor_sync(~0u, t, m);
      if (l == 0) o[row] = t;
    }
    __syncthreads();
    const f32 mine = tid < DIM ? o[tid] : 0;
    const f32 factor = 1.0f / sqrtf(block_sum(mine * mine, partial) / f32(DIM) + d.eps);
    if (tid < DIM) d.out[(i64(c) * d.v_heads + h) * DIM + tid] = mine * factor * d.norm[tid] * silu(d.z[c * d.ldz + h * DIM + tid]);
    __syncthreads();
  }
#pragma unroll
  for (int p = 0; p < passes; p++)
#pragma unroll
    for (int i = 0; i < chunks; i++)
#pragma unroll
      for (int e = 0; e < VEC; e++) state[(p * per_pass + tid / 8) * DIM + (i * 8 + l) * VEC + e] = S[p][i][e];

  // The window: this head's V channels, and head h's q and k channels if there is such a head.  One thread owns a channel.
  auto move_on = [&](int channel) {
    f32 w[8];
    for (int j = 0; j < d.conv - 1; j++) w[j] = input_at(a, c0, slot, c1 - c0 - (d.conv - 1) + j, channel);
    for (int j = 0; j < d.conv - 1; j++) d.conv_state[(slot * (d.conv - 1) + j) * a.channels + channel] = w[j];
  };
  for (int i = tid; i < DIM; i += threads) {
    move_on((2 * d.k_heads + h) * DIM + i);
    if (h < d.k_heads) move_on(h * DIM + i), move_on((d.k_heads + h) * DIM + i);
  }
}

}  // namespace

void delta_net(Ctx& ctx, const Batch& batch, const DeltaNetArgs& d) {
  FEWBIT_CHECK(d.v_heads % d.k_heads == 0 && d.conv >= 2 && d.conv <= 8 && d.dim <= 128, "DeltaNet with %d/%d heads of %d, window %d", d.k_heads, d.v_heads, d.dim, d.conv);
  Args a{d, batch.first, batch.slot, batch.seq, static_cast<f32*>(ctx.scratch), (2 * d.k_heads + d.v_heads) * d.dim};
  FEWBIT_CHECK(ctx.scratch_bytes >= u64(batch.cols) * u64(a.channels) * 4, "scratch of %llu bytes for %d DeltaNet columns", (unsigned long long)ctx.scratch_bytes, batch.cols);
  LaunchShape s;
  s.grid = dim3(unsigned(2 * d.k_heads + d.v_heads), unsigned(batch.cols)), s.block = dim3(128), s.name = "delta_net.convolve";
  launch(ctx, convolve_kernel, s, a);
  s.grid = dim3(unsigned(d.v_heads), unsigned(batch.seqs)), s.name = "delta_net.step";
  s.bytes = u64(batch.seqs) * u64(d.v_heads) * u64(d.dim) * u64(d.dim) * 8;
  switch (d.dim) {
    case 16: s.block = dim3(128); return launch(ctx, step_kernel<16>, s, a);
    case 32: s.block = dim3(256); return launch(ctx, step_kernel<32>, s, a);
    case 64: s.block = dim3(512); return launch(ctx, step_kernel<64>, s, a);
    case 128: s.block = dim3(512); return launch(ctx, step_kernel<128>, s, a);
    default: FEWBIT_CHECK(false, "DeltaNet heads of %d: 16, 32, 64, 128 are there", d.dim);
  }
}

u64 delta_net_scratch_bytes(int max_cols, int max_n) { return u64(max_cols) * u64(max_n) * 4; }

}  // namespace fewbit::kernel::cuda
