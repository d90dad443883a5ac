// Gated DeltaNet in its recurrent order at every width (models.md 8.5).
//
//   1 convolve   causal convolution, SiLU; q and k of unit length, q / sqrt(dim); k.q; decay and beta.  Parallel over columns.
//   2 step       a block per (V head, slice of its rows, sequence) keeps its part of the state in registers over all columns:
//                r = e (S k);  delta = beta (v - r);  o = e (S q) + delta (k.q);  S = e S + delta k^T      (o = S q after the update)
//   3 finish     out = rms(o) w silu(z)
//
// Up to 8 columns per sequence, on sm_90 and later, are one launch: every block convolves for itself, the slices of a head are a cluster
// and add their sums of squares through each other's shared memory.
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
  u32* counters;  // (seqs, k_heads), zero between launches
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

template <int DIM>
constexpr int slice_rows = DIM < 32 ? DIM : 32;

// One column of a slice of a head: S <- e S + delta k^T; returns o of the thread's row (in every one of its 8 lanes).
template <int DIM>
struct Slice {
  static constexpr int VEC = DIM >= 32 ? 4 : 2, chunks = DIM / 8 / VEC;
  f32 S[chunks][VEC];

  __device__ __forceinline__ void load(const f32* state, int l) {
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
  }
  __device__ __forceinline__ void store(f32* state, int l) const {
#pragma unroll
    for (int i = 0; i < chunks; i++) {
      if constexpr (VEC == 4) *reinterpret_cast<float4*>(state + (i * 8 + l) * 4) = make_float4(S[i][0], S[i][1], S[i][2], S[i][3]);
      else *reinterpret_cast<float2*>(state + (i * 8 + l) * 2) = make_float2(S[i][0], S[i][1]);
    }
  }
  // q, k in shared memory, aligned.
  __device__ __forceinline__ f32 step(const f32* q, const f32* k, f32 v, f32 e, f32 beta, f32 kq, int l) {
    f32 kk[chunks][VEC], r[VEC] = {}, o[VEC] = {};
#pragma unroll
    for (int i = 0; i < chunks; i++)
#pragma unroll
      for (int x = 0; x < VEC; x++) {
        kk[i][x] = k[(i * 8 + l) * VEC + x];
        r[x] = __fmaf_rn(S[i][x], kk[i][x], r[x]);
        o[x] = __fmaf_rn(S[i][x], q[(i * 8 + l) * VEC + x], o[x]);
      }
    f32 sr = r[0] + r[1], so = o[0] + o[1];
    if constexpr (VEC == 4) sr += r[2] + r[3], so += o[2] + o[3];
#pragma unroll
    for (int m = 4; m; m /= 2) sr += __shfl_xor_sync(~0u, sr, m), so += __shfl_xor_sync(~0u, so, m);
    const f32 delta = beta * (v - e * sr);
#pragma unroll
    for (int i = 0; i < chunks; i++)
#pragma unroll
      for (int x = 0; x < VEC; x++) S[i][x] = __fmaf_rn(delta, kk[i][x], e * S[i][x]);
    return __fmaf_rn(delta, kq, e * so);
  }
};

// The convolution's window after columns c0 .. c1 - 1.  One thread owns a channel.
__device__ __forceinline__ void move_window(const Args& a, int c0, int c1, i64 slot, int channel) {
  const int n = a.d.conv - 1;
  f32 w[7];
  for (int j = 0; j < n; j++) w[j] = input_at(a, c0, slot, c1 - c0 - n + j, channel);
  for (int j = 0; j < n; j++) a.d.conv_state[(slot * n + j) * a.channels + channel] = w[j];
}

__device__ __forceinline__ void prefetch_state([[maybe_unused]] const f32* state, [[maybe_unused]] int l, [[maybe_unused]] int dim) {
#if __CUDA_ARCH__ >= 900
  // The state comes into L2 while the predecessor still runs; a hint, so nothing depends on who wrote it last.
  if (l % 2 == 0 && l * 16 < dim) asm volatile("prefetch.global.L2 [%0];" ::"l"(state + l * 16));
#endif
}

