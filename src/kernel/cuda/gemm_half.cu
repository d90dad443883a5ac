// y = W a with f16 tiles (half_layout.h) for many columns: Hopper's wgmma.
//
// Tile     128 rows x 64, 128 or 256 columns by 2 warpgroups of 64 rows; both operands come from shared memory as they lie in the
//          device's.
// Copies   one warp of a third warpgroup fetches steps of 64 or 128 inputs ahead with bulk copies.  Two blocks with neighbouring rows
//          share the columns: each fetches a half for both.
// Work     a tile's chain over K may be cut anywhere: each pair of blocks takes an equal run of steps, so that no wave is ragged.  A run
//          that ends inside a tile does that tile first and leaves its sums to the pair with the rest, which does it last and goes on from
//          them.
// Order    as in matvec_half.cu; the tensor core's sums of 16 products and one sum before have the same bits in mma.sync.m16n8k16 and in
//          wgmma with 8, 128 and 256 columns, operands in registers or shared memory: measured with nine distributions of 64 x 256 sums
//          over 5120 inputs (any f16 bits, subnormals, cancellation, 2^28 of range), every sum equal.  (m16n8k8 has others.)
#include "kernel/cuda/half.cuh"
#include "kernel/cuda/wgmma.cuh"

namespace fewbit::kernel::cuda {

namespace {

template <int N>
struct WideShape {
  static constexpr int groups = N / 8, workers = 256, threads = workers + 128;
  static constexpr int chunks = N > 64 ? 2 : 4;  // of 32 inputs in a step
  static constexpr int steps = 4 / chunks;       // of a unit
  static constexpr int w_chunk = 8 * half_chunk, w = chunks * w_chunk, act_chunk = groups * half_group, stage = w + chunks * act_chunk;
  // Outputs of a warpgroup on their way: 64 columns of 64 rows, 4 apart from each other in banks.
  static constexpr int out_column = 68 * 4, out = 64 * out_column;
  static constexpr int stages = (227 * 1024 - 1024 - 2 * out) / stage;
  // Shared memory from a multiple of 128: stages (weights, activations), outputs, barriers: a stage is there, may go.
  static constexpr u32 out_at = u32(stages * stage), full = out_at + 2 * out, empty = full + 8 * stages, smem = 128 + empty + 8 * stages;
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// The run of steps of a pair of blocks, tile by tile from the last.
struct HalfRun {
  int lo, hi, pieces, steps, tile, step0 = 0, step1 = 0;
  __device__ __forceinline__ HalfRun(const HalfArgs& a, int steps_of_unit, int pair, int n_pairs) : pieces(a.pieces) {
    steps = a.units * steps_of_unit;
    const i64 all = i64(a.pairs) * pieces;
    lo = int(all * pair / n_pairs), hi = int(all * (pair + 1) / n_pairs);
    tile = (hi + pieces - 1) / pieces;
  }
  __device__ __forceinline__ bool next() {
    if (--tile < lo / pieces) return false;
    const int each = steps / pieces;  // pieces: all steps or 1
    step0 = max(lo - tile * pieces, 0) * each, step1 = min(hi - tile * pieces, pieces) * each;
    return true;
  }
  // Of the tile, in pairs of blocks and in column tiles.  Tiles go down first: blocks that work on the same rows do so at the same time, so
  // that these come from memory once.
  __device__ __forceinline__ int rows(const HalfArgs& a) const { return tile % a.down; }
  __device__ __forceinline__ int columns(const HalfArgs& a) const { return tile / a.down; }
};

// d (64 x N) += a (64 x 16) * b (16 x N), both from shared memory.
template <int N>
__device__ __forceinline__ void wgmma_shared(f32 (&d)[N / 2], u64 a, u64 b);
// An operand of core matrices of 8 x 16 bytes: 128 bytes from one to the next along K, 512 along the rows.  A block's shared addresses
// begin above 2^18 where it is not the first of its cluster; a descriptor takes what is below.
__device__ __forceinline__ u64 core_matrices(u32 at) { return smem_desc(at & 0x3ffff, 128, 512, 0); }
// clang-format off
#define FEWBIT_SUMS(d, i)                                                                                                                  \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7]),              \
  "+f"(d[i + 8]), "+f"(d[i + 9]), "+f"(d[i + 10]), "+f"(d[i + 11]), "+f"(d[i + 12]), "+f"(d[i + 13]), "+f"(d[i + 14]), "+f"(d[i + 15])
template <>
__device__ __forceinline__ void wgmma_shared<64>(f32 (&d)[32], u64 a, u64 b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {"
      "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,"
      "%27,%28,%29,%30,%31"
      "}, %32, %33, 1, 1, 1, 0, 0;"
      : FEWBIT_SUMS(d, 0), FEWBIT_SUMS(d, 16)
      : "l"(a), "l"(b));
}
template <>
__device__ __forceinline__ void wgmma_shared<128>(f32 (&d)[64], u64 a, u64 b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {"
      "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,"
      "%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,"
      "%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
      "}, %64, %65, 1, 1, 1, 0, 0;"
      : FEWBIT_SUMS(d, 0), FEWBIT_SUMS(d, 16), FEWBIT_SUMS(d, 32), FEWBIT_SUMS(d, 48)
      : "l"(a), "l"(b));
}
template <>
__device__ __forceinline__ void wgmma_shared<256>(f32 (&d)[128], u64 a, u64 b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 {"
      "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,"
      "%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,"
      "%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63,%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,"
      "%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95,%96,%97,%98,%99,%100,"
      "%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,%112,%113,%114,%115,%116,%117,%118,%119,%120,"
      "%121,%122,%123,%124,%125,%126,%127"
      "}, %128, %129, 1, 1, 1, 0, 0;"
      : FEWBIT_SUMS(d, 0), FEWBIT_SUMS(d, 16), FEWBIT_SUMS(d, 32), FEWBIT_SUMS(d, 48),
        FEWBIT_SUMS(d, 64), FEWBIT_SUMS(d, 80), FEWBIT_SUMS(d, 96), FEWBIT_SUMS(d, 112)
      : "l"(a), "l"(b));
}
#undef FEWBIT_SUMS
// clang-format on

template <int N>
__device__ __forceinline__ void wide_fetch(const HalfArgs& a, u32 base, int rank, int lane) {
  using Shape = WideShape<N>;
  constexpr int chunks = Shape::chunks;
  const int groups = half_groups(a.cols), act_chunk = half_act_chunk(groups);
  const u64 tile_bytes = u64(a.units) * half_unit;
  u32 slot = 0, phase = 1;
  HalfRun run(a, Shape::steps, int(blockIdx.x) / 2, int(gridDim.x) / 2);
  while (run.next()) {
    const int rows = run.rows(a), group = run.columns(a) * Shape::groups,
              half = min(Shape::groups, groups - group % half_tile_groups) * half_group / 2;
    const HalfProduct& p = a.p[half_product(a, rows)];
    const int tile = ((rows - p.tile0) * 2 + rank) * 8;
    // Lane i: chunk i / 8 of row tile i % 8.  Lane i < chunks: also this block's half of the columns of chunk i.
    const u8* weights = p.w + u64(min(tile + lane % 8, p.tiles - 1)) * tile_bytes + u64(run.step0 * chunks + lane / 8) * half_chunk;
    const u8* act = a.act + u64(group / half_tile_groups) * half_act_tile(groups, a.units) +
                    u64(run.step0 * chunks + lane) * u64(act_chunk) + group % half_tile_groups * half_group + rank * half;
    const u32 act_at = u32(Shape::w + lane * Shape::act_chunk + rank * half);
    for (int i = run.step0; i < run.step1; i++, weights += chunks * half_chunk, act += chunks * act_chunk) {
      const u32 bar = base + Shape::full + 8 * slot, at = base + slot * Shape::stage;
      barrier_wait_asleep(base + Shape::empty + 8 * slot, phase);
      if (lane == 0) barrier_expect(bar, u32(Shape::w + 2 * chunks * half));
      __syncwarp();
      if (lane < chunks) bulk_copy_both(at + act_at, act, u32(half), bar);
      if (lane < 8 * chunks) bulk_copy(at + u32(lane * half_chunk), weights, half_chunk, bar);
      if (++slot == Shape::stages) slot = 0, phase ^= 1;
    }
  }
}

template <int threads>
__device__ __forceinline__ void sync_some(int barrier) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "n"(threads) : "memory");
}

// Writes a tile: 64 columns at a time go through shared memory, so that whole lines leave.
template <int N, bool pair>
__device__ __forceinline__ void wide_store(const HalfArgs& a, const HalfProduct& p, int tile, int columns, u32 out_at,
                                           const f32 (&acc)[N / 2]) {
  using Shape = WideShape<N>;
  constexpr int n_rows = pair ? 32 : 64, quads = n_rows / 4, at_once = 128 / quads, rounds = 64 / at_once;
  const int tid = int(threadIdx.x % 128), lane = tid % 32, g = lane / 4, t = lane % 4, group = int(threadIdx.x / 128);
  const HalfRows of(p, tile + int(threadIdx.x / 32), g);
  const u32 out = out_at + u32(group * Shape::out), to = out + u32((tid / 32 * (pair ? 8 : 16) + g) * 4 + 2 * t * Shape::out_column);
  const int row = (tile + 4 * group) * (pair ? 8 : 16) + tid % quads * 4;  // of the 4 outputs that this thread writes to memory
  const bool whole = row + 4 <= p.rows && p.ldy % 4 == 0 && reinterpret_cast<u64>(p.y) % 16 == 0;
#pragma unroll
  for (int pass = 0; pass < N / 64; pass++) {
    const int first = columns + 64 * pass;
    if (first >= a.cols) break;
    f32 d[16];
#pragma unroll
    for (int i = 0; i < 16; i++) d[i] = a.act_scale[min(first + i / 2 * 8 + 2 * t + i % 2, a.cols - 1)];
    float4 before[rounds];
    auto each = [&](auto&& f) {  // f(the outputs' place, round)
#pragma unroll
      for (int r = 0; r < rounds; r++) {
        const int col = first + tid / quads + r * at_once;
        if (col < a.cols) f(p.y + i64(col) * p.ldy + row, r);
      }
    };
    if (p.add)
      each([&](const f32* y, int r) {
        if (whole) {
          before[r] = *reinterpret_cast<const float4*>(y);
        } else {
          f32* b = reinterpret_cast<f32*>(&before[r]);
#pragma unroll
          for (int k = 0; k < 4; k++) b[k] = row + k < p.rows ? y[k] : 0;
        }
      });
#pragma unroll
    for (int i = 0; i < 16; i++) {
      const f32 sums[2] = {acc[32 * pass + i / 2 * 4 + i % 2], acc[32 * pass + i / 2 * 4 + 2 + i % 2]};
      f32 v[2];
#pragma unroll
      for (int h = 0; h < 2; h++) v[h] = of.value(p, sums[h], h, d[i]);
      const u32 at = to + u32((i / 2 * 8 + i % 2) * Shape::out_column);
      if (pair) {
        put_shared(at, glu_of(v[0], v[1], a.kind));
      } else {
        put_shared(at, v[0]), put_shared(at + 32, v[1]);
      }
    }
    sync_some<128>(2 + group);
    each([&](f32* y, int r) {
      const float4 q = shared_f128(out + u32((tid / quads + r * at_once) * Shape::out_column + tid % quads * 16));
      f32 v[4] = {q.x, q.y, q.z, q.w};
      if (p.add) {
        const f32 b[4] = {before[r].x, before[r].y, before[r].z, before[r].w};
#pragma unroll
        for (int k = 0; k < 4; k++) v[k] = b[k] + v[k];
      }
      if (whole) {
        *reinterpret_cast<float4*>(y) = make_float4(v[0], v[1], v[2], v[3]);
      } else {
#pragma unroll
        for (int k = 0; k < 4; k++)
          if (row + k < p.rows) y[k] = v[k];
      }
    });
    sync_some<128>(2 + group);
  }
}

#endif

template <int N>
__global__ void __launch_bounds__(WideShape<N>::threads, 1) gemm_half_kernel(const __grid_constant__ HalfArgs a) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  using Shape = WideShape<N>;
  extern __shared__ u8 raw[];
  const u32 base = (u32(__cvta_generic_to_shared(raw)) + 127) & ~127u;
  const int tid = int(threadIdx.x), lane = tid % 32, warp = warp_index(), rank = int(blockIdx.x % 2);

