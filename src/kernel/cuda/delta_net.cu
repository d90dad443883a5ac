// Gated DeltaNet in its recurrent order at every width (models.md 8.5).
//
//   1 convolve   causal convolution, SiLU; q and k of unit length, q / sqrt(dim); k.q; decay and beta.  Parallel over columns.
//   2 step       a block per (K head, slice of 16 rows, sequence) keeps these rows of all V heads that share the K head in registers over
//                all columns:
//                r = e (S k);  delta = beta (v - r);  o = e (S q) + delta (k.q);  S = e S + delta k^T      (o = S q after the update)
//   3 finish     out = rms(o) w silu(z)
//
// Up to 8 columns per sequence are one launch, a block per (V head, sequence): delta_net_few.cu.
//
// Layout   8 lanes share a row of S (V index), VEC neighbours of K at a time; a dot is VEC chains, their sum, a tree of 3.
// Order    the same operations for one column and for many, so a column's bits do not depend on the width.
#include "kernel/cuda/delta_net.cuh"
#include "kernel/cuda/ops.h"

namespace fewbit::kernel::cuda {

namespace {

using namespace delta;

// Numbers of a head of DIM in a warp: a lane holds n neighbours (of DIM < 32, lanes beyond DIM the same again).
template <int DIM>
struct Head {
  static constexpr int n = DIM <= 32 ? 1 : DIM / 32;
  // A tree over each 32 neighbours, the farthest first, then those in order.
  __device__ __forceinline__ static f32 sum(const f32 (&of)[n]) {
    f32 x[n];
#pragma unroll
    for (int i = 0; i < n; i++) x[i] = of[i];
#pragma unroll
    for (int m = (DIM < 32 ? DIM : 32) / 2; m >= n; m /= 2)
#pragma unroll
      for (int i = 0; i < n; i++) x[i] += __shfl_xor_sync(~0u, x[i], m / n);
    if constexpr (n == 4) x[0] += x[2], x[1] += x[3];
    if constexpr (n >= 2) x[0] += x[1];
    if (DIM <= 32) return x[0];
    f32 all = 0;
#pragma unroll
    for (int j = 0; j < DIM / 32; j++) all += __shfl_sync(~0u, x[0], j * 32 / n);
    return all;
  }
};

template <int N>
__device__ __forceinline__ void load(f32 (&x)[N], const f32* from, bool aligned) {
  if (N == 4 && aligned) {
    const float4 v = *reinterpret_cast<const float4*>(from);
    x[0] = v.x, x[1 % N] = v.y, x[2 % N] = v.z, x[3 % N] = v.w;
  } else if (N == 2 && aligned) {
    const float2 v = *reinterpret_cast<const float2*>(from);
    x[0] = v.x, x[1 % N] = v.y;
  } else {
#pragma unroll
    for (int i = 0; i < N; i++) x[i] = from[i];
  }
}
template <int N>
__device__ __forceinline__ void store(f32* to, const f32 (&x)[N]) {
  if constexpr (N == 4)
    *reinterpret_cast<float4*>(to) = make_float4(x[0], x[1], x[2], x[3]);
  else if constexpr (N == 2)
    *reinterpret_cast<float2*>(to) = make_float2(x[0], x[1]);
  else
    to[0] = x[0];
}

constexpr int convolve_columns = 8,
              convolve_warps = 4;  // columns of a warp that has a V head; a K head takes twice the work, so half as many

// Some columns of `HEADS` heads of a warp, one after another: q and k of a K head, or a V head.  Weights and window stay in registers; with
// fewer than TAPS taps the first ones are zero.
template <int DIM, int TAPS, int HEADS>
__device__ __forceinline__ void convolve(const Args& a, int h0, int lane, int c_begin) {
  constexpr int n = Head<DIM>::n, columns = convolve_columns / HEADS;
  const DeltaNetArgs& d = a.d;
  const int head = HEADS == 2 ? h0 : 2 * d.k_heads + h0, pad = TAPS == 4 ? 0 : TAPS - d.conv;
  const int c_end = min(c_begin + columns, a.cols);
  f32 w[HEADS][TAPS][n], x[HEADS][TAPS][n], next[HEADS][n];  // x: inputs, the newest last
  int channel[HEADS];
#pragma unroll
  for (int h = 0; h < HEADS; h++) {
    channel[h] = (head + h * d.k_heads) * DIM + lane * n % DIM;
#pragma unroll
    for (int j = 0; j < n; j++) {
      f32 taps[TAPS];
      if (TAPS == 4) load(taps, d.conv_w + i64(channel[h] + j) * TAPS, true);
#pragma unroll
      for (int t = 0; t < TAPS; t++) w[h][t][j] = TAPS == 4 ? taps[t] : t < pad ? 0 : d.conv_w[i64(channel[h] + j) * d.conv + t - pad];
    }
  }
  early_wait();
  if (c_begin >= c_end) return;
  auto input = [&](int c, f32(&to)[n], int h) { load(to, d.qkv + i64(c) * d.ldqkv + channel[h], a.aligned); };
  const int seqs = a.seq[min(c_begin + lane % columns, a.cols - 1)];
  // The columns in front, whether they are of the same sequence or not: its first column takes a moment to find.
#pragma unroll
  for (int h = 0; h < HEADS; h++) {
    input(c_begin, next[h], h);
#pragma unroll
    for (int t = 1; t < TAPS; t++) {
      input(max(c_begin - TAPS + t, 0), x[h][t], h);
#pragma unroll
      for (int j = 0; j < n; j++) x[h][t][j] = t <= pad ? 0 : x[h][t][j];
    }
  }
  if (HEADS == 1 && lane < columns && c_begin + lane < c_end) {  // a lane: the gates of a column
    const int c = c_begin + lane;
    const f32 v = d.alpha[c * d.ldab + h0] + d.dt[h0];
    *reinterpret_cast<float2*>(a.gates + (i64(c) * d.v_heads + h0) * 2) =
        make_float2(expf(d.a[h0] * (v > 20.0f ? v : log1pf(expf(v)))), sigmoid(d.beta[c * d.ldab + h0]));
  }
  int seq_of = -1;
#pragma unroll 1
  for (int c = c_begin; c < c_end; c++) {
    const int seq = __shfl_sync(~0u, seqs, c - c_begin);
    if (seq != seq_of) {  // what of the window lies in front of the sequence is kept of earlier steps
      seq_of = seq;
      const int before = c - a.first[seq];
      if (before < TAPS - 1) {
        const f32* kept = d.conv_state + (a.slot[seq] * i64(d.conv - 1) + d.conv - 1 + before - TAPS) * a.channels;
#pragma unroll
        for (int h = 0; h < HEADS; h++)
#pragma unroll
          for (int t = 1; t < TAPS; t++)
            if (t > pad && before - TAPS + t < 0) load(x[h][t], kept + i64(t) * a.channels + channel[h], true);
      }
    }
#pragma unroll
    for (int h = 0; h < HEADS; h++) {
#pragma unroll
      for (int j = 0; j < n; j++) {
#pragma unroll
        for (int t = 0; t < TAPS - 1; t++) x[h][t][j] = x[h][t + 1][j];
        x[h][TAPS - 1][j] = next[h][j];
      }
      input(min(c + 1, a.cols - 1), next[h], h);
    }
    f32 y[HEADS][n];
#pragma unroll
    for (int h = 0; h < HEADS; h++)
#pragma unroll
      for (int j = 0; j < n; j++) {
        f32 v = 0;
#pragma unroll
        for (int t = 0; t < TAPS; t++) v = __fmaf_rn(w[h][t][j], x[h][t][j], v);
        y[h][j] = silu(v);
      }
    if constexpr (HEADS == 2) {
#pragma unroll
      for (int h = 0; h < 2; h++) {
        f32 square[n];
#pragma unroll
        for (int j = 0; j < n; j++) square[j] = y[h][j] * y[h][j];
        const f32 norm = fmaxf(sqrtf(Head<DIM>::sum(square)), d.eps);
#pragma unroll
        for (int j = 0; j < n; j++) y[h][j] /= norm;
      }
      f32 product[n];
#pragma unroll
      for (int j = 0; j < n; j++) y[0][j] /= sqrtf(f32(DIM)), product[j] = y[1][j] * y[0][j];
      const f32 kq = Head<DIM>::sum(product);
      if (lane == 0) a.kq[c * d.k_heads + h0] = kq;
    }
    if (DIM < 32 && lane >= DIM) continue;
#pragma unroll
    for (int h = 0; h < HEADS; h++) store(a.y + i64(c) * a.channels + channel[h], y[h]);
  }
}

template <int DIM, int TAPS>
__global__ void __launch_bounds__(32 * convolve_warps, TAPS == 4 ? 5 : 1) convolve_kernel(const __grid_constant__ Args a) {
  early_launch();
  const int lane = int(threadIdx.x % 32), job = int(blockIdx.x) * convolve_warps + warp_index(), of_k = 2 * a.d.k_heads,
            c_begin = int(blockIdx.y) * convolve_columns;
  if (job < of_k)
    convolve<DIM, TAPS, 2>(a, job / 2, lane, c_begin + job % 2 * (convolve_columns / 2));
  else if (job < of_k + a.d.v_heads)
    convolve<DIM, TAPS, 1>(a, job - of_k, lane, c_begin);
  else
    early_wait();
}

// The convolution's window after columns c0 .. c1 - 1.  One thread owns a channel.
__device__ __forceinline__ void move_window(const Args& a, int c0, int c1, i64 slot, int channel) {
  const int n = a.d.conv - 1;
  f32* kept = a.d.conv_state + slot * n * a.channels + channel;
  f32 w[7];
  for (int j = 0; j < n; j++) {
    const int index = c1 - c0 - n + j;
    w[j] = index >= 0 ? a.d.qkv[i64(c0 + index) * a.d.ldqkv + channel] : kept[i64(n + index) * a.channels];
  }
  for (int j = 0; j < n; j++) kept[i64(j) * a.channels] = w[j];
}

template <int BYTES>
__device__ __forceinline__ void copy(f32* shared, const f32* from) {
  const u32 to = u32(__cvta_generic_to_shared(shared));
  if constexpr (BYTES == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(from), "n"(BYTES) : "memory");
}

constexpr int slice = 16, step_threads = slice * 8;  // rows of a block
constexpr int ahead = 16;                            // columns fetched together

// What a thread needs of a column: its part of k and q; of each of REP heads v, e and beta; k.q.
template <int DIM, int REP>
struct Column {
  static constexpr int VEC = DIM >= 32 ? 4 : 2, chunks = DIM / 8 / VEC;
  f32 k[chunks][VEC], q[chunks][VEC], v[REP], e[REP], beta[REP], kq;
};
template <int DIM, int REP>
struct Fetched {
  f32 q[ahead][DIM], k[ahead][DIM], v[ahead][REP][slice], gate[ahead][8];  // gate: e, beta of each head; at 7 k.q
  __device__ __forceinline__ void read(Column<DIM, REP>& c, int at, int l, int row) const {
    constexpr int VEC = c.VEC;
#pragma unroll
    for (int i = 0; i < c.chunks; i++) load(c.k[i], k[at] + (i * 8 + l) * VEC, true), load(c.q[i], q[at] + (i * 8 + l) * VEC, true);
    f32 g[2][4];
    load(g[0], gate[at], true), load(g[1], gate[at] + 4, true);
    c.kq = g[1][3];
#pragma unroll
    for (int h = 0; h < REP; h++) c.v[h] = v[at][h][row], c.e[h] = g[h / 2][h % 2 * 2], c.beta[h] = g[h / 2][h % 2 * 2 + 1];
  }
};

// A row of each of REP heads in 8 lanes; REP at most 3.
template <int DIM, int REP>
struct State {
  static constexpr int VEC = Column<DIM, REP>::VEC, chunks = Column<DIM, REP>::chunks;
  f32 S[REP][chunks][VEC];

