// Rows of F32, F16 or BF16 (float_rows.cuh) times many columns: the gates of DeltaNet and the routers of experts while a prompt is read.
//
// Work     a block: up to 64 rows times 4 columns.  Warp s of eight has its share of the columns' inputs (256 (s + 8 i) ..) in
//          registers and
//          multiplies four rows (two of F32) at a time, the next ones on their way.
// Order    that of rows_kernel<8>: per lane in order of K, a warp tree, the eight warps in order.
#include "kernel/cuda/float_rows.cuh"
#include "kernel/cuda/product.cuh"

namespace fewbit::kernel::cuda {

namespace {

constexpr int columns = 4, block_rows = 64, shares = 8;

// Trees over the 32 lanes of N sums at once, the farthest lanes first: lane l gets that of v[l * N / 32].
template <int M = 16, int N>
__device__ __forceinline__ f32 trees(const f32 (&v)[N], int lane) {
  if constexpr (N == 1) {
    f32 s = v[0];
#pragma unroll
    for (int m = M; m; m /= 2) s += __shfl_xor_sync(~0u, s, m);
    return s;
  } else {
    const bool up = lane & M;
    f32 half[N / 2];
#pragma unroll
    for (int k = 0; k < N / 2; k++) half[k] = (up ? v[k + N / 2] : v[k]) + __shfl_xor_sync(~0u, up ? v[k] : v[k + N / 2], M);
    return trees<M / 2>(half, lane);
  }
}

// PARTS: of 256 inputs, of a warp's share.
template <int LAYOUT, int PARTS>
__global__ void __launch_bounds__(32 * shares, 1) rows_wide_kernel(const __grid_constant__ RowsArgs a) {
  constexpr int raws = LAYOUT == layout_rows_f32 ? 2 : 1, size = LAYOUT == layout_rows_f32 ? 4 : 2, at_once = 4 / raws;
  __shared__ f32 sums[shares][block_rows * columns];
  early_launch();
  const RowsProduct& p = a.p;
  const int share = warp_index(), lane = int(threadIdx.x % 32), first = int(blockIdx.x) * columns, row0 = int(blockIdx.y) * block_rows;
  const int rows = min(block_rows, p.rows - row0), k0 = 256 * share + 8 * lane;
  struct Raw {
    uint4 q[at_once][PARTS][raws];
  };
  auto fetch = [&](int row, Raw& to) {
#pragma unroll
    for (int r = 0; r < at_once; r++) {
      const u8* from = static_cast<const u8*>(p.w[0]) + i64(row0 + min(row + r, rows - 1)) * p.n * size + i64(k0) * size;
#pragma unroll
      for (int i = 0; i < PARTS; i++)
#pragma unroll
        for (int j = 0; j < raws; j++)
          to.q[r][i][j] = k0 + i * 256 * shares < p.n ? *reinterpret_cast<const uint4*>(from + i * 256 * shares * size + 16 * j) : uint4{};
    }
  };
  Raw raw[2];
  fetch(0, raw[0]);
  early_wait();
  f32 x[PARTS][columns][8];
#pragma unroll
  for (int i = 0; i < PARTS; i++)
#pragma unroll
    for (int c = 0; c < columns; c++) {
      const f32* from = p.act + i64(min(first + c, a.cols - 1)) * p.n + k0 + i * 256 * shares;
#pragma unroll
      for (int j = 0; j < 8; j += 4) {
        const float4 v = k0 + i * 256 * shares < p.n ? *reinterpret_cast<const float4*>(from + j) : float4{};
        x[i][c][j] = v.x, x[i][c][j + 1] = v.y, x[i][c][j + 2] = v.z, x[i][c][j + 3] = v.w;
      }
    }
  auto multiply = [&](int row, const Raw& now) {
    f32 acc[at_once * columns] = {};
#pragma unroll
    for (int i = 0; i < PARTS; i++) {
      if (256 * (share + i * shares) >= p.n) break;
#pragma unroll
      for (int r = 0; r < at_once; r++) {
        f32 w[8];
        load8(now.q[r][i], LAYOUT, 0, w);
#pragma unroll
        for (int j = 0; j < 8; j++)
#pragma unroll
          for (int c = 0; c < columns; c++) acc[r * columns + c] = __fmaf_rn(w[j], x[i][c][j], acc[r * columns + c]);
      }
    }
    constexpr int lanes = 32 / (at_once * columns);  // that have the same sum
    const f32 sum = trees(acc, lane);
    if (lane % lanes == 0) sums[share][row * columns + lane / lanes] = sum;
  };
  for (int row = 0; row < rows; row += 2 * at_once) {
    fetch(row + at_once, raw[1]);
    multiply(row, raw[0]);
    if (row + at_once >= rows) break;
    fetch(row + 2 * at_once, raw[0]);
    multiply(row + at_once, raw[1]);
  }
  __syncthreads();
  for (int i = int(threadIdx.x); i < block_rows * columns; i += 32 * shares) {
    const int r = i % block_rows, c = i / block_rows, row = row0 + r;
    if (r >= rows || first + c >= a.cols) continue;
    f32 s = 0;
#pragma unroll
    for (int w = 0; w < shares; w++) s += sums[w][r * columns + c];
    if (p.scale[0]) s *= p.scale[0][0];
    if (p.bias[0]) s += p.bias[0][row];
    f32* y = p.y + i64(first + c) * p.ldy + row;
    *y = p.add ? *y + s : s;
  }
}

template <int PARTS>
auto kernel_of(int layout) {
  return layout == layout_rows_f32   ? rows_wide_kernel<layout_rows_f32, PARTS>
         : layout == layout_rows_f16 ? rows_wide_kernel<layout_rows_f16, PARTS>
                                     : rows_wide_kernel<layout_rows_bf16, PARTS>;
}

}  // namespace

bool launch_rows_wide(Ctx& ctx, const RowsArgs& a, u64 bytes) {
  const int parts = (a.p.n + 256 * shares - 1) / (256 * shares);
  if (a.ids || a.p.w[1] || a.cols <= 32 || parts > 3) return false;
  LaunchShape s;
  s.grid = dim3(unsigned(a.cols + columns - 1) / columns, unsigned(a.p.rows + block_rows - 1) / block_rows), s.block = dim3(32 * shares);
  s.cols = a.cols, s.name = "rows.wide", s.shape = shape_of(ctx, a.p.rows, a.p.n, a.cols), s.bytes = bytes;
  launch(ctx, parts == 1 ? kernel_of<1>(a.p.layout) : kernel_of<3>(a.p.layout), s, a);
  return true;
}

}  // namespace fewbit::kernel::cuda

// Measured on an H200 (nvcc 13.0, 30 Nov 2026): 48 rows of 5120 BF16 times 512 columns 13.4 us (by rows_kernel<8> 61.5).
// tried: alpha and beta in one launch, 8 columns a block: in registers 41 us, in shared memory (8 rows at once) 31, against 27 for both