  early_launch();
  if (tid == 0) {
    for (u32 i = 0; i < Shape::stages; i++)  // stages go when the warps of both blocks are done with them
      barrier_init(base + Shape::full + 8 * i, 1), barrier_init(base + Shape::empty + 8 * i, 2 * Shape::workers / 32);
    asm volatile("fence.mbarrier_init.release.cluster;\nfence.proxy.async.shared::cta;" ::: "memory");
  }
  cluster_sync();
  early_wait();
  if (tid >= Shape::workers) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (warp == Shape::workers / 32) wide_fetch<N>(a, base, rank, lane);
    cluster_sync();  // no block leaves while the other copies into it or arrives at its barriers
    return;
  }
  asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");

  u32 slot = 0, phase = 0;
  f32 acc[N / 2];
  HalfRun run(a, Shape::steps, int(blockIdx.x) / 2, int(gridDim.x) / 2);
  while (run.next()) {
    const int rows = run.rows(a), columns = run.columns(a) * N;
    const HalfProduct& p = a.p[half_product(a, rows)];
    float4* part = a.parts + u64(blockIdx.x) * (half_part_bytes / 16) + tid;
    if (run.step0 > 0) {  // begun by the pair before
      part -= 2 * (half_part_bytes / 16);
      u32* flag = a.flags + blockIdx.x - 2;
      u32 there = 0;
      do asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(there) : "l"(flag) : "memory");
      while (!there);
#pragma unroll
      for (int i = 0; i < N / 8; i++) {
        const float4 q = __ldcg(part + i * Shape::workers);
        acc[4 * i] = q.x, acc[4 * i + 1] = q.y, acc[4 * i + 2] = q.z, acc[4 * i + 3] = q.w;
      }
      sync_some<Shape::workers>(1);
      if (tid == 0) *flag = 0;
    } else {
#pragma unroll
      for (f32& v : acc) v = 0;
    }
    auto leave = [&](u32 slot) {
      __syncwarp();
      if (lane < 2) cluster_arrive(base + Shape::empty + 8 * slot, u32(lane));
    };
    auto multiply = [&] {
      barrier_wait(base + Shape::full + 8 * slot, phase);
      const u32 at = base + slot * Shape::stage;
      wgmma_fence();
#pragma unroll
      for (int c = 0; c < Shape::chunks; c++)
#pragma unroll
        for (int s = 0; s < 2; s++) {
          const u32 w = at + u32(c * Shape::w_chunk + warp / 4 * 4 * half_chunk + s * 256);
          const u32 x = at + u32(Shape::w + c * Shape::act_chunk + s * 256);
          wgmma_shared<N>(acc, core_matrices(w), core_matrices(x));
        }
      wgmma_commit();
    };
