// Attention over an f16 cache for many columns: the multiplies of a warp's 16 rows, by wgmma on Hopper and by mma elsewhere.  Shared memory
// holds panels of 64 rows x 64 numbers, 16-byte piece j of row r at j ^ (r % 8).
//
// Bits    the same from both: a sum of 16 products and a sum before is the same in wgmma and mma (gemm_half.cu)
#pragma once
#include "kernel/cuda/attention_tensor.cuh"
#include "kernel/cuda/wgmma.cuh"

namespace fewbit::kernel::cuda::attend {

constexpr int panel = 64 * 128;  // bytes
__device__ __forceinline__ u32 panel_piece(int row, int piece) { return u32(piece / 8 * panel + row * 128 + (piece % 8 ^ row % 8) * 16); }

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

constexpr bool by_warpgroup = true;

// d (64 x 64) = a (64 x 16) b (64 x 16)^T [+ d], both from shared memory.
__device__ __forceinline__ void wgmma_scores(f32 (&d)[32], u64 a, u64 b, int add) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,"
      "%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, %32, %33, p, 1, 1, 0, 0;\n}\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]),
        "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]),
        "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]),
        "+f"(d[31])
      : "l"(a), "l"(b), "r"(add));
}
// d (64 x 32) = a (64 x 16, registers) b (16 x 32, rows of 32 numbers) [+ d]
__device__ __forceinline__ void wgmma_values(f32 (&d)[16], const u32 (&a)[4], u64 b, int add) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %21, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15}, {%16,%17,%18,%19}, %20, "
      "p, 1, 1, 1;\n}\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]),
        "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add));
}
// Of a panel: 1024 bytes between eights of rows.
__device__ __forceinline__ u64 panel_desc(u32 at) { return smem_desc(at, panel, 1024, 1); }

// sum += hi keys^T, low += lo keys^T over a unit's dimensions.  q: this unit's first panel of hi; lo stands `to_low` behind.
template <int UNIT>
__device__ __forceinline__ void add_scores(f32 (&sum)[32], f32 (&low)[32], u32 q, u32 to_low, u32 unit, bool more) {
  wgmma_fence();
#pragma unroll
  for (int i = 0; i < UNIT / 16; i++) {
    const u32 at = u32(i / 4 * panel + i % 4 * 32);
    const u64 k = panel_desc(unit + at);
    wgmma_scores(sum, panel_desc(q + at), k, more || i);
    wgmma_scores(low, panel_desc(q + to_low + at), k, more || i);
  }
  wgmma_commit();
  wgmma_wait<0>();
}
// out (row x UNIT) folded with weights times values, 32 dimensions at a time: one is folded while the next is multiplied.
template <int UNIT>
__device__ __forceinline__ void fold_values(f32* out, const u32 (&hi)[split_keys / 16][4], const u32 (&lo)[split_keys / 16][4], u32 unit,
                                            const Turn (&turns)[2]) {
  constexpr int parts = UNIT / 32;
  f32 o[2][16], o_low[2][16];
#pragma unroll
  for (int part = 0; part <= parts; part++) {
    if (part < parts) {
      wgmma_fence();  // every warp has read the sums that these replace
#pragma unroll
      for (int kk = 0; kk < split_keys / 16; kk++) {
        const u64 v = panel_desc(unit + u32(part / 2 * panel + part % 2 * 64 + kk * 2048));
        wgmma_values(o[part % 2], hi[kk], v, kk), wgmma_values(o_low[part % 2], lo[kk], v, kk);
      }
      wgmma_commit();
    }
    if (part == 0) continue;
    part < parts ? wgmma_wait<1>() : wgmma_wait<0>();
#pragma unroll
    for (int i = 0; i < 16; i++) {
      f32& to = out[16 * (part - 1) + i];
      to = folded(to, o[(part - 1) % 2][i] + o_low[(part - 1) % 2][i], turns[i / 2 % 2]);
    }
  }
}

#else

constexpr bool by_warpgroup = false;

// From where piece p of a row is (p at most 1) to piece p + j, j even.
__device__ __forceinline__ u32 panel_on(u32 at, int j) { return (at ^ u32(16 * (j % 8))) + u32(panel * (j / 8)); }

template <int UNIT>
__device__ __forceinline__ void add_scores(f32 (&sum)[32], f32 (&low)[32], u32 q, u32 to_low, u32 unit, bool more) {
  const int lane = int(threadIdx.x % 32);
  const u32 q_at = q + panel_piece(int(threadIdx.x) / 32 * 16 + lane % 16, lane / 16),
            k_at = unit + panel_piece(lane % 8 + lane / 16 * 8, lane / 8 % 2);
  if (!more)
#pragma unroll
    for (int i = 0; i < 32; i++) sum[i] = low[i] = 0;
#pragma unroll
  for (int i = 0; i < UNIT / 16; i++) {
    u32 qh[4], ql[4];
    load_matrices(panel_on(q_at, 2 * i), qh);
    load_matrices(panel_on(q_at, 2 * i) + to_low, ql);
#pragma unroll
    for (int n = 0; n < split_keys / 8; n += 2) {
      u32 k[4];
      load_matrices(panel_on(k_at + u32(n * 8 * 128), 2 * i), k);
      mma16(sum + 4 * n, qh, k[0], k[1]), mma16(low + 4 * n, ql, k[0], k[1]);
      mma16(sum + 4 * n + 4, qh, k[2], k[3]), mma16(low + 4 * n + 4, ql, k[2], k[3]);
    }
  }
}
template <int UNIT>
__device__ __forceinline__ void fold_values(f32* out, const u32 (&hi)[split_keys / 16][4], const u32 (&lo)[split_keys / 16][4], u32 unit,
                                            const Turn (&turns)[2]) {
  const int lane = int(threadIdx.x % 32);
  const u32 v_at = unit + panel_piece(lane % 16, lane / 16);
#pragma unroll
  for (int part = 0; part < UNIT / 32; part++) {
    f32 o[16] = {}, o_low[16] = {};
#pragma unroll
    for (int kk = 0; kk < split_keys / 16; kk++)
#pragma unroll
      for (int n = 0; n < 4; n += 2) {
        u32 v[4];
        load_matrices_t(panel_on(v_at + u32(16 * kk * 128), 4 * part + n), v);
        mma16(o + 4 * n, hi[kk], v[0], v[1]), mma16(o_low + 4 * n, lo[kk], v[0], v[1]);
        mma16(o + 4 * n + 4, hi[kk], v[2], v[3]), mma16(o_low + 4 * n + 4, lo[kk], v[2], v[3]);
      }
#pragma unroll
    for (int i = 0; i < 16; i++) out[16 * part + i] = folded(out[16 * part + i], o[i] + o_low[i], turns[i / 2 % 2]);
  }
}

#endif

}  // namespace fewbit::kernel::cuda::attend
