// Gated DeltaNet in its recurrent order at every width (models.md 8.5).
//
//   1 convolve   causal convolution, SiLU; q and k of unit length, q / sqrt(dim); k.q; decay and beta.  Parallel over columns.
//   2 step       a block per (V head, slice of 16 of its rows, sequence) keeps its part of the state in registers over all columns:
//                r = e (S k);  delta = beta (v - r);  o = e (S q) + delta (k.q);  S = e S + delta k^T      (o = S q after the update)
//   3 finish     out = rms(o) w silu(z)
//
// Up to 8 columns per sequence are one launch, a block per (V head, sequence): delta_net_few.cu.
//
// Layout   8 lanes share two rows of S (V index), VEC neighbours of K at a time; a dot is VEC chains, their sum, a tree of 3.
// Order    the same operations for one column and for many, so a column's bits do not depend on the width.
#include "kernel/cuda/delta_net.cuh"
#include "kernel/cuda/ops.h"

namespace fewbit::kernel::cuda {

namespace {

using namespace delta;

// Input `index` of a sequence (index < 0: from the window kept of earlier steps).
__device__ __forceinline__ f32 input_at(const Args& a, int first, i64 slot, int index, int channel) {
  if (index >= 0) return a.d.qkv[i64(first + index) * a.d.ldqkv + channel];
  return a.d.conv_state[(slot * (a.d.conv - 1) + a.d.conv - 1 + index) * a.channels + channel];
}

// Numbers of a head of DIM in a warp: lane holds 32 j + lane.  The sum: a tree over 32 lanes for each j, then those in order.
template <int DIM>
struct Head {
  static constexpr int n = DIM <= 32 ? 1 : DIM / 32;
  f32 v[n];
  __device__ __forceinline__ static f32 sum(const f32 (&x)[n]) {
    f32 all = 0;
#pragma unroll
    for (int j = 0; j < n; j++) {
      f32 s = x[j];
#pragma unroll
      for (int m = (DIM < 32 ? DIM : 32) / 2; m; m /= 2) s += __shfl_xor_sync(~0u, s, m);
      all = DIM > 32 ? all + s : s;
    }
    return all;
  }
};

constexpr int convolve_columns = 16;  // of a warp

// Some columns of `HEADS` heads of a warp, one after another: q and k of a K head, or a V head.  Weights and window stay in registers; with
// fewer than TAPS taps the first ones are zero.
template <int DIM, int TAPS, int HEADS>
__device__ __forceinline__ void convolve(const Args& a, int job, int lane, int c_begin) {
  constexpr int n = Head<DIM>::n;
  const DeltaNetArgs& d = a.d;
  const int part = DIM < 32 ? lane % DIM : lane, head = HEADS == 2 ? job : 2 * d.k_heads + job - d.k_heads;
  const int pad = TAPS == 4 ? 0 : TAPS - d.conv;
  f32 w[HEADS][n][TAPS], x[HEADS][n][TAPS];  // x: inputs, the newest last
  int channel[HEADS];
#pragma unroll
  for (int h = 0; h < HEADS; h++) {
    channel[h] = (head + h * d.k_heads) * DIM + part;
#pragma unroll
    for (int j = 0; j < n; j++)
#pragma unroll
      for (int t = 0; t < TAPS; t++) w[h][j][t] = t < pad ? 0 : d.conv_w[i64(channel[h] + 32 * j) * d.conv + t - pad];
  }
  early_wait();
  int seq_of = -1;
  for (int c = c_begin; c < min(c_begin + convolve_columns, a.cols); c++) {
    const bool fresh = seq_of != a.seq[c];
    if (fresh) {
      seq_of = a.seq[c];
      const int first = a.first[seq_of];
      const i64 slot = a.slot[seq_of];
#pragma unroll
      for (int h = 0; h < HEADS; h++)
#pragma unroll
        for (int j = 0; j < n; j++)
#pragma unroll
          for (int t = 0; t < TAPS - 1; t++)
            x[h][j][t + 1] = t < pad ? 0 : input_at(a, first, slot, c - first - (TAPS - 1) + t, channel[h] + 32 * j);
    }
    Head<DIM> y[HEADS];
#pragma unroll
    for (int h = 0; h < HEADS; h++)
#pragma unroll
      for (int j = 0; j < n; j++) {
#pragma unroll
        for (int t = 0; t < TAPS - 1; t++) x[h][j][t] = x[h][j][t + 1];
        x[h][j][TAPS - 1] = d.qkv[i64(c) * d.ldqkv + channel[h] + 32 * j];
      }
#pragma unroll
    for (int h = 0; h < HEADS; h++)
#pragma unroll
      for (int j = 0; j < n; j++) {
        f32 v = 0;
#pragma unroll
        for (int t = 0; t < TAPS; t++) v = __fmaf_rn(w[h][j][t], x[h][j][t], v);
        y[h].v[j] = silu(v);
      }
    if constexpr (HEADS == 2) {
#pragma unroll
      for (int h = 0; h < 2; h++) {
        f32 square[n];
#pragma unroll
        for (int j = 0; j < n; j++) square[j] = y[h].v[j] * y[h].v[j];
        const f32 norm = fmaxf(sqrtf(Head<DIM>::sum(square)), d.eps);
#pragma unroll
        for (int j = 0; j < n; j++) y[h].v[j] /= norm;
      }
      f32 product[n];
#pragma unroll
      for (int j = 0; j < n; j++) y[0].v[j] /= sqrtf(f32(DIM)), product[j] = y[1].v[j] * y[0].v[j];
      const f32 kq = Head<DIM>::sum(product);
      if (lane == 0) a.kq[c * d.k_heads + job] = kq;
    } else if (lane == 0) {
      const int h = job - d.k_heads;
      const f32 v = d.alpha[c * d.ldab + h] + d.dt[h];
      f32* g = a.gates + (i64(c) * d.v_heads + h) * 2;
      g[0] = expf(d.a[h] * (v > 20.0f ? v : log1pf(expf(v))));
      g[1] = sigmoid(d.beta[c * d.ldab + h]);
    }
    if (DIM < 32 && lane >= DIM) continue;
#pragma unroll
    for (int h = 0; h < HEADS; h++)
#pragma unroll
      for (int j = 0; j < n; j++) a.y[i64(c) * a.channels + channel[h] + 32 * j] = y[h].v[j];
  }
}

template <int DIM, int TAPS>
__global__ void __launch_bounds__(256) convolve_kernel(const __grid_constant__ Args a) {
  early_launch();
  const int lane = int(threadIdx.x % 32), job = int(blockIdx.x) * 8 + int(threadIdx.x / 32), c_begin = int(blockIdx.y) * convolve_columns;
  if (job < a.d.k_heads)
    convolve<DIM, TAPS, 2>(a, job, lane, c_begin);
  else if (job < a.d.k_heads + a.d.v_heads)
    convolve<DIM, TAPS, 1>(a, job, lane, c_begin);
  else
    early_wait();
}

// The convolution's window after columns c0 .. c1 - 1.  One thread owns a channel.
__device__ __forceinline__ void move_window(const Args& a, int c0, int c1, i64 slot, int channel) {
  const int n = a.d.conv - 1;
  f32 w[7];
  for (int j = 0; j < n; j++) w[j] = input_at(a, c0, slot, c1 - c0 - n + j, channel);
  for (int j = 0; j < n; j++) a.d.conv_state[(slot * n + j) * a.channels + channel] = w[j];
}

// Brings memory into L2 while the predecessor still runs; a hint, so nothing depends on who wrote it last.
__device__ __forceinline__ void prefetch([[maybe_unused]] const f32* p) {
#if __CUDA_ARCH__ >= 900
  asm volatile("prefetch.global.L2 [%0];" ::"l"(p));
#endif
}
template <int DIM>
__device__ __forceinline__ void prefetch_rows(const f32* state, int l) {
#pragma unroll
  for (int r = 0; r < held; r++)
    if (l * 32 < DIM) prefetch(state + r * DIM + l * 32);
}

__device__ __forceinline__ void copy16(f32* shared, const f32* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(u32(__cvta_generic_to_shared(shared))), "l"(from) : "memory");
}
__device__ __forceinline__ void copy4(f32* shared, const f32* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(u32(__cvta_generic_to_shared(shared))), "l"(from) : "memory");
}

