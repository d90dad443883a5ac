// Attention over the paged KV cache.
//
//   1 prepare   q, k: RMSNorm, rotation; k, v into the cache; q into scratch.  With one column per sequence the splits do it themselves
//   2 split     keys in splits of 64: scores, softmax and weighted values of one split
//   3 fold      splits in order: M = max(m, m_s); o = o exp(m - M) + o_s exp(m_s - M); l likewise; out = o / l, gated
//
// Few splits: the last block to arrive folds.  With more than 8 columns one block takes a column's splits one after another and folds in registers: the same operations in the same
// order, so a column's bits depend on its own keys alone.
//
// Maths   a score is summed over the head by 32 lanes, VEC neighbours each, then a tree; values are summed key after key.
#include <algorithm>

#include "format/format.h"
#include "kernel/cuda/common.cuh"
#include "kernel/cuda/ops.h"

namespace fewbit::kernel::cuda {

namespace {

constexpr int split_keys = 64, max_rows = 8, max_head_dim = 256;
constexpr int fused_splits = 16;  // up to here the last block folds
constexpr int split_columns = 8;  // up to here splits run in parallel

struct Args {
  AttentionArgs at;
  const i32* pos;
  const i32* seq;
  const i32* page_table;
  int max_pages, cols, rep, row_blocks, splits;
  int k_row, v_row;  // bytes of a row in the cache
  f32* q;            // scratch (cols, n_q, head_dim)
  f32* part;         // scratch (cols, n_q, splits, head_dim + 2): m, l, o
  u32* counters;     // (cols, n_kv, row_blocks), zero between launches
  bool fused, one_each;  // one column of each sequence
};

__device__ __forceinline__ u8* cache_row(const Args& a, void* cache, int row_bytes, int seq, int position, int head) {
  const int tokens = a.at.cache.page_tokens;
  const i64 page = a.page_table[i64(seq) * a.max_pages + position / tokens];
  return static_cast<u8*>(cache) + ((page * a.at.n_kv + head) * tokens + position % tokens) * i64(row_bytes);
}

// ---- 1 -----------------------------------------------------------------------------------------------------------------------------------

// n numbers in shared memory -> a cache row, by one warp.
__device__ void store_row(const f32* v, int n, Type type, u8* row) {
  const int lane = int(threadIdx.x % 32);
  for (int b = 0; b * 32 < n; b++) {
    const int i = b * 32 + lane;
    const f32 x = i < n ? v[i] : 0;
    if (type == Type::F32) {
      if (i < n) reinterpret_cast<f32*>(row)[i] = x;
    } else if (type == Type::F16) {
      if (i < n) reinterpret_cast<__half*>(row)[i] = __float2half_rn(x);
    } else if (type == Type::Q8_0) {
      const f32 d = warp_max(fabsf(x)) / 127.0f, inv = d != 0 ? 1.0f / d : 0.0f;
      u8* block = row + 34 * b;
      if (lane == 0) *reinterpret_cast<__half*>(block) = __float2half_rn(d);
      block[2 + lane] = u8(int(roundf(x * inv)));
    } else {  // Q4_0: the number of largest magnitude, the first of equals, becomes -8
      f32 m = x;
      int at = lane;
#pragma unroll
      for (int s = 16; s; s /= 2) {
        const f32 o = __shfl_xor_sync(~0u, m, s);
        const int oa = __shfl_xor_sync(~0u, at, s);
        if (fabsf(o) > fabsf(m) || (fabsf(o) == fabsf(m) && oa < at)) m = o, at = oa;
      }
      const f32 d = m / -8.0f, inv = d != 0 ? 1.0f / d : 0.0f;
      const int code = max(0, min(15, int(x * inv + 8.5f)));
      const int high = __shfl_down_sync(~0u, code, 16);
      u8* block = row + 18 * b;
      if (lane == 0) *reinterpret_cast<__half*>(block) = __float2half_rn(d);
      if (lane < 16) block[2 + lane] = u8(code | high << 4);
    }
  }
}

// One head of one column by one warp: kind 0 = q, 1 = k, 2 = v.  Normed and rotated into `to` (head_dim in shared memory); `work` likewise.
__device__ void prepare_head(const Args& a, int c, int kind, int h, f32* work, f32* to) {
  const AttentionArgs& at = a.at;
  const int hd = at.head_dim, lane = int(threadIdx.x % 32), position = a.pos[c];
  const f32* from = kind == 0 ? at.q + c * at.ldq + i64(h) * at.q_stride : (kind == 1 ? at.k + c * at.ldk : at.v + c * at.ldv) + i64(h) * hd;
  const f32* norm = kind == 0 ? at.q_norm : kind == 1 ? at.k_norm : nullptr;
  f32 s = 0;
  for (int i = lane; i < hd; i += 32) {
    const f32 x = from[i];
    work[i] = x, s = __fmaf_rn(x, x, s);
  }
  if (norm) {
    const f32 factor = 1.0f / sqrtf(warp_sum(s) / f32(hd) + at.eps);
    for (int i = lane; i < hd; i += 32) work[i] = work[i] * factor * norm[i];
  }
  __syncwarp();
  const int half = at.n_rot / 2;
  const bool rotates = kind < 2 && at.rope;
  for (int i = lane; i < hd; i += 32) {
    f32 v = work[i];
    if (rotates && i < at.n_rot) {
      const bool second = at.neox ? i >= half : i % 2;
      const int pair = at.neox ? i % half : i / 2;
      const f32 other = work[at.neox ? (second ? i - half : i + half) : i ^ 1];
      const f32* cs = at.rope + (i64(position) * half + pair) * 2;
      v = second ? other * cs[1] + v * cs[0] : v * cs[0] - other * cs[1];
    }
    to[i] = v;
  }
  __syncwarp();
}

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
  else if (kind == 1) store_row(head[warp], hd, at.cache.k_type, cache_row(a, at.cache.k, a.k_row, a.seq[c], a.pos[c], h));
  else store_row(head[warp], hd, at.cache.v_type, cache_row(a, at.cache.v, a.v_row, a.seq[c], a.pos[c], h));
}

// ---- 2 -----------------------------------------------------------------------------------------------------------------------------------

// VEC neighbours at element i of a cache row.
template <int VEC>
__device__ __forceinline__ void load_row(const u8* row, Type type, int i, f32 (&v)[VEC]) {
  if (type == Type::F32) {
#pragma unroll
    for (int k = 0; k < VEC; k += 2) {
      const float2 f = *reinterpret_cast<const float2*>(row + 4 * (i + k));
      v[k] = f.x, v[k + 1] = f.y;
    }
  } else if (type == Type::F16) {
    if constexpr (VEC == 8) {
      const uint4 q = *reinterpret_cast<const uint4*>(row + 2 * i);
      const u32 w[4] = {q.x, q.y, q.z, q.w};
#pragma unroll
      for (int k = 0; k < 4; k++) {
        const float2 f = __half22float2(*reinterpret_cast<const __half2*>(&w[k]));
        v[2 * k] = f.x, v[2 * k + 1] = f.y;
      }
    } else {
#pragma unroll
      for (int k = 0; k < VEC; k += 2) {
        const float2 f = __half22float2(*reinterpret_cast<const __half2*>(row + 2 * (i + k)));
        v[k] = f.x, v[k + 1] = f.y;
      }
    }
  } else if (type == Type::Q8_0) {
    const u8* b = row + i / 32 * 34;
    const f32 d = __half2float(*reinterpret_cast<const __half*>(b));
#pragma unroll
    for (int k = 0; k < VEC; k++) v[k] = f32(i8(b[2 + i % 32 + k])) * d;
  } else {
    const u8* b = row + i / 32 * 18;
    const f32 d = __half2float(*reinterpret_cast<const __half*>(b));
#pragma unroll
    for (int k = 0; k < VEC; k++) {
      const int e = i % 32 + k;
      v[k] = f32(int(b[2 + e % 16] >> (e / 16 * 4) & 15) - 8) * d;
    }
  }
}
// 32 numbers in each of 32 lanes -> v[0] of lane l is the sum of all v[l], added in the order of a tree over lanes 16, 8, 4, 2, 1 apart.
template <int M>
__device__ __forceinline__ void transpose_sum(f32 (&v)[32], int lane) {
  const bool up = lane & M;
#pragma unroll
  for (int i = 0; i < M; i++) {
    const f32 keep = up ? v[i + M] : v[i], send = up ? v[i] : v[i + M];
    v[i] = keep + __shfl_xor_sync(~0u, send, M);
  }
  if constexpr (M > 1) transpose_sum<M / 2>(v, lane);
}

// Folds one more split into (top, mass) and o.
__device__ __forceinline__ void fold(f32& top, f32& mass, f32& o, f32 split_top, f32 split_mass, f32 split_o) {
  const f32 m = fmaxf(top, split_top), x = expf(top - m), y = expf(split_top - m);
  o = __fmaf_rn(split_o, y, o * x), mass = __fmaf_rn(split_mass, y, mass * x), top = m;
}

__device__ __forceinline__ void write_out(const Args& a, int c, int h, int d, f32 v) {
  const AttentionArgs& at = a.at;
  if (at.gated) v *= sigmoid(at.q[c * at.ldq + i64(h) * at.q_stride + at.head_dim + d]);
  at.out[(i64(c) * at.n_q + h) * at.head_dim + d] = v;
}

// One (column, KV head, up to 8 of its queries); IN_ORDER: all splits one after another, else split blockIdx.x, and with `fused` the last
// block to arrive folds.  A warp owns 8 of a split's 64 keys: their scores, then their part of the weighted values.
template <int VEC, bool IN_ORDER, bool PREPARE>
__global__ void __launch_bounds__(256) split_kernel(const __grid_constant__ Args a) {
  constexpr int width = VEC * 32;  // dimensions that the lanes span
  __shared__ f32 score[max_rows][split_keys];
  __shared__ f32 top[max_rows], mass[max_rows];
  __shared__ __align__(16) f32 part[8][4][256];  // values of 4 rows by each warp; 32 KB
  __shared__ bool is_last;
  early_launch();
  const AttentionArgs& at = a.at;
  const int hd = at.head_dim, lane = int(threadIdx.x % 32), warp = int(threadIdx.x / 32), tid = int(threadIdx.x);
  const int c = int(blockIdx.z), kv = int(blockIdx.y) / a.row_blocks, r0 = int(blockIdx.y) % a.row_blocks * max_rows;
  const int rows = min(max_rows, a.rep - r0), h0 = kv * a.rep + r0;
  const int position = a.pos[c], seq = a.seq[c], all = position / split_keys + 1;
  const int first = IN_ORDER ? 0 : int(blockIdx.x), last = IN_ORDER ? all : first + 1;
#if __CUDA_ARCH__ >= 900
  if (!IN_ORDER && first < all) {  // the split's rows come into L2 meanwhile; a hint, so nothing depends on who wrote them last
    const u8* k_rows = cache_row(a, at.cache.k, a.k_row, seq, first * split_keys, kv);
    const u8* v_rows = cache_row(a, at.cache.v, a.v_row, seq, first * split_keys, kv);
    const int bytes_k = min(split_keys, position + 1 - first * split_keys) * a.k_row, bytes_v = min(split_keys, position + 1 - first * split_keys) * a.v_row;
    for (int i = tid * 128; i < bytes_k; i += 256 * 128) asm volatile("prefetch.global.L2 [%0];" ::"l"(k_rows + i));
    for (int i = tid * 128; i < bytes_v; i += 256 * 128) asm volatile("prefetch.global.L2 [%0];" ::"l"(v_rows + i));
  }
#endif
  early_wait();
  if (first >= all) return;

  f32 q[max_rows][VEC];
  const int d0 = lane * VEC;
  if constexpr (PREPARE) {  // one column per sequence: no other block's key or value is needed but the one this block stores
    f32* heads = &part[0][0][0];           // (rows, head_dim); `part` is free until the values
    f32* work = heads + (max_rows + warp) * max_head_dim;
    const int jobs = rows + (first == all - 1 ? 2 : 0);
    for (int j = warp; j < jobs; j += 8) {
      if (j < rows) {
        prepare_head(a, c, 0, h0 + j, work, heads + j * max_head_dim);
      } else {
        const int kind = j - rows + 1;
        f32* to = heads + (2 * max_rows + warp) * max_head_dim;
        prepare_head(a, c, kind, kv, work, to);
        if (kind == 1) store_row(to, hd, at.cache.k_type, cache_row(a, at.cache.k, a.k_row, seq, position, kv));
        else store_row(to, hd, at.cache.v_type, cache_row(a, at.cache.v, a.v_row, seq, position, kv));
      }
    }
    __syncthreads();
#pragma unroll
    for (int r = 0; r < max_rows; r++)
#pragma unroll
      for (int k = 0; k < VEC; k++) q[r][k] = r < rows && d0 < hd ? heads[r * max_head_dim + d0 + k] : 0;
    __syncthreads();
  } else {
#pragma unroll
    for (int r = 0; r < max_rows; r++)
#pragma unroll
      for (int k = 0; k < VEC; k++) q[r][k] = r < rows && d0 < hd ? a.q[(i64(c) * at.n_q + h0 + r) * hd + d0 + k] : 0;
  }

  // A thread's numbers of the result: element tid + 256 i of (rows, width).
  constexpr int mine = max_rows * width / 256;
  [[maybe_unused]] f32 out[mine], out_top[mine], out_mass[mine];
  if constexpr (IN_ORDER)
#pragma unroll
    for (int i = 0; i < mine; i++) out[i] = 0, out_top[i] = -INFINITY, out_mass[i] = 0;

  for (int split = first; split < last; split++) {
    const int k0 = split * split_keys, keys = min(split_keys, position + 1 - k0), mine0 = warp * 8;
    const u8* k_rows = cache_row(a, at.cache.k, a.k_row, seq, k0, kv);  // a page holds whole splits
    const u8* v_rows = cache_row(a, at.cache.v, a.v_row, seq, k0, kv);
    // 4 keys x 8 queries at a time: 32 sums, which a transposing reduction leaves one in each lane.
#pragma unroll
    for (int half = 0; half < 2; half++) {
      f32 v[32];
#pragma unroll
      for (int kk = 0; kk < 4; kk++) {
        const int k = mine0 + half * 4 + kk;
        f32 key[VEC];
        const bool live = k < keys && d0 < hd;
#pragma unroll
        for (int i = 0; i < VEC; i++) key[i] = 0;
        if (live) load_row<VEC>(k_rows + i64(k) * a.k_row, at.cache.k_type, d0, key);
#pragma unroll
        for (int r = 0; r < max_rows; r++) {
          f32 s = 0;
#pragma unroll
          for (int i = 0; i < VEC; i++) s = __fmaf_rn(q[r][i], key[i], s);
          v[kk * 8 + r] = s;
        }
      }
      transpose_sum<16>(v, lane);
      const int k = mine0 + half * 4 + lane / 8;
      score[lane % 8][k] = k < keys ? v[0] * at.scale : -INFINITY;
    }
    __syncthreads();
    if (warp < rows) {
      const f32 s0 = score[warp][lane], s1 = score[warp][lane + 32];
      const f32 m = warp_max(fmaxf(s0, s1));
      const f32 p0 = expf(s0 - m), p1 = expf(s1 - m);
      score[warp][lane] = p0, score[warp][lane + 32] = p1;
      const f32 l = warp_sum(p0 + p1);
      if (lane == 0) top[warp] = m, mass[warp] = l;
    }
    __syncthreads();
    f32 o[max_rows][VEC] = {};
    if (d0 < hd) {
#pragma unroll 4
      for (int kk = 0; kk < 8; kk++) {
        const int k = mine0 + kk;
        if (k >= keys) break;
        f32 value[VEC];
        load_row<VEC>(v_rows + i64(k) * a.v_row, at.cache.v_type, d0, value);
#pragma unroll
        for (int r = 0; r < max_rows; r++) {
          const f32 p = score[r][k];
#pragma unroll
          for (int i = 0; i < VEC; i++) o[r][i] = __fmaf_rn(p, value[i], o[r][i]);
        }
      }
    }
    // The warps' parts in order.
#pragma unroll
    for (int half = 0; half < 2; half++) {
      if (half * 4 >= rows) break;
#pragma unroll
      for (int r = 0; r < 4; r++)
#pragma unroll
        for (int i = 0; i < VEC; i++) part[warp][r][d0 + i] = o[half * 4 + r][i];
      __syncthreads();
#pragma unroll
      for (int i = 0; i < mine / 2; i++) {
        const int e = tid + 256 * i, r = half * 4 + e / width, d = e % width;
        f32 v = 0;
#pragma unroll
        for (int w = 0; w < 8; w++) v += part[w][e / width][d];
        if (r >= rows || d >= hd) continue;
        if constexpr (IN_ORDER) {
          const int at_i = half * (mine / 2) + i;
          fold(out_top[at_i], out_mass[at_i], out[at_i], top[r], mass[r], v);
        } else if (all == 1) {
          f32 o1 = 0, t1 = -INFINITY, l1 = 0;
          fold(t1, l1, o1, top[r], mass[r], v);
          write_out(a, c, h0 + r, d, o1 / l1);
        } else {
          f32* to = a.part + ((i64(c) * at.n_q + h0 + r) * a.splits + split) * (hd + 2);
          to[2 + d] = v;
          if (d == 0) to[0] = top[r], to[1] = mass[r];
        }
      }
      __syncthreads();
    }
  }
  if constexpr (IN_ORDER) {
#pragma unroll
    for (int i = 0; i < mine; i++) {
      const int e = i % (mine / 2) * 256 + tid, r = i / (mine / 2) * 4 + e / width, d = e % width;
      if (r < rows && d < hd) write_out(a, c, h0 + r, d, out[i] / out_mass[i]);
    }
  } else if (a.fused && all > 1) {
    __threadfence();
    __syncthreads();
    if (tid == 0) {
      u32* counter = a.counters + (i64(c) * gridDim.y + blockIdx.y);
      is_last = atomicAdd(counter, 1u) == u32(all - 1);
      if (is_last) *counter = 0;
      __threadfence();
    }
    __syncthreads();
    if (!is_last) return;
    for (int e = tid; e < rows * width; e += 256) {
      const int r = e / width, d = e % width;
      if (d >= hd) continue;
      const f32* from = a.part + (i64(c) * at.n_q + h0 + r) * a.splits * (hd + 2);
      f32 o = 0, t = -INFINITY, l = 0;
#pragma unroll 4
      for (int s = 0; s < all; s++) fold(t, l, o, __ldcg(from + s * (hd + 2)), __ldcg(from + s * (hd + 2) + 1), __ldcg(from + s * (hd + 2) + 2 + d));
      write_out(a, c, h0 + r, d, o / l);
    }
  }
}

// ---- 3 -----------------------------------------------------------------------------------------------------------------------------------

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
  const bool alone = a.cols <= split_columns && a.one_each;  // decoding: the splits prepare for themselves
  if (!alone) {
    s.grid = dim3(unsigned(at.n_q + 2 * at.n_kv + 3) / 4, unsigned(a.cols)), s.block = dim3(128), s.name = "attention.prepare";
    launch(ctx, prepare_kernel, s, a);
  }
  s.block = dim3(256);
  if (a.cols > split_columns) {
    s.grid = dim3(1, unsigned(at.n_kv * a.row_blocks), unsigned(a.cols)), s.name = "attention.in_order";
    launch(ctx, split_kernel<VEC, true, false>, s, a);
    return;
  }
  a.fused = a.splits <= fused_splits && a.cols * at.n_kv * a.row_blocks <= counter_count;
  s.grid = dim3(unsigned(a.splits), unsigned(at.n_kv * a.row_blocks), unsigned(a.cols)), s.name = "attention.split";
  launch(ctx, alone ? split_kernel<VEC, false, true> : split_kernel<VEC, false, false>, s, a);
  if (a.fused) return;
  s.grid = dim3(unsigned(at.n_q), unsigned(a.cols)), s.name = "attention.fold";
  launch(ctx, fold_kernel, s, a);
}

}  // namespace

