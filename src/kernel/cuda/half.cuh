// What the kernels of f16 tiles share (half_layout.h): arguments, and what becomes of a sum.
#pragma once
#include "kernel/cuda/common.cuh"
#include "kernel/cuda/half_layout.h"
#include "kernel/cuda/ring.cuh"

namespace fewbit::kernel::cuda {

struct HalfProduct {
  const u8* w;
  const f32* row_scale;  // of its tiles' rows
  f32* y;
  i64 ldy;
  const f32* scale[2];  // [1]: of the second matrix of a pair
  const f32* bias[2];
  int rows;   // outputs; of a pair: of each
  int tile0;  // first tile of this matrix in the launch; for the wide kernel in pairs of blocks
  int tiles;
  bool add, pair;
};
inline constexpr int half_products = 6;
struct HalfArgs {
  HalfProduct p[half_products];
  const u8* act;
  const f32* act_scale;
  int n, tiles, units, cols;
  Glu kind;
  // The wide kernel's: tiles of a pair of blocks, in a column of tiles and in all; parts that each may be cut into, or 1; what a pair of
  // blocks leaves to the next, and 1 once it is there (0 before and after).
  int down, pairs, pieces;
  float4* parts;
  u32* flags;
};

__device__ __forceinline__ int half_product(const HalfArgs& a, int tile) {
  int i = 0;
  while (i + 1 < a.n && tile >= a.p[i + 1].tile0) i++;
  return i;
}

// Outputs of a lane: rows g and g + 8 of a tile (of a pair: row g of gate and up), columns col and col + 1 as v[2 half + column].
struct HalfRows {
  int row[2];
  bool in[2];
  f32 row_scale[2], scale[2], bias[2];
  __device__ __forceinline__ HalfRows(const HalfProduct& p, int tile, int g) {
#pragma unroll
    for (int h = 0; h < 2; h++) {
      row[h] = tile * (p.pair ? 8 : 16) + g + (p.pair ? 0 : 8 * h);
      in[h] = tile < p.tiles && row[h] < p.rows;
      const int m = p.pair ? h : 0;
      row_scale[h] = in[h] ? p.row_scale[tile * 16 + g + 8 * h] : 0;
      scale[h] = p.scale[m] ? p.scale[m][0] : 1;
      bias[h] = in[h] && p.bias[m] ? p.bias[m][row[h]] : 0;
    }
  }
  // What a sum of row half h becomes; d: the column's factor.
  __device__ __forceinline__ f32 value(const HalfProduct& p, f32 sum, int h, f32 d) const {
    const int m = p.pair ? h : 0;
    f32 r = sum * row_scale[h] * d;
    if (p.scale[m]) r *= scale[h];
    if (p.bias[m]) r += bias[h];
    return r;
  }
};

using HalfKernel = void (*)(HalfArgs);
// Up to 8 * groups columns at a time (groups: 1, 2, 4); depth: stages of a warp's ring (2, 3, 4, 8).
HalfKernel half_narrow(int groups, int depth);
inline constexpr int half_most_warps = 18;
inline constexpr u32 half_narrow_smem(int warps, int depth) { return u32(warps * depth) * (half_unit + 8); }

struct HalfWide {
  HalfKernel kernel = nullptr;
  u32 smem = 0;
  int threads = 0, steps = 0;  // steps: of a unit
};
HalfWide half_wide(int columns);  // of a tile: 64, 128 or 256
inline constexpr u64 half_part_bytes = 128 * 256 * sizeof(f32);

}  // namespace fewbit::kernel::cuda
