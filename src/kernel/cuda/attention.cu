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

#include "format/format.h"
#include "kernel/cuda/common.cuh"
#include "kernel/cuda/ops.h"

namespace fewbit::kernel::cuda {

namespace {

constexpr int split_keys = 64, max_head_dim = 256;
constexpr int max_rows = 8;       // queries of a block
constexpr int fused_splits = 16;  // up to here the last block folds
constexpr int split_columns = 8;  // up to here splits run in parallel

struct Args {
  AttentionArgs at;
  const i32* pos;
  const i32* seq;
  const i32* page_table;
  int max_pages, cols, rep, row_blocks, block_rows, splits;
  int k_row, v_row;      // bytes of a row in the cache
  f32* q;                // scratch (cols, n_q, head_dim)
  f32* part;             // scratch (cols, n_q, splits, head_dim + 2): m, l, o
  u32* counters;         // (cols, n_kv, row_blocks), zero between launches
  bool fused, one_each;  // one column of each sequence
};

__device__ __forceinline__ u8* cache_row(const Args& a, void* cache, int row_bytes, int seq, int position, int head) {
  const int tokens = a.at.cache.page_tokens;
  const i64 page = a.page_table[i64(seq) * a.max_pages + position / tokens];
  return static_cast<u8*>(cache) + ((page * a.at.n_kv + head) * tokens + position % tokens) * i64(row_bytes);
}

// ---- 1
// -----------------------------------------------------------------------------------------------------------------------------------

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
  const f32* from =
      kind == 0 ? at.q + c * at.ldq + i64(h) * at.q_stride : (kind == 1 ? at.k + c * at.ldk : at.v + c * at.ldv) + i64(h) * hd;
  const f32* norm = kind == 0 ? at.q_norm : kind == 1 ? at.k_norm : nullptr;
  const int half = at.n_rot / 2;
  const bool rotates = kind < 2 && at.rope;
  f32 x[max_head_dim / 32], w[max_head_dim / 32];  // every load at once, without branches
  float2 cs[max_head_dim / 32];
  const f32* weights = norm ? norm : from;
  f32 s = 0;
#pragma unroll
  for (int j = 0; j < max_head_dim / 32; j++) {
    const int i = min(lane + 32 * j, hd - 1);
    x[j] = from[i], w[j] = weights[i];
  }
  if (rotates) {
    const float2* table = reinterpret_cast<const float2*>(at.rope) + i64(position) * half;
#pragma unroll
    for (int j = 0; j < max_head_dim / 32; j++) {
      const int i = min(lane + 32 * j, at.n_rot - 1);
      cs[j] = table[at.neox ? (i < half ? i : i - half) : i / 2];
    }
  }
#pragma unroll
  for (int j = 0; j < max_head_dim / 32; j++)
    if (lane + 32 * j >= hd) x[j] = 0;
#pragma unroll
  for (int j = 0; j < max_head_dim / 32; j++) s = __fmaf_rn(x[j], x[j], s);
  const f32 factor = norm ? 1.0f / sqrtf(warp_sum(s) / f32(hd) + at.eps) : 1;
#pragma unroll
  for (int j = 0; j < max_head_dim / 32; j++) {
    const int i = lane + 32 * j;
    if (norm) x[j] = x[j] * factor * w[j];
    if (i < hd) work[i] = x[j];
  }
  __syncwarp();
#pragma unroll
  for (int j = 0; j < max_head_dim / 32; j++) {
    const int i = lane + 32 * j;
    f32 v = x[j];
    if (rotates && i < at.n_rot) {
      const bool second = at.neox ? i >= half : i % 2;
      const f32 other = work[at.neox ? (second ? i - half : i + half) : i ^ 1];
      v = second ? other * cs[j].y + v * cs[j].x : v * cs[j].x - other * cs[j].y;
    }
    if (i < hd) to[i] = v;
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
  else if (kind == 1)
    store_row(head[warp], hd, at.cache.k_type, cache_row(a, at.cache.k, a.k_row, a.seq[c], a.pos[c], h));
  else
    store_row(head[warp], hd, at.cache.v_type, cache_row(a, at.cache.v, a.v_row, a.seq[c], a.pos[c], h));
}

// ---- 2
// -----------------------------------------------------------------------------------------------------------------------------------

// VEC neighbours at element i of a cache row.  F16: the type is known, so that loads of several rows can be under way at once.
template <int VEC, bool F16>
__device__ __forceinline__ void load_row(const u8* row, Type type, int i, f32 (&v)[VEC]) {
  if (!F16 && type == Type::F32) {
#pragma unroll
    for (int k = 0; k < VEC; k += 2) {
      const float2 f = *reinterpret_cast<const float2*>(row + 4 * (i + k));
      v[k] = f.x, v[k + 1] = f.y;
    }
  } else if (F16 || type == Type::F16) {
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

// Key k of a split, of `keys`; one beyond the last is masked by the caller.
template <int VEC, bool F16>
__device__ __forceinline__ void load_key(const Args& a, const u8* rows, int k, int keys, int d0, f32 (&key)[VEC]) {
  const int hd = a.at.head_dim;
  if constexpr (F16) {  // the last one again rather than a branch
    load_row<VEC, F16>(rows + i64(min(k, keys - 1)) * a.k_row, Type::F16, d0 < hd ? d0 : 0, key);
  } else {
#pragma unroll
    for (int i = 0; i < VEC; i++) key[i] = 0;
    if (k < keys && d0 < hd) load_row<VEC, F16>(rows + i64(k) * a.k_row, a.at.cache.k_type, d0, key);
  }
}

// Adds value k, weighted by score[row][k], to every row of o.
template <bool F16, int ROWS, int VEC, class Score>
__device__ __forceinline__ void add_value(const Args& a, const u8* rows, int k, int d0, const Score& score, f32 (&o)[ROWS][VEC]) {
  f32 value[VEC];
  load_row<VEC, F16>(rows + i64(k) * a.v_row, a.at.cache.v_type, d0, value);
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    const f32 p = score[r][k];
#pragma unroll
    for (int i = 0; i < VEC; i++) o[r][i] = __fmaf_rn(p, value[i], o[r][i]);
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

// One (column, KV head, up to 8 of its queries), split blockIdx.x; with `fused` the last block to arrive folds.  A warp owns 8 of a split's
// 64 keys: their scores, then their part of the weighted values.
template <int VEC, bool PREPARE, bool F16>
__global__ void __launch_bounds__(256) split_kernel(const __grid_constant__ Args a) {
  constexpr int width = VEC * 32;  // dimensions that the lanes span
  __shared__ f32 score[max_rows][split_keys];
  __shared__ f32 top[max_rows], mass[max_rows];
  __shared__ __align__(16) f32 part[8][4][256];  // values of 4 rows by each warp; 32 KB
  __shared__ bool is_last;
  early_launch();
  const AttentionArgs& at = a.at;
  const int hd = at.head_dim, lane = int(threadIdx.x % 32), warp = int(threadIdx.x / 32), tid = int(threadIdx.x);
  const int c = int(blockIdx.z), kv = int(blockIdx.y) / a.row_blocks, r0 = int(blockIdx.y) % a.row_blocks * a.block_rows;
  const int rows = min(a.block_rows, a.rep - r0), h0 = kv * a.rep + r0;
  const int position = a.pos[c], seq = a.seq[c], all = position / split_keys + 1;
  const int split = int(blockIdx.x);
#if __CUDA_ARCH__ >= 900
  if (split < all) {  // the split's rows come into L2 meanwhile; a hint, so nothing depends on who wrote them last
    const u8* k_rows = cache_row(a, at.cache.k, a.k_row, seq, split * split_keys, kv);
    const u8* v_rows = cache_row(a, at.cache.v, a.v_row, seq, split * split_keys, kv);
    const int bytes_k = min(split_keys, position + 1 - split * split_keys) * a.k_row,
              bytes_v = min(split_keys, position + 1 - split * split_keys) * a.v_row;
    for (int i = tid * 128; i < bytes_k; i += 256 * 128) asm volatile("prefetch.global.L2 [%0];" ::"l"(k_rows + i));
    for (int i = tid * 128; i < bytes_v; i += 256 * 128) asm volatile("prefetch.global.L2 [%0];" ::"l"(v_rows + i));
    if (PREPARE && at.q_norm && tid * 32 < hd) asm volatile("prefetch.global.L2 [%0];" ::"l"(at.q_norm + tid * 32));
    if (PREPARE && at.k_norm && tid * 32 < hd) asm volatile("prefetch.global.L2 [%0];" ::"l"(at.k_norm + tid * 32));
    if (PREPARE && at.rope && tid * 32 < at.n_rot)
      asm volatile("prefetch.global.L2 [%0];" ::"l"(at.rope + i64(position) * at.n_rot + tid * 32));
  }
#endif
  early_wait();
  if (split >= all) return;

  f32 q[max_rows][VEC];
  const int d0 = lane * VEC;
  if constexpr (PREPARE) {        // one column per sequence: no other block's key or value is needed but the one this block stores
    f32* heads = &part[0][0][0];  // (rows, head_dim); `part` is free until the values
    f32* work = heads + (max_rows + warp) * max_head_dim;
    const int jobs = rows + (split == all - 1 ? 2 : 0);
    for (int j = warp; j < jobs; j += 8) {
      if (j < rows) {
        prepare_head(a, c, 0, h0 + j, work, heads + j * max_head_dim);
      } else {
        const int kind = j - rows + 1;
        f32* to = heads + (2 * max_rows + warp) * max_head_dim;
        prepare_head(a, c, kind, kv, work, to);
        if (kind == 1)
          store_row(to, hd, at.cache.k_type, cache_row(a, at.cache.k, a.k_row, seq, position, kv));
        else
          store_row(to, hd, at.cache.v_type, cache_row(a, at.cache.v, a.v_row, seq, position, kv));
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

  const int k0 = split * split_keys, keys = min(split_keys, position + 1 - k0), mine0 = warp * 8;
  const u8* k_rows = cache_row(a, at.cache.k, a.k_row, seq, k0, kv);  // a page holds whole splits
  const u8* v_rows = cache_row(a, at.cache.v, a.v_row, seq, k0, kv);
  for (int i = lane * 128; i < min(8, keys - mine0) * a.v_row; i += 4096) {  // the warp's values into L1 meanwhile
    u32 unused;
    asm volatile("ld.global.b32 %0, [%1];"
                 : "=r"(unused)
                 : "l"(reinterpret_cast<const u8*>((reinterpret_cast<u64>(v_rows) + u64(mine0) * u64(a.v_row) + u64(i)) & ~u64(3))));
  }
  {
    // Some keys x queries at a time: 32 sums, which a transposing reduction leaves one in each lane.
    constexpr int at_once = 32 / max_rows;
#pragma unroll
    for (int part_k = 0; part_k < 8 / at_once; part_k++) {
      f32 v[32];
#pragma unroll
      for (int kk = 0; kk < at_once; kk++) {
        const int k = mine0 + part_k * at_once + kk;
        f32 key[VEC];
        load_key<VEC, F16>(a, k_rows, k, keys, d0, key);
#pragma unroll
        for (int r = 0; r < max_rows; r++) {
          f32 s = 0;
#pragma unroll
          for (int i = 0; i < VEC; i++) s = __fmaf_rn(q[r][i], key[i], s);
          v[kk * max_rows + r] = s;
        }
      }
      transpose_sum<16>(v, lane);
      const int k = mine0 + part_k * at_once + lane / max_rows;
      score[lane % max_rows][k] = k < keys ? v[0] * at.scale : -INFINITY;
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
        add_value<F16>(a, v_rows, k, d0, score, o);
      }
    }
    // The warps' parts in order.
#pragma unroll
    for (int half = 0; half < max_rows / 4; half++) {
      if (half * 4 >= rows) break;
#pragma unroll
      for (int r = 0; r < 4; r++)
#pragma unroll
        for (int i = 0; i < VEC; i++) part[warp][r][d0 + i] = o[half * 4 + r][i];
      __syncthreads();
#pragma unroll
      for (int i = 0; i < width / 64; i++) {
        const int e = tid + 256 * i, r = half * 4 + e / width, d = e % width;
        f32 v = 0;
#pragma unroll
        for (int w = 0; w < 8; w++) v += part[w][e / width][d];
        if (r >= rows || d >= hd) continue;
        if (all == 1) {
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
  if (a.fused && all > 1) {
    __syncthreads();
    if (tid == 0) {
      __threadfence();
      u32* counter = a.counters + (i64(c) * gridDim.y + blockIdx.y);
      is_last = atomicAdd(counter, 1u) == u32(all - 1);
      if (is_last) *counter = 0;
      __threadfence();
    }
    __syncthreads();
    if (!is_last) return;
    // Every thread's numbers at once, split after split.
    constexpr int mine = max_rows * width / 256;
    f32 o[mine] = {}, t[mine], l[mine] = {}, gate[mine];
#pragma unroll
    for (int i = 0; i < mine; i++) {
      const int e = tid + 256 * i, r = e / width, d = e % width;
      t[i] = -INFINITY, gate[i] = 0;
      if (r < rows && d < hd && at.gated) gate[i] = at.q[c * at.ldq + i64(h0 + r) * at.q_stride + hd + d];
    }
#pragma unroll 2
    for (int s = 0; s < all; s++) {
#pragma unroll
      for (int i = 0; i < mine; i++) {
        const int e = tid + 256 * i, r = e / width, d = e % width;
        if (r >= rows || d >= hd) continue;
        const f32* from = a.part + ((i64(c) * at.n_q + h0 + r) * a.splits + s) * (hd + 2);
        fold(t[i], l[i], o[i], __ldcg(from), __ldcg(from + 1), __ldcg(from + 2 + d));
      }
    }
#pragma unroll
    for (int i = 0; i < mine; i++) {
      const int e = tid + 256 * i, r = e / width, d = e % width;
      if (r >= rows || d >= hd) continue;
      f32 v = o[i] / l[i];
      if (at.gated) v *= sigmoid(gate[i]);
      at.out[(i64(c) * at.n_q + h0 + r) * hd + d] = v;
    }
  }
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

// ---- 3
// -----------------------------------------------------------------------------------------------------------------------------------

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
  s.block = dim3(256);
  a.fused = a.splits <= fused_splits && a.cols * at.n_kv * a.row_blocks <= counter_count;
  s.grid = dim3(unsigned(a.splits), unsigned(at.n_kv * a.row_blocks), unsigned(a.cols)), s.name = "attention.split";
  launch(ctx,
         alone ? (f16 ? split_kernel<VEC, true, true> : split_kernel<VEC, true, false>)
               : (f16 ? split_kernel<VEC, false, true> : split_kernel<VEC, false, false>),
         s, a);
  if (a.fused) return;
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

// Measured on an H200 (nvcc 13.0, 30 Nov 2026), 24 and 4 heads of 256, f16: 1 column at depth 64 / 1024 / 8192: 14.7 / 16.0 / 56 us;
// 512 columns at depth 64 / 1024: 299 / 969 us.
// tried: a block of 8 warps per column, splits in order | 726 / 2465 us at 512 columns
// tried: the cache's type known at run time only | 18.1 / 17.1 / 87 us; 610 / 2116 us | branches keep the loads of rows apart
// tried: a warp per column with 6 queries instead of 3 | 717 us | spills