void attention(Ctx& ctx, const Batch& batch, const AttentionArgs& at) {
  FEWBIT_CHECK(at.head_dim % 16 == 0 && at.head_dim <= max_head_dim && at.n_q % at.n_kv == 0, "attention with %d heads of %d, %d KV heads", at.n_q, at.head_dim, at.n_kv);
  Args a{};
  a.at = at;
  a.counters = counters(ctx), a.one_each = batch.max_seq_cols == 1;
  FEWBIT_CHECK(at.cache.page_tokens % split_keys == 0, "KV pages of %d tokens", at.cache.page_tokens);
  a.pos = batch.pos, a.seq = batch.seq, a.page_table = batch.page_table, a.max_pages = batch.max_pages, a.cols = batch.cols;
  a.rep = at.n_q / at.n_kv, a.row_blocks = (a.rep + max_rows - 1) / max_rows;
  a.splits = batch.max_pos / split_keys + 1;
  a.k_row = int(row_bytes(at.cache.k_type, at.head_dim)), a.v_row = int(row_bytes(at.cache.v_type, at.head_dim));
  a.q = static_cast<f32*>(ctx.scratch);
  const u64 q_bytes = u64(batch.cols) * u64(at.n_q) * u64(at.head_dim) * 4;
  a.part = reinterpret_cast<f32*>(static_cast<u8*>(ctx.scratch) + q_bytes);
  const u64 need = q_bytes + (batch.cols > split_columns ? 0 : u64(batch.cols) * u64(at.n_q) * u64(a.splits) * u64(at.head_dim + 2) * 4);
  FEWBIT_CHECK(scratch_room(ctx) >= need, "scratch of %llu bytes, attention needs %llu", (unsigned long long)ctx.scratch_bytes, (unsigned long long)need);
  if (at.head_dim <= 64) run<2>(ctx, a);
  else if (at.head_dim <= 128) run<4>(ctx, a);
  else run<8>(ctx, a);
}

u64 attention_scratch_bytes(int max_cols, int n_q_heads, int head_dim, int max_context) {
  const u64 splits = u64(max_context) / split_keys + 1;
  return u64(max_cols) * u64(n_q_heads) * u64(head_dim) * 4 + u64(std::min(max_cols, split_columns)) * u64(n_q_heads) * splits * u64(head_dim + 2) * 4;
}

}  // namespace fewbit::kernel::cuda
