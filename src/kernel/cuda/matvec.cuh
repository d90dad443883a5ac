// y = W a for up to 8 columns at a time: decode, small batches, experts.
//
// Shapes   W: row tiles of units (layout.h)     a: q8_32 in B-register order (act_layout.h)     y: (columns, ldy) f32
// Work     an item is T row tiles for one group of up to 8 columns.  A block of 8 warps takes item after item; warp s sums slab s of K,
//          so that weights stream through the block: every warp keeps a ring of units arriving by cp.async, across item boundaries.
//          T = 2 shares the activation registers between two tiles; T = 1 spreads matrices of few rows over more blocks.
// Order    per slab in order of K; slabs in order.  Depends on K alone: the same column gives the same bits in any launch.
// Early    the rings fill before the predecessor has finished (weights never change); activations are read after early_wait().
#pragma once
#include "kernel/cuda/act_layout.h"
#include "kernel/cuda/float_rows.cuh"
#include "kernel/cuda/ring.cuh"
#include "kernel/cuda/unit_dot.cuh"

namespace fewbit::kernel::cuda {

// One matrix of a launch.
struct MvProduct {
  const u8* w;
  u64 expert_bytes;  // from one expert to the next
  const u8* act;
  f32* y;
  i64 ldy;
  const f32* scale[2];  // [1]: of the second matrix of a pair
  const f32* bias[2];
  Tables table;
  f32 factor;           // on every d and dmin, a power of two
  int rows;             // outputs; of a pair: of each
  int tile0;            // first tile of this matrix in the launch
  bool add, pair, bf16;
};

// Columns of one expert, made on the device.
struct MvGroup {
  i32 expert, n;
  i32 entry[8];
};

inline constexpr int mv_products = 6, mv_rows = 3;
struct MvArgs {
  MvProduct p[mv_products];
  RowsProduct rows[mv_rows];  // small matrices with f32 activations, done by the way
  int n, n_rows;
  int tiles, units, cols;     // tiles: a multiple of T
  Glu kind;
  // Experts (ids == nullptr: none).  Entry e = column e / k of `ids`; its activation column is e / act_div.
  const i32* ids;
  int entries, act_div;
  const MvGroup* groups;  // nullptr: every entry is a group of its own
  const i32* n_groups;
};

inline constexpr int mv_threads = 256;

template <Code C, Scale S, int T>
struct MvShape {
  static constexpr int unit = code_bytes(C) + scale_bytes(S);
  static constexpr int stage_units = T * unit > 3600 ? 1 : 3600 / (T * unit);  // of each of the T tiles, at most
  static constexpr int stage = T * unit * stage_units;
  static constexpr int depth = stage < 2600 ? 3 : 2;
  static constexpr size_t ring = size_t(8) * depth * stage, barriers = 8 * depth * 8;
  static constexpr size_t smem(int nc) { return ring + barriers + size_t(2) * slabs * 64 * nc * T * sizeof(f32); }
};

template <Code C, Scale S, int NC, int T, bool EXPERTS>
__global__ void __launch_bounds__(mv_threads, 2) matvec_kernel(const __grid_constant__ MvArgs a) {
  using Shape = MvShape<C, S, T>;
  constexpr int depth = Shape::depth, unit_bytes = Shape::unit, stage = Shape::stage, stage_units = Shape::stage_units;
  extern __shared__ __align__(128) u8 shared[];
  const int lane = int(threadIdx.x % 32), warp = int(threadIdx.x / 32), t = lane % 4;
  Ring<stage, depth> ring(shared + warp * depth * stage, shared + Shape::ring + warp * depth * 8, lane);
  f32* sums = reinterpret_cast<f32*>(shared + Shape::ring + Shape::barriers);

  early_launch();
  if constexpr (EXPERTS) early_wait();  // which weights is computed by the predecessor
  const int groups = EXPERTS ? (a.groups ? *a.n_groups : a.entries) : int(gridDim.y);
  const int u0 = slab_begin(a.units, warp), nu = slab_begin(a.units, warp + 1) - u0;
  const u32 tile_bytes = u32(a.units) * unit_bytes;

  auto product = [&](int tile) {
    int i = 0;
    if constexpr (!EXPERTS)
      while (i + 1 < a.n && tile >= a.p[i + 1].tile0) i++;
    return i;
  };
  auto expert = [&](int group) { return !EXPERTS ? 0 : a.groups ? a.groups[group].expert : a.ids[group]; };

  // What the ring asks for next: `ask_left` units of an item from ask_from on.
  int ask_tile = int(blockIdx.x) * T, ask_group = ask_tile < a.tiles ? int(blockIdx.y) : groups, ask_left = 0;
  const u8* ask_from = nullptr;
  auto ask_item = [&] {
    if (ask_group >= groups) return;
    const MvProduct& p = a.p[product(ask_tile)];
    ask_from = p.w + (EXPERTS ? u64(expert(ask_group)) * p.expert_bytes : 0) + u64(ask_tile - p.tile0) * tile_bytes + u32(u0) * unit_bytes;
    ask_left = nu;
  };
  ask_item();
  auto ask = [&](u32 slot) {
    if (ask_group >= groups) return ring.fill_nothing();
    const int n = min(ask_left, stage_units);
    ring.fill(slot, ask_from, tile_bytes, T, u32(n) * unit_bytes);
    ask_from += u32(n) * unit_bytes;
    if ((ask_left -= n) == 0) {
      ask_tile += int(gridDim.x) * T;
      if (ask_tile >= a.tiles) ask_tile = int(blockIdx.x) * T, ask_group += int(gridDim.y);
      ask_item();
    }
  };
  if (nu) {
#pragma unroll
    for (int i = 0; i < depth; i++) ask(u32(i));
  }
  if constexpr (!EXPERTS) {
    early_wait();
    for (int r = 0, first = 0; r < a.n_rows; first += a.rows[r++].rows) {
      const int n = a.rows[r].rows;
      for (int i = int(blockIdx.x); i < first + n; i += int(gridDim.x))
        if (i >= first) row_product(a.rows[r], i - first, int(blockIdx.y) * 8, a.cols, sums);
    }
  }

  int parity = 0;
  for (int g = int(blockIdx.y); g < groups; g += int(gridDim.y)) {
    const MvGroup* group = EXPERTS && a.groups ? a.groups + g : nullptr;
    const int first = g * 8, n_cols = group ? group->n : EXPERTS ? 1 : min(8, a.cols - first);
    auto column = [&](int i) {  // activation column of column i of the group
      i = min(i, n_cols - 1);
      return group ? group->entry[i] / a.act_div : EXPERTS ? g / a.act_div : first + i;
    };
    const int mine = column(act_column_of_n(NC == 1 ? lane / 8 * 2 : lane / 4));
    const u32 bq0 = u32(act_block_at(a.units, mine, u0)) + u32(4 * act_n_of_column(mine % 8) + t) * 16;
    u32 bs0[NC];
#pragma unroll
    for (int n = 0; n < NC; n++) {
      const int c = column(t + 4 * n);
      bs0[n] = u32(act_block_at(a.units, c, u0)) + u32(act_d_of(c % 8, 0));
    }

    for (int tile = int(blockIdx.x) * T; tile < a.tiles; tile += int(gridDim.x) * T, parity ^= 1) {
      const MvProduct& p = a.p[product(tile)];
      const u8* bq = p.act + bq0;
      const u8* bs[NC];
#pragma unroll
      for (int n = 0; n < NC; n++) bs[n] = p.act + bs0[n];
      f32 acc[T][NC][2] = {};
      for (int left = nu; left > 0;) {
        const int n_units = min(left, stage_units);
        ring.wait();
        u32 unit = ring.data();
        for (int u = 0; u < n_units; u++) {
          uint4 b[2];
          b[0] = *reinterpret_cast<const uint4*>(bq), b[1] = *reinterpret_cast<const uint4*>(bq + 512);
          ActScales s[NC];
#pragma unroll
          for (int n = 0; n < NC; n++) s[n].load(bs[n]), bs[n] += act_block;
          bq += act_block;
#pragma unroll
          for (int i = 0; i < T; i++) unit_dot<C, S, NC>(unit + u32(i * n_units) * unit_bytes, lane, b, s, p.table, p.bf16, acc[i]);
          unit += unit_bytes;
        }
        left -= n_units;
        __syncwarp();
        ask(ring.slot);
        ring.next();
      }

      // Slabs in order.  Two buffers by turns, so that one barrier per item is enough.
      f32* buffer = sums + parity * slabs * 64 * NC * T;
#pragma unroll
      for (int i = 0; i < T; i++)
#pragma unroll
        for (int n = 0; n < NC; n++)
#pragma unroll
          for (int h = 0; h < 2; h++) buffer[(((warp * T + i) * NC + n) * 2 + h) * 32 + lane] = acc[i][n][h];
      __syncthreads();
      // One warp per (tile, column half, row half); a pair's halves belong together.
      constexpr int sets = T * NC * 2;
      for (int set = warp; set < sets; set += 8) {
        const int h = set % 2, n = set / 2 % NC, i = set / 2 / NC;
        if (p.pair && h) continue;
        const int col_i = t + 4 * n, row = (tile + i - p.tile0) * (p.pair ? 8 : 16) + lane / 4 + 8 * h;
        if (col_i >= n_cols || row >= p.rows) continue;
        auto total = [&](int half) {
          f32 v = 0;
#pragma unroll
          for (int w = 0; w < slabs; w++) v += buffer[(((w * T + i) * NC + n) * 2 + half) * 32 + lane];
          return v * p.factor;
        };
        auto finish = [&](f32 v, int which) {
          if (p.scale[which]) v *= p.scale[which][expert(g)];
          if (p.bias[which]) v += p.bias[which][row];
          return v;
        };
        const int col = group ? group->entry[col_i] : EXPERTS ? g : first + col_i;
        f32* y = p.y + i64(col) * p.ldy + row;
        const f32 before = p.add ? *y : 0;
        f32 v = finish(total(h), 0);
        if (p.pair) v = glu_of(v, finish(total(1), 1), a.kind);
        *y = p.add ? before + v : v;
      }
    }
  }
}

using MvKernel = void (*)(MvArgs);
struct MvEntry {
  MvKernel kernel = nullptr;
  size_t smem = 0;
  int tiles = 1;  // per item
};
// The kernel of a layout for up to 4 * nc columns; tiles: 1 or 2 per item (8-bit codes: always 1).
template <Code C, Scale S>
inline MvEntry mv_entry(int nc, int tiles, bool experts) {
  if (experts) return nc == 1 ? MvEntry{matvec_kernel<C, S, 1, 1, true>, MvShape<C, S, 1>::smem(1), 1} : MvEntry{matvec_kernel<C, S, 2, 1, true>, MvShape<C, S, 1>::smem(2), 1};
  if constexpr (C != Code::b8)
    if (tiles == 2) return nc == 1 ? MvEntry{matvec_kernel<C, S, 1, 2, false>, MvShape<C, S, 2>::smem(1), 2} : MvEntry{matvec_kernel<C, S, 2, 2, false>, MvShape<C, S, 2>::smem(2), 2};
  return nc == 1 ? MvEntry{matvec_kernel<C, S, 1, 1, false>, MvShape<C, S, 1>::smem(1), 1} : MvEntry{matvec_kernel<C, S, 2, 1, false>, MvShape<C, S, 1>::smem(2), 1};
}
// One function per file of instances; no kernel for layouts of other files.
MvEntry mv_entry_q1(int layout, int nc, int tiles, bool experts);
MvEntry mv_entry_b2(int layout, int nc, int tiles, bool experts);
MvEntry mv_entry_t3(int layout, int nc, int tiles, bool experts);
MvEntry mv_entry_n4(int layout, int nc, int tiles, bool experts);
MvEntry mv_entry_b8(int layout, int nc, int tiles, bool experts);

}  // namespace fewbit::kernel::cuda
