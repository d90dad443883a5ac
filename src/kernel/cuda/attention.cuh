// What the attention kernels share: arguments, rows of the cache, a head's norm and rotation, folding of splits.
#pragma once
#include "format/format.h"
#include "kernel/cuda/common.cuh"

namespace fewbit::kernel::cuda::attend {

constexpr int split_keys = 64, max_head_dim = 256;
constexpr int max_rows = 8;       // queries of a block, in lanes
constexpr int fused_splits = 16;  // up to here the last block folds
constexpr int split_columns = 8;  // up to here splits run in parallel

struct Args {
  AttentionArgs at;
  const i32* pos;
  const i32* seq;
  const i32* first;
  const i32* page_table;
  int max_pages, cols, seqs, most_cols, rep, row_blocks, block_rows, splits;
  int k_row, v_row;  // bytes of a row in the cache
  f32* q;            // scratch (cols, n_q, head_dim)
  f32* part;         // scratch (cols, n_q, splits, head_dim + 2): m, l, o
  u32* counters;     // (cols, n_kv, row_blocks), zero between launches
  bool fused;
  // For tensor cores scratch holds other things (attention_tensor.cuh).
  __half* q16;      // (cols, n_q, 2, head_dim): hi, lo
  f32* q_factor;    // (cols, n_q)
  f32* part_heads;  // (cols, n_q, splits, 2): zero, l; then `part` is (cols, n_q, splits, head_dim): o
};

__device__ __forceinline__ u8* cache_row(const Args& a, void* cache, int row_bytes, int seq, int position, int head) {
  const int tokens = a.at.cache.page_tokens;
  const i64 page = a.page_table[i64(seq) * a.max_pages + position / tokens];
  return static_cast<u8*>(cache) + ((page * a.at.n_kv + head) * tokens + position % tokens) * i64(row_bytes);
}

// n numbers in shared memory -> a cache row, by one warp.
__device__ __forceinline__ void store_row(const f32* v, int n, Type type, u8* row) {
  const int lane = int(threadIdx.x % 32);
  for (int b = 0; b * 32 < n; b++) {
    const int i = b * 32 + lane;
    const f32 x = i < n ? v[i] : 0;
    if (type == Type::F16) {
      if (i < n) reinterpret_cast<__half*>(row)[i] = __float2half_rn(x);
    } else if (type == Type::F32) {
      if (i < n) reinterpret_cast<f32*>(row)[i] = x;
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

// One head of one column by one warp: kind 0 = q, 1 = k, 2 = v.  Normed and rotated into x: number lane + 32 j in x[j], 0 beyond the last.
// `work`: head_dim numbers in shared memory, used for q and k with a rotation.
__device__ __forceinline__ void prepare_values(const Args& a, int c, int kind, int h, f32* work, f32 (&x)[max_head_dim / 32]) {
  const AttentionArgs& at = a.at;
  const int hd = at.head_dim, lane = int(threadIdx.x % 32), position = a.pos[c];
  const f32* from =
      kind == 0 ? at.q + c * at.ldq + i64(h) * at.q_stride : (kind == 1 ? at.k + c * at.ldk : at.v + c * at.ldv) + i64(h) * hd;
  const f32* norm = kind == 0 ? at.q_norm : kind == 1 ? at.k_norm : nullptr;
  const int half = at.n_rot / 2;
  const bool rotates = kind < 2 && at.rope;
  f32 w[max_head_dim / 32];  // every load at once, without branches
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
  for (int j = 0; j < max_head_dim / 32; j++)
    if (norm) x[j] = x[j] * factor * w[j];
  if (!rotates) return;
#pragma unroll
  for (int j = 0; j < max_head_dim / 32; j++)
    if (lane + 32 * j < hd) work[lane + 32 * j] = x[j];
  __syncwarp();
#pragma unroll
  for (int j = 0; j < max_head_dim / 32; j++) {
    const int i = lane + 32 * j;
    if (i < at.n_rot) {
      const bool second = at.neox ? i >= half : i % 2;
      const f32 other = work[at.neox ? (second ? i - half : i + half) : i ^ 1];
      x[j] = second ? other * cs[j].y + x[j] * cs[j].x : x[j] * cs[j].x - other * cs[j].y;
    }
  }
}
// Likewise into `to`, shared memory.
__device__ __forceinline__ void prepare_head(const Args& a, int c, int kind, int h, f32* work, f32* to) {
  f32 x[max_head_dim / 32];
  prepare_values(a, c, kind, h, work, x);
#pragma unroll
  for (int j = 0; j < max_head_dim / 32; j++) {
    const int i = int(threadIdx.x % 32) + 32 * j;
    if (i < a.at.head_dim) to[i] = x[j];
  }
  __syncwarp();
}

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

// Key k of a split, of `keys`; one beyond the last is masked by the caller.
template <int VEC>
__device__ __forceinline__ void load_key(const Args& a, const u8* rows, int k, int keys, int d0, f32 (&key)[VEC]) {
#pragma unroll
  for (int i = 0; i < VEC; i++) key[i] = 0;
  if (k < keys && d0 < a.at.head_dim) load_row<VEC>(rows + i64(k) * a.k_row, a.at.cache.k_type, d0, key);
}

// Adds value k, weighted by score[row][k], to every row of o.
template <int ROWS, int VEC, class Score>
__device__ __forceinline__ void add_value(const Args& a, const u8* rows, int k, int d0, const Score& score, f32 (&o)[ROWS][VEC]) {
  f32 value[VEC];
  load_row<VEC>(rows + i64(k) * a.v_row, a.at.cache.v_type, d0, value);
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

// Other caches than f16 (attention_lanes.cu).  prepare: up to 8 columns, one of each sequence, whose heads the splits prepare for
// themselves.
template <int VEC>
void launch_lanes(Ctx& ctx, Args& a, bool prepare);
// Of these a block per (column, KV head, split), up to 8 columns (attention_split.cu).
template <int VEC>
void launch_split(Ctx& ctx, Args& a, bool prepare);

}  // namespace fewbit::kernel::cuda::attend
