// y = W a with f16 tiles (half_layout.h) for up to 32 columns at a time.
//
// Work     a warp takes a row tile (16 rows) over all of K, then the next one.  Its units come through a ring of its own; activations come
//          from L1, where the warps of a block, which go through K side by side, find what another one has brought.
// Order    one chain of mma.sync.m16n8k16 over K (half_layout.h): no parts of K, so nothing to add up, and the wide kernel can hold the
//          sums of 256 columns in its registers.  The price is paid in rounding: the tensor core cuts sums off towards zero, 16 inputs
//          at a time; over 5120 inputs that is 6e-6 of the result (in four slabs it would be about 1.5e-6).
#include "kernel/cuda/half.cuh"

namespace fewbit::kernel::cuda {

namespace {

__device__ __forceinline__ void load_matrices(u32 at, u32 (&r)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(at)
               : "memory");
}
__device__ __forceinline__ void mma16(f32 (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

template <int NG, int DEPTH>
__global__ void __launch_bounds__(32 * half_most_warps) matvec_half_kernel(const __grid_constant__ HalfArgs a) {
  extern __shared__ __align__(128) u8 shared[];
  const int lane = int(threadIdx.x % 32), warp = warp_index(), warps = int(blockDim.x / 32), g = lane / 4, t = lane % 4;
  Ring<half_unit, DEPTH> ring(shared + warp * DEPTH * half_unit, shared + warps * DEPTH * half_unit + warp * DEPTH * 8, lane);
  early_launch();

  const int first = int(blockIdx.x) * warps + warp, step = int(gridDim.x) * warps;
  int ask_tile = first, ask_unit = 0;
  const u8* ask_from = nullptr;
  auto ask = [&](u32 slot) {
    if (ask_tile >= a.tiles) return ring.fill_nothing();
    if (ask_unit == 0) {
      const HalfProduct& p = a.p[half_product(a, ask_tile)];
      ask_from = p.w + u64(ask_tile - p.tile0) * u64(a.units) * half_unit;
    }
    ring.fill(slot, ask_from, 0, 1, half_unit);
    ask_from += half_unit;
    if (++ask_unit == a.units) ask_unit = 0, ask_tile += step;
  };
#pragma unroll
  for (int i = 0; i < DEPTH; i++) ask(u32(i));
  early_wait();

  const int group0 = int(blockIdx.y) * NG, groups = half_groups(a.cols), chunk = half_act_chunk(groups);
  const u8* act = a.act + u64(group0 / half_tile_groups) * half_act_tile(groups, a.units);
  int column[NG];  // where this lane's lie; beyond the last: that one
#pragma unroll
  for (int j = 0; j < NG; j++) {
    const int c = min(8 * (group0 + j) + g, a.cols - 1) % (8 * half_tile_groups);
    column[j] = c / 8 * half_group + c % 8 * 16 + t * 4;
  }
  // Lane l asks for row l % 8 of matrix l / 8: row halves 0 and 1 of 8 inputs, then those of the next 8.
  const u32 mine = u32(lane / 8 % 2 * 512 + lane / 16 * 128 + lane % 8 * 16);

  for (int tile = first; tile < a.tiles; tile += step) {
    f32 acc[NG][4] = {};
    // Activations of chunks of 32 inputs; with one column group those of two units, asked for two units ahead.
    constexpr int held = NG == 1 ? 4 : 1;
    u32 b[2][held][NG][4];
    auto load = [&](int u, int c, u32(&to)[NG][4]) {
      const u8* from = act + u64(4 * u + c) * u64(chunk);
#pragma unroll
      for (int j = 0; j < NG; j++)
#pragma unroll
        for (int k = 0; k < 4; k++) to[j][k] = *reinterpret_cast<const u32*>(from + column[j] + k * 128);
    };
    auto multiply = [&](int u, u32(&b)[held][NG][4]) {
      ring.wait();
      u32 w[4][2][4];
#pragma unroll
      for (int k = 0; k < 8; k++) load_matrices(ring.data() + mine + u32(k / 2 * half_chunk + k % 2 * 256), w[k / 2][k % 2]);
#pragma unroll
      for (int c = 0; c < 4; c++) {
        u32(&x)[NG][4] = b[c % held];
        if (NG > 1) load(u, c, x);
#pragma unroll
        for (int s = 0; s < 2; s++)
#pragma unroll
          for (int j = 0; j < NG; j++) mma16(acc[j], w[c][s], x[j][2 * s], x[j][2 * s + 1]);
      }
      // Not before the last multiply has its weights: a copy from L2 can be quicker than loads that wait behind those of 17 warps.
      __syncwarp();
      ask(ring.slot);
      ring.next();
      if (NG == 1 && u + 2 < a.units) {
#pragma unroll
        for (int c = 0; c < held; c++) load(u + 2, c, b[c]);
      }
    };
    if (NG == 1) {
#pragma unroll
      for (int i = 0; i < 2 * held; i++) load(min(i / held, a.units - 1), i % held, b[i / held][i % held]);
    }
    for (int u = 0; u < a.units; u += 2) {
      multiply(u, b[0]);
      if (u + 1 < a.units) multiply(u + 1, b[1]);
    }
    const HalfProduct& p = a.p[half_product(a, tile)];
    const HalfRows rows(p, tile - p.tile0, g);
#pragma unroll
    for (int j = 0; j < NG; j++)
#pragma unroll
      for (int e = 0; e < 2; e++) {
        const int col = 8 * (group0 + j) + 2 * t + e;
        if (col >= a.cols) continue;
        const f32 d = a.act_scale[col], v[2] = {rows.value(p, acc[j][e], 0, d), rows.value(p, acc[j][2 + e], 1, d)};
        f32* y = p.y + i64(col) * p.ldy;
        if (p.pair) {
          const f32 out = glu_of(v[0], v[1], a.kind);
          if (rows.in[0]) y[rows.row[0]] = p.add ? y[rows.row[0]] + out : out;
          continue;
        }
#pragma unroll
        for (int h = 0; h < 2; h++)
          if (rows.in[h]) y[rows.row[h]] = p.add ? y[rows.row[h]] + v[h] : v[h];
      }
  }
}

template <int NG>
HalfKernel by_depth(int depth) {
  return depth == 2   ? matvec_half_kernel<NG, 2>
         : depth == 3 ? matvec_half_kernel<NG, 3>
         : depth == 4 ? matvec_half_kernel<NG, 4>
                      : matvec_half_kernel<NG, 8>;
}

}  // namespace

HalfKernel half_narrow(int groups, int depth) { return groups == 1 ? by_depth<1>(depth) : by_depth<4>(depth); }

}  // namespace fewbit::kernel::cuda

// Measured on an H200 (nvcc 13.0, 30 Nov 2026), us with 1 / 8 columns: 34816x5120 87 / 88, 16384x5120 45 / 45, 5120x17408 73 / 74,
// 5120x6144 29 / 30, 248320x5120 583 / 590 (4.4 TB/s).  Where rows are few a warp's chain is the time: about 500 cycles for 128 inputs.
// tried: activations one unit ahead | 5120x17408 96 us against 73, 5120x6144 38 against 29
// tried: activations brought into L1 four units ahead by loads that nobody uses | 5120x17408 100 us against 96 | they wait for a register
// tried: sixteen columns at once | 34816x5120 125 us; the wide kernel's tile of 64 columns takes 110
// tried: slots refilled as soon as the loads from them are issued | 17408x512: now and then a tile is wrong | loads of 17 warps queue