constexpr int slice = 16;  // rows of a block

template <int DIM>
__global__ void __launch_bounds__(slice / held * 8) step_kernel(const __grid_constant__ Args a) {
  constexpr int threads = slice / held * 8, slices = DIM / slice;
  constexpr int ahead = 8;  // columns fetched together
  __shared__ __align__(16) f32 q[2][ahead][DIM], k[2][ahead][DIM], v[2][ahead][slice];
  __shared__ f32 gate[2][ahead][3];
  early_launch();
  const DeltaNetArgs& d = a.d;
  const int h = int(blockIdx.x) / slices, r0 = int(blockIdx.x) % slices * slice, s = int(blockIdx.y), tid = int(threadIdx.x), l = tid % 8,
            row = tid / 8 * held;
  const int c0 = a.first[s], c1 = a.first[s + 1];
  const i64 slot = a.slot[s];
  const int kh = d.tiled ? h % d.k_heads : h / (d.v_heads / d.k_heads);
  f32* state = d.state + ((slot * d.v_heads + h) * DIM + r0 + row) * DIM;
  prefetch_rows<DIM>(state, l);
  early_wait();
  if (c0 == c1) return;
  Rows<DIM> rows;
  rows.load(state, l);
  // Columns c .. c + ahead - 1, while those before are computed: a warp fetches q, the other k; then v and the gates.
  static_assert(threads == 64 && slice == 16 && ahead == 8);
  const int lane = tid % 32, warp = tid / 32;
  const f32* heads = a.y + ((warp ? d.k_heads : 0) + kh) * DIM + 4 * lane;
  auto fetch = [&](int c, int at) {
    const int n = min(ahead, c1 - c);
    if (4 * lane < DIM) {
      f32* to = (warp ? k[at][0] : q[at][0]) + 4 * lane;
      const f32* from = heads + i64(c) * a.channels;
#pragma unroll
      for (int i = 0; i < ahead; i++)
        if (i < n) copy16(to + i * DIM, from + i64(i) * a.channels);
    }
    const int i = lane / 4;
    if (warp == 0) {
      if (i < n) copy16(&v[at][i][4 * (lane % 4)], a.y + i64(c + i) * a.channels + (2 * d.k_heads + h) * DIM + r0 + 4 * (lane % 4));
    } else if (i < n && lane % 4 < 3) {
      copy4(&gate[at][i][lane % 4], lane % 4 < 2 ? a.gates + (i64(c + i) * d.v_heads + h) * 2 + lane % 4 : a.kq + (c + i) * d.k_heads + kh);
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  };
  f32* out = d.out + (i64(c0) * d.v_heads + h) * DIM + r0 + row;
  auto step = [&](int at, int n) {
    const float2 o =
        rows.step(q[at][n], k[at][n], *reinterpret_cast<const float2*>(&v[at][n][row]), gate[at][n][0], gate[at][n][1], gate[at][n][2], l);
    if (l == 0) *reinterpret_cast<float2*>(out) = o;
    out += i64(d.v_heads) * DIM;
  };
  fetch(c0, 0);
  for (int c = c0, at = 0; c < c1; c += ahead, at ^= 1) {
    fetch(c + ahead, at ^ 1);
    asm volatile("cp.async.wait_group 1;" ::: "memory");
    __syncthreads();
    if (c + ahead <= c1) {
#pragma unroll 2
      for (int n = 0; n < ahead; n++) step(at, n);
    } else {
#pragma unroll 1
      for (int n = 0; n < c1 - c; n++) step(at, n);
    }
    __syncthreads();
  }
  rows.store(state, l);
  for (int i = tid; i < slice; i += threads) move_window(a, c0, c1, slot, (2 * d.k_heads + h) * DIM + r0 + i);
  if (h < d.k_heads)
    for (int i = tid; i < 2 * slice; i += threads) move_window(a, c0, c1, slot, (h + i / slice * d.k_heads) * DIM + r0 + i % slice);
}

// A warp: one head of one column.
template <int DIM>
__global__ void __launch_bounds__(256) finish_kernel(const __grid_constant__ Args a) {
  early_launch();
  early_wait();
  const DeltaNetArgs& d = a.d;
  const int lane = int(threadIdx.x % 32), h = int(blockIdx.x) * 8 + int(threadIdx.x / 32), c = int(blockIdx.y);
  if (h >= d.v_heads) return;
  const int part = DIM < 32 ? lane % DIM : lane;
  f32* out = d.out + (i64(c) * d.v_heads + h) * DIM + part;
  Head<DIM> o, z;
  f32 square[Head<DIM>::n];
#pragma unroll
  for (int j = 0; j < Head<DIM>::n; j++)
    o.v[j] = out[32 * j], z.v[j] = d.z[c * d.ldz + h * DIM + part + 32 * j], square[j] = o.v[j] * o.v[j];
  const f32 factor = 1.0f / sqrtf(Head<DIM>::sum(square) / f32(DIM) + d.eps);
  if (DIM < 32 && lane >= DIM) return;
#pragma unroll
  for (int j = 0; j < Head<DIM>::n; j++) out[32 * j] = o.v[j] * factor * d.norm[part + 32 * j] * silu(z.v[j]);
}

template <int DIM>
void run(Ctx& ctx, const Batch& batch, const Args& a) {
  const DeltaNetArgs& d = a.d;
  LaunchShape s;
  s.cols = batch.cols;
  const u64 state = u64(batch.seqs) * u64(d.v_heads) * u64(d.dim) * u64(d.dim) * 8;
  if (batch.max_seq_cols <= few_columns && batch.seqs * d.k_heads <= counter_count) return launch_few(ctx, batch, a);
  s.grid = dim3(unsigned(d.k_heads + d.v_heads + 7) / 8, unsigned(batch.cols + convolve_columns - 1) / convolve_columns),
  s.block = dim3(256), s.name = "delta_net.convolve";
  launch(ctx, d.conv == 4 ? convolve_kernel<DIM, 4> : convolve_kernel<DIM, 8>, s, a);
  s.grid = dim3(unsigned(d.v_heads * (DIM / slice)), unsigned(batch.seqs)), s.block = dim3(slice / held * 8), s.name = "delta_net.step",
  s.bytes = state;
  launch(ctx, step_kernel<DIM>, s, a);
  s.grid = dim3(unsigned(d.v_heads + 7) / 8, unsigned(batch.cols)), s.block = dim3(256), s.name = "delta_net.finish", s.bytes = 0;
  launch(ctx, finish_kernel<DIM>, s, a);
}

}  // namespace

