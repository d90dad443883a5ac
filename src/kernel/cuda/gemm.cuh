// y = W a for many columns (prefill): Hopper's wgmma on exact integers held in f16.
//
// Why f16   an activation has one scale per 32 inputs, so sums are promoted to f32 every 32 inputs.  With int8 operands that costs an
//           int-to-float (or a subtraction) and a multiply-add per sum; f16 operands leave f32 sums and cost the multiply-add alone, and
//           a sub-block's integer factor can go into the weight: level * sub is an integer up to 2048, exact in f16.  Products and sums
//           of 32 are integers below 2^24, exact in f32, so every column has the bits that the mat-vec gives (same float order,
//           matvec.cuh).
// Tile      128 rows x 128 columns by 2 warpgroups of 64 rows.  A stage is one unit (128 inputs).  A warp unpacks the weights of its own 16
// rows into registers (the A
//           operand), so they never pass through shared memory unpacked; B comes as an image that the quantiser wrote (act_layout.h),
//           ready for the 128-byte swizzle.
// Overlap   a step multiplies 64 of the columns into an accumulator of its own; meanwhile the step before is promoted and the next weights
//           are unpacked.  A step is a k-step, or, `whole`, a weight's scale block (64 or 128 inputs): activations of layout q8_128 have
//           scales that are integers times a power of two per 128, the integers are in the image, and such sums (of levels up to 2) are
//           exact too.
// Copies    a third warpgroup fetches stages ahead with bulk copies and gives its registers to the others.  Two blocks with neighbouring
//           rows share every image: each fetches a half for both.
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

