// Gated DeltaNet in its recurrent order at every width (models.md 8.5).
//
//   1 convolve   causal convolution, SiLU; q and k of unit length, q / sqrt(dim); k.q; decay and beta.  Parallel over columns.
//   2 step       a block per (V head, slice of 16 of its rows, sequence) keeps its part of the state in registers over all columns:
//                r = e (S k);  delta = beta (v - r);  o = e (S q) + delta (k.q);  S = e S + delta k^T      (o = S q after the update)
//   3 finish     out = rms(o) w silu(z)
//
// Up to 8 columns per sequence are one launch, a block per (V head, sequence).
//
// Layout   8 lanes share two rows of S (V index), VEC neighbours of K at a time; a dot is VEC chains, their sum, a tree of 3.
// Order    the same operations for one column and for many, so a column's bits do not depend on the width.
#include "kernel/cuda/common.cuh"
#include "kernel/cuda/ops.h"

namespace fewbit::kernel::cuda {

namespace {

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
};

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
  // One column: S <- e S + delta k^T; returns o of the rows in every one of the 8 lanes.  q, k, v in shared memory, aligned.
  __device__ __forceinline__ float2 step(const f32* q, const f32* k, float2 v, f32 e, f32 beta, f32 kq, int l) {
    f32 kk[chunks][VEC], qq[chunks][VEC], sr[held], so[held];
#pragma unroll
    for (int i = 0; i < chunks; i++)
#pragma unroll
      for (int x = 0; x < VEC; x++) kk[i][x] = k[(i * 8 + l) * VEC + x], qq[i][x] = q[(i * 8 + l) * VEC + x];
#pragma unroll
    for (int h = 0; h < held; h++) {
      f32 r[VEC] = {}, o[VEC] = {};
#pragma unroll
      for (int i = 0; i < chunks; i++)
#pragma unroll
        for (int x = 0; x < VEC; x++) r[x] = __fmaf_rn(S[h][i][x], kk[i][x], r[x]), o[x] = __fmaf_rn(S[h][i][x], qq[i][x], o[x]);
      sr[h] = r[0] + r[1], so[h] = o[0] + o[1];
      if constexpr (VEC == 4) sr[h] += r[2] + r[3], so[h] += o[2] + o[3];
    }
#pragma unroll
    for (int m = 4; m; m /= 2)
#pragma unroll
      for (int h = 0; h < held; h++) sr[h] += __shfl_xor_sync(~0u, sr[h], m), so[h] += __shfl_xor_sync(~0u, so[h], m);
    f32 out[held];
#pragma unroll
    for (int h = 0; h < held; h++) {
      const f32 delta = beta * ((h ? v.y : v.x) - e * sr[h]);
#pragma unroll
      for (int i = 0; i < chunks; i++)
#pragma unroll
        for (int x = 0; x < VEC; x++) S[h][i][x] = __fmaf_rn(delta, kk[i][x], e * S[h][i][x]);
      out[h] = __fmaf_rn(delta, kq, e * so[h]);
    }
    return make_float2(out[0], out[1]);
  }
  // step() with k and q read again instead of held: half the registers, the same operations in the same order.
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

// Everything for up to 8 columns of a sequence: a block per head.  State and window are of an earlier step, and a step begins with an
// upload that nothing overtakes: they are read while the predecessor still runs.
template <int DIM, int TAPS>
__global__ void __launch_bounds__(DIM / held * 8, 2) few_kernel(const __grid_constant__ Args a) {
  constexpr int threads = DIM / held * 8, warps = threads / 32, head_warps = DIM < 32 ? 1 : DIM / 32;
  constexpr int at_once = threads / DIM, passes = few_columns / at_once;         // columns of the last step
  __shared__ __align__(16) f32 heads[3][few_columns][DIM], o[few_columns][DIM];  // q, k, v
  __shared__ f32 gate[few_columns][3], partial[few_columns][warps];
  __shared__ bool is_last;
  early_launch();
  const DeltaNetArgs& d = a.d;
  const int h = int(blockIdx.x), s = int(blockIdx.y), tid = int(threadIdx.x), l = tid % 8, row = tid / 8 * held;
  const int c0 = a.first[s], n_cols = a.first[s + 1] - c0;
  if (n_cols == 0) return early_wait();
  const i64 slot = a.slot[s];
  const int rep = d.v_heads / d.k_heads, kh = d.tiled ? h % d.k_heads : h / rep, pad = TAPS == 4 ? 0 : TAPS - d.conv;
  f32* state = d.state + ((slot * d.v_heads + h) * DIM + row) * DIM;
  Rows<DIM> rows;
  rows.load(state, l);
  // Thread -> channel of q, k or v; one thread has the gates.
  const int which = tid / DIM, i = tid % DIM, channel = (which == 0 ? kh : which == 1 ? d.k_heads + kh : 2 * d.k_heads + h) * DIM + i;
  const bool convolves = which < 3;
  f32* kept = d.conv_state + slot * (d.conv - 1) * a.channels + channel;
  f32 w[TAPS] = {}, window[TAPS - 1] = {};
  if (convolves) {
#pragma unroll
    for (int t = 0; t < TAPS; t++)
      if (t >= pad) w[t] = d.conv_w[i64(channel) * d.conv + t - pad];
#pragma unroll
    for (int t = 0; t < TAPS - 1; t++)
      if (t >= pad) window[t] = kept[i64(t - pad) * a.channels];
  }
  const f32 dt = d.dt[h], decay = d.a[h], norm = d.norm[i];
  early_wait();
  f32 x[few_columns], z[passes];
#pragma unroll
  for (int n = 0; n < few_columns; n++) x[n] = convolves && n < n_cols ? d.qkv[i64(c0 + n) * d.ldqkv + channel] : 0;
#pragma unroll
  for (int p = 0; p < passes; p++) {
    const int n = p * at_once + tid / DIM;
    z[p] = n < n_cols ? d.z[(c0 + n) * d.ldz + h * DIM + i] : 0;
  }
  if (tid >= 3 * DIM && tid - 3 * DIM < n_cols) {
    const int n = tid - 3 * DIM, c = c0 + n;
    const f32 x = d.alpha[c * d.ldab + h] + dt;
    gate[n][0] = expf(decay * (x > 20.0f ? x : log1pf(expf(x))));
    gate[n][1] = sigmoid(d.beta[c * d.ldab + h]);
  }
#pragma unroll
  for (int n = 0; n < few_columns; n++) {
    if (n >= n_cols) break;
    f32 y = 0;
#pragma unroll
    for (int t = 0; t < TAPS - 1; t++) y = __fmaf_rn(w[t], window[t], y);
    y = silu(__fmaf_rn(w[TAPS - 1], x[n], y));
#pragma unroll
    for (int t = 0; t < TAPS - 2; t++) window[t] = window[t + 1];
    window[TAPS - 2] = x[n];
    f32 square = y * y;  // the sum over a head: a tree over 32 lanes, then the warps in order
    for (int m = min(DIM, 32) / 2; m; m /= 2) square += __shfl_xor_sync(~0u, square, m);
    if (DIM > 32 && tid % 32 == 0) partial[n][tid / 32] = square;
    if (DIM <= 32 && which < 2) y /= fmaxf(sqrtf(square), d.eps);
    if (convolves) heads[which][n][i] = y;
  }
  __syncthreads();
  // The last of the blocks that share a K head moves its window: by now this one has read it.
  u32 arrived = 0;
  u32* counter = a.counters + s * d.k_heads + kh;
  if (tid == 0) arrived = atomicAdd(counter, 1u);
#pragma unroll 1
  for (int n = 0; n < n_cols && which < 2; n++) {
    f32 y = heads[which][n][i];
    if (DIM > 32) {
      f32 square = 0;
#pragma unroll
      for (int x = 0; x < head_warps; x++) square += partial[n][which * head_warps + x];
      y /= fmaxf(sqrtf(square), d.eps);
    }
    if (which == 0) y /= sqrtf(f32(DIM));
    heads[which][n][i] = y;
  }
  __syncthreads();
#pragma unroll 1
  for (int n = 0; n < n_cols; n++) {
    f32 kq = which == 1 ? heads[1][n][i] * heads[0][n][i] : 0;
    for (int m = min(DIM, 32) / 2; m; m /= 2) kq += __shfl_xor_sync(~0u, kq, m);
    if (which == 1 && i % 32 == 0) partial[n][i / 32] = kq;
  }
  __syncthreads();
#pragma unroll 1
  for (int n = 0; n < n_cols; n++) {
    f32 kq = 0;
#pragma unroll
    for (int x = 0; x < head_warps; x++) kq += partial[n][x];
    const float2 out = rows.lean_step(heads[0][n], heads[1][n], *reinterpret_cast<const float2*>(&heads[2][n][row]), gate[n][0], gate[n][1],
                                      DIM > 32 ? kq : partial[n][0], l);
    if (l == 0) *reinterpret_cast<float2*>(&o[n][row]) = out;
  }
  rows.store(state, l);
  if (tid == 0) {
    is_last = arrived == u32(rep - 1);
    if (is_last) *counter = 0;
  }
  __syncthreads();
  // The norm over a head: again a tree and the warps in order.
#pragma unroll
  for (int p = 0; p < passes; p++) {
    const int n = p * at_once + tid / DIM;
    f32 square = n < n_cols ? o[n][i] * o[n][i] : 0;
    for (int m = min(DIM, 32) / 2; m; m /= 2) square += __shfl_xor_sync(~0u, square, m);
    if (n < few_columns && i % 32 == 0) partial[n][i / 32] = square;
    if (DIM < 32 && n < few_columns && i == 0) partial[n][0] = square;
    if ((p + 1) * at_once >= n_cols) break;
  }
  __syncthreads();
#pragma unroll
  for (int p = 0; p < passes; p++) {
    const int n = p * at_once + tid / DIM, c = c0 + n;
    if (n < n_cols) {
      f32 square = 0;
#pragma unroll
      for (int x = 0; x < head_warps; x++) square += partial[n][x];
      const f32 factor = 1.0f / sqrtf((DIM > 32 ? square : partial[n][0]) / f32(DIM) + d.eps);
      d.out[(i64(c) * d.v_heads + h) * DIM + i] = o[n][i] * factor * norm * silu(z[p]);
    }
    if ((p + 1) * at_once >= n_cols) break;
  }
  if (which == 2 || (is_last && which < 2)) {
#pragma unroll
    for (int t = 0; t < TAPS - 1; t++)
      if (t >= pad) kept[i64(t - pad) * a.channels] = window[t];
  }
}

template <int DIM>
void run(Ctx& ctx, const Batch& batch, const Args& a) {
  const DeltaNetArgs& d = a.d;
  LaunchShape s;
  s.cols = batch.cols;
  const u64 state = u64(batch.seqs) * u64(d.v_heads) * u64(d.dim) * u64(d.dim) * 8;
  if (batch.max_seq_cols <= few_columns && batch.seqs * d.k_heads <= counter_count) {
    s.grid = dim3(unsigned(d.v_heads), unsigned(batch.seqs)), s.block = dim3(DIM / held * 8), s.name = "delta_net.few", s.bytes = state;
    return launch(ctx, d.conv == 4 ? few_kernel<DIM, 4> : few_kernel<DIM, 8>, s, a);
  }
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

// Measured on an H200 (nvcc 13.0, 30 Nov 2026), 16 K and 48 V heads of 128: 1 column 5.6 us, 8 sequences 20.8, 8 columns 15.9, 512: 260.
// tried: the state read after the predecessor, 96 registers a thread | 7.5 / 25.4 / 18.3 us
// tried: the state of the next wave's blocks prefetched into L2 | 8 sequences 23.0 us against 20.8
// tried: a cluster of 4 blocks per head for few columns | 9.3 / 38.8 / 23.7 us
// tried: slices of 32 rows, 8 lanes per row | 549 us at 512 columns against 454, both with early launch
// tried: early launch at 512 columns | 454 us against 260 | blocks that wait take room from those that run
// tried: convolution by a block per head and column | 400 us of 680 at 512 columns; a warp per head and 16 columns: 80
