// y = W a for many columns (prefill): Hopper's wgmma on exact integers held in f16.
//
// Why f16   a sub-block's integer factor goes into the weight: level * sub is an integer up to 2048, exact in f16.  Activations of layout
//           q8_128 and q8_256 are integers times a power of two, so small that every sum over 128 inputs is exact in f32 (act_layout.h).
//           The image holds them as they are, so that a sum needs one multiply-add per weight's scale, by that scale; int8 operands would
//           also need an int-to-float and the activations' own scale.  Sums are exact and the steps between are those of the mat-vec
//           (unit_dot.cuh), so every column has its bits.
// Planes    level * sub of Q6_K and IQ4_XS needs 12 bits: the level's lowest bit is multiplied apart, and sums are exact over 32 inputs
// only. by_32     activations of layout q8_32 (weights that need more than these sums allow): the image holds q, and every 32 inputs their
//           scales are read from shared memory and multiplied by.
// Tile      128 rows x 128 columns by 2 warpgroups of 64 rows.  A warp unpacks the weights of its own 16 rows into registers (the A
//           operand), so they never pass through shared memory unpacked; B comes as an image that the quantiser wrote (act_layout.h),
//           ready for the 128-byte swizzle.
// Overlap   a warpgroup multiplies a step (the inputs of one scale, at most a unit of 128) and unpacks the next one's weights meanwhile;
//           while it waits and adds up, the other one multiplies.
// Copies    a third warpgroup fetches units ahead with bulk copies and gives its registers to the others.  Two blocks with neighbouring
//           rows share every image: each fetches a half for both.  Weights have slots of their own: they are needed a unit earlier.
// Work      a tile's sum over K is cut at slab borders into pieces; each pair of blocks takes an equal run of pieces, so that no wave is
//           ragged.  A run that ends inside a tile does that tile first, and leaves the totals to the pair with the rest, which does it
//           last and goes on from them: the order of the slabs stays.
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

template <Code C, Scale S, bool by_32>
struct GemmShape {
  static constexpr int groups = 2, columns = 128;  // warpgroups; of a tile
  static constexpr int tiles = 4 * groups, workers = 128 * groups, threads = workers + 128;
  static constexpr int unit = code_bytes(C) + scale_bytes(S), weights = tiles * unit;
  // An image: sums where there are minima, q of inputs 0..63, of 64..127, scales.
  static constexpr int sums = has_min(S) ? act_image_sums : 0, q = 128 * columns, d = by_32 ? 16 * columns : 4 * columns;
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

// The compiler would keep what all lanes share in uniform registers and copy it before every use.
__device__ __forceinline__ u32 in_register(u32 v) { return __shfl_sync(~0u, v, int(threadIdx.x % 32)); }
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
  const int row = tile * (p.pair ? 8 : 16) + g;
  const bool in[2] = {row < p.rows, !p.pair && row + 8 < p.rows};
  f32 scale[2] = {1, 1}, bias[2] = {};  // of the lane's two sums
#pragma unroll
  for (int h = 0; h < 2; h++) {
    const int which = p.pair ? h : 0, of = p.pair ? row : row + 8 * h;
    if (p.scale[which]) scale[h] = p.scale[which][0];
    if (p.bias[which] && of < p.rows) bias[h] = p.bias[which][of];
  }
  f32* y = p.y + i64(columns + 2 * t) * p.ldy + row;
#pragma unroll 2
  for (int i0 = 0; i0 < 16; i0 += 4, y += 32 * p.ldy) {
    f32 before[4][4] = {};
    auto each = [&](auto&& f) {
#pragma unroll
      for (int i = 0; i < 4; i++)
#pragma unroll
        for (int k = 0; k < 4; k++)  // k = 2 h + e
          if (columns + 8 * (i0 + i) + 2 * t + k % 2 < a.cols && in[k / 2]) f(i, k, y + (8 * i + k % 2) * p.ldy + k / 2 * 8);
    };
    if (p.add) each([&](int i, int k, f32* to) { before[i][k] = *to; });
    f32 v[4][4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const float4 q = shared_f128(totals + u32((i0 + i) * Shape::workers * 16));
      const f32 qs[4] = {q.x, q.y, q.z, q.w};
#pragma unroll
      for (int k = 0; k < 4; k++) {
        v[i][k] = qs[k] * p.factor;
        if (p.scale[p.pair ? k / 2 : 0]) v[i][k] *= scale[k / 2];
        if (p.bias[p.pair ? k / 2 : 0]) v[i][k] += bias[k / 2];
      }
      if (p.pair) {
#pragma unroll
        for (int e = 0; e < 2; e++) v[i][e] = glu_of(v[i][e], v[i][2 + e], a.kind);
      }
    }
    each([&](int i, int k, f32* to) { *to = p.add ? before[i][k] + v[i][k] : v[i][k]; });
  }
}

