// The wide kernel (gemm.cuh) around its multiplies: its arguments and shared memory, the run of pieces of a pair of blocks, the copies
// into shared memory, and a tile's way out.
#pragma once
#include "kernel/cuda/gemm_unit.cuh"
#include "kernel/cuda/matvec.cuh"

namespace fewbit::kernel::cuda {

struct GemmArgs {
  MvProduct p[mv_products];  // tile0: in pairs of blocks
  int tiles[mv_products];    // row tiles of each
  int n, units, cols;
  int across, pairs;  // column tiles; tiles of a pair of blocks (rows and columns)
  int pieces;         // of each: its slabs, or 1
  Glu kind;
  u32 half_bias;  // half_bias_bits
  // Per block, of the tile that it began: totals, and 1 once they are there (0 before and after).
  float4* parts;
  u32* flags;
};

inline constexpr u64 gemm_part_bytes = 128 * 128 * sizeof(f32);  // totals of a tile, at most

template <Code C, Scale S, bool by_32, bool bytes>
struct GemmShape {
  static constexpr int groups = 2, columns = 128;  // warpgroups; of a tile
  static constexpr int tiles = 4 * groups, workers = 128 * groups, threads = workers + 128;
  static constexpr int unit = code_bytes(C) + scale_bytes(S), weights = tiles * unit;
  // An image: sums where there are minima, q of inputs 0..63, of 64..127 (bytes: of columns 0..63, of 64..127), scales.
  static constexpr int sums = has_min(S) ? act_image_sums : 0, q = bytes ? 64 * columns : 128 * columns,
                       d = by_32 ? 16 * columns : 4 * columns;
  static constexpr int q_at = sums, d_at = q_at + 2 * q, image = d_at + d, stage = (image + 1023) / 1024 * 1024;
  static constexpr int totals = 64 * groups * columns * 4;
  static constexpr int slots = C == Code::b8 && has_min(S) ? 2 : 3;  // of weights
  static constexpr int room = 227 * 1024 - 2048 - totals - slots * weights;
  static constexpr int stages = room / stage > 4 ? 4 : room / stage;
  // Shared memory from a multiple of 1024: images, totals, weights, barriers: an image is there, may go; weights are there, may go.
  static constexpr u32 totals_at = u32(stages * stage), weights_at = totals_at + totals, full = weights_at + u32(slots * weights);
  static constexpr u32 empty = full + 8 * stages, w_full = empty + 8 * stages, w_empty = w_full + 8 * slots;
  static constexpr size_t smem = 1024 + w_empty + 8 * slots;
};

// The run of pieces of a pair of blocks, tile by tile from the last.
struct GemmRun {
  int lo, hi, pieces, units, tile, piece0, piece1;
  __device__ __forceinline__ GemmRun(const GemmArgs& a, int pair, int n_pairs) : pieces(a.pieces), units(a.units) {
    const int all = a.pairs * pieces;
    lo = int(i64(all) * pair / n_pairs), hi = int(i64(all) * (pair + 1) / n_pairs);
    tile = (hi + pieces - 1) / pieces;
  }
  __device__ __forceinline__ bool next() {
    if (--tile < lo / pieces) return false;
    piece0 = max(lo - tile * pieces, 0), piece1 = min(hi - tile * pieces, pieces);
    return true;
  }
  __device__ __forceinline__ int border(int piece) const { return pieces == 1 ? piece * units : slab_begin(units, piece); }
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

__device__ __forceinline__ u32 lane_id() {  // read again each time, for where there is no register for it
  u32 id;
  asm volatile("mov.u32 %0, %%laneid;" : "=r"(id));
  return id;
}
template <int workers>
__device__ __forceinline__ void workers_sync() {
  asm volatile("bar.sync 1, %0;" ::"n"(workers) : "memory");
}

// The last warpgroup asks for unit after unit: one thread of each warp, two for images and two for weights.
template <class Shape>
__device__ __forceinline__ void gemm_fetch(const GemmArgs& a, u32 base, int rank, int quarter) {
  constexpr int tiles = Shape::tiles;
  const u32 tile_bytes = u32(a.units) * Shape::unit;
  u32 slot = 0, phase = 1;
  GemmRun run(a, int(blockIdx.x) / 2, int(gridDim.x) / 2);
  while (run.next()) {
    const int rows = run.tile / a.across, columns = run.tile % a.across;
    int index = 0;
    while (index + 1 < a.n && rows >= a.p[index + 1].tile0) index++;
    const MvProduct& p = a.p[index];
    const int u0 = run.border(run.piece0), u1 = run.border(run.piece1);
    if (quarter < 2) {
      const u8* from = p.act + act_image_at(a.units, a.cols) + (u64(columns) * u64(a.units) + u64(u0)) * act_image_block;
      for (int u = u0; u < u1; u++, from += act_image_block) {
        const u32 bar = base + Shape::full + 8 * slot, at = base + slot * Shape::stage;
        barrier_wait_asleep(base + Shape::empty + 8 * slot, phase);
        if (quarter == 0) {
          barrier_expect(bar, u32(Shape::image));
          bulk_copy_both(at + u32(Shape::q_at + rank * Shape::q), from + rank * Shape::q, Shape::q, bar);
        } else if (rank == 0) {
          bulk_copy_both(at + Shape::d_at, from + act_image_d_at, Shape::d, bar);
        } else if (Shape::sums > 0) {
          bulk_copy_both(at, from + act_image_sums_at, Shape::sums, bar);
        }
        if (++slot == Shape::stages) slot = 0, phase ^= 1;
      }
    } else {
      const int tile = ((rows - p.tile0) * 2 + rank) * tiles, beyond = a.tiles[index] - 1 - tile;
      const u8* weights = p.w + i64(tile) * tile_bytes;
      for (int u = u0; u < u1; u++) {
        const u32 bar = base + Shape::w_full + 8 * slot, at = base + Shape::weights_at + slot * Shape::weights;
        barrier_wait_asleep(base + Shape::w_empty + 8 * slot, phase);
        if (quarter == 2) barrier_expect(bar, u32(Shape::weights));
#pragma unroll
        for (int k = 0; k < tiles / 2; k++) {
          const int i = 2 * k + quarter - 2;
          bulk_copy(at + u32(i * Shape::unit), weights + i64(min(i, beyond)) * tile_bytes + u64(u) * Shape::unit, Shape::unit, bar);
        }
        if (++slot == Shape::slots) slot = 0, phase ^= 1;
      }
    }
  }
}

// Writes a tile from its totals in shared memory.
template <class Shape>
__device__ __forceinline__ void gemm_store(const GemmArgs& a, const MvProduct& p, int tile, int last_tile, int columns, u32 totals, int g,
                                           int t) {
  if (tile > last_tile) return;
  const int tile_rows = p.pair ? 8 : 16, row = tile * tile_rows + g;
  f32* y = p.y + i64(columns + 2 * t) * p.ldy + row;
  // The usual case, without conditions.
  auto whole = [&](auto pair, auto add) {
    constexpr int at_once = 4, outputs = pair() ? 2 : 4;  // row, columns 0 and 1; row + 8
#pragma unroll 1
    for (int i0 = 0; i0 < 16; i0 += at_once) {
      f32 before[at_once][outputs];
      auto each = [&](auto&& f) {
#pragma unroll
        for (int i = 0; i < at_once; i++) {
#pragma unroll
          for (int k = 0; k < outputs; k++) f(before[i][k], y + (8 * i + k % 2) * p.ldy + k / 2 * 8);
        }
      };
      if constexpr (add()) each([](f32& v, const f32* from) { v = *from; });
#pragma unroll
      for (int i = 0; i < at_once; i++, totals += Shape::workers * 16) {
        const float4 q = shared_f128(totals);
        const f32 v[4] = {q.x * p.factor, q.y * p.factor, q.z * p.factor, q.w * p.factor};
#pragma unroll
        for (int k = 0; k < outputs; k++) {
          const f32 out = pair() ? glu_of(v[k], v[2 + k % 2], Glu::silu) : v[k];
          before[i][k] = add() ? before[i][k] + out : out;
        }
      }
      each([](const f32& v, f32* to) { *to = v; });
      y += 8 * at_once * p.ldy;
    }
  };
  constexpr std::bool_constant<true> yes;
  constexpr std::bool_constant<false> no;
  const bool bare = !p.scale[0] && !p.scale[1] && !p.bias[0] && !p.bias[1];
  if (bare && columns + Shape::columns <= a.cols && (tile + 1) * tile_rows <= p.rows && !(p.pair && (p.add || a.kind != Glu::silu)))
    return p.pair ? whole(yes, no) : p.add ? whole(no, yes) : whole(no, no);

  const bool in[2] = {row < p.rows, !p.pair && row + 8 < p.rows};
  f32 scale[2] = {1, 1}, bias[2] = {};  // of the lane's two sums
#pragma unroll
  for (int h = 0; h < 2; h++) {
    const int which = p.pair ? h : 0, of = p.pair ? row : row + 8 * h;
    if (p.scale[which]) scale[h] = p.scale[which][0];
    if (p.bias[which] && of < p.rows) bias[h] = p.bias[which][of];
  }
#pragma unroll 1
  for (int i = 0; i < 16; i++) {
    const float4 q = shared_f128(totals + u32(i * Shape::workers * 16));
    f32 v[4] = {q.x, q.y, q.z, q.w};
#pragma unroll
    for (int k = 0; k < 4; k++) {
      v[k] *= p.factor;
      if (p.scale[p.pair ? k / 2 : 0]) v[k] *= scale[k / 2];
      if (p.bias[p.pair ? k / 2 : 0]) v[k] += bias[k / 2];
    }
    if (p.pair) {
#pragma unroll
      for (int e = 0; e < 2; e++) v[e] = glu_of(v[e], v[2 + e], a.kind);
    }
#pragma unroll
    for (int k = 0; k < 4; k++) {
      f32* to = y + (8 * i + k % 2) * p.ldy + k / 2 * 8;
      if (columns + 8 * i + 2 * t + k % 2 < a.cols && in[k / 2]) *to = p.add ? *to + v[k] : v[k];
    }
  }
}

#endif

}  // namespace fewbit::kernel::cuda
