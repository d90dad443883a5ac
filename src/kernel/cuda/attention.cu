// Attention over the paged KV cache.
//
//   1 prepare   q, k: RMSNorm, rotation; k, v into the cache; q into scratch.  With one column per sequence the splits do it themselves
//   2 split     keys in splits of 64: scores, softmax and weighted values of one split
//   3 fold      splits in order: M = max(m, m_s); o = o exp(m - M) + o_s exp(m_s - M); l likewise; out = o / l, gated
//
// Few splits: the last block to arrive folds.  With more than 8 columns a warp takes a column's splits one after another and folds in
// registers: the same operations in the same order, so a column's bits depend on its own keys alone.
//
// Maths   a score is summed over the head by 32 lanes, VEC neighbours each, then a tree; values are summed in eights of keys, key after
// key,
//         then the eights in order.
#include <algorithm>

#include "kernel/cuda/attention.cuh"
#include "kernel/cuda/ops.h"

namespace fewbit::kernel::cuda {

namespace {

using namespace attend;

__global__ void __launch_bounds__(128) prepare_kernel(const __grid_constant__ Args a) {
  __shared__ f32 work[4][max_head_dim], head[4][max_head_dim];
  early_launch();
  early_wait();
  const AttentionArgs& at = a.at;
  const int c = int(blockIdx.y), hd = at.head_dim, warp = int(threadIdx.x / 32), lane = int(threadIdx.x % 32);
  int h = int(blockIdx.x) * 4 + warp;
  if (h >= at.n_q + 2 * at.n_kv) return;
  const int kind = h < at.n_q ? 0 : h < at.n_q + at.n_kv ? 1 : 2;
  h -= kind == 0 ? 0 : kind == 1 ? at.n_q : at.n_q + at.n_kv;
  prepare_head(a, c, kind, h, work[warp], head[warp]);
  if (kind == 0)
    for (int i = lane; i < hd; i += 32) a.q[(i64(c) * at.n_q + h) * hd + i] = head[warp][i];
  else if (kind == 1)
    store_row<false>(head[warp], hd, at.cache.k_type, cache_row(a, at.cache.k, a.k_row, a.seq[c], a.pos[c], h));
  else
    store_row<false>(head[warp], hd, at.cache.v_type, cache_row(a, at.cache.v, a.v_row, a.seq[c], a.pos[c], h));
}

// All splits of a column one after another by one warp, for up to 4 queries of a KV head.  The warps of a block take neighbouring columns,
// so that keys and values come from L1.
constexpr int many_warps = 4, many_rows = 4;
template <int VEC, bool F16>
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
          load_key<VEC, F16>(a, k_rows, k1 + kk, keys, d0, key);
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
          for (int kk = 0; kk < 8; kk++) add_value<F16>(a, v_rows, k1 + kk, d0, score, part);
        } else {
#pragma unroll 1
          for (int kk = 0; kk < n; kk++) add_value<F16>(a, v_rows, k1 + kk, d0, score, part);
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

template <int VEC>
void run(Ctx& ctx, Args& a) {
  const AttentionArgs& at = a.at;
  LaunchShape s;
  s.cols = a.cols;
  const bool alone = a.cols <= split_columns && a.one_each;  // decoding: the splits prepare for themselves
  if (!alone) {
    s.grid = dim3(unsigned(at.n_q + 2 * at.n_kv + 3) / 4, unsigned(a.cols)), s.block = dim3(128), s.name = "attention.prepare";
    launch(ctx, prepare_kernel, s, a);
  }
  const bool f16 = at.cache.k_type == Type::F16 && at.cache.v_type == Type::F16;
  const int most = a.cols > split_columns ? many_rows : max_rows;
  a.row_blocks = (a.rep + most - 1) / most, a.block_rows = (a.rep + a.row_blocks - 1) / a.row_blocks;
  if (a.cols > split_columns) {
    s.grid = dim3(unsigned(at.n_kv * a.row_blocks), unsigned(a.cols + many_warps - 1) / many_warps), s.block = dim3(32 * many_warps),
    s.name = "attention.many";
    launch(ctx, f16 ? many_kernel<VEC, true> : many_kernel<VEC, false>, s, a);
    return;
  }
  a.fused = a.splits <= fused_splits && a.cols * at.n_kv * a.row_blocks <= counter_count;
  launch_split<VEC>(ctx, a, alone);
  if (a.fused) return;
  s.block = dim3(256);
  s.grid = dim3(unsigned(at.n_q), unsigned(a.cols)), s.name = "attention.fold";
  launch(ctx, fold_kernel, s, a);
}

}  // namespace

void attention(Ctx& ctx, const Batch& batch, const AttentionArgs& at) {
  FEWBIT_CHECK(at.head_dim % 16 == 0 && at.head_dim <= max_head_dim && at.n_q % at.n_kv == 0, "attention with %d heads of %d, %d KV heads",
               at.n_q, at.head_dim, at.n_kv);
  Args a{};
  a.at = at;
  a.counters = counters(ctx), a.one_each = batch.max_seq_cols == 1;
  FEWBIT_CHECK(at.cache.page_tokens % split_keys == 0, "KV pages of %d tokens", at.cache.page_tokens);
  a.pos = batch.pos, a.seq = batch.seq, a.page_table = batch.page_table, a.max_pages = batch.max_pages, a.cols = batch.cols;
  a.rep = at.n_q / at.n_kv;
  a.splits = batch.max_pos / split_keys + 1;
  a.k_row = int(row_bytes(at.cache.k_type, at.head_dim)), a.v_row = int(row_bytes(at.cache.v_type, at.head_dim));
  a.q = static_cast<f32*>(ctx.scratch);
  const u64 q_bytes = u64(batch.cols) * u64(at.n_q) * u64(at.head_dim) * 4;
  a.part = reinterpret_cast<f32*>(static_cast<u8*>(ctx.scratch) + q_bytes);
  const u64 need = q_bytes + (batch.cols > split_columns ? 0 : u64(batch.cols) * u64(at.n_q) * u64(a.splits) * u64(at.head_dim + 2) * 4);
  FEWBIT_CHECK(scratch_room(ctx) >= need, "scratch of %llu bytes, attention needs %llu", (unsigned long long)ctx.scratch_bytes,
               (unsigned long long)need);
  if (at.head_dim <= 64)
    run<2>(ctx, a);
  else if (at.head_dim <= 128)
    run<4>(ctx, a);
  else
    run<8>(ctx, a);
}

u64 attention_scratch_bytes(int max_cols, int n_q_heads, int head_dim, int max_context) {
  const u64 splits = u64(max_context) / split_keys + 1;
  return u64(max_cols) * u64(n_q_heads) * u64(head_dim) * 4 +
         u64(std::min(max_cols, split_columns)) * u64(n_q_heads) * splits * u64(head_dim + 2) * 4;
}

}  // namespace fewbit::kernel::cuda

// Measured on an H200 (nvcc 13.0, 30 Nov 2026), 24 and 4 heads of 256, f16: 1 column at depth 64 / 1024 / 8192: 12.2 / 16.0 / 56 us;
// 512 columns at depth 64 / 1024: 299 / 969 us.
// tried: a block of 8 warps per column, splits in order | 726 / 2465 us at 512 columns
// tried: the cache's type known at run time only | 18.1 / 17.1 / 87 us; 610 / 2116 us | branches keep the loads of rows apart
// tried: a warp per column with 6 queries instead of 3 | 717 us | spills
// tried: the split kernel with every loop unrolled | 14.6 us at depth 64 | 7,200 instructions, now 4,100: it waited for them
// tried: every loop of the split kernel rolled up, 3,380 instructions | 290.7 tok/s against 290.5 and 289.4
// tried: its early launch behind the wait, the scores or the values | 288.0, 289.4, 289.4 tok/s against 290.5
