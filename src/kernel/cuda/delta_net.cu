// Gated DeltaNet in its recurrent order at every width (models.md 8.5).
//
//   1 convolve   causal convolution, SiLU; q and k of unit length, q / sqrt(dim); k.q; decay and beta.  Parallel over columns.
//   2 step       a block per (V head, slice of its rows, sequence) keeps its part of the state in registers over all columns:
//                r = e (S k);  delta = beta (v - r);  o = e (S q) + delta (k.q);  S = e S + delta k^T      (o = S q after the update)
//   3 finish     out = rms(o) w silu(z).  Few columns: by the last block of a head to arrive; many: a launch of its own.
//
// Layout   8 lanes share a row of S (V index), VEC neighbours of K at a time; a dot is VEC chains, their sum, a tree of 3.
// Order    the same operations for one column and for many, so a column's bits do not depend on the width.
#include "kernel/cuda/common.cuh"
#include "kernel/cuda/ops.h"

namespace fewbit::kernel::cuda {

namespace {

constexpr int fused_columns = 8;  // of one sequence, up to which the last block finishes

struct Args {
  DeltaNetArgs d;
  const i32* first;
  const i32* slot;
  const i32* seq;
  f32* y;      // scratch (cols, channels): q, k, v after the convolution
  f32* gates;  // scratch (cols, v_heads, 2): e, beta
  f32* kq;     // scratch (cols, k_heads)
  u32* counters;  // (seqs, v_heads), zero between launches
  int channels;
};

// Input `index` of a sequence (index < 0: from the window kept of earlier steps).
__device__ __forceinline__ f32 input_at(const Args& a, int first, i64 slot, int index, int channel) {
  if (index >= 0) return a.d.qkv[i64(first + index) * a.d.ldqkv + channel];
  return a.d.conv_state[(slot * (a.d.conv - 1) + a.d.conv - 1 + index) * a.channels + channel];
}

// Sum over the `dim` threads that hold one head; `shared`: one float per warp.  Called by all threads.
__device__ __forceinline__ f32 head_sum(f32 v, int dim, f32* shared) {
  for (int m = min(dim, 32) / 2; m; m /= 2) v += __shfl_xor_sync(~0u, v, m);
  if (dim <= 32) return v;
  __syncthreads();
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = v;
  __syncthreads();
  const int w0 = int(threadIdx.x) / dim * (dim / 32);
  f32 s = 0;
  for (int w = 0; w < dim / 32; w++) s += shared[w0 + w];
  return s;
}

// Two heads of a block: q and k of K head blockIdx.x, or two V heads.
__global__ void __launch_bounds__(256) convolve_kernel(const __grid_constant__ Args a) {
  __shared__ f32 partial[8], q_of[128];
  early_launch();
  const DeltaNetArgs& d = a.d;
  const int c = int(blockIdx.y), which = int(threadIdx.x) / d.dim, i = int(threadIdx.x) % d.dim;
  const bool is_k = int(blockIdx.x) < d.k_heads;
  const int head = is_k ? which * d.k_heads + int(blockIdx.x) : 2 * d.k_heads + 2 * (int(blockIdx.x) - d.k_heads) + which;
  const bool live = head < 2 * d.k_heads + d.v_heads;
  const int channel = (live ? head : 0) * d.dim + i;
  f32 w[8];
#pragma unroll
  for (int j = 0; j < 8; j++)
    if (j < d.conv) w[j] = d.conv_w[i64(channel) * d.conv + j];
  early_wait();
  const int s = a.seq[c], first = a.first[s];
  const i64 slot = a.slot[s];
  f32 y = 0;
#pragma unroll
  for (int j = 0; j < 8; j++)
    if (j < d.conv) y = __fmaf_rn(w[j], input_at(a, first, slot, c - first - (d.conv - 1) + j, channel), y);
  y = silu(y);
  if (is_k) {
    const f32 norm = sqrtf(head_sum(y * y, d.dim, partial));
    y /= fmaxf(norm, d.eps);
    if (which == 0) {
      y /= sqrtf(f32(d.dim));
      q_of[i] = y;
    }
    __syncthreads();
    const f32 kq = head_sum(y * q_of[i], d.dim, partial);
    if (which == 1 && i == 0) a.kq[c * d.k_heads + int(blockIdx.x)] = kq;
  } else if (live && i == 0) {
    const int h = head - 2 * d.k_heads;
    const f32 x = d.alpha[c * d.ldab + h] + d.dt[h];
    f32* g = a.gates + (i64(c) * d.v_heads + h) * 2;
    g[0] = expf(d.a[h] * (x > 20.0f ? x : log1pf(expf(x))));
    g[1] = sigmoid(d.beta[c * d.ldab + h]);
  }
  if (live) a.y[i64(c) * a.channels + channel] = y;
}

// out of column c, V head h: dim threads, row i each.
template <int DIM>
__device__ __forceinline__ void finish(const Args& a, int c, int h, int i, f32* shared) {
  const DeltaNetArgs& d = a.d;
  f32* out = d.out + (i64(c) * d.v_heads + h) * DIM + i;
  const f32 o = __ldcg(out);
  const f32 factor = 1.0f / sqrtf(head_sum(o * o, DIM, shared) / f32(DIM) + d.eps);
  *out = o * factor * d.norm[i] * silu(d.z[c * d.ldz + h * DIM + i]);
}

template <int DIM>
constexpr int slice_rows = DIM < 32 ? DIM : 32;

template <int DIM, bool FUSED>
__global__ void __launch_bounds__(slice_rows<DIM> * 8) step_kernel(const __grid_constant__ Args a) {
  constexpr int rows = slice_rows<DIM>, threads = rows * 8, slices = DIM / rows;
  constexpr int VEC = DIM >= 32 ? 4 : 2, chunks = DIM / 8 / VEC;
  constexpr int ahead = 4;  // columns fetched together
  __shared__ __align__(16) f32 q[2][ahead][DIM], k[2][ahead][DIM];
  __shared__ f32 v[2][ahead][rows], gate[2][ahead][3], partial[8];
  __shared__ bool is_last;
  early_launch();
  const DeltaNetArgs& d = a.d;
  const int h = int(blockIdx.x) / slices, r0 = int(blockIdx.x) % slices * rows, s = int(blockIdx.y), tid = int(threadIdx.x), l = tid % 8, row = r0 + tid / 8;
  const int c0 = a.first[s], c1 = a.first[s + 1];
  const i64 slot = a.slot[s];
  const int kh = d.tiled ? h % d.k_heads : h / (d.v_heads / d.k_heads);
  f32* state = d.state + ((slot * d.v_heads + h) * DIM + row) * DIM;
#if __CUDA_ARCH__ >= 900
  // The state comes into L2 while the convolution still runs; a hint, so nothing depends on who wrote it last.
  if (l % 2 == 0 && l * 16 < DIM) asm volatile("prefetch.global.L2 [%0];" ::"l"(state + l * 16));
#endif
  early_wait();
  if (c0 == c1) return;

  f32 S[chunks][VEC];
#pragma unroll
  for (int i = 0; i < chunks; i++) {
    if constexpr (VEC == 4) {
      const float4 x = *reinterpret_cast<const float4*>(state + (i * 8 + l) * 4);
      S[i][0] = x.x, S[i][1] = x.y, S[i][2] = x.z, S[i][3] = x.w;
    } else {
      const float2 x = *reinterpret_cast<const float2*>(state + (i * 8 + l) * 2);
      S[i][0] = x.x, S[i][1] = x.y;
    }
  }
  auto fetch = [&](int c, int at) {  // columns c .. c + ahead - 1
    for (int i = tid; i < ahead * DIM; i += threads) {
      const int n = i / DIM, e = i % DIM;
      if (c + n >= c1) break;
      const f32* y = a.y + i64(c + n) * a.channels;
      q[at][n][e] = y[kh * DIM + e], k[at][n][e] = y[(d.k_heads + kh) * DIM + e];
      if (e < rows) v[at][n][e] = y[(2 * d.k_heads + h) * DIM + r0 + e];
      if (e < 2) gate[at][n][e] = a.gates[(i64(c + n) * d.v_heads + h) * 2 + e];
      if (e == 2) gate[at][n][2] = a.kq[(c + n) * d.k_heads + kh];
    }
  };
  fetch(c0, 0);
  __syncthreads();
  for (int c = c0, at = 0; c < c1; c += ahead, at ^= 1) {
    if (c + ahead < c1) fetch(c + ahead, at ^ 1);
    for (int n = 0; n < ahead && c + n < c1; n++) {
      const f32 e = gate[at][n][0], beta = gate[at][n][1], kq = gate[at][n][2];
      f32 kk[chunks][VEC], r[VEC] = {}, o[VEC] = {};
#pragma unroll
      for (int i = 0; i < chunks; i++)
#pragma unroll
        for (int x = 0; x < VEC; x++) {
          kk[i][x] = k[at][n][(i * 8 + l) * VEC + x];
          r[x] = __fmaf_rn(S[i][x], kk[i][x], r[x]);
          o[x] = __fmaf_rn(S[i][x], q[at][n][(i * 8 + l) * VEC + x], o[x]);
        }
      f32 sr = r[0] + r[1], so = o[0] + o[1];
      if constexpr (VEC == 4) sr += r[2] + r[3], so += o[2] + o[3];
#pragma unroll
      for (int m = 4; m; m /= 2) sr += __shfl_xor_sync(~0u, sr, m), so += __shfl_xor_sync(~0u, so, m);
      const f32 delta = beta * (v[at][n][tid / 8] - e * sr);
#pragma unroll
      for (int i = 0; i < chunks; i++)
#pragma unroll
        for (int x = 0; x < VEC; x++) S[i][x] = __fmaf_rn(delta, kk[i][x], e * S[i][x]);
      if (l == 0) d.out[(i64(c + n) * d.v_heads + h) * DIM + row] = __fmaf_rn(delta, kq, e * so);
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < chunks; i++) {
    if constexpr (VEC == 4) *reinterpret_cast<float4*>(state + (i * 8 + l) * 4) = make_float4(S[i][0], S[i][1], S[i][2], S[i][3]);
    else *reinterpret_cast<float2*>(state + (i * 8 + l) * 2) = make_float2(S[i][0], S[i][1]);
  }
  // The window: this block's V channels, and head h's q and k channels if there is such a head.  One thread owns a channel.
  auto move_on = [&](int channel) {
    f32 w[8];
    for (int j = 0; j < d.conv - 1; j++) w[j] = input_at(a, c0, slot, c1 - c0 - (d.conv - 1) + j, channel);
    for (int j = 0; j < d.conv - 1; j++) d.conv_state[(slot * (d.conv - 1) + j) * a.channels + channel] = w[j];
  };
  if (tid < rows) move_on((2 * d.k_heads + h) * DIM + r0 + tid);
  else if (tid < 2 * rows && h < d.k_heads) move_on(h * DIM + r0 + tid - rows);
  else if (tid < 3 * rows && h < d.k_heads) move_on((d.k_heads + h) * DIM + r0 + tid - 2 * rows);

  if constexpr (FUSED) {
    __threadfence();
    __syncthreads();
    if (tid == 0) {
      u32* counter = a.counters + s * d.v_heads + h;
      is_last = slices == 1 || atomicAdd(counter, 1u) == slices - 1;
      if (is_last && slices > 1) *counter = 0;
      __threadfence();
    }
    __syncthreads();
    if (!is_last) return;
    constexpr int at_once = threads / DIM;
    for (int c = c0; c < c1; c += at_once) {
      const int mine = c + tid / DIM;
      // Idle columns at the end repeat the last one's sums but write nothing.
      const int i = tid % DIM;
      f32* out = d.out + (i64(min(mine, c1 - 1)) * d.v_heads + h) * DIM + i;
      const f32 o = __ldcg(out);
      const f32 factor = 1.0f / sqrtf(head_sum(o * o, DIM, partial) / f32(DIM) + d.eps);
      if (mine < c1) *out = o * factor * d.norm[i] * silu(d.z[mine * d.ldz + h * DIM + i]);
    }
  }
}

template <int DIM>
__global__ void __launch_bounds__(DIM) finish_kernel(const __grid_constant__ Args a) {
  __shared__ f32 partial[8];
  early_launch();
  early_wait();
  finish<DIM>(a, int(blockIdx.y), int(blockIdx.x), int(threadIdx.x), partial);
}

template <int DIM>
void run(Ctx& ctx, const Batch& batch, const Args& a) {
  const DeltaNetArgs& d = a.d;
  LaunchShape s;
  s.grid = dim3(unsigned(d.k_heads + (d.v_heads + 1) / 2), unsigned(batch.cols)), s.block = dim3(2 * DIM), s.name = "delta_net.convolve";
  launch(ctx, convolve_kernel, s, a);
  s.grid = dim3(unsigned(d.v_heads * (DIM / slice_rows<DIM>)), unsigned(batch.seqs)), s.block = dim3(slice_rows<DIM> * 8), s.name = "delta_net.step";
  s.bytes = u64(batch.seqs) * u64(d.v_heads) * u64(d.dim) * u64(d.dim) * 8;
  const bool fused = batch.max_seq_cols <= fused_columns && batch.seqs * d.v_heads <= counter_count;
  launch(ctx, fused ? step_kernel<DIM, true> : step_kernel<DIM, false>, s, a);
  if (fused) return;
  s.grid = dim3(unsigned(d.v_heads), unsigned(batch.cols)), s.block = dim3(DIM), s.name = "delta_net.finish", s.bytes = 0;
  launch(ctx, finish_kernel<DIM>, s, a);
}

}  // namespace

void delta_net(Ctx& ctx, const Batch& batch, const DeltaNetArgs& d) {
  FEWBIT_CHECK(d.v_heads % d.k_heads == 0 && d.conv >= 2 && d.conv <= 8 && d.dim <= 128, "DeltaNet with %d/%d heads of %d, window %d", d.k_heads, d.v_heads, d.dim, d.conv);
  Args a{d, batch.first, batch.slot, batch.seq, static_cast<f32*>(ctx.scratch), nullptr, nullptr, counters(ctx), (2 * d.k_heads + d.v_heads) * d.dim};
  a.gates = a.y + i64(batch.cols) * a.channels;
  a.kq = a.gates + i64(batch.cols) * d.v_heads * 2;
  const u64 need = u64(batch.cols) * u64(a.channels + 2 * d.v_heads + d.k_heads) * 4;
  FEWBIT_CHECK(scratch_room(ctx) >= need, "scratch of %llu bytes for %d DeltaNet columns", (unsigned long long)ctx.scratch_bytes, batch.cols);
  switch (d.dim) {
    case 16: return run<16>(ctx, batch, a);
    case 32: return run<32>(ctx, batch, a);
    case 64: return run<64>(ctx, batch, a);
    case 128: return run<128>(ctx, batch, a);
    default: FEWBIT_CHECK(false, "DeltaNet heads of %d: 16, 32, 64, 128 are there", d.dim);
  }
}

u64 delta_net_scratch_bytes(int max_cols, int max_n) { return u64(max_cols) * u64(max_n) * 5; }

}  // namespace fewbit::kernel::cuda