template <Code C, Scale S, bool whole>
struct GemmShape {
  static constexpr int groups = 2, halves = 2;  // warpgroups; times 64 columns
  static constexpr int columns = 64 * halves, tiles = 4 * groups, workers = 128 * groups, threads = workers + 128;
  static constexpr int unit = code_bytes(C) + scale_bytes(S);
  // A stage: sums where there are minima (first, as a multiply by zero reaches behind them: what follows must be finite f16), q of inputs
  // 0..63, of 64..127, scales; then the weights.
  static constexpr int q = 128 * columns, sums = has_min(S) ? 16 * columns : 0, d = 16 * columns;
  static constexpr int q_at = sums, d_at = q_at + 2 * q, image = d_at + d;
  static constexpr int stage = (image + tiles * unit + 1023) / 1024 * 1024;
  static constexpr int totals = 64 * groups * columns * 4;
  static constexpr int stages = (227 * 1024 - 2048 - totals) / stage > 4 ? 4 : (227 * 1024 - 2048 - totals) / stage;
  static constexpr size_t smem = 1024 + size_t(stages) * stage + totals + 128;
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

// The last warpgroup asks for stage after stage: one thread of each warp, a quarter of the copies.
template <class Shape>
__device__ __forceinline__ void gemm_fetch(const GemmArgs& a, u32 base, u32 full, u32 empty, int rank, int quarter) {
  constexpr int tiles = Shape::tiles;
  const u32 tile_bytes = u32(a.units) * Shape::unit;
  u32 slot = 0, phase = 1;
  GemmRun run(a, int(blockIdx.x) / 2, int(gridDim.x) / 2);
  while (run.next()) {
    const int rows = run.tile / a.across, columns = run.tile % a.across;
    int index = 0;
    while (index + 1 < a.n && rows >= a.p[index + 1].tile0) index++;
    const MvProduct& p = a.p[index];
    const int tile = ((rows - p.tile0) * 2 + rank) * tiles, beyond = a.tiles[index] - 1 - tile;
    const u8* weights = p.w + i64(tile) * tile_bytes;
    const int first = columns * Shape::columns % 128 / 64;  // half of an image tile
    const u8* image = p.act + act_image_at(a.units, a.cols) + u64(columns * Shape::columns / 128) * u64(a.units) * act_image_block;
    for (int u = run.border(run.piece0); u < run.border(run.piece1); u++) {
      const u32 bar = full + 8 * slot, at = base + slot * Shape::stage;
      barrier_wait_asleep(empty + 8 * slot, phase);
      const u8* from = image + u64(u) * act_image_block;
      if (quarter == 0) {
        barrier_expect(bar, u32(Shape::image + tiles * Shape::unit));
        bulk_copy_both(at + u32(Shape::q_at + rank * Shape::q), from + rank * 16384 + first * 8192, Shape::q, bar);
      } else if (quarter == 1 && rank == 0) {
        bulk_copy_both(at + Shape::d_at, from + act_image_d_at + first * 1024, Shape::d, bar);
      } else if (quarter == 1 && Shape::sums > 0) {
        bulk_copy_both(at, from + act_image_sums_at + first * 1024, Shape::sums, bar);
      }
#pragma unroll
      for (int k = 0; k < tiles / 4; k++) {
        const int i = 4 * k + quarter;
        bulk_copy(at + Shape::image + i * Shape::unit, weights + i64(min(i, beyond)) * tile_bytes + u64(u) * Shape::unit, Shape::unit, bar);
      }
      if (++slot == Shape::stages) slot = 0, phase ^= 1;
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
#pragma unroll 1
  for (int i0 = 0; i0 < 8 * Shape::halves; i0 += 4, y += 32 * p.ldy) {
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

template <Code C, Scale S, bool whole>
__global__ void __launch_bounds__(GemmShape<C, S, whole>::threads, 1) gemm_kernel(const __grid_constant__ GemmArgs a) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  using Shape = GemmShape<C, S, whole>;
  constexpr int stages = Shape::stages, workers = Shape::workers, halves = Shape::halves;
  extern __shared__ u8 raw[];
  const u32 base = (u32(__cvta_generic_to_shared(raw)) + 1023) & ~1023u, totals_at = base + stages * Shape::stage;
  const u32 full = totals_at + Shape::totals, empty = full + 8 * stages;
  const int tid = int(threadIdx.x), lane = tid % 32, warp = tid / 32, g = lane / 4, t = lane % 4, rank = int(blockIdx.x) % 2;

  early_launch();
  if (tid == 0) {
    for (int i = 0; i < stages; i++) barrier_init(full + 8 * i, 1), barrier_init(empty + 8 * i, 2 * workers / 32);  // warps of both blocks
    asm volatile("fence.mbarrier_init.release.cluster;\nfence.proxy.async.shared::cta;" ::: "memory");
  }
  cluster_sync();
  early_wait();
  if (tid >= workers) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
    const int quarter = __shfl_sync(~0u, warp, 0) - workers / 32;
    if (elected()) gemm_fetch<Shape>(a, base, full, empty, rank, quarter);
    __syncwarp();
    cluster_sync();  // no block leaves while the other copies into it or arrives at its barriers
    return;
  }
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(240));

  constexpr bool each = S == Scale::g32 || S == Scale::g32m;  // a weight scale per k-step
  constexpr int kinds = has_min(S) ? 2 : 1;                   // 1: minima
  constexpr int parts = S == Scale::g64 ? 2 : 1;              // scale blocks of a unit
  constexpr int span = whole ? 4 / parts : 1;                 // k-steps of a step
  constexpr int steps = 4 * halves * kinds / span;
  constexpr int held = whole ? 4 : 2;  // k-steps of which the weights lie in registers
  const u32 bias = in_register(a.half_bias), totals = totals_at + u32(tid) * 16;
  u32 slot = 0, phase = 0;
  f32 acc[halves][32], sum[32 * halves], slab[32 * halves];
  u32 w[held][8], coming[whole ? 4 : 1][8], minima[2][4];
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
      for (int i = 0; i < 8 * halves; i++) shared_store(totals + i * workers * 16, __ldcg(part + i * workers));
      workers_sync<workers>();
      if (tid == 0) *flag = 0;
    } else {
#pragma unroll
      for (int i = 0; i < 8 * halves; i++) shared_store(totals + i * workers * 16, make_float4(0, 0, 0, 0));
    }
#pragma unroll
    for (int i = 0; i < 32 * halves; i++) slab[i] = 0;

    // Step i of a unit: columns 64 (i % halves) .. of k-steps j_of(i) .., products or (with minima) minima; g32m takes them by turns.
    auto kind_of = [](int i) { return each ? i / halves % kinds : i / halves * span / 4; };
    auto j_of = [](int i) { return each ? i / halves / kinds : i / halves * span % 4; };
    // The activations' scales of a step, asked for before its products are waited for.
    f32 act[16];
    auto ask = [&](int i, u32 at) {
      const u32 from = at + Shape::d_at + u32(i % halves * 1024 + j_of(i) * 256 + t * 16);
#pragma unroll
      for (int n = 0; n < 4; n++) {
        const float4 q = shared_f128(from + n * 64);
        act[4 * n] = q.x, act[4 * n + 1] = q.y, act[4 * n + 2] = q.z, act[4 * n + 3] = q.w;
      }
    };
    auto promote = [&](int i, const UnitScales<S>& scales) {
      const int half = i % halves, kind = kind_of(i), j = j_of(i);
      const bool first = whole || j % (4 / parts) == 0, last = whole || j % (4 / parts) == 4 / parts - 1;
      f32 d[2] = {};
      if (each || last) {
#pragma unroll
        for (int h = 0; h < 2; h++) d[h] = kind ? scales.dmin(h, j) : scales.d(h, j, p.bf16);
      }
#pragma unroll
      for (int in = 0; in < 32; in++) {
        const int out = 32 * half + in, h = in / 2 % 2;
        const f32 v = acc[half][in], scale = act[in / 4 * 2 + in % 2];
        if constexpr (each || whole) {
          slab[out] = __fmaf_rn(v * scale, d[h], slab[out]);
        } else {
          sum[out] = __fmaf_rn(v, scale, first ? 0.0f : sum[out]);
          if (last) slab[out] = __fmaf_rn(sum[out], d[h], slab[out]);
        }
      }
    };
    auto flush = [&] {
#pragma unroll
      for (int i = 0; i < 8 * halves; i++) {
        const u32 to = totals + i * workers * 16;
        const float4 q = shared_f128(to);
        shared_store(to, make_float4(q.x + slab[4 * i], q.y + slab[4 * i + 1], q.z + slab[4 * i + 2], q.w + slab[4 * i + 3]));
        slab[4 * i] = slab[4 * i + 1] = slab[4 * i + 2] = slab[4 * i + 3] = 0;
      }
    };

    const int u0 = run.border(run.piece0), u1 = run.border(run.piece1);
    int slab_end = 1;  // the border behind the current slab; with fewer units than slabs some are empty
    while (slab_begin(a.units, slab_end) <= u0) slab_end++;
    // Takes the next unit's scales, codes and first weights.  Straight code: a branch between a multiply and its wait, and the compiler
    // reuses the registers that the multiply still reads.
    auto enter = [&] {
      const u32 unit = base + slot * Shape::stage + Shape::image + warp * Shape::unit;
      next.load(unit + code_bytes(C), g);
      const Codes<C> codes(unit, lane);
      if constexpr (whole) {
#pragma unroll
        for (int j = 0; j < 4; j++) code_bits(codes, j, bias, coming[j]);
      } else {
        half_step<C, S>(codes, table, 0, next, bias, coming[0]);
      }
      return codes;
    };
    constexpr int enters = whole ? 1 : steps - 1;  // the step during which the next unit is entered
    barrier_wait(full + 8 * slot, phase);
    Codes<C> codes = enter();
    for (int u = u0; u < u1; u++) {
      const u32 at = base + slot * Shape::stage, here = slot;
      if (++slot == stages) slot = 0, phase ^= 1;
      now = next;
      // Only now do the registers that multiplies read get new values: the compiler gives up overlapping them otherwise.
#pragma unroll
      for (int j = 0; j < (whole ? 4 : 1); j++)
#pragma unroll
        for (int x = 0; x < 8; x++) {
          if constexpr (whole)
            w[j][x] = code_value<C>(j, x, coming[j][x]);
          else
            w[j][x] = coming[j][x];
        }
#pragma unroll
      for (int i = 0; i < steps; i++) {
        const int half = i % halves, j = j_of(i);
        u32(&min)[4] = minima[j % 2];
        if (kind_of(i) == 1 && half == 0)
          min[0] = keep_if(t, j, now.mins(0, j, bias)), min[1] = keep_if(t, j, now.mins(1, j, bias)), min[2] = keep_if(t, -1, 0),
          min[3] = keep_if(t, -1, 0);
        if (i == enters && u + 1 < u1) barrier_wait(full + 8 * slot, phase);
        wgmma_fence();
        if (kind_of(i) == 0) {
#pragma unroll
          for (int f = 0; f < 2 * span; f++) {
            const int k16 = 2 * j + f;
            const u32(&a16)[8] = w[k16 / 2 % held];
            const u64 desc = smem_desc(at, 16, 1024, 1) + u32((Shape::q_at + k16 / 4 * Shape::q + half * 8192 + k16 % 4 * 32) >> 4);
            wgmma64(acc[half], a16[4 * (f % 2)], a16[4 * (f % 2) + 1], a16[4 * (f % 2) + 2], a16[4 * (f % 2) + 3], desc, f);
          }
        } else {  // k position 2 j + f of the sums' tile holds the sum of half f of k-step j
          const u64 desc = smem_desc(at, 0, 128, 0) + u32((half * 1024) >> 4);
          wgmma64(acc[half], min[0], min[1], min[2], min[3], desc, 0);
        }
        wgmma_commit();
        if (!whole && half && j < 3 && kind_of(i) == (each ? kinds - 1 : 0))
          half_step<C, S>(codes, table, j + 1, now, bias, w[(j + 1) % 2]);
        if (i == enters) codes = enter();  // behind the last unit: of whatever lies there, unused
        if (i > 0) {
          ask(i - 1, at);
          wgmma_wait<1>();
          promote(i - 1, now);
        }
        if (i == steps - 1) {
          ask(i, at);
          wgmma_wait<0>();
          promote(i, now);
        }
      }
      __syncwarp();
      if (lane < 2) cluster_arrive(empty + 8 * here, u32(lane));
      if (u + 1 == slab_begin(a.units, slab_end)) {
        flush();
        while (slab_begin(a.units, slab_end) == u + 1) slab_end++;
      }
    }
    if (run.piece1 < run.pieces) {
#pragma unroll
      for (int i = 0; i < 8 * halves; i++) __stcg(part + i * workers, shared_f128(totals + i * workers * 16));
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
template <Code C, Scale S, bool whole = false>
inline GemmEntry gemm_entry() {
  using Shape = GemmShape<C, S, whole>;
  return {gemm_kernel<C, S, whole>, Shape::smem, Shape::columns, Shape::tiles, Shape::threads};
}
// One function per file of instances; no kernel for layouts of other files, and none for b8.k16 (level * sub needs 12 bits).
GemmEntry gemm_entry_2(int layout, bool whole);  // q1, b2
GemmEntry gemm_entry_4(int layout, bool whole);  // t3, n4
GemmEntry gemm_entry_8(int layout, bool whole);  // b8

}  // namespace fewbit::kernel::cuda

// Measured on an H200 (nvcc 13.0, 30 Nov 2026): 34816x5120, 512 columns: PQ2_0 407 us, 448 TOP/s; IQ2_XS 608 us, 300 TOP/s.
// Before, a block by itself, 128 columns a step, its multiplies waited for: 654 us whatever the type.  What held it was none of the
// arithmetic but the fetching thread: 300 cycles a copy, as its addresses were not known to be uniform.
// tried: two products of 64 columns in turn (C7514: serialised by the compiler) | 660 us
// tried: 3 warpgroups of 64 rows, 64 columns, for all but `whole` | 747 us against 608 (IQ2_XS) | 519 instructions a unit and warp
// tried: arriving at the other block's barrier with release at cluster scope | 17 % of the time in memory barriers
// tried: fetching warps that spin | 461 us against 407
