// Weights kept as F32, F16 or BF16 rows, times f32 activations.
//
// Work     an item is (row block, group of up to 8 columns).  KS warps share a row: warp s of them takes inputs 256 (s + KS i) .., lane l
//          eight neighbours at 8 l.
// Order    per lane in order of K, a warp tree, then the KS warps in order: depends on K and on the number of rows alone.
#pragma once
#include "kernel/cuda/layout.h"
#include "kernel/cuda/unit_dot.cuh"

namespace fewbit::kernel::cuda {

struct RowsProduct {
  const void* w[2];  // [1]: the other matrix of a pair, or nullptr
  u64 expert_bytes;
  const f32* act;  // (columns, n)
  f32* y;
  i64 ldy;
  const f32* scale[2];
  const f32* bias[2];
  int rows, n;
  int layout;  // layout_rows_*
  bool add;
};
struct RowsArgs {
  RowsProduct p;
  int cols;
  Glu kind;
  const i32* ids;
  int entries, act_div;
};

// 8 neighbours at element i of a row.
__device__ __forceinline__ void load8(const void* row, int layout, i64 i, f32 (&v)[8]) {
  if (layout == layout_rows_f32) {
    const float4 a = *reinterpret_cast<const float4*>(static_cast<const f32*>(row) + i),
                 b = *reinterpret_cast<const float4*>(static_cast<const f32*>(row) + i + 4);
    v[0] = a.x, v[1] = a.y, v[2] = a.z, v[3] = a.w, v[4] = b.x, v[5] = b.y, v[6] = b.z, v[7] = b.w;
  } else {
    const uint4 q = *reinterpret_cast<const uint4*>(static_cast<const u16*>(row) + i);
    const u32 w[4] = {q.x, q.y, q.z, q.w};
#pragma unroll
    for (int k = 0; k < 4; k++) {
      if (layout == layout_rows_bf16)
        v[2 * k] = __uint_as_float(w[k] << 16), v[2 * k + 1] = __uint_as_float(w[k] & 0xffff0000u);
      else
        v[2 * k] = half_of(w[k], 0), v[2 * k + 1] = half_of(w[k], 1);
    }
  }
}

// Dot products of one row with `count` columns (pointers x[]), this warp's share of K; whole sums in every lane.
template <int KS>
__device__ __forceinline__ void row_dots(const void* row, int layout, int n, const f32* const (&x)[8], int count, int share,
                                         f32 (&acc)[8]) {
  const int lane = int(threadIdx.x % 32);
#pragma unroll
  for (int c = 0; c < 8; c++) acc[c] = 0;
  for (int k = 256 * share + 8 * lane; k < n; k += 256 * KS) {
    f32 w[8];
    load8(row, layout, k, w);
#pragma unroll
    for (int c = 0; c < 8; c++) {
      if (c < count) {
        const float4 a = *reinterpret_cast<const float4*>(x[c] + k), b = *reinterpret_cast<const float4*>(x[c] + k + 4);
        f32 s = acc[c];
        s = __fmaf_rn(w[0], a.x, s), s = __fmaf_rn(w[1], a.y, s), s = __fmaf_rn(w[2], a.z, s), s = __fmaf_rn(w[3], a.w, s);
        s = __fmaf_rn(w[4], b.x, s), s = __fmaf_rn(w[5], b.y, s), s = __fmaf_rn(w[6], b.z, s), s = __fmaf_rn(w[7], b.w, s);
        acc[c] = s;
      }
    }
  }
#pragma unroll
  for (int c = 0; c < 8; c++)
    if (c < count) acc[c] = warp_sum(acc[c]);
}

// A warp's share (of eight) of one row times one column; every load of 3 rounds at once.  WIDE: f32 weights.
template <bool WIDE>
__device__ __forceinline__ f32 row_share(const u8* row, int layout, int n, const f32* x, int share) {
  constexpr int rounds = 3, width = WIDE ? 2 : 1;
  f32 s = 0;
  for (int k0 = 256 * share + 8 * int(threadIdx.x % 32); k0 < n; k0 += 2048 * rounds) {
    uint4 raw[rounds][width];
    float4 a[rounds][2];
#pragma unroll
    for (int r = 0; r < rounds; r++) {
      const int k = k0 + 2048 * r;
      if (k >= n) break;
#pragma unroll
      for (int i = 0; i < width; i++) raw[r][i] = *reinterpret_cast<const uint4*>(row + i64(k) * (WIDE ? 4 : 2) + 16 * i);
#pragma unroll
      for (int i = 0; i < 2; i++) a[r][i] = *reinterpret_cast<const float4*>(x + k + 4 * i);
    }
#pragma unroll
    for (int r = 0; r < rounds; r++) {
      if (k0 + 2048 * r >= n) break;
      f32 w[8];
      load8(raw[r], layout, 0, w);
      s = __fmaf_rn(w[0], a[r][0].x, s), s = __fmaf_rn(w[1], a[r][0].y, s), s = __fmaf_rn(w[2], a[r][0].z, s);
      s = __fmaf_rn(w[3], a[r][0].w, s), s = __fmaf_rn(w[4], a[r][1].x, s), s = __fmaf_rn(w[5], a[r][1].y, s);
      s = __fmaf_rn(w[6], a[r][1].z, s), s = __fmaf_rn(w[7], a[r][1].w, s);
    }
  }
  return warp_sum(s);
}

// One row times one column by a whole block of 4 or 8 warps; shared: 8 floats.  Ends with a barrier.
template <int = 0>  // a template only so that every file may have it
__device__ __noinline__ void row_product(const RowsProduct& p, int row, int col, f32* shared) {
  const int warp = int(threadIdx.x / 32), lane = int(threadIdx.x % 32);
  const bool wide = p.layout == layout_rows_f32;
  const f32* x = p.act + i64(col) * p.n;
  const u8* w = static_cast<const u8*>(p.w[0]) + u64(row) * u64(p.n) * (wide ? 4 : 2);
  for (int share = warp; share < 8; share += int(blockDim.x / 32)) {
    const f32 s = wide ? row_share<true>(w, p.layout, p.n, x, share) : row_share<false>(w, p.layout, p.n, x, share);
    if (lane == 0) shared[share] = s;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    f32 s = 0;
    for (int w = 0; w < 8; w++) s += shared[w];
    if (p.scale[0]) s *= p.scale[0][0];
    if (p.bias[0]) s += p.bias[0][row];
    f32* y = p.y + i64(col) * p.ldy + row;
    *y = p.add ? *y + s : s;
  }
  __syncthreads();
}

// Calls f(product, row, column) for this block's part of the rows of a launch times n columns; the last blocks begin, they have the fewest
// items of the launch's other work.
template <class F>
__device__ __forceinline__ void for_rows(const RowsProduct* rows, int n_rows, int n, F&& f) {
  for (int r = 0, before = 0; r < n_rows; r++) {
    const int count = rows[r].rows * n;
    for (int i = int(gridDim.x - 1 - blockIdx.x); i < before + count; i += int(gridDim.x))
      if (i >= before) f(rows[r], (i - before) / n, (i - before) % n);
    before += count;
  }
}
// Brings this block's rows into L2 while the predecessor still runs.
__device__ __forceinline__ void prefetch_rows(const RowsProduct* rows, int n_rows, int n) {
  for_rows(rows, n_rows, n, [](const RowsProduct& p, int row, int) {
    const u32 bytes = u32(p.n) * (p.layout == layout_rows_f32 ? 4 : 2);
    const u8* w = static_cast<const u8*>(p.w[0]) + u64(row) * bytes;
    for (u32 i = threadIdx.x * 128; i < bytes; i += blockDim.x * 128) asm volatile("prefetch.global.L2 [%0];" ::"l"(w + i));
  });
}

// KS = 8: a row per block; KS = 1: a row per warp.
template <int KS>
__global__ void __launch_bounds__(256) rows_kernel(const __grid_constant__ RowsArgs a) {
  __shared__ f32 part[2][8][8];
  early_launch();
  early_wait();
  const RowsProduct& p = a.p;
  const int warp = int(threadIdx.x / 32), lane = int(threadIdx.x % 32);
  const int row = KS == 8 ? int(blockIdx.x) : int(blockIdx.x) * 8 + warp;
  const int group = int(blockIdx.y), first = group * 8;
  const int count = a.ids ? 1 : min(8, a.cols - first);
  const int e = a.ids ? a.ids[group] : 0;
  const bool live = row < p.rows;
  const f32* x[8];
#pragma unroll
  for (int c = 0; c < 8; c++) x[c] = p.act + i64(a.ids ? group / a.act_div : first + min(c, count - 1)) * p.n;
  f32 acc[2][8];
  const u64 at = u64(live ? row : 0) * u64(p.n) * (p.layout == layout_rows_f32 ? 4 : 2) + u64(e) * p.expert_bytes;
  const int mats = p.w[1] ? 2 : 1;
#pragma unroll
  for (int m = 0; m < 2; m++)
    if (m < mats) row_dots<KS>(static_cast<const u8*>(p.w[m]) + at, p.layout, p.n, x, count, KS == 8 ? warp : 0, acc[m]);
  if constexpr (KS == 8) {
    if (lane == 0)
#pragma unroll
      for (int m = 0; m < 2; m++)
#pragma unroll
        for (int c = 0; c < 8; c++) part[m][warp][c] = m < mats ? acc[m][c] : 0;
    __syncthreads();
    if (warp) return;
  }
  if (!live || lane >= count) return;
  f32 v[2] = {0, 0};
#pragma unroll
  for (int m = 0; m < 2; m++) {
    if (m >= mats) break;
    f32 s = 0;
    if constexpr (KS == 8) {
      for (int w = 0; w < 8; w++) s += part[m][w][lane];
    } else {
#pragma unroll
      for (int c = 0; c < 8; c++)
        if (c == lane) s = acc[m][c];
    }
    if (p.scale[m]) s *= p.scale[m][e];
    if (p.bias[m]) s += p.bias[m][row];
    v[m] = s;
  }
  const f32 r = mats == 2 ? glu_of(v[0], v[1], a.kind) : v[0];
  f32* y = p.y + i64(a.ids ? group : first + lane) * p.ldy + row;
  *y = p.add ? *y + r : r;
}

}  // namespace fewbit::kernel::cuda