#pragma unroll
    for (f32& v : acc) asm volatile("" : "+f"(v));  // the compiler would set them to zero between the multiplies
    multiply();
    for (int i = run.step0 + 1; i < run.step1; i++) {
      const u32 before = slot;
      if (++slot == Shape::stages) slot = 0, phase ^= 1;
      multiply();
      wgmma_wait<1>();  // the step before is done
      leave(before);
    }
    wgmma_wait<0>();
    leave(slot);
    if (++slot == Shape::stages) slot = 0, phase ^= 1;
    if (run.step1 < run.steps) {
#pragma unroll
      for (int i = 0; i < N / 8; i++)
        __stcg(part + i * Shape::workers, make_float4(acc[4 * i], acc[4 * i + 1], acc[4 * i + 2], acc[4 * i + 3]));
      __threadfence();
      sync_some<Shape::workers>(1);
      if (tid == 0) asm volatile("st.release.gpu.global.u32 [%0], 1;" ::"l"(a.flags + blockIdx.x) : "memory");
    } else {
      const int tile = ((rows - p.tile0) * 2 + rank) * 8;
      if (p.pair)
        wide_store<N, true>(a, p, tile, columns, base + Shape::out_at, acc);
      else
        wide_store<N, false>(a, p, tile, columns, base + Shape::out_at, acc);
    }
  }
  cluster_sync();
#endif
}

template <int N>
HalfWide entry() {
  return {gemm_half_kernel<N>, WideShape<N>::smem, WideShape<N>::threads, WideShape<N>::steps};
}

}  // namespace

HalfWide half_wide(int columns) { return columns == 64 ? entry<64>() : columns == 128 ? entry<128>() : entry<256>(); }

}  // namespace fewbit::kernel::cuda

// Measured on an H200 (nvcc 13.0, 30 Nov 2026), TOP/s with 512 columns: 34816x5120 651 (a pair 678), 16384x5120 626, 5120x17408 479,
// 5120x6144 430; with 1024 columns 34816x5120 648.  us of 34816x5120 with 16 / 64 / 128 columns: 110 / 110 / 126.  Without loads the
// multiplies reach 900.
// tried: column tiles before row tiles | 34816x5120 610 against 643 | rows come from memory twice
// tried: each lane writes its own sums | 494 to 562 | 130 us of 325 were stores of 32 bytes and waiting
// tried: clusters of 4 blocks along the rows | 34816x5120, 128 columns: 146 us against 138 | only 30 of them fit on the chip
// tried: activations as two planes of f16 (22 bits) | 385 against 643; one column 93 us against 87 | twice the multiplies