#endif

template <Code C, Scale S, bool by_32, int planes, bool plain>
__global__ void __launch_bounds__(GemmShape<C, S, by_32>::threads, 1) gemm_kernel(const __grid_constant__ GemmArgs a) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  using Shape = GemmShape<C, S, by_32>;
  constexpr int workers = Shape::workers;
  extern __shared__ u8 raw[];
  const u32 base = (u32(__cvta_generic_to_shared(raw)) + 1023) & ~1023u;
  const int tid = int(threadIdx.x), lane = tid % 32, warp = tid / 32, g = lane / 4, t = lane % 4, rank = int(blockIdx.x) % 2;

  early_launch();
  if (tid == 0) {
    for (u32 i = 0; i < Shape::stages; i++)  // images go when the warps of both blocks are done with them
      barrier_init(base + Shape::full + 8 * i, 1), barrier_init(base + Shape::empty + 8 * i, 2 * workers / 32);
    for (u32 i = 0; i < Shape::slots; i++)
      barrier_init(base + Shape::w_full + 8 * i, 1), barrier_init(base + Shape::w_empty + 8 * i, workers / 32);
    asm volatile("fence.mbarrier_init.release.cluster;\nfence.proxy.async.shared::cta;" ::: "memory");
  }
  cluster_sync();
  early_wait();
  if (tid >= workers) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
    const int quarter = __shfl_sync(~0u, warp, 0) - workers / 32;
    if (elected()) gemm_fetch<Shape>(a, base, rank, quarter);
    __syncwarp();
    cluster_sync();  // no block leaves while the other copies into it or arrives at its barriers
    return;
  }
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(240));

  constexpr bool each = S == Scale::g32 || S == Scale::g32m;          // a weight scale per k-step
  constexpr int parts = S == Scale::g64 ? 2 : 1;                      // scale blocks of a unit
  constexpr int span = by_32 || each || planes == 2 ? 1 : 4 / parts;  // k-steps of a step
  constexpr bool two_sums = (by_32 || planes == 2) && !each;          // those of a scale's steps are added up apart
  constexpr int steps = 4 / span;
  constexpr int held = planes == 2 ? 1 : 2 * span;  // k-steps of which the weights lie in registers
  const u32 bias = in_register(a.half_bias), totals = base + Shape::totals_at + u32(tid) * 16;
  u32 slot = 0, phase = 0, w_slot = 0, w_phase = 0;
  f32 acc[64], slab[64], sum[two_sums ? 64 : 1];
  u32 w[held][8 * planes];
  UnitScales<S> now, next;

  GemmRun run(a, int(blockIdx.x) / 2, int(gridDim.x) / 2);
  while (run.next()) {
    const int rows = run.tile / a.across;
    int index = 0;
    while (index + 1 < a.n && rows >= a.p[index + 1].tile0) index++;
    const MvProduct& p = a.p[index];
    Tables table;
#pragma unroll
    for (int i = 0; i < 4; i++) table.w[i] = in_register(p.table.w[i] ^ 0x80808080u);  // 128 + level
    float4* part = a.parts + u64(blockIdx.x) * (gemm_part_bytes / 16) + tid;
    if (run.piece0 > 0) {  // begun by the pair before
      part -= 2 * (gemm_part_bytes / 16);
      u32* flag = a.flags + blockIdx.x - 2;
      u32 there = 0;
      do asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(there) : "l"(flag) : "memory");
      while (!there);
#pragma unroll
      for (int i = 0; i < 16; i++) shared_store(totals + i * workers * 16, __ldcg(part + i * workers));
      workers_sync<workers>();
      if (tid == 0) *flag = 0;
    }
