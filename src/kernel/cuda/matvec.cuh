// y = W a for up to 8 columns at a time: decode, small batches, experts.
//
// Shapes   W: row tiles of units (layout.h)     a: q8_32 in B-register order (act_layout.h)     y: (columns, ldy) f32
// Work     an item is up to T row tiles for one group of up to 8 columns.  A block of 4 or 8 warps takes item after item; warp s sums slab
// s of K,
//          so that weights stream through the block: every warp keeps a ring of units arriving by cp.async, across item boundaries.
//          T = 2 shares the activation registers between two tiles; T = 1 spreads matrices of few rows over more blocks, and the last items
//          of a large one, so that a few blocks need not do whole items alone.
// Sums     a warp leaves its slab's part of an item in shared memory and goes on; the parts are added while the next item is multiplied, so
//          no warp waits for another.  Every lane arrives for its own stores: it costs no more than one lane for all behind a __syncwarp(),
//          through which compute-sanitizer's racecheck sees no order.
// Order    per slab in order of K; slabs in order.  Depends on K alone: the same column gives the same bits in any launch.
// Early    the rings fill before the predecessor has finished (weights never change, or expand.h's InOrder holds it back);
//          activations are read after early_wait().
#pragma once
#include <type_traits>

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
  f32 factor;  // on every d and dmin, a power of two
  int rows;    // outputs; of a pair: of each
  int tile0;   // first tile of this matrix in the launch
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
  int tiles, units, cols;
  int full;  // items of two tiles; every tile behind them is an item of its own
  Glu kind;
  // Experts (ids == nullptr: none).  Entry e = column e / k of `ids`; its activation column is e / act_div.
  const i32* ids;
  int entries, act_div;
  const MvGroup* groups;  // nullptr: every entry is a group of its own
  const i32* n_groups;
};

template <Code C, Scale S, int T>
struct MvShape {
  static constexpr int unit = code_bytes(C) + scale_bytes(S);
  static constexpr int stage_units = T * unit > 4400 ? 1 : 4400 / (T * unit);  // of each of the T tiles, at most
  static constexpr int stage = T * unit * stage_units;
  static constexpr int depth = stage < 2600 ? 3 : 2;
  // Per warp: its ring, the ring's barriers, two buffers of sums.  Per block: one barrier more.
  FEWBIT_FN static constexpr u32 ring_at(int warp) { return u32(warp) * depth * stage; }
  static constexpr size_t smem(int nc, int warps) {
    return ring_at(warps) + size_t(warps) * (depth * 8 + 2 * 64 * nc * T * sizeof(f32)) + 16 + 32;
  }
};

// The first tile of an item.
template <int T>
__device__ __forceinline__ int mv_first_tile(const MvArgs& a, int item) {
  return T == 1 ? item : item < a.full ? 2 * item : a.full + item;
}

// Brings a line into L1.
__device__ __forceinline__ void touch(const void* p) {
  [[maybe_unused]] u32 unused;
  asm volatile("ld.global.b32 %0, [%1];" : "=r"(unused) : "l"(p));
}

// Brings the activations of a slab into L1 with one round of loads: otherwise every unit of a block's first item waits for L2.
template <int NC>
__device__ __forceinline__ void touch_activations(const u8* act, int units, int u0, int nu, int first, int cols, int lane) {
  const int n = min(cols - first, 4), lines = NC == 1 ? 2 * n + 1 : 10;  // of 128 bytes that a unit needs
  const u8* block = act + act_block_at(units, first, u0);
  for (int i = lane; i < nu * lines; i += 32) {
    const int u = i / lines, l = i - u * lines;
    const int at = NC == 2 ? 128 * l : l < n ? 128 * l : l < 2 * n ? 512 + 128 * (l - n) : act_d_at;
    touch(block + u * act_block + at);
  }
}