__device__ __forceinline__ void copy16(f32* shared, const f32* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(u32(__cvta_generic_to_shared(shared))), "l"(from) : "memory");
}
__device__ __forceinline__ void copy4(f32* shared, const f32* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(u32(__cvta_generic_to_shared(shared))), "l"(from) : "memory");
}

template <int DIM>
__global__ void __launch_bounds__(slice_rows<DIM> * 8) step_kernel(const __grid_constant__ Args a) {
  constexpr int rows = slice_rows<DIM>, threads = rows * 8, slices = DIM / rows;
  constexpr int ahead = 8;  // columns fetched together
  __shared__ __align__(16) f32 q[2][ahead][DIM], k[2][ahead][DIM], v[2][ahead][rows];
  __shared__ f32 gate[2][ahead][3];
  early_launch();
  const DeltaNetArgs& d = a.d;
  const int h = int(blockIdx.x) / slices, r0 = int(blockIdx.x) % slices * rows, s = int(blockIdx.y), tid = int(threadIdx.x), l = tid % 8, row = r0 + tid / 8;
  const int c0 = a.first[s], c1 = a.first[s + 1];
  const i64 slot = a.slot[s];
  const int kh = d.tiled ? h % d.k_heads : h / (d.v_heads / d.k_heads);
  f32* state = d.state + ((slot * d.v_heads + h) * DIM + row) * DIM;
  prefetch_state(state, l, DIM);
  early_wait();
  if (c0 == c1) return;
  Slice<DIM> slice;
  slice.load(state, l);
  auto fetch = [&](int c, int at) {  // columns c .. c + ahead - 1, while those before are computed
    constexpr int qk = DIM / 4, vs = rows / 4, per = 2 * qk + vs;  // 16-byte pieces of a column
    for (int i = tid; i < ahead * per; i += threads) {
      const int n = i / per, e = i % per;
      if (c + n >= c1) break;
      const f32* y = a.y + i64(c + n) * a.channels;
      if (e < qk) copy16(&q[at][n][4 * e], y + kh * DIM + 4 * e);
      else if (e < 2 * qk) copy16(&k[at][n][4 * (e - qk)], y + (d.k_heads + kh) * DIM + 4 * (e - qk));
      else copy16(&v[at][n][4 * (e - 2 * qk)], y + (2 * d.k_heads + h) * DIM + r0 + 4 * (e - 2 * qk));
    }
    if (tid < ahead && c + tid < c1) {
      copy4(&gate[at][tid][0], a.gates + (i64(c + tid) * d.v_heads + h) * 2), copy4(&gate[at][tid][1], a.gates + (i64(c + tid) * d.v_heads + h) * 2 + 1);
      copy4(&gate[at][tid][2], a.kq + (c + tid) * d.k_heads + kh);
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  };
  fetch(c0, 0);
  for (int c = c0, at = 0; c < c1; c += ahead, at ^= 1) {
    fetch(c + ahead, at ^ 1);
    asm volatile("cp.async.wait_group 1;" ::: "memory");
    __syncthreads();
    for (int n = 0; n < ahead && c + n < c1; n++) {
      const f32 o = slice.step(q[at][n], k[at][n], v[at][n][tid / 8], gate[at][n][0], gate[at][n][1], gate[at][n][2], l);
      if (l == 0) d.out[(i64(c + n) * d.v_heads + h) * DIM + row] = o;
    }
    __syncthreads();
  }
  slice.store(state, l);
  if (tid < rows) move_window(a, c0, c1, slot, (2 * d.k_heads + h) * DIM + r0 + tid);
  else if (tid < 2 * rows && h < d.k_heads) move_window(a, c0, c1, slot, h * DIM + r0 + tid - rows);
  else if (tid < 3 * rows && h < d.k_heads) move_window(a, c0, c1, slot, (d.k_heads + h) * DIM + r0 + tid - 2 * rows);
}

template <int DIM>
__global__ void __launch_bounds__(DIM) finish_kernel(const __grid_constant__ Args a) {
  __shared__ f32 partial[8];
  early_launch();
  early_wait();
  const DeltaNetArgs& d = a.d;
  const int h = int(blockIdx.x), c = int(blockIdx.y), i = int(threadIdx.x);
  f32* out = d.out + (i64(c) * d.v_heads + h) * DIM + i;
  const f32 o = *out;
  const f32 factor = 1.0f / sqrtf(head_sum(o * o, DIM, partial) / f32(DIM) + d.eps);
  *out = o * factor * d.norm[i] * silu(d.z[c * d.ldz + h * DIM + i]);
}

// Everything for up to 8 columns of a sequence.  The slices of a head are a cluster.
template <int DIM>
__global__ void __launch_bounds__(slice_rows<DIM> * 8) few_kernel(const __grid_constant__ Args a) {
#if __CUDA_ARCH__ >= 900
  constexpr int rows = slice_rows<DIM>, slices = DIM / rows, threads = rows * 8;
  __shared__ __align__(16) f32 q[fused_columns][DIM], k[fused_columns][DIM];
  __shared__ f32 v[fused_columns][rows], o[fused_columns][rows], gate[fused_columns][3], partial[8], squares[slices][fused_columns];
  __shared__ bool is_last;
  early_launch();
  if constexpr (slices > 1) asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
  const DeltaNetArgs& d = a.d;
  const int h = int(blockIdx.x) / slices, slice_at = int(blockIdx.x) % slices, r0 = slice_at * rows, s = int(blockIdx.y), tid = int(threadIdx.x), l = tid % 8;
  const int c0 = a.first[s], n_cols = a.first[s + 1] - c0;
  const i64 slot = a.slot[s];
  const int rep = d.v_heads / d.k_heads, kh = d.tiled ? h % d.k_heads : h / rep;
  f32* state = d.state + ((slot * d.v_heads + h) * DIM + r0 + tid / 8) * DIM;
  prefetch_state(state, l, DIM);
  // Thread -> channel of q (tid < DIM) or k (tid < 2 DIM); the first `rows` threads have one of v as well.
  const bool is_qk = tid < 2 * DIM;
  const int which = tid / DIM, i = tid % DIM, channel = is_qk ? (which * d.k_heads + kh) * DIM + i : 0, v_channel = (2 * d.k_heads + h) * DIM + r0 + tid % rows;
  f32 w[8], wv[8];
#pragma unroll
  for (int j = 0; j < 8; j++) w[j] = j < d.conv ? d.conv_w[i64(channel) * d.conv + j] : 0, wv[j] = j < d.conv ? d.conv_w[i64(v_channel) * d.conv + j] : 0;
  const f32 dt = d.dt[h], decay = d.a[h];
  early_wait();
  if (n_cols == 0) {
    if constexpr (slices > 1) asm volatile("barrier.cluster.wait.acquire.aligned;\nbarrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
    return;
  }
  Slice<DIM> slice;
  slice.load(state, l);
  for (int n = 0; n < n_cols; n++) {
    const int c = c0 + n;
    f32 y = 0;
#pragma unroll
    for (int j = 0; j < 8; j++)
      if (j < d.conv) y = __fmaf_rn(w[j], input_at(a, c0, slot, n - (d.conv - 1) + j, channel), y);
    y = silu(y);
    const f32 norm = sqrtf(head_sum(y * y, DIM, partial));
    y /= fmaxf(norm, d.eps);
    if (which == 0) y /= sqrtf(f32(DIM)), q[n][i] = y;
    else if (is_qk) k[n][i] = y;
    __syncthreads();
    const f32 kq = head_sum(is_qk ? y * q[n][i] : 0, DIM, partial);
    if (which == 1 && i == 0) gate[n][2] = kq;
    if (tid < rows) {
      f32 x = 0;
#pragma unroll
      for (int j = 0; j < 8; j++)
        if (j < d.conv) x = __fmaf_rn(wv[j], input_at(a, c0, slot, n - (d.conv - 1) + j, v_channel), x);
      v[n][tid] = silu(x);
    } else if (tid == rows) {
      const f32 x = d.alpha[c * d.ldab + h] + dt;
      gate[n][0] = expf(decay * (x > 20.0f ? x : log1pf(expf(x))));
      gate[n][1] = sigmoid(d.beta[c * d.ldab + h]);
    }
  }
  __syncthreads();
  if (tid == 0) {  // the last of the blocks that share a K head moves its window: by then all have read it
    u32* counter = a.counters + s * d.k_heads + kh;
    __threadfence();
    is_last = atomicAdd(counter, 1u) == u32(rep * slices - 1);
    if (is_last) *counter = 0;
    __threadfence();
  }
  for (int n = 0; n < n_cols; n++) {
    const f32 x = slice.step(q[n], k[n], v[n][tid / 8], gate[n][0], gate[n][1], gate[n][2], l);
    if (l == 0) o[n][tid / 8] = x;
  }
  __syncthreads();
  if constexpr (slices > 1) asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");  // all blocks of the cluster have started
  for (int n = tid / 32; n < n_cols; n += threads / 32) {
    const f32 x = tid % 32 < rows ? o[n][tid % 32] : 0;
    f32 sum = x * x;
    for (int m = rows / 2; m; m /= 2) sum += __shfl_xor_sync(~0u, sum, m);
    if (tid % 32 < slices) {  // to the same place in every slice
      const u32 here = u32(__cvta_generic_to_shared(&squares[slice_at][n]));
      u32 to;
      asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(to) : "r"(here), "r"(tid % 32));
      asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(to), "f"(sum) : "memory");
    }
  }
  if constexpr (slices > 1) asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
  else __syncthreads();
  for (int at = tid; at < n_cols * rows; at += threads) {
    const int n = at / rows, e = at % rows, c = c0 + n;
    f32 sum = 0;
    for (int i = 0; i < slices; i++) sum += squares[i][n];
    const f32 factor = 1.0f / sqrtf(sum / f32(DIM) + d.eps);
    d.out[(i64(c) * d.v_heads + h) * DIM + r0 + e] = o[n][e] * factor * d.norm[r0 + e] * silu(d.z[c * d.ldz + h * DIM + r0 + e]);
  }
  slice.store(state, l);
  if (tid < rows) move_window(a, c0, c0 + n_cols, slot, v_channel);
  if (is_last && is_qk) move_window(a, c0, c0 + n_cols, slot, channel);
#else
  (void)a;
#endif
}