#pragma unroll
    for (int i = 0; i < 64; i++) slab[i] = 0;

    auto take = [&] {  // the next unit's scales and codes
      const u32 unit = base + Shape::weights_at + w_slot * Shape::weights + u32(warp * Shape::unit);
      next.load(unit + code_bytes(C), g);
      return UnitCodes<C, !two_sums>(unit, lane);
    };
    auto give_back = [&] {  // its weights are in registers
      __syncwarp();
      if (lane == 0) barrier_arrive(base + Shape::w_empty + 8 * w_slot);
      if (++w_slot == Shape::slots) w_slot = 0, w_phase ^= 1;
    };
    auto wait_weights = [&] { barrier_wait(base + Shape::w_full + 8 * w_slot, w_phase); };
    // Multiplies the k-steps of step i.
    auto multiply = [&](int i, u32 at, int turn) {
      wgmma_fence();
#pragma unroll
      for (int j = i * span; j < (i + 1) * span; j++) {
#pragma unroll
        for (int f = 0; f < 2 * planes; f++) {
          const u32(&v)[8 * planes] = w[span == 4 ? 4 * turn + j : j % held];
          const int k16 = 2 * j + f % 2;
          const u64 desc = smem_desc(at, 16, 1024, 1) + u32((Shape::q_at + k16 / 4 * Shape::q + k16 % 4 * 32) >> 4);
          wgmma128(acc, v[4 * f], v[4 * f + 1], v[4 * f + 2], v[4 * f + 3], desc, j > i * span || f > 0);
        }
      }
      wgmma_commit();
    };
    // The minima of k-step j, or (j < 0) of all: k position 2 j + f of the sums' tile holds the sum of half f, 8 + 2 j + f its rest.
    auto multiply_minima = [&](int j, u32 at) {
      u32 m[2];
#pragma unroll
      for (int h = 0; h < 2; h++) m[h] = j < 0 ? now.mins(h, t, bias) : t == j ? now.mins(h, j, bias) : 0;
      wgmma_fence();
      wgmma128(acc, m[0], m[1], m[0], m[1], smem_desc(at, 16, 256, 3), 0);
      wgmma_commit();
      wgmma_wait<0>();
    };
    // f(i, scale of the image, i) for all sums.
    auto for_scales = [&](u32 at, auto&& f) {
#pragma unroll
      for (int half = 0; half < 2; half++) {
        f32 act[16];
#pragma unroll
        for (int n = 0; n < 4; n++) {
          const float4 q = shared_f128(at + u32(half * 256 + n * 64 + t * 16));
          act[4 * n] = q.x, act[4 * n + 1] = q.y, act[4 * n + 2] = q.z, act[4 * n + 3] = q.w;
        }
#pragma unroll
        for (int i = 0; i < 32; i++) f(32 * half + i, act[i / 4 * 2 + i % 2]);
      }
    };
    auto add_scaled = [&](const auto& v, f32 d0, f32 d1) {
#pragma unroll
      for (int i = 0; i < 64; i++) slab[i] = __fmaf_rn(v[i], i / 2 % 2 ? d1 : d0, slab[i]);
    };
    // Adds the sums of k-step j, by_32: products or (min) minima.
    auto promote_32 = [&](int j, bool min, u32 d_at) {
      auto d = [&](int h) { return min ? now.dmin(h, j) : now.d(h, j, p.bf16); };
      const u32 from = d_at + u32(j * 512);
      if constexpr (each) {
        const f32 ds[2] = {d(0), d(1)};
        for_scales(from, [&](int i, f32 act) { slab[i] = __fmaf_rn(acc[i] * act, ds[i / 2 % 2], slab[i]); });
      } else {
        for_scales(from, [&](int i, f32 act) { sum[i] = __fmaf_rn(acc[i], act, j ? sum[i] : 0.0f); });
        if (j == 3) add_scaled(sum, d(0), d(1));
      }
    };
    bool begun = run.piece0 > 0;  // there are totals
    auto flush = [&] {
#pragma unroll
      for (int i = 0; i < 16; i++) {
        const u32 to = totals + i * workers * 16;
        const float4 q = begun ? shared_f128(to) : make_float4(0, 0, 0, 0);
        shared_store(to, make_float4(q.x + slab[4 * i], q.y + slab[4 * i + 1], q.z + slab[4 * i + 2], q.w + slab[4 * i + 3]));
        slab[4 * i] = slab[4 * i + 1] = slab[4 * i + 2] = slab[4 * i + 3] = 0;
      }
      begun = true;
    };

    const int u0 = run.border(run.piece0), u1 = run.border(run.piece1);
    int slab_at = 1;  // the border behind the current slab; with fewer units than slabs some are empty
    while (slab_begin(a.units, slab_at) <= u0) slab_at++;
    int border = slab_begin(a.units, slab_at);
    wait_weights();
    UnitCodes<C, !two_sums> codes = take();