template <Code C, Scale S, int NC, int T, bool EXPERTS, bool PER_128>
__global__ void __launch_bounds__(256, 2) matvec_kernel(const __grid_constant__ MvArgs a) {
  using Shape = MvShape<C, S, T>;
  constexpr int depth = Shape::depth, unit_bytes = Shape::unit, stage = Shape::stage, stage_units = Shape::stage_units;
  extern __shared__ __align__(128) u8 shared[];
  const int lane = int(threadIdx.x % 32), warp = warp_index(), t = lane % 4;
  const int warps = int(blockDim.x / 32);  // = slabs
  u8* barriers = shared + Shape::ring_at(warps);
  Ring<stage, depth> ring(shared + Shape::ring_at(warp), barriers + warp * depth * 8, lane);
  f32* sums = reinterpret_cast<f32*>(barriers + warps * depth * 8 + 16);
  const u32 done = u32(__cvta_generic_to_shared(barriers + warps * depth * 8));  // all warps have left their part of an item
  if (threadIdx.x == 0) barrier_init(done, u32(32 * warps));
  __syncthreads();

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

  auto first_tile = [&](int item) { return mv_first_tile<T>(a, item); };
  auto tiles_of = [&](int item) { return T == 2 && item < a.full ? 2 : 1; };
  // What the ring asks for next: `ask_left` units of an item from ask_from on.
  int ask_at = int(blockIdx.x), ask_group = first_tile(ask_at) < a.tiles ? int(blockIdx.y) : groups, ask_left = 0;
  const u8* ask_from = nullptr;
  auto ask_item = [&] {
    if (ask_group >= groups) return;
    const int ask_tile = first_tile(ask_at);
    const MvProduct& p = a.p[product(ask_tile)];
    ask_from = p.w + (EXPERTS ? u64(expert(ask_group)) * p.expert_bytes : 0) + u64(ask_tile - p.tile0) * tile_bytes + u32(u0) * unit_bytes;
    ask_left = nu;
  };
  ask_item();
  auto ask = [&](u32 slot) {
    if (ask_group >= groups) return ring.fill_nothing();
    const int n = min(ask_left, stage_units);
    ring.fill(slot, ask_from, tile_bytes, tiles_of(ask_at), u32(n) * unit_bytes);
    ask_from += u32(n) * unit_bytes;
    if ((ask_left -= n) == 0) {
      ask_at += int(gridDim.x);
      if (first_tile(ask_at) >= a.tiles) ask_at = int(blockIdx.x), ask_group += int(gridDim.y);
      ask_item();
    }
  };
  if (nu) {
#pragma unroll
    for (int i = 0; i < depth; i++) ask(u32(i));
  }
  const int first_col = int(blockIdx.y) * 8, n_cols = min(8, a.cols - first_col);  // of this block, when there are no experts
  if constexpr (!EXPERTS) {
    prefetch_rows(a.rows, a.n_rows, n_cols);
    early_wait();
    touch_activations<NC>(a.p[0].act, a.units, u0, nu, int(blockIdx.y) * 8, a.cols, lane);
  }

  // The outputs of an item come in sets of 32: (tile, column half, row half).
  auto row_of = [&](const MvProduct& p, int item, int set) {
    return (first_tile(item) + set / 2 / NC - p.tile0) * (p.pair ? 8 : 16) + lane / 4 + 8 * (set % 2);
  };
  // Where this lane's output of a set goes; nullptr: nowhere.
  auto target = [&](int item, int g, int set) -> f32* {
    const MvGroup* group = EXPERTS && a.groups ? a.groups + g : nullptr;
    const int first = g * 8, n_cols = group ? group->n : EXPERTS ? 1 : min(8, a.cols - first);
    const MvProduct& p = a.p[product(first_tile(item))];
    const int col_i = t + 4 * (set / 2 % NC), row = row_of(p, item, set);
    if ((p.pair && set % 2) || col_i >= n_cols || row >= p.rows) return nullptr;
    return p.y + i64(group ? group->entry[col_i] : EXPERTS ? g : first + col_i) * p.ldy + row;
  };
  // Adds the slabs' parts of an item in order and writes its outputs.  A warp takes a set; a pair's row halves go together.
  auto add_up = [&](int item, int g, int parity) {
    const MvProduct& p = a.p[product(first_tile(item))];
    const f32* buffer = sums + parity * warps * 64 * NC * T;
#pragma unroll 1
    for (int set = warp; set < tiles_of(item) * NC * 2; set += warps) {
      f32* y = target(item, g, set);
      if (!y) continue;
      const f32 before = p.add ? *y : 0;
      f32 v[2] = {0, 0};
#pragma unroll 1
      for (int half = 0; half < (p.pair ? 2 : 1); half++) {
        const f32* from = buffer + (p.pair ? set + half : set) * 32 + lane;
        f32 s = 0;
#pragma unroll 1
        for (int w = 0; w < warps; w += 4, from += 4 * 64 * NC * T)
#pragma unroll
          for (int k = 0; k < 4; k++) s += from[k * 64 * NC * T];
        s *= p.factor;
        if (p.scale[half]) s *= p.scale[half][expert(g)];
        if (p.bias[half]) s += p.bias[half][row_of(p, item, set)];
        v[1] = s;
        if (half == 0) v[0] = s;
      }
      const f32 r = p.pair ? glu_of(v[0], v[1], a.kind) : v[0];
      *y = p.add ? before + r : r;
    }
  };

  int group_at = int(blockIdx.y), item = int(blockIdx.x), last_item = 0, last_group = 0, number = 0;
  if (first_tile(item) >= a.tiles) group_at = groups;
  u32 bq0 = 0, bs0[NC] = {};
  [[maybe_unused]] int ahead = 0;  // from this lane's q to its line of the block
  int columns_of = -1;             // the group that bq0 and bs0 belong to
  for (;;) {
    const bool more = group_at < groups;
    f32 acc[T][NC][2] = {};
    if (more) {
      if (columns_of != group_at) {
        columns_of = group_at;
        const MvGroup* group = EXPERTS && a.groups ? a.groups + group_at : nullptr;
        const int first = group_at * 8, n_cols = group ? group->n : EXPERTS ? 1 : min(8, a.cols - first);
        auto column = [&](int i) {  // activation column of column i of the group
          i = min(i, n_cols - 1);
          return group ? group->entry[i] / a.act_div : EXPERTS ? group_at / a.act_div : first + i;
        };
        const int mine = column(act_column_of_n(NC == 1 ? lane / 8 * 2 : lane / 4));
        bq0 = u32(act_block_at(a.units, mine, u0)) + u32(4 * act_n_of_column(mine % 8) + t) * 16;
        ahead = 128 * lane - (4 * act_n_of_column(mine % 8) + t) * 16;
#pragma unroll
        for (int n = 0; n < NC; n++) {
          const int c = column(t + 4 * n);
          bs0[n] = u32(act_block_at(a.units, c, u0)) + u32(act_d_of(c % 8, 0));
        }
      }
      const MvProduct& p = a.p[product(first_tile(item))];
      if (p.add)  // what the outputs are added to comes into L1 meanwhile
        for (int set = warp; set < tiles_of(item) * NC * 2; set += warps)
          if (const f32* y = target(item, group_at, set)) touch(y);
      const u8* bq = p.act + bq0;
      const u8* bs[NC];
#pragma unroll
      for (int n = 0; n < NC; n++) bs[n] = p.act + bs0[n];
      auto multiply = [&](auto tiles, int left, int n_units) {
        u32 unit = ring.data();
        for (int u = 0; u < n_units; u++) {
          uint4 b[2];
          b[0] = *reinterpret_cast<const uint4*>(bq), b[1] = *reinterpret_cast<const uint4*>(bq + 512);
          ActScales s[NC];
#pragma unroll
          for (int n = 0; n < NC; n++) s[n].load(bs[n]), bs[n] += act_block;
          bq += act_block;
          if constexpr (NC == 2 && !EXPERTS) {  // the next unit's into L1: of a long row they are more than it holds
            if (lane < 10 && (u + 1 < n_units || left > n_units)) touch(bq + ahead);
          }
#pragma unroll
          for (int i = 0; i < tiles(); i++)
            unit_dot<C, S, NC, PER_128>(unit + u32(i * n_units) * unit_bytes, lane, b, s, p.table, p.bf16, acc[i]);
          unit += unit_bytes;
        }
      };
      for (int left = nu; left > 0;) {
        const int n_units = min(left, stage_units);
        ring.wait();
        if (T == 1 || tiles_of(item) == T)
          multiply(std::integral_constant<int, T>(), left, n_units);
        else
          multiply(std::integral_constant<int, 1>(), left, n_units);
        left -= n_units;
        __syncwarp();
        ask(ring.slot);
        ring.next();
      }
    }
    if (number > 0) {
      barrier_wait(done, u32(number - 1) & 1);
      add_up(last_item, last_group, (number - 1) & 1);
    }
    if (!more) break;
    f32* buffer = sums + (number & 1) * warps * 64 * NC * T;
#pragma unroll
    for (int i = 0; i < T; i++)
#pragma unroll
      for (int n = 0; n < NC; n++)
#pragma unroll
        for (int h = 0; h < 2; h++) buffer[(((warp * T + i) * NC + n) * 2 + h) * 32 + lane] = acc[i][n][h];
    barrier_arrive(done);
    number++, last_item = item, last_group = group_at;
    item += int(gridDim.x);
    if (first_tile(item) >= a.tiles) item = int(blockIdx.x), group_at += int(gridDim.y);
  }
  if constexpr (!EXPERTS)
    for_rows(a.rows, a.n_rows, n_cols,
             [&](const RowsProduct& p, int row, int col) { row_product(p, row, first_col + col, sums + 2 * warps * 64 * NC * T); });
}

