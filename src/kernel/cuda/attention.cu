// Attention over the paged KV cache.
//
//   prepare   q, k: RMSNorm, rotation; k, v into the cache; q into scratch.  With few columns, one per sequence, the rest does it itself
//   the rest  f16 cache: attention_tensor.cuh, by attention_few.cu (few columns) and attention_tiles.cu
//             others:    attention_lanes.cu, attention_split.cu
#include <algorithm>

#include "kernel/cuda/attention_tensor.cuh"
#include "kernel/cuda/ops.h"

namespace fewbit::kernel::cuda {

namespace {

using namespace attend;

// TENSOR: queries as the tensor cores want them.
template <bool TENSOR>
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
  const i64 row = i64(c) * at.n_q + h;
  if (TENSOR && kind == 0) {
    __half* to = a.q16 + row * 2 * hd;
    const f32 factor = prepare_query(a, c, h, work[warp], [&](int i, __half hi, __half lo) {
      if (i < hd) to[i] = hi, to[hd + i] = lo;
    });
    if (lane == 0) a.q_factor[row] = factor;
    return;
  }
  prepare_head(a, c, kind, h, work[warp], head[warp]);
  if (kind == 0)
    for (int i = lane; i < hd; i += 32) a.q[row * hd + i] = head[warp][i];
  else if (kind == 1)
    store_row(head[warp], hd, at.cache.k_type, cache_row(a, at.cache.k, a.k_row, a.seq[c], a.pos[c], h));
  else
    store_row(head[warp], hd, at.cache.v_type, cache_row(a, at.cache.v, a.v_row, a.seq[c], a.pos[c], h));
}

template <bool TENSOR>
void prepare(Ctx& ctx, const Args& a) {
  LaunchShape s;
  s.grid = dim3(unsigned(a.at.n_q + 2 * a.at.n_kv + 3) / 4, unsigned(a.cols)), s.block = dim3(128), s.cols = a.cols,
  s.name = "attention.prepare";
  launch(ctx, prepare_kernel<TENSOR>, s, a);
}

template <int WIDTH>
void run_tensor(Ctx& ctx, Args& a) {
  if (a.most_cols == 1) {  // decoding, 8 sequences at a time
    const Args all = a;
    for (int c = 0; c < all.cols; c += split_columns) {
      a = all;
      a.cols = a.seqs = std::min(split_columns, all.cols - c);
      a.at.q += c * a.at.ldq, a.at.k += c * a.at.ldk, a.at.v += c * a.at.ldv, a.at.out += i64(c) * a.at.n_q * a.at.head_dim;
      a.pos += c, a.seq += c;
      launch_few<WIDTH>(ctx, a, true);
    }
    return;
  }
  prepare<true>(ctx, a);
  if (a.cols <= split_columns)
    launch_few<WIDTH>(ctx, a, false);
  else
    launch_tiles<WIDTH>(ctx, a);
}

template <int VEC>
void run_lanes(Ctx& ctx, Args& a) {
  const bool alone = a.cols <= split_columns && a.most_cols == 1;
  if (!alone) prepare<false>(ctx, a);
  launch_lanes<VEC>(ctx, a, alone);
}

u64 whole(u64 bytes) { return (bytes + 255) & ~u64(255); }

}  // namespace

void attention(Ctx& ctx, const Batch& batch, const AttentionArgs& at) {
  FEWBIT_CHECK(at.head_dim % 16 == 0 && at.head_dim <= max_head_dim && at.n_q % at.n_kv == 0, "attention with %d heads of %d, %d KV heads",
               at.n_q, at.head_dim, at.n_kv);
  FEWBIT_CHECK(at.cache.page_tokens % split_keys == 0, "KV pages of %d tokens", at.cache.page_tokens);
  Args a{};
  a.at = at;
  a.counters = counters(ctx);
  a.pos = batch.pos, a.seq = batch.seq, a.first = batch.first, a.page_table = batch.page_table, a.max_pages = batch.max_pages;
  a.cols = batch.cols, a.seqs = batch.seqs, a.most_cols = batch.max_seq_cols, a.rep = at.n_q / at.n_kv;
  a.splits = batch.max_pos / split_keys + 1;
  a.k_row = int(row_bytes(at.cache.k_type, at.head_dim)), a.v_row = int(row_bytes(at.cache.v_type, at.head_dim));
  const u64 rows = u64(batch.cols) * u64(at.n_q), q_bytes = rows * u64(at.head_dim) * 4, factor_bytes = whole(rows * 4),
            part_rows = u64(std::min(batch.cols, split_columns)) * u64(at.n_q) * u64(a.splits), head_bytes = whole(part_rows * 8);
  const bool parts = batch.cols <= split_columns || batch.max_seq_cols == 1;
  const u64 need = whole(q_bytes) + factor_bytes + (parts ? head_bytes + part_rows * u64(at.head_dim) * 4 : 0);
  FEWBIT_CHECK(scratch_room(ctx) >= need, "scratch of %llu bytes, attention needs %llu", (unsigned long long)ctx.scratch_bytes,
               (unsigned long long)need);
  u8* scratch = static_cast<u8*>(ctx.scratch);
  a.q = reinterpret_cast<f32*>(scratch), a.q16 = reinterpret_cast<__half*>(scratch);
  a.q_factor = reinterpret_cast<f32*>(scratch += whole(q_bytes));
  a.part_heads = reinterpret_cast<f32*>(scratch += factor_bytes);
  const bool tensor = at.cache.k_type == Type::F16 && at.cache.v_type == Type::F16;
  a.part = tensor ? reinterpret_cast<f32*>(scratch + head_bytes) : a.part_heads;
  if (tensor)
    at.head_dim <= 64 ? run_tensor<64>(ctx, a) : at.head_dim <= 128 ? run_tensor<128>(ctx, a) : run_tensor<256>(ctx, a);
  else
    at.head_dim <= 64 ? run_lanes<2>(ctx, a) : at.head_dim <= 128 ? run_lanes<4>(ctx, a) : run_lanes<8>(ctx, a);
}

u64 attention_scratch_bytes(int max_cols, int n_q_heads, int head_dim, int max_context) {
  const u64 splits = u64(max_context) / split_keys + 1, rows = u64(max_cols) * u64(n_q_heads),
            part_rows = u64(std::min(max_cols, split_columns)) * u64(n_q_heads) * splits;
  return whole(rows * u64(head_dim) * 4) + whole(rows * 4) + whole(part_rows * 8) + part_rows * u64(head_dim) * 4;
}

}  // namespace fewbit::kernel::cuda