  // f(i, x, h) of all numbers that a thread holds; neighbours in this order share k and q, so that registers are read less often.
  template <class F>
  __device__ __forceinline__ static void each(F&& f) {
#pragma unroll
    for (int i = 0; i < chunks; i++)
#pragma unroll
      for (int x = 0; x < VEC; x++)
#pragma unroll
        for (int h = 0; h < REP; h++) f(i, x, h);
  }
  __device__ __forceinline__ static f32 sum(const f32 (&r)[VEC]) {
    f32 s = r[0] + r[1];
    if constexpr (VEC == 4) s += r[2] + r[3];
    return s;
  }
  // One column: S <- e S + delta k^T; o of the row of each head in every one of the 8 lanes.  The operations of Rows::lean_step.
  __device__ __forceinline__ void step(const Column<DIM, REP>& c, f32 (&o)[REP]) {
    f32 r[REP][VEC] = {}, p[REP][VEC] = {}, sr[REP], so[REP], delta[REP];
    each([&](int i, int x, int h) {
      r[h][x] = __fmaf_rn(S[h][i][x], c.k[i][x], r[h][x]), p[h][x] = __fmaf_rn(S[h][i][x], c.q[i][x], p[h][x]);
    });
#pragma unroll
    for (int h = 0; h < REP; h++) sr[h] = sum(r[h]);
#pragma unroll
    for (int h = 0; h < REP; h++) so[h] = sum(p[h]);
#pragma unroll
    for (int m = 4; m; m /= 2) {
#pragma unroll
      for (int h = 0; h < REP; h++) sr[h] += __shfl_xor_sync(~0u, sr[h], m);
#pragma unroll
      for (int h = 0; h < REP; h++) so[h] += __shfl_xor_sync(~0u, so[h], m);
    }
    each([&](int i, int x, int h) { S[h][i][x] *= c.e[h]; });
#pragma unroll
    for (int h = 0; h < REP; h++) delta[h] = c.beta[h] * (c.v[h] - c.e[h] * sr[h]);
    each([&](int i, int x, int h) { S[h][i][x] = __fmaf_rn(delta[h], c.k[i][x], S[h][i][x]); });
#pragma unroll
    for (int h = 0; h < REP; h++) o[h] = __fmaf_rn(delta[h], c.kq, c.e[h] * so[h]);
  }
};

template <int DIM, int REP>
__global__ void __launch_bounds__(step_threads, 1) step_kernel(const __grid_constant__ Args a) {
  constexpr int slices = DIM / slice;
  __shared__ __align__(16) Fetched<DIM, REP> fetched[2];
  early_launch();
  const DeltaNetArgs& d = a.d;
  const int part = int(blockIdx.x) / slices, r0 = int(blockIdx.x) % slices * slice, s = int(blockIdx.y), tid = int(threadIdx.x),
            l = tid % 8, row = tid / 8;
  const int c0 = a.first[s], c1 = a.first[s + 1];
  if (c0 == c1) return early_wait();
  const i64 slot = a.slot[s];
  // Part: K head, and which REP of the V heads that share it.
  const int rep = d.v_heads / d.k_heads, kh = part % d.k_heads, of = part / d.k_heads * REP;
  auto head = [&](int i) { return d.tiled ? (of + i) * d.k_heads + kh : kh * rep + of + i; };
  // The state is of an earlier step, and a step begins with an upload that nothing overtakes: it is read while the predecessor runs.
  State<DIM, REP> state;
  constexpr int VEC = state.VEC, chunks = state.chunks;
  auto state_at = [&](int h, int i) { return d.state + ((slot * d.v_heads + head(h)) * DIM + r0 + row) * DIM + (i * 8 + l) * VEC; };
#pragma unroll
  for (int h = 0; h < REP; h++)
#pragma unroll
    for (int i = 0; i < chunks; i++) load(state.S[h][i], state_at(h, i), true);
  early_wait();
  // Columns c .. c + ahead - 1, while those before are computed; beyond the last: the last again.
  auto fetch = [&](int c, Fetched<DIM, REP>& to) {
    constexpr int quads = DIM / 4, of_v = slice / 4, all = ahead * quads;
    auto column = [&](int i) { return min(c + i, c1 - 1); };
#pragma unroll
    for (int first = 0; first < all; first += step_threads) {
      const int i = first + tid, n = i / quads, x = i % quads * 4;
      if (all % step_threads && i >= all) break;
      const f32* from = a.y + i64(column(n)) * a.channels + kh * DIM + x;
      copy<16>(&to.q[n][x], from);
      copy<16>(&to.k[n][x], from + d.k_heads * DIM);
    }
    static_assert(step_threads / of_v >= ahead);
    const int n = tid / of_v, x = tid % of_v * 4;
    if (n < ahead) {
#pragma unroll
      for (int h = 0; h < REP; h++) copy<16>(&to.v[n][h][x], a.y + i64(column(n)) * a.channels + (2 * d.k_heads + head(h)) * DIM + r0 + x);
    }
    const int g = tid / 4, h = tid % 4;  // 4 threads: the gates of a column
    if (g < ahead) {
      if (h < REP)
        copy<8>(&to.gate[g][2 * h], a.gates + (i64(column(g)) * d.v_heads + head(h)) * 2);
      else if (h == 3)
        copy<4>(&to.gate[g][7], a.kq + column(g) * d.k_heads + kh);
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  };
  f32* out = d.out + (i64(c0) * d.v_heads + head(min(l, REP - 1))) * DIM + r0 + row;  // lane l writes of head l
  fetch(c0, fetched[0]);
  for (int c = c0, at = 0; c < c1; c += ahead, at ^= 1) {
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    __syncthreads();  // fetched by all; what was fetched before is no longer read
    fetch(c + ahead, fetched[at ^ 1]);
    const Fetched<DIM, REP>& now = fetched[at];
    Column<DIM, REP> column[2];
    now.read(column[0], 0, l, row);
    const int n = min(ahead, c1 - c);
    auto step = [&](int i, const Column<DIM, REP>& mine, Column<DIM, REP>& next) {
      now.read(next, (i + 1) % ahead, l, row);
      f32 o[REP];
      state.step(mine, o);
      f32 v = o[0];
#pragma unroll
      for (int h = 1; h < REP; h++) v = l == h ? o[h] : v;
      if (l < REP) *out = v;
      out += i64(d.v_heads) * DIM;
    };
    int i = 0;
#pragma unroll 1
    for (; i + 1 < n; i += 2) step(i, column[0], column[1]), step(i + 1, column[1], column[0]);
    if (i < n) step(i, column[0], column[1]);
  }
#pragma unroll
  for (int h = 0; h < REP; h++)
#pragma unroll
    for (int i = 0; i < chunks; i++) store(state_at(h, i), state.S[h][i]);
  for (int i = tid; i < REP * slice; i += step_threads)
    move_window(a, c0, c1, slot, (2 * d.k_heads + head(i / slice)) * DIM + r0 + i % slice);
  if (of == 0)
    for (int i = tid; i < 2 * slice; i += step_threads) move_window(a, c0, c1, slot, (kh + i / slice * d.k_heads) * DIM + r0 + i % slice);
}

// A warp: one head of one column.
template <int DIM>
__global__ void __launch_bounds__(256) finish_kernel(const __grid_constant__ Args a) {
  constexpr int n = Head<DIM>::n;
  early_launch();
  const DeltaNetArgs& d = a.d;
  const int lane = int(threadIdx.x % 32), h = int(blockIdx.x) * 8 + int(threadIdx.x / 32), c = int(blockIdx.y), at = lane * n % DIM;
  early_wait();
  if (h >= d.v_heads) return;
  f32* out = d.out + (i64(c) * d.v_heads + h) * DIM + at;
  f32 o[n], z[n], w[n], square[n];
  load(o, out, true), load(z, d.z + c * d.ldz + h * DIM + at, a.aligned), load(w, d.norm + at, true);
#pragma unroll
  for (int j = 0; j < n; j++) square[j] = o[j] * o[j];
  const f32 factor = 1.0f / sqrtf(Head<DIM>::sum(square) / f32(DIM) + d.eps);
  if (DIM < 32 && lane >= DIM) return;
#pragma unroll
  for (int j = 0; j < n; j++) o[j] = o[j] * factor * w[j] * silu(z[j]);
  store(out, o);
}

template <int DIM>
void run(Ctx& ctx, const Batch& batch, const Args& a) {
  const DeltaNetArgs& d = a.d;
  LaunchShape s;
  s.cols = batch.cols;
  const u64 state = u64(batch.seqs) * u64(d.v_heads) * u64(d.dim) * u64(d.dim) * 8;
  if (batch.max_seq_cols <= few_columns && batch.seqs * d.k_heads <= counter_count) return launch_few(ctx, batch, a);
  s.grid = dim3(unsigned(2 * d.k_heads + d.v_heads + convolve_warps - 1) / convolve_warps,
                unsigned(batch.cols + convolve_columns - 1) / convolve_columns),
  s.block = dim3(32 * convolve_warps), s.name = "delta_net.convolve";
  launch(ctx, d.conv == 4 ? convolve_kernel<DIM, 4> : convolve_kernel<DIM, 8>, s, a);
  const int rep = d.v_heads / d.k_heads, held = rep % 3 == 0 ? 3 : rep % 2 == 0 ? 2 : 1;
  s.cols = early_columns + 1;  // never early (foot)
  s.grid = dim3(unsigned(d.v_heads / held * (DIM / slice)), unsigned(batch.seqs)), s.block = dim3(step_threads), s.name = "delta_net.step",
  s.bytes = state;
  launch(ctx, held == 3 ? step_kernel<DIM, 3> : held == 2 ? step_kernel<DIM, 2> : step_kernel<DIM, 1>, s, a);
  s.cols = batch.cols;
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
         batch.cols,
         false};
  a.aligned = d.ldqkv % 4 == 0 && d.ldz % 4 == 0 && (uintptr_t(d.qkv) | uintptr_t(d.z)) % 16 == 0;
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
// few_kernel 5.6 and 20.7), 8 columns 15, 512: 153 (inside a pass convolve 19, step 129, finish 10).
// The step: of 478 cycles a column 290 issued, 65 waited for exchanges and shared memory, 55 for the registers (each of two banks gives one
// operand a cycle; one that the instruction before had costs nothing).  With the three heads side by side (each()) 130 us instead of 134.
// tried: the state read after the predecessor, 96 registers a thread | 7.5 / 25.4 / 18.3 us
// tried: the state of the next wave's blocks prefetched into L2 | 8 sequences 23.0 us against 20.8
// tried: a cluster of 4 blocks per head for few columns | 9.3 / 38.8 / 23.7 us
// tried: slices of 32 rows, 8 lanes per row | 549 us at 512 columns against 454, both with early launch
// tried: r exchanged while o is summed, e S before delta, fences between | 134, 133, 134 us against 134 | the compiler has its own order
// tried: a block per V head and 16 rows, 2 rows a thread | step 180 us against 134 | 768 warps for 528 schedulers: some had two
// tried: early launch of the step | 512 columns 335 us against 158, pp64 2573 tok/s against 2694, pp32 2497 against 2593 |
//        perhaps its blocks, one per multiprocessor, then pile up on those that have room first
// tried: convolution by a block per head and column | 400 us of 680 at 512 columns; a warp per head and 16 columns: 80
// tried: convolution by warps of 8 columns of K heads too, their window found first | 32 us against 23
// tried: the output's activations by the block's last warp (rotated: a cluster of 8 heads) | 285.4 tok/s against 287.1, a rotated token the
//        same, 3.38 ms | every block's end grows by what six blocks of another launch did
// tried: early launch behind the wait, or when the state is there | 283.5 and 279.3 tok/s against 290.5