#pragma unroll
    for (int j = 0; j < (planes == 2 ? 1 : span); j++) half_step<C, S, planes, plain>(codes, table, j, next, bias, w[j % held]);
    if (span == 4) give_back();
    // A unit; where a step is a whole unit, units take turns with the registers of the weights.
    auto multiply_unit = [&](int u, auto turn) {
      const u32 at = base + slot * Shape::stage, here = slot, d_at = at + Shape::d_at;
      const bool more = u + 1 < u1;
      now = next;
      barrier_wait(base + Shape::full + 8 * slot, phase);
      if (++slot == Shape::stages) slot = 0, phase ^= 1;
      bool ones = true;  // the image needs no scales
      if constexpr (!by_32) {
        const float4 d = shared_f128(d_at + u32(lane) * 16);
        ones = __all_sync(~0u, d.x == 1 && d.y == 1 && d.z == 1 && d.w == 1);
      }
      auto scale_sums = [&] {
        if (!ones) for_scales(d_at, [&](int i, f32 act) { acc[i] *= act; });
      };
#pragma unroll
      for (int i = 0; i < steps; i++) {
        if (i == steps - 1 && more) wait_weights();
        multiply(i, at, turn);
        if (i == steps - 1) codes = take();  // behind the last unit: of whatever lies there, unused
        const UnitScales<S>& scales = i == steps - 1 ? next : now;
        auto unpack = [&](int k) {
          const int j = ((i + 1) * span + k) % 4;
          half_step<C, S, planes, plain>(codes, table, j, scales, bias, w[span == 4 ? 4 * (1 - turn) + j : j % held]);
        };
        if (planes == 1)
#pragma unroll
          for (int k = 0; k < span; k++) unpack(k);
        wgmma_wait<0>();
        if (planes == 2) unpack(0);
        if (i == steps - 2 || (span == 4 && more)) give_back();
        if constexpr (by_32) {
          promote_32(i, false, d_at);
          if constexpr (S == Scale::g32m) {
            multiply_minima(i, at);
            promote_32(i, true, d_at);
          }
        } else {
          scale_sums();
          if constexpr (two_sums) {
#pragma unroll
            for (int k = 0; k < 64; k++) sum[k] = i ? sum[k] + acc[k] : acc[k];
            if (i == 3) add_scaled(sum, now.d(0, 0, false), now.d(1, 0, false));
          } else {
            add_scaled(acc, now.d(0, i * span, p.bf16), now.d(1, i * span, p.bf16));
          }
        }
      }
      if constexpr (has_min(S) && !each) {
        if constexpr (by_32) {
#pragma unroll
          for (int j = 0; j < 4; j++) {
            multiply_minima(j, at);
            promote_32(j, true, d_at);
          }
        } else {
          multiply_minima(-1, at);
          scale_sums();
          add_scaled(acc, now.dmin(0, 0), now.dmin(1, 0));
        }
      }
      __syncwarp();
      if (lane < 2) cluster_arrive(base + Shape::empty + 8 * here, u32(lane));
      if (u + 1 == border) {
        flush();
        while (border == u + 1) border = slab_begin(a.units, ++slab_at);
      }
    };
    for (int u = u0;;) {
      multiply_unit(u, std::integral_constant<int, 0>());
      if (++u == u1) break;
      if constexpr (span == 4) {
        multiply_unit(u, std::integral_constant<int, 1>());
        if (++u == u1) break;
      }
    }
    if (run.piece1 < run.pieces) {
#pragma unroll
      for (int i = 0; i < 16; i++) __stcg(part + i * workers, shared_f128(totals + i * workers * 16));
      __threadfence();
      workers_sync<workers>();
      if (tid == 0) asm volatile("st.release.gpu.global.u32 [%0], 1;" ::"l"(a.flags + blockIdx.x) : "memory");
    } else {
      gemm_store<Shape>(a, p, ((rows - p.tile0) * 2 + rank) * Shape::tiles + warp, a.tiles[index] - 1, run.tile % a.across * Shape::columns,
                        totals, g, t);
    }
  }
  cluster_sync();