void delta_net(Ctx& ctx, const Batch& batch, const DeltaNetArgs& d) {
  FEWBIT_CHECK(d.v_heads % d.k_heads == 0 && d.conv >= 2 && d.conv <= 8 && d.dim <= 128, "DeltaNet with %d/%d heads of %d, window %d",
               d.k_heads, d.v_heads, d.dim, d.conv);
  Args a{d,
         batch.first,
         batch.slot,
         batch.seq,
         static_cast<f32*>(ctx.scratch),
         nullptr,
         nullptr,
         counters(ctx),
         (2 * d.k_heads + d.v_heads) * d.dim,
         batch.cols};
  a.gates = a.y + i64(batch.cols) * a.channels;
  a.kq = a.gates + i64(batch.cols) * d.v_heads * 2;
  const u64 need = u64(batch.cols) * u64(a.channels + 2 * d.v_heads + d.k_heads) * 4;
  FEWBIT_CHECK(scratch_room(ctx) >= need, "scratch of %llu bytes for %d DeltaNet columns", (unsigned long long)ctx.scratch_bytes,
               batch.cols);
  switch (d.dim) {
    case 16:
      return run<16>(ctx, batch, a);
    case 32:
      return run<32>(ctx, batch, a);
    case 64:
      return run<64>(ctx, batch, a);
    case 128:
      return run<128>(ctx, batch, a);
    default:
      FEWBIT_CHECK(false, "DeltaNet heads of %d: 16, 32, 64, 128 are there", d.dim);
  }
}

