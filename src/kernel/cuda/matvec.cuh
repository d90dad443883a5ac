// y = W a for up to 8 columns at a time: decode, small batches, experts.
//
// Shapes   W: row tiles of units (layout.h)     a: q8_32 in B-register order (act_layout.h)     y: (columns, ldy) f32
// Work     an item is (row tile, group of up to 8 columns).  A block of 8 warps takes item after item; warp s sums slab s of K, so that
//          weights stream through the block: every warp keeps a ring of units arriving by cp.async, across item boundaries.
// Order    per slab in order of K; slabs in order.  Depends on K alone: the same column gives the same bits in any launch.
// Early    the rings fill before the predecessor has finished (weights never change); activations are read after early_wait().
#pragma once
#include "kernel/cuda/act_layout.h"
#include "kernel/cuda/common.cuh"
#include "kernel/cuda/unit_dot.cuh"

namespace fewbit::kernel::cuda {

// One matrix of a launch.
struct MvProduct {
  const u8* w;
  u64 expert_bytes;    // from one expert to the next
  const u8* act;
  f32* y;
  i64 ldy;
  const f32* scale[2];  // [1]: of the second matrix of a pair
  const f32* bias[2];
  Tables table;
  f32 factor;
  int rows;             // outputs; of a pair: of each
  int tile0;            // first tile of this matrix in the launch
  bool add, pair, bf16;
};

// Columns of one expert, made on the device.
struct MvGroup {
  i32 expert, n;
  i32 entry[8];
};

inline constexpr int mv_products = 6;
struct MvArgs {
  MvProduct p[mv_products];
  int n, tiles, units, cols;
  Glu kind;
  // Experts (ids == nullptr: none).  Entry e = column e / k of `ids`; its activation column is e / act_div.
  const i32* ids;
  int entries, act_div;
  const MvGroup* groups;    // nullptr: every entry is a group of its own
  const i32* n_groups;
};

inline constexpr int mv_threads = 256;

template <Code C, Scale S>
struct MvShape {
  static constexpr int unit = code_bytes(C) + scale_bytes(S);
  static constexpr int depth = unit * 8 <= 5120 ? 8 : unit * 2 >= 4096 ? 2 : 4864 / unit;  // ring slots of a warp
  static constexpr size_t ring = size_t(8) * depth * unit;
  static constexpr size_t smem(int nc) { return ring + size_t(2) * slabs * 64 * nc * sizeof(f32); }
};

__device__ __forceinline__ void copy_async(void* shared, const void* global) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(u32(__cvta_generic_to_shared(shared))), "l"(global) : "memory");
}
__device__ __forceinline__ void copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int n>
__device__ __forceinline__ void copy_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory");
}

