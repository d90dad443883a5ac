// Attention over an f16 cache for few columns: the splits of a row are folded in order.  Maths in attention_tensor.cuh.
#include "kernel/cuda/attention_tensor.cuh"

namespace fewbit::kernel::cuda::attend {

namespace {

// Up to 16 splits: a block per (query head, column), two dimensions in a thread.
constexpr int some_splits = 16;
__global__ void __launch_bounds__(128) fold_some_kernel(const __grid_constant__ Args a) {
  early_launch();
  const AttentionArgs& at = a.at;
  const int h = int(blockIdx.x), c = int(blockIdx.y), d = 2 * int(threadIdx.x), hd = at.head_dim, n = a.pos[c] / split_keys + 1;
  early_wait();
  if (d >= hd) return;
  const i64 row = (i64(c) * at.n_q + h) * a.splits;
  float2 head[some_splits], v[some_splits];
#pragma unroll
  for (int s = 0; s < some_splits; s++) {  // the last one again rather than a branch: all loads at once
    const i64 from = row + min(s, n - 1);
    head[s] = reinterpret_cast<const float2*>(a.part_heads)[from];
    v[s] = *reinterpret_cast<const float2*>(a.part + from * hd + d);
  }
  f32 o[2] = {}, top = -INFINITY, mass = 0;
#pragma unroll
  for (int s = 0; s < some_splits; s++) {
    if (s >= n) break;
    const Turn t = turn(top, head[s].x);
    mass = folded(mass, head[s].y, t), o[0] = folded(o[0], v[s].x, t), o[1] = folded(o[1], v[s].y, t);
  }
  write_pair(a, c, h, d, o[0], o[1], share_of(mass), gate_pair(a, c, h, d));
}

// Many splits: a block per (query head, 64 dimensions, column) brings 128 splits at a time into shared memory.
constexpr int fold_splits = 128;
__global__ void __launch_bounds__(256) fold_many_kernel(const __grid_constant__ Args a) {
  __shared__ f32 parts[fold_splits][64];
  __shared__ f32 tops[fold_splits / 32], masses[fold_splits];
  __shared__ Turn turns[fold_splits];
  early_launch();
  const AttentionArgs& at = a.at;
  const int h = int(blockIdx.x), d0 = 64 * int(blockIdx.y), c = int(blockIdx.z), hd = at.head_dim, tid = int(threadIdx.x), lane = tid % 32,
            warp = tid / 32;
  const int n = a.pos[c] / split_keys + 1, width = min(64, hd - d0);
  early_wait();
  const i64 row = (i64(c) * at.n_q + h) * a.splits;
  f32 o = 0, top = -INFINITY, mass = 0;
  constexpr int each = fold_splits * 16 / 256;
  const int my_d = tid % 16 * 4;
  float4 next[each];  // loads of a round are under way while the one before is folded
  float2 next_head;
  auto load = [&](int s0) {
#pragma unroll
    for (int i = 0; i < each; i++)
      next[i] = *reinterpret_cast<const float4*>(a.part + (row + min(s0 + tid / 16 + 16 * i, n - 1)) * hd + d0 + min(my_d, width - 4));
    next_head = reinterpret_cast<const float2*>(a.part_heads)[row + min(s0 + tid, n - 1)];
  };
  load(0);
  for (int s0 = 0; s0 < n; s0 += fold_splits) {
    const int count = min(fold_splits, n - s0);
#pragma unroll
    for (int i = 0; i < each; i++) *reinterpret_cast<float4*>(&parts[tid / 16 + 16 * i][my_d]) = next[i];
    const float2 head = tid < count ? next_head : make_float2(-INFINITY, 0);
    if (s0 + fold_splits < n) load(s0 + fold_splits);
    // A split's turn needs the largest zero before it: of its warp's by a scan, of the warps before.
    f32 most = head.x;
#pragma unroll
    for (int i = 1; i < 32; i *= 2) {
      const f32 other = __shfl_up_sync(~0u, most, i);
      if (lane >= i) most = fmaxf(most, other);
    }
    if (lane == 31 && warp < 4) tops[warp] = most;
    f32 before = __shfl_up_sync(~0u, most, 1);
    __syncthreads();
    before = lane ? fmaxf(top, before) : top;
    for (int w = 0; w < 4; w++) {
      if (w < warp) before = fmaxf(before, tops[w]);
      top = fmaxf(top, tops[w]);
    }
    if (tid < count) masses[tid] = head.y, turns[tid] = turn(before, head.x);
    __syncthreads();
    if (tid < width)
#pragma unroll 8
      for (int s = 0; s < count; s++) o = folded(o, parts[s][tid], turns[s]), mass = folded(mass, masses[s], turns[s]);
    __syncthreads();
  }
  if (tid < width) write_out(a, c, h, d0 + tid, result_of(o, share_of(mass)));
}

}  // namespace

void launch_fold(Ctx& ctx, const Args& a) {
  LaunchShape s;
  s.cols = a.cols, s.name = "attention.fold";
  if (a.splits <= some_splits) {
    s.grid = dim3(unsigned(a.at.n_q), unsigned(a.cols)), s.block = dim3(128);
    launch(ctx, fold_some_kernel, s, a);
  } else {
    s.grid = dim3(unsigned(a.at.n_q), unsigned(a.at.head_dim + 63) / 64, unsigned(a.cols)), s.block = dim3(256);
    launch(ctx, fold_many_kernel, s, a);
  }
}

}  // namespace fewbit::kernel::cuda::attend

// tried: up to 32 splits in registers | 8.9 us at 1 column and depth 1024 (17 splits) against 6.5
// tried: the largest share of shared memory, as the kernel before has it | 5.0 / 6.3 / 16.4 us at 1 column against 5.1 / 6.6 / 16.4