#endif
}

struct GemmEntry {
  void (*kernel)(GemmArgs) = nullptr;
  size_t smem = 0;
  int columns = 0, tiles = 0, threads = 0;  // of a block; tiles of 16 rows
};
template <Code C, Scale S, bool by_32 = false, int planes = 1, bool plain = false>
inline GemmEntry gemm_entry() {
  using Shape = GemmShape<C, S, by_32>;
  return {gemm_kernel<C, S, by_32, planes, plain>, Shape::smem, Shape::columns, Shape::tiles, Shape::threads};
}
// What a kernel depends on besides the layout.
struct GemmKind {
  bool by_32;       // activations
  bool two_planes;  // level * sub needs 12 bits
  bool plain;       // nibbles: level = c - 8
};
// One function per file of instances; no kernel for layouts of other files.
GemmEntry gemm_entry_2(int layout, GemmKind kind);  // q1, b2
GemmEntry gemm_entry_4(int layout, GemmKind kind);  // t3, n4
GemmEntry gemm_entry_8(int layout, GemmKind kind);  // b8

}  // namespace fewbit::kernel::cuda

// Measured on an H200 (nvcc 13.0, 30 Nov 2026): 34816x5120, 512 columns, TOP/s: PQ2_0 515, Q1_0 521, IQ2_* and IQ1_M 480 to 489, Q3_K 478,
// Q2_0 460, IQ1_S 439, IQ3_* 433, Q4_K 419, Q2_K 417, Q4_0 400, Q8_0 391, IQ4_NL and MXFP4 (tables, a scale per 32) 336, Q6_K 242, IQ4_XS
// 230 (two planes). Half of the time the tensor cores run (a unit takes 1,860 cycles, its multiplies 1,024): a warpgroup multiplies, waits
// and adds up in turns with the other, and starts and ends of tiles are a fifth. Before, sums of 32 inputs with the activations' scales
// from shared memory (4 x 16 bytes a warp for 32 sums): IQ2_XS 608 us | the scales alone took 700 cycles a unit: multiplies with 32
// multiply-adds between ran at 701 TOP/s, with the loads at 469. tried: a step's four k-steps as groups, so that weights need no second set
// of registers | the compiler waits for all at once; the same tried: shared addresses from a vector register, as the compiler computes the
// base anew in every unit | 3 to 4 % slower tried: fetching warps that sleep 100 to 1000 ns between looks at a barrier | they hardly sleep,
// a third of all instructions; 1 % slower tried: minima's sums without swizzle, parts 128 bytes apart | wrong, NaN: the second half of K is
// not read from there tried: 3 warpgroups of 64 rows, 64 columns, sums of 32 | 747 us against 608 (IQ2_XS)
