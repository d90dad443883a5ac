// Attention over a cache that is not all f16: every sum in lanes, all numbers f32.
//
//   split     keys in splits of 64: scores, softmax and weighted values of one split (attention_split.cu)
//   fold      splits in order: M = max(m, m_s); o = o exp(m - M) + o_s exp(m_s - M); l likewise; out = o / l, gated
//
// Few splits: the last block to arrive folds.  With more than 8 columns a warp takes a column's splits one after another and folds in
// registers: the same operations in the same order, so a column's bits depend on its own keys alone.
//
// Maths   a score is summed over the head by 32 lanes, VEC neighbours each, then a tree; values are summed in eights of keys, key after
//         key, then the eights in order.
#include "kernel/cuda/attention.cuh"

namespace fewbit::kernel::cuda::attend {

namespace {

// All splits of a column one after another by one warp, for up to 4 queries of a KV head.  The warps of a block take neighbouring columns,
// so that keys and values come from L1.
constexpr int many_warps = 4, many_rows = 4;
template <int VEC>
__global__ void __launch_bounds__(32 * many_warps, 3) many_kernel(const __grid_constant__ Args a) {
  constexpr int at_once = 32 / many_rows;  // keys x queries: 32 sums at a time
  __shared__ __align__(16) f32 scores[many_warps][many_rows][split_keys];
  early_launch();
  early_wait();
  const AttentionArgs& at = a.at;
  const int hd = at.head_dim, lane = int(threadIdx.x % 32), warp = int(threadIdx.x / 32), d0 = lane * VEC;
  const int c = int(blockIdx.y) * many_warps + warp, kv = int(blockIdx.x) / a.row_blocks,
            r0 = int(blockIdx.x) % a.row_blocks * a.block_rows;
  if (c >= a.cols) return;
  const int rows = min(a.block_rows, a.rep - r0), h0 = kv * a.rep + r0, position = a.pos[c], seq = a.seq[c],
            all = position / split_keys + 1;
  f32(&score)[many_rows][split_keys] = scores[warp];
  const f32* queries = a.q + (i64(c) * at.n_q + h0) * hd + d0;
  f32 out[many_rows][VEC] = {}, top[many_rows], mass[many_rows];
#pragma unroll
  for (int r = 0; r < many_rows; r++) top[r] = -INFINITY, mass[r] = 0;
#pragma unroll 1
  for (int split = 0; split < all; split++) {
    const int k0 = split * split_keys, keys = min(split_keys, position + 1 - k0);
    const u8* k_rows = cache_row(a, at.cache.k, a.k_row, seq, k0, kv);
    const u8* v_rows = cache_row(a, at.cache.v, a.v_row, seq, k0, kv);
    {
      f32 q[many_rows][VEC];
#pragma unroll
      for (int r = 0; r < many_rows; r++)
#pragma unroll
        for (int i = 0; i < VEC; i++) q[r][i] = r < rows && d0 < hd ? queries[r * hd + i] : 0;
#pragma unroll 1
      for (int k1 = 0; k1 < split_keys; k1 += at_once) {
        f32 v[32];
#pragma unroll
        for (int kk = 0; kk < at_once; kk++) {
          f32 key[VEC];
          load_key<VEC>(a, k_rows, k1 + kk, keys, d0, key);
#pragma unroll
          for (int r = 0; r < many_rows; r++) {
            f32 s = 0;
#pragma unroll
            for (int i = 0; i < VEC; i++) s = __fmaf_rn(q[r][i], key[i], s);
            v[kk * many_rows + r] = s;
          }
        }
        transpose_sum<16>(v, lane);
        const int k = k1 + lane / many_rows;
        score[lane % many_rows][k] = k < keys ? v[0] * at.scale : -INFINITY;
      }
    }
    __syncwarp();
    f32 m[many_rows], l[many_rows];
#pragma unroll
    for (int r = 0; r < many_rows; r++) {
      const f32 s0 = score[r][lane], s1 = score[r][lane + 32];
      m[r] = warp_max(fmaxf(s0, s1));
      const f32 p0 = expf(s0 - m[r]), p1 = expf(s1 - m[r]);
      score[r][lane] = p0, score[r][lane + 32] = p1;
      l[r] = warp_sum(p0 + p1);
    }
    __syncwarp();
    f32 o[many_rows][VEC] = {};
    if (d0 < hd) {
#pragma unroll 1
      for (int k1 = 0; k1 < keys; k1 += 8) {
        f32 part[many_rows][VEC] = {};
        const int n = min(8, keys - k1);
        if (n == 8) {
#pragma unroll
          for (int kk = 0; kk < 8; kk++) add_value(a, v_rows, k1 + kk, d0, score, part);
        } else {
#pragma unroll 1
          for (int kk = 0; kk < n; kk++) add_value(a, v_rows, k1 + kk, d0, score, part);
        }
#pragma unroll
        for (int r = 0; r < many_rows; r++)
#pragma unroll
          for (int i = 0; i < VEC; i++) o[r][i] += part[r][i];
      }
    }
    __syncwarp();
#pragma unroll
    for (int r = 0; r < many_rows; r++) {
      const f32 t = top[r], ms = mass[r];
#pragma unroll
      for (int i = 0; i < VEC; i++) top[r] = t, mass[r] = ms, fold(top[r], mass[r], out[r][i], m[r], l[r], o[r][i]);
    }
  }
#pragma unroll
  for (int r = 0; r < many_rows; r++)
    if (r < rows && d0 < hd)
#pragma unroll
      for (int i = 0; i < VEC; i++) write_out(a, c, h0 + r, d0 + i, out[r][i] / mass[r]);
}

__global__ void __launch_bounds__(256) fold_kernel(const __grid_constant__ Args a) {
  early_launch();
  early_wait();
  const AttentionArgs& at = a.at;
  const int h = int(blockIdx.x), c = int(blockIdx.y), d = int(threadIdx.x), hd = at.head_dim;
  if (d >= hd) return;
  const int n = a.pos[c] / split_keys + 1;
  const f32* part = a.part + (i64(c) * at.n_q + h) * a.splits * (hd + 2);
  f32 o = 0, top = -INFINITY, mass = 0;
#pragma unroll 8
  for (int s = 0; s < n; s++) fold(top, mass, o, part[s * (hd + 2)], part[s * (hd + 2) + 1], part[s * (hd + 2) + 2 + d]);
  write_out(a, c, h, d, o / mass);
}

}  // namespace

template <int VEC>
void launch_lanes(Ctx& ctx, Args& a, bool prepare) {
  const AttentionArgs& at = a.at;
  LaunchShape s;
  s.cols = a.cols;
  const int most = a.cols > split_columns ? many_rows : max_rows;
  a.row_blocks = (a.rep + most - 1) / most, a.block_rows = (a.rep + a.row_blocks - 1) / a.row_blocks;
  if (a.cols > split_columns) {
    s.grid = dim3(unsigned(at.n_kv * a.row_blocks), unsigned(a.cols + many_warps - 1) / many_warps), s.block = dim3(32 * many_warps),
    s.name = "attention.many";
    launch(ctx, many_kernel<VEC>, s, a);
    return;
  }
  a.fused = a.splits <= fused_splits && a.cols * at.n_kv * a.row_blocks <= counter_count;
  launch_split<VEC>(ctx, a, prepare);
  if (a.fused) return;
  s.block = dim3(256);
  s.grid = dim3(unsigned(at.n_q), unsigned(a.cols)), s.name = "attention.fold";
  launch(ctx, fold_kernel, s, a);
}
template void launch_lanes<2>(Ctx&, Args&, bool);
template void launch_lanes<4>(Ctx&, Args&, bool);
template void launch_lanes<8>(Ctx&, Args&, bool);

}  // namespace fewbit::kernel::cuda::attend

// Measured on an H200 (nvcc 13.0, 30 Nov 2026) when f16 came here too, 24 and 4 heads of 256: 1 column at depth 64 / 1024 / 8192: 12.2 /
// 16.0 / 56 us; 512 columns: 294 / 969 / 6040 us (arithmetic of f32 in lanes).
// tried: a block of 8 warps per column, splits in order | 726 / 2465 us at 512 columns
// tried: the cache's type known at run time only | 18.1 / 17.1 / 87 us; 610 / 2116 us | branches keep the loads of rows apart
// tried: a warp per column with 6 queries instead of 3 | 717 us | spills
// tried: the split kernel with every loop unrolled | 14.6 us at depth 64 | 7,200 instructions, now 4,100: it waited for them
// tried: every loop of the split kernel rolled up, 3,380 instructions | 290.7 tok/s against 290.5 and 289.4
// tried: its early launch behind the wait, the scores or the values | 288.0, 289.4, 289.4 tok/s against 290.5
