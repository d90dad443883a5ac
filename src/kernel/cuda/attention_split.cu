// Attention of up to 8 columns over a cache that is not all f16: the splits of a column's keys run in parallel.
#include "kernel/cuda/attention.cuh"

namespace fewbit::kernel::cuda::attend {

namespace {

// One (column, KV head, up to 8 of its queries), split blockIdx.x; with `fused` the last block to arrive folds.  A warp owns 8 of a split's
// 64 keys: their scores, then their part of the weighted values.
template <int VEC, bool PREPARE>
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
      const int kind = max(0, j - rows + 1);
      f32* to = heads + (kind ? 2 * max_rows + warp : j) * max_head_dim;
      prepare_head(a, c, kind, kind ? kv : h0 + j, work, to);
      if (!kind) continue;
      const bool key = kind == 1;
      store_row(to, hd, key ? at.cache.k_type : at.cache.v_type,
                cache_row(a, key ? at.cache.k : at.cache.v, key ? a.k_row : a.v_row, seq, position, kv));
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
        load_key<VEC>(a, k_rows, k, keys, d0, key);
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
        add_value(a, v_rows, k, d0, score, o);
      }
    }
    // The warps' parts in order.
#pragma unroll 1
    for (int half = 0; half < max_rows / 4 && half * 4 < rows; half++) {
#pragma unroll
      for (int r = 0; r < 4; r++)
#pragma unroll
        for (int i = 0; i < VEC; i++) part[warp][r][d0 + i] = half ? o[4 + r][i] : o[r][i];
      __syncthreads();
#pragma unroll
      for (int i = 0; i < width / 64; i++) {
        const int e = tid + 256 * i, r = half * 4 + e / width, d = e % width;
        f32 v = 0;
#pragma unroll
        for (int w = 0; w < 8; w++) v += part[w][e / width][d];
        if (r >= rows || d >= hd) continue;
        if (all == 1) {
          write_out(a, c, h0 + r, d, (v + 0.0f) / mass[r]);  // as a fold of one
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
    // A warp folds a query's splits in order.
    if (warp >= rows || d0 >= hd) return;
    const int h = h0 + warp;
    const f32* gates = at.q + c * at.ldq + i64(h) * at.q_stride + hd + d0;
    f32 o[VEC] = {}, t = -INFINITY, l = 0, gate[VEC] = {};
    if (at.gated)
#pragma unroll
      for (int i = 0; i < VEC; i++) gate[i] = gates[i];
    const f32* from = a.part + (i64(c) * at.n_q + h) * a.splits * (hd + 2);
#pragma unroll 4
    for (int s = 0; s < all; s++, from += hd + 2) {
      const float2 head = __ldcg(reinterpret_cast<const float2*>(from));
      float2 v[VEC / 2];
#pragma unroll
      for (int i = 0; i < VEC / 2; i++) v[i] = __ldcg(reinterpret_cast<const float2*>(from + 2 + d0 + 2 * i));
      const f32 m = fmaxf(t, head.x), x = expf(t - m), y = expf(head.x - m);  // fold(), of a row at once
      l = __fmaf_rn(head.y, y, l * x), t = m;
#pragma unroll
      for (int i = 0; i < VEC / 2; i++)
        o[2 * i] = __fmaf_rn(v[i].x, y, o[2 * i] * x), o[2 * i + 1] = __fmaf_rn(v[i].y, y, o[2 * i + 1] * x);
    }
    f32* out = at.out + (i64(c) * at.n_q + h) * hd + d0;
#pragma unroll
    for (int i = 0; i < VEC; i++) {
      f32 v = o[i] / l;
      if (at.gated) v *= sigmoid(gate[i]);
      out[i] = v;
    }
  }
}

}  // namespace

template <int VEC>
void launch_split(Ctx& ctx, Args& a, bool prepare) {
  const AttentionArgs& at = a.at;
  LaunchShape s;
  s.grid = dim3(unsigned(a.splits), unsigned(at.n_kv * a.row_blocks), unsigned(a.cols)), s.block = dim3(256);
  s.cols = a.cols, s.name = "attention.split";
  launch(ctx, prepare ? split_kernel<VEC, true> : split_kernel<VEC, false>, s, a);
}
template void launch_split<2>(Ctx&, Args&, bool);
template void launch_split<4>(Ctx&, Args&, bool);
template void launch_split<8>(Ctx&, Args&, bool);

}  // namespace fewbit::kernel::cuda::attend