using MvKernel = void (*)(MvArgs);
struct MvEntry {
  MvKernel kernel = nullptr;
  size_t smem[2] = {};  // with 4 and with 8 warps
  int tiles = 1;        // per item
};
template <Code C, Scale S, int NC, int T, bool EXPERTS, bool PER_128>
inline MvEntry mv_instance() {
  return {matvec_kernel<C, S, NC, T, EXPERTS, PER_128>, {MvShape<C, S, T>::smem(NC, 4), MvShape<C, S, T>::smem(NC, 8)}, T};
}
// The kernel of a layout for up to 4 * nc columns; tiles: 1 or 2 per item (8-bit codes: always 1).
template <Code C, Scale S, bool PER_128 = false>
inline MvEntry mv_entry(int nc, int tiles, bool experts) {
  if (experts) return nc == 1 ? mv_instance<C, S, 1, 1, true, PER_128>() : mv_instance<C, S, 2, 1, true, PER_128>();
  if constexpr (C != Code::b8)
    if (tiles == 2) return nc == 1 ? mv_instance<C, S, 1, 2, false, PER_128>() : mv_instance<C, S, 2, 2, false, PER_128>();
  return nc == 1 ? mv_instance<C, S, 1, 1, false, PER_128>() : mv_instance<C, S, 2, 1, false, PER_128>();
}
// One function per file of instances; no kernel for layouts of other files (b2: also t5).
MvEntry mv_entry_q1(int layout, int nc, int tiles, bool experts);
MvEntry mv_entry_b2(int layout, int nc, int tiles, bool experts);
MvEntry mv_entry_t5(int layout, int nc, int tiles, bool experts);
MvEntry mv_entry_t3(int layout, int nc, int tiles, bool experts);
MvEntry mv_entry_n4(int layout, int nc, int tiles, bool experts);
MvEntry mv_entry_b8(int layout, int nc, int tiles, bool experts);
MvEntry mv_entry_n4_per_128(int nc, int tiles, bool experts);  // n4.k32 with activations q8_per128

}  // namespace fewbit::kernel::cuda

// Measured on an H200 (nvcc 13.0, 30 Nov 2026), PQ2_0, one column, us of 34816x5120 / 16384x5120 / 5120x17408 / 5120x6144 / 248320x5120:
// this form 19.6 / 9.3 / 11.3 / 5.1 / 94.
// tried: 16 warps per SM in one block, a tile at a time, activations a unit ahead | 25.0 / 13.0 / 16.3 / 8.2 / 128 | 151 steps a unit
// tried: the same, two units at a time, a whole slab per ring stage | 20.2 / 11.5 / 13.5 / 7.5 / 97 | nothing hides a block's start
// tried: the same in blocks of 8 warps | 19.9 / 11.0 / 11.6 / 5.9 / 97 | 8 columns of 34816x5120 23.7 against 25.9, else no gain
// tried: pairs of blocks share K where rows are few (clusters) | 5120x6144 7.0 against 5.9, 5120x17408 13.1 against 11.6
//
// compute-sanitizer racecheck reports the hand-over of `sums` between warps (written before the arrival at `done`, read behind the wait):
// it does not follow a barrier in shared memory that one lane arrives at for its warp.  memcheck finds nothing.