template <int DIM>
void run(Ctx& ctx, const Batch& batch, const Args& a) {
  const DeltaNetArgs& d = a.d;
  constexpr int slices = DIM / slice_rows<DIM>;
  LaunchShape s;
  const u64 state = u64(batch.seqs) * u64(d.v_heads) * u64(d.dim) * u64(d.dim) * 8;
  if (batch.max_seq_cols <= fused_columns && batch.seqs * d.k_heads <= counter_count && device_of(ctx).arch() >= 90) {
    s.grid = dim3(unsigned(d.v_heads * slices), unsigned(batch.seqs)), s.block = dim3(slice_rows<DIM> * 8), s.cluster = slices, s.name = "delta_net.few", s.bytes = state;
    return launch(ctx, few_kernel<DIM>, s, a);
  }
  s.grid = dim3(unsigned(d.k_heads + (d.v_heads + 1) / 2), unsigned(batch.cols)), s.block = dim3(2 * DIM), s.name = "delta_net.convolve";
  launch(ctx, convolve_kernel, s, a);
  s.grid = dim3(unsigned(d.v_heads * slices), unsigned(batch.seqs)), s.block = dim3(slice_rows<DIM> * 8), s.name = "delta_net.step", s.bytes = state;
  launch(ctx, step_kernel<DIM>, s, a);
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