template <Code C, Scale S, int NC>
__global__ void __launch_bounds__(mv_threads, NC == 1 ? 3 : 2) matvec_kernel(const __grid_constant__ MvArgs a) {
  using Shape = MvShape<C, S>;
  constexpr int depth = Shape::depth, unit_bytes = Shape::unit;
  extern __shared__ __align__(128) u8 shared[];
  const int lane = int(threadIdx.x % 32), warp = int(threadIdx.x / 32), t = lane % 4;
  u8* ring = shared + warp * depth * unit_bytes;
  f32* sums = reinterpret_cast<f32*>(shared + Shape::ring);

  early_launch();
  if (a.ids) early_wait();  // which weights is computed by the predecessor
  const int groups = a.groups ? *a.n_groups : a.ids ? a.entries : (a.cols + 7) / 8;
  const int items = groups * a.tiles;
  const int u0 = slab_begin(a.units, warp), nu = slab_begin(a.units, warp + 1) - u0;

  struct Place {
    const MvProduct* p;
    int tile, group;
  };
  auto place = [&](int item) {
    Place at;
    if (a.ids) at.group = item / a.tiles, at.tile = item % a.tiles;
    else at.tile = item / groups, at.group = item % groups;
    at.p = a.p;
#pragma unroll
    for (int i = 1; i < mv_products; i++)
      if (i < a.n && at.tile >= a.p[i].tile0) at.p = a.p + i;
    return at;
  };
  auto expert = [&](int group) { return a.groups ? a.groups[group].expert : a.ids ? a.ids[group] : 0; };

  // The ring: next unit to ask for.
  int ask_item = int(blockIdx.x), ask_u = 0, ask_slot = 0;
  const u8* ask_at = nullptr;
  auto ask = [&] {
    if (ask_item < items) {
      if (ask_u == 0) {
        const Place at = place(ask_item);
        ask_at = at.p->w + u64(expert(at.group)) * at.p->expert_bytes + (u64(at.tile - at.p->tile0) * u64(a.units) + u64(u0)) * unit_bytes;
      }
      u8* slot = ring + ask_slot * unit_bytes;
#pragma unroll
      for (int i = 0; i < unit_bytes; i += 512)
        if (i + 512 <= unit_bytes || i + lane * 16 < unit_bytes) copy_async(slot + i + lane * 16, ask_at + i + lane * 16);
      ask_at += unit_bytes;
      ask_slot = ask_slot + 1 == depth ? 0 : ask_slot + 1;
      if (++ask_u == nu) ask_u = 0, ask_item += int(gridDim.x);
    }
    copy_commit();
  };
  if (nu) {
#pragma unroll
    for (int i = 0; i < depth; i++) ask();
  }
  if (!a.ids) early_wait();

  int slot = 0, parity = 0;
  for (int item = int(blockIdx.x); item < items; item += int(gridDim.x), parity ^= 1) {
    const Place at = place(item);
    const MvProduct& p = *at.p;
    const MvGroup* group = a.groups ? a.groups + at.group : nullptr;
    const int first = at.group * 8;
    const int n_cols = group ? group->n : a.ids ? 1 : min(8, a.cols - first);
    // Activation column of column i of the group.
    auto column = [&](int i) {
      i = min(i, n_cols - 1);
      return group ? group->entry[i] / a.act_div : a.ids ? at.group / a.act_div : first + i;
    };
    const int mine = column(act_column_of_n(NC == 1 ? lane / 8 * 2 : lane / 4));
    const u8* bq = p.act + act_block_at(a.units, mine, u0) + (4 * act_n_of_column(mine % 8) + t) * 16;
    const u8* bs[NC];
#pragma unroll
    for (int n = 0; n < NC; n++) {
      const int c = column(t + 4 * n);
      bs[n] = p.act + act_block_at(a.units, c, u0) + act_d_of(c % 8, 0);
    }

    f32 acc[NC][2] = {};
    for (int u = 0; u < nu; u++) {
      uint4 b[2];
      b[0] = *reinterpret_cast<const uint4*>(bq), b[1] = *reinterpret_cast<const uint4*>(bq + 512);
      ActScales s[NC];
#pragma unroll
      for (int n = 0; n < NC; n++) s[n].load(bs[n]), bs[n] += act_block;
      bq += act_block;
      copy_wait<depth - 1>();
      __syncwarp();
      unit_dot<C, S, NC>(ring + slot * unit_bytes, lane, b, s, p.table, p.factor, p.bf16, acc);
      __syncwarp();
      slot = slot + 1 == depth ? 0 : slot + 1;
      ask();
    }

    // Slabs in order.  Two buffers by turns, so that one barrier per item is enough.
    f32* buffer = sums + parity * slabs * 64 * NC;
#pragma unroll
    for (int n = 0; n < NC; n++)
#pragma unroll
      for (int h = 0; h < 2; h++) buffer[((warp * NC + n) * 2 + h) * 32 + lane] = acc[n][h];
    __syncthreads();
    const int tid = int(threadIdx.x);
    if (tid < 32 * NC * (p.pair ? 1 : 2)) {
      const int n = p.pair ? tid / 32 : tid / 64, h = p.pair ? 0 : tid / 32 % 2;
      const int i = t + 4 * n, row = (at.tile - p.tile0) * (p.pair ? 8 : 16) + lane / 4 + 8 * h;
      if (i < n_cols && row < p.rows) {
        auto total = [&](int half) {
          f32 v = 0;
#pragma unroll
          for (int w = 0; w < slabs; w++) v += buffer[((w * NC + n) * 2 + half) * 32 + lane];
          return v;
        };
        const int e = expert(at.group);
        auto finish = [&](f32 v, int which) {
          if (p.scale[which]) v *= p.scale[which][e];
          if (p.bias[which]) v += p.bias[which][row];
          return v;
        };
        const int col = group ? group->entry[i] : a.ids ? at.group : first + i;
        f32* y = p.y + i64(col) * p.ldy + row;
        f32 v = finish(total(h), 0);
        if (p.pair) v = glu_of(v, finish(total(1), 1), a.kind);
        *y = p.add ? *y + v : v;
      }
    }
  }
  copy_wait<0>();
}

using MvKernel = void (*)(MvArgs);
struct MvEntry {
  MvKernel kernel[2];  // up to 4 columns, up to 8
  size_t smem[2];
  const char* name;
};
template <Code C, Scale S>
inline MvEntry mv_entry(const char* name) {
  return {{matvec_kernel<C, S, 1>, matvec_kernel<C, S, 2>}, {MvShape<C, S>::smem(1), MvShape<C, S>::smem(2)}, name};
}
// One function per file of instances; nullptr kernels for layouts of other files.
MvEntry mv_entry_small(int layout);  // q1, b2
MvEntry mv_entry_t3(int layout);
MvEntry mv_entry_n4(int layout);
MvEntry mv_entry_b8(int layout);

}  // namespace fewbit::kernel::cuda