u64 delta_net_scratch_bytes(int max_cols, int max_n) { return u64(max_cols) * u64(max_n) * 5; }

}  // namespace fewbit::kernel::cuda

// Measured on an H200 (nvcc 13.0, 30 Nov 2026), 16 K and 48 V heads of 128: 1 column 4.9 us, 8 sequences 16.5 (by
// few_kernel 5.6 and 20.7), 8 columns 15, 512: 218.
// tried: the state read after the predecessor, 96 registers a thread | 7.5 / 25.4 / 18.3 us
// tried: the state of the next wave's blocks prefetched into L2 | 8 sequences 23.0 us against 20.8
// tried: a cluster of 4 blocks per head for few columns | 9.3 / 38.8 / 23.7 us
// tried: slices of 32 rows, 8 lanes per row | 549 us at 512 columns against 454, both with early launch
// tried: early launch at 512 columns | 454 us against 260 | blocks that wait take room from those that run
// tried: convolution by a block per head and column | 400 us of 680 at 512 columns; a warp per head and 16 columns: 80
// tried: the output's activations by the block's last warp (rotated: a cluster of 8 heads) | 285.4 tok/s against 287.1, a rotated token the
//        same, 3.38 ms | every block's end grows by what six blocks of another launch did
// tried: early launch behind the wait, or when the state is there | 283.5 and 279.3 tok/s against 290.5
