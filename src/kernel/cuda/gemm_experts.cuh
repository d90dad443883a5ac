// y = W a for the columns of experts (prefill): the multiply of gemm.cuh for groups of up to 32 columns of one expert.
//
// Groups    an entry is one column of one expert.  Every block counts the experts' entries, so it knows all groups without a launch before
//           it, and lists those of its own.
// Tile      256 rows x 8, 16, 24 or 32 columns by 4 warpgroups; a block does a run of (group, rows).  An expert's weights are read and
//           unpacked once for 32 columns.  Unpacking and the waits between its steps bound it; warpgroups hide each other's waits, so
//           weights have one set of registers.
// Copies    a fifth warpgroup fetches units ahead: weights by bulk copies; of the columns' image (act_layout.h) 16 bytes at a time, as
//           groups take columns from anywhere and the place of a chunk depends on the column.
// Order     that of the mat-vec, as in gemm.cuh: every column has its bits.
#pragma once
#include "kernel/cuda/gemm.cuh"

namespace fewbit::kernel::cuda {

inline constexpr int expert_columns = 32;
// A unit of a group's columns in shared memory: f16 of inputs 0..63, of 64..127 (a row of 128 bytes per column), d, sums.
inline constexpr int expert_q = 128 * expert_columns, expert_d_at = 2 * expert_q, expert_sums_at = expert_d_at + 256;
FEWBIT_FN constexpr int expert_d_of(int n) { return expert_d_at + n / 16 * 64 + n % 8 / 2 * 16 + n / 8 % 2 * 8 + n % 2 * 4; }

struct ExpertArgs {
  MvProduct p;  // act: the image
  int tiles, units;
  Glu kind;
  u32 half_bias;
  const i32* ids;  // of entries; the activations of entry e are column first_col + e / act_div
  int entries, experts, first_col, act_div;
};

// Levels of 4-bit codes: any table; code - 8 (or code); a table within -64..63, to which 64 is added.
enum class Levels : u8 { table, plain, near };

// Groups of a block: at most.
inline constexpr int expert_lists = 24, most_wide_experts = 1024;
struct ExpertGroup {
  i32 entry[expert_columns];
  i32 expert, part, n, unused;  // columns 32 part .. of the expert's
};

template <Code C, Scale S>
struct ExpertShape {
  static constexpr int groups = 4, tiles = 4 * groups, workers = 128 * groups, threads = workers + 128;
  static constexpr int unit = code_bytes(C) + scale_bytes(S);
  static constexpr int weights_at = has_min(S) ? expert_sums_at + 1024 : expert_sums_at;
  static constexpr int stage = (weights_at + tiles * unit + 1023) / 1024 * 1024, room = 220 * 1024;
  static constexpr int stages = room / stage > 6 ? 6 : room / stage;
  // Shared memory from a multiple of 1024: stages (before: counts), barriers, 16 bytes (run, a zero), groups.
  static constexpr u32 full = u32(stages * stage), empty = full + 8 * stages, lists = empty + 8 * stages;
  static constexpr size_t smem = 1024 + lists + 16 + expert_lists * sizeof(ExpertGroup);
  static_assert(stage * stages >= 4 * most_wide_experts && threads / 32 * expert_lists <= most_wide_experts);
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// A bulk copy of what is read only once: it need not stay in the L2 cache, where outputs wait for their readers.
__device__ __forceinline__ void bulk_copy_once(u32 to, const void* from, u32 bytes, u32 bar) {
  u64 policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::"r"(to),
               "l"(from), "r"(bytes), "r"(bar), "l"(policy)
               : "memory");
}
__device__ __forceinline__ void copy_16(u32 to, const u8* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}
__device__ __forceinline__ void copy_4(u32 to, const u8* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(from) : "memory");
}

// A block's run of items (group, row tile), and its groups in `lists`; all threads call it.  counts: room for one number per expert.
struct ExpertRun {
  int lo, hi, first;  // first: group of lists[0]
  __device__ __forceinline__ ExpertRun(const ExpertArgs& a, int row_tiles, int tid, int threads, i32* counts, int* shared_run,
                                       ExpertGroup* lists) {
    const int lane = tid % 32, warp = tid / 32;
    for (int e = tid; e < a.experts; e += threads) counts[e] = 0;
    __syncthreads();
    for (int i = tid; i < a.entries; i += threads)
      if (const int id = a.ids[i]; u32(id) < u32(a.experts)) atomicAdd(counts + id, 1);
    __syncthreads();
    if (warp == 0) {  // a lane sums the groups of some neighbouring experts
      const int each = (a.experts + 31) / 32, e0 = min(lane * each, a.experts), e1 = min(e0 + each, a.experts);
      int mine = 0;
      for (int e = e0; e < e1; e++) mine += (counts[e] + expert_columns - 1) / expert_columns;
      int sum = mine;
      for (int m = 1; m < 32; m *= 2) {
        const int o = __shfl_up_sync(~0u, sum, m);
        if (lane >= m) sum += o;
      }
      const i64 items = i64(__shfl_sync(~0u, sum, 31)) * row_tiles;
      lo = int(items * blockIdx.x / gridDim.x), hi = int(items * (blockIdx.x + 1) / gridDim.x), first = lo / row_tiles;
      const int behind = (hi + row_tiles - 1) / row_tiles;
      int group = sum - mine;
      for (int e = e0; e < e1; e++) {
        const int n = counts[e];
        for (int part = 0; part * expert_columns < n; part++, group++)
          if (group >= first && group < behind && group - first < expert_lists) {
            ExpertGroup& l = lists[group - first];
            l.expert = e, l.part = part, l.n = min(n - part * expert_columns, expert_columns);
          }
      }
      if (lane == 0) shared_run[0] = lo, shared_run[1] = hi;
    }
    __syncthreads();
    lo = shared_run[0], hi = shared_run[1], first = lo / row_tiles;
    // Entries of the groups in ascending order: a warp counts its share of them for each expert, so an entry's place is the sum of counts
    // before it.
    const int groups = (hi + row_tiles - 1) / row_tiles - first, warps = threads / 32, share = (a.entries + threads - 1) / threads * 32;
    auto each_expert = [&](auto&& f) {
      for (int k = 0; k < groups; k++)
        if (k == 0 || lists[k].expert != lists[k - 1].expert) f(k, lists[k].expert);
    };
    auto each_entry = [&](auto&& f) {  // of the warp, 256 at a time
      const int begin = warp * share, end = min(begin + share, a.entries);
      for (int i0 = begin; i0 < end; i0 += 256) {
        int id[8];
#pragma unroll
        for (int k = 0; k < 8; k++) id[k] = i0 + 32 * k + lane < end ? a.ids[i0 + 32 * k + lane] : -1;
#pragma unroll
        for (int k = 0; k < 8; k++) f(i0 + 32 * k + lane, id[k]);
      }
    };
    each_expert([&](int k, int expert) {
      int n = 0;
      each_entry([&](int, int id) { n += __popc(__ballot_sync(~0u, id == expert)); });
      if (lane == 0) counts[k * warps + warp] = n;
    });
    __syncthreads();
    each_expert([&](int k, int expert) {
      int at = -lists[k].part * expert_columns;  // the next entry's place behind list k's first
      for (int w = 0; w < warp; w++) at += counts[k * warps + w];
      each_entry([&](int i, int id) {
        const u32 same = __ballot_sync(~0u, id == expert);
        const int to = at + __popc(same & ((1u << lane) - 1)), list = k + to / expert_columns;
        if (id == expert && to >= 0 && list < groups && lists[list].expert == expert) lists[list].entry[to % expert_columns] = i;
        at += __popc(same);
      });
    });
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");  // copies come where the counts lay
    __syncthreads();
  }
};

// A warp of the last warpgroup fetches a quarter of unit after unit.  Its copies of activations are waited for `lag` units later.
template <class Shape>
__device__ __forceinline__ void expert_fetch(const ExpertArgs& a, u32 base, const ExpertRun& run, const ExpertGroup* lists, int row_tiles,
                                             int quarter, int lane) {
  constexpr int lag = 2;
  static_assert(Shape::stages > lag);
  constexpr bool sums = Shape::weights_at > expert_sums_at;
  const u32 tile_bytes = u32(a.units) * Shape::unit;
  const int row = 4 * quarter + lane / 8, chunk = lane % 8, column = 8 * quarter + lane % 8;
  u32 slot = 0, phase = 1, signalled = 0;
  int behind = 0;  // units asked for and not yet signalled
  auto signal = [&] {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncwarp();
    if (lane == 0) barrier_arrive(base + Shape::full + 8 * signalled);
    if (++signalled == Shape::stages) signalled = 0;
  };
  int n = 0, group = -1;
  u32 q_from[2] = {}, d_from = 0, sum_from = 0;  // in the image
  for (int item = run.lo; item < run.hi; item++) {
    const int tile = item % row_tiles * Shape::tiles, beyond = a.tiles - 1 - tile;
    if (item / row_tiles - run.first != group) {
      group = item / row_tiles - run.first;
      const ExpertGroup& l = lists[group];
      n = l.n;
      auto col = [&](int i) { return a.first_col + l.entry[min(i, n - 1)] / a.act_div; };
      auto block_of = [&](int c) { return u32(c / 128) * u32(a.units) * act_image_block; };
#pragma unroll
      for (int i = 0; i < 2; i++) {
        const int c = col(row + 16 * i);
        q_from[i] = block_of(c) + u32(c % 128 * 128 + ((chunk ^ row % 8 ^ c % 8) << 4));
      }
      const int c = col(column);
      d_from = block_of(c) + u32(act_image_d_of(c, 0));
      if constexpr (sums) {
        const int of = col(8 * quarter + lane % 16 / 2);
        sum_from = block_of(of) + u32(act_image_sum_of(of, 0, lane % 2));
      }
    }
    const u8* weights = a.p.w + u64(lists[group].expert) * a.p.expert_bytes + i64(tile) * tile_bytes;
    const u8* image = a.p.act;
    for (int u = 0; u < a.units; u++, image += act_image_block, weights += Shape::unit) {
      const u32 bar = base + Shape::full + 8 * slot, at = base + slot * Shape::stage;
      barrier_wait_asleep(base + Shape::empty + 8 * slot, phase);
      __syncwarp();
      if (elect_one()) {
        if (quarter == 0) barrier_expect(bar, u32(Shape::tiles * Shape::unit));
#pragma unroll
        for (int k = 0; k < Shape::tiles / 4; k++) {
          const int i = 4 * k + quarter;
          bulk_copy_once(at + u32(Shape::weights_at + i * Shape::unit), weights + i64(min(i, beyond)) * tile_bytes, Shape::unit, bar);
        }
      }
      __syncwarp();
#pragma unroll
      for (int i = 0; i < 2; i++)
        if (row + 16 * i < n) {
          const u32 to = at + u32(row * 128 + chunk * 16) + u32(i * 16 * 128);
          copy_16(to, image + q_from[i]), copy_16(to + expert_q, image + q_from[i] + 16384);
        }
      if (lane < 8) copy_4(at + u32(expert_d_of(column)), image + d_from);
      if constexpr (sums) {
        const int of = 8 * quarter + lane / 2;
        if (lane < 16 && of < n) copy_16(at + u32(expert_sums_at + of * 32 + ((lane % 2 ^ of / 4 % 2) << 4)), image + sum_from);
      }
      asm volatile("cp.async.commit_group;" ::: "memory");
      if (++slot == Shape::stages) slot = 0, phase ^= 1;
      if (behind == lag) {
        asm volatile("cp.async.wait_group %0;" ::"n"(lag) : "memory");
        signal();
      } else {
        behind++;
      }
    }
  }
  asm volatile("cp.async.wait_group 0;" ::: "memory");
  for (; behind; behind--) signal();
}

#endif

// The weights of k-step j as half_step() has them; near: of a table with 192 + level (see unit_terms.cuh).
template <Code C, Scale S, Levels L, class UnitCodes>
__device__ __forceinline__ void expert_step(const UnitCodes& codes, const Tables& table, int j, const UnitScales<S>& scales, u32 bias,
                                            u32 (&a)[8]) {
  if constexpr (L == Levels::near) {
#pragma unroll
    for (int h = 0; h < 2; h++) {
      u32 sub = 0, off = 0;
      if constexpr (UnitScales<S>::has_sub) sub = scales.sub(h, j, 0, bias), off = hmul2(sub, h2(-1216));  // 19 sub times a power of two
#pragma unroll
      for (int f = 0; f < 2; f++) {
        const u32 lo = codes.w[2 * j + f] >> (16 * h), hi = (codes.w[2 * j + f] ^ 0x88888888u) >> (16 * h);
        const u32 r = permute(table.w[0], table.w[1], lo) & permute(table.w[2], table.w[3], hi);
        const u32 v[2] = {permute(r, bias, 0x5250), permute(r, bias, 0x5351)};  // 1024 + 192 + level
#pragma unroll
        for (int i = 0; i < 2; i++) {
          if constexpr (UnitScales<S>::has_sub)
            a[4 * f + 2 * i + h] = hfma2(v[i], sub, off);
          else
            a[4 * f + 2 * i + h] = hadd2(v[i], h2(-1216));
        }
      }
    }
  } else {
    half_step<C, S, 1, L == Levels::plain>(codes, table, j, scales, bias, a);
  }
}

template <Code C, Scale S, Levels L>
__global__ void __launch_bounds__(ExpertShape<C, S>::threads, 1) gemm_experts_kernel(const __grid_constant__ ExpertArgs a) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  using Shape = ExpertShape<C, S>;
  constexpr int workers = Shape::workers;
  extern __shared__ u8 raw[];
  const u32 base = (u32(__cvta_generic_to_shared(raw)) + 1023) & ~1023u;
  u8* shared = raw + (base - u32(__cvta_generic_to_shared(raw)));
  const int tid = int(threadIdx.x), lane = tid % 32, warp = warp_index(), g = lane / 4, t = lane % 4;
  early_launch();
  if (tid == 0) {
    for (u32 i = 0; i < Shape::stages; i++)  // full: quarters' activations, and the weights
      barrier_init(base + Shape::full + 8 * i, 5), barrier_init(base + Shape::empty + 8 * i, workers / 32);
  }
  early_wait();
  const int row_tiles = (a.tiles + Shape::tiles - 1) / Shape::tiles;
  auto* lists = reinterpret_cast<ExpertGroup*>(shared + Shape::lists + 16);
  const ExpertRun run(a, row_tiles, tid, Shape::threads, reinterpret_cast<i32*>(shared), reinterpret_cast<int*>(shared + Shape::lists),
                      lists);
  if (tid >= workers) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 32;");
    expert_fetch<Shape>(a, base, run, lists, row_tiles, warp - workers / 32, lane);
    return;
  }
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(112));  // of 640 x 96, the least that a block of 640 threads has

  const u32 zero = unknown_zero(base + Shape::lists + 8), bias = in_register(a.half_bias, zero);
  const MvProduct& p = a.p;
  Tables table;
#pragma unroll
  for (int i = 0; i < 4; i++) table.w[i] = in_register(p.table.w[i] ^ 0x80808080u, zero);  // 128 + level
  u32 slot = 0, phase = 0;
  f32 total[16];
  const int slab_shift = slab_count(a.units) == 8 ? 3 : 2;
  auto slab_end = [&](int n) { return a.units * n >> slab_shift; };  // slab_begin() without its division
  // Multiplies an item's units with 8 NG columns.
  auto multiply = [&](auto ng) {
    constexpr int NG = decltype(ng)::value, N = 4 * NG;  // sums of a lane
    constexpr bool each = S == Scale::g32;               // a weight scale per k-step
    constexpr int span = each ? 1 : S == Scale::g64 ? 2 : 4;
    u32 w[span][8];
    f32 acc[N], slab[N];
#pragma unroll
    for (int i = 0; i < N; i++) slab[i] = total[i] = 0;
    int slab_at = 1, border = slab_end(1);  // with fewer units than slabs some are empty
    while (border == 0) border = slab_end(++slab_at);
    for (int u = 0; u < a.units; u++) {
      const u32 at = base + slot * Shape::stage, here = slot, unit = at + u32(Shape::weights_at + warp * Shape::unit);
      barrier_wait(base + Shape::full + 8 * slot, phase);
      if (++slot == Shape::stages) slot = 0, phase ^= 1;
      UnitScales<S> scales;
      scales.load(unit + code_bytes(C), g);
      const UnitCodes<C, false> codes(unit, lane);
      const float4 d4 = shared_f128(at + u32(expert_d_at + lane % 8 * 16));
      const bool ones = __all_sync(~0u, d4.x == 1 && d4.y == 1 && d4.z == 1 && d4.w == 1);
      auto add = [&](f32 d0, f32 d1) {
        if (!ones) {
#pragma unroll
          for (int n = 0; n < (NG + 1) / 2; n++) {
            const float4 q = shared_f128(at + u32(expert_d_at + n * 64 + t * 16));
            const f32 act[4] = {q.x, q.y, q.z, q.w};
#pragma unroll
            for (int i = 0; i < 8; i++)
              if (8 * n + i < N) acc[8 * n + i] *= act[i / 4 * 2 + i % 2];
          }
        }
#pragma unroll
        for (int i = 0; i < N; i++) slab[i] = __fmaf_rn(acc[i], i / 2 % 2 ? d1 : d0, slab[i]);
      };
#pragma unroll
      for (int st = 0; st < 4 / span; st++) {
#pragma unroll
        for (int k = 0; k < span; k++) expert_step<C, S, L>(codes, table, st * span + k, scales, bias, w[k]);
        wgmma_fence();
#pragma unroll
        for (int f = 0; f < 2 * span; f++) {
          const int k16 = 2 * st * span + f;
          const u64 desc = smem_desc(at, 16, 1024, 1) + u32((k16 / 4 * expert_q + k16 % 4 * 32) >> 4);
          wgmma_columns<NG>(acc, w[f / 2] + 4 * (f % 2), desc, f);
        }
        wgmma_commit();
        wgmma_wait<0>();
        add(scales.d(0, st * span, p.bf16), scales.d(1, st * span, p.bf16));
      }
      if constexpr (has_min(S)) {
        const u32 m[4] = {scales.mins(0, t, bias), scales.mins(1, t, bias), scales.mins(0, t, bias), scales.mins(1, t, bias)};
        wgmma_fence();
        wgmma_columns<NG>(acc, m, smem_desc(at + expert_sums_at, 16, 256, 3), 0);
        wgmma_commit();
        wgmma_wait<0>();
        add(scales.dmin(0, 0), scales.dmin(1, 0));
      }
      __syncwarp();
      if (lane == 0) barrier_arrive(base + Shape::empty + 8 * here);
      if (u + 1 == border) {
#pragma unroll
        for (int i = 0; i < N; i++) total[i] += slab[i], slab[i] = 0;
        while (border == u + 1) border = slab_end(++slab_at);
      }
    }
  };
  for (int item = run.lo; item < run.hi; item++) {
    const ExpertGroup& group = lists[item / row_tiles - run.first];
    const int n = group.n;
    if (n <= 8)
      multiply(std::integral_constant<int, 1>());
    else if (n <= 16)
      multiply(std::integral_constant<int, 2>());
    else if (n <= 24)
      multiply(std::integral_constant<int, 3>());
    else
      multiply(std::integral_constant<int, 4>());
    const int tile = item % row_tiles * Shape::tiles + warp, row = tile * (p.pair ? 8 : 16) + g;
    if (tile >= a.tiles) continue;
    const bool in[2] = {row < p.rows, !p.pair && row + 8 < p.rows};
    f32 scale[2] = {1, 1}, bias[2] = {-0.0f, -0.0f};  // of the lane's row halves; these change nothing
#pragma unroll
    for (int h = 0; h < 2; h++) {
      const int which = p.pair ? h : 0, of = p.pair ? row : row + 8 * h;
      if (p.scale[which]) scale[h] = p.scale[which][group.expert];
      if (p.bias[which] && of < p.rows) bias[h] = p.bias[which][of];
    }
#pragma unroll
    for (int i0 = 0; i0 < 4; i0++) {  // columns 8 i0 ..
      if (8 * i0 >= n) break;
      const int2 entry = *reinterpret_cast<const int2*>(group.entry + 8 * i0 + 2 * t);
#pragma unroll
      for (int e = 0; e < 2; e++) {
        f32 v[2];
#pragma unroll
        for (int h = 0; h < 2; h++) v[h] = total[4 * i0 + 2 * h + e] * p.factor * scale[h] + bias[h];
        if (p.pair) v[0] = glu_of(v[0], v[1], a.kind);
        f32* y = p.y + i64(e ? entry.y : entry.x) * p.ldy + row;
        const bool live = 8 * i0 + 2 * t + e < n;
        if (live && in[0]) y[0] = v[0];
        if (live && in[1]) y[8] = v[1];
      }
    }
  }
#endif
}

struct ExpertEntry {
  void (*kernel)(ExpertArgs) = nullptr;
  size_t smem = 0;
  int threads = 0, tiles = 0;  // tiles of 16 rows of a block
};
template <Code C, Scale S, Levels L = Levels::table>
inline ExpertEntry expert_entry_of() {
  using Shape = ExpertShape<C, S>;
  return {gemm_experts_kernel<C, S, L>, Shape::smem, Shape::threads, Shape::tiles};
}
ExpertEntry expert_entry(int layout, Levels levels);  // no kernel: this layout has none
ExpertEntry expert_entry_t5(int layout);              // its part for t5

}  // namespace fewbit::kernel::cuda

// Measured on an H200 (nvcc 13.0, 30 Nov 2026), 256 experts of 512x2048, top 8, 512 tokens, us of gate and up / down with its sum
// (before: the mat-vec by eights): PQ2_0 92 / 74 (258 / 315), IQ2_XS 132 / 94 (353 / 348), IQ3_S 144 / 97 (382 / 354), Q4_0 121 / 87,
// Q8_0 146 / 108 (318 / 317); 64 tokens: PQ2_0 68 / 48 (86 / 100), IQ3_S 108 / 67 (133 / 120); down of 16: PQ2_0 28 (49), IQ3_S 38 (66).
// Of 110 and 165 us (PQ2_0, IQ3_S, an earlier form): 85 and 118 with half of the multiplies, 88 and 102 without unpacking.
// tried: always 32 columns | PQ2_0 106 / 90 us, 64 tokens 87 / 73
// tried: mma.sync and ldmatrix instead of wgmma, as they need no waits | PQ2_0 116 / 90, IQ3_S 165 / 112; 64 tokens 68 / 55
// tried: a group's entries listed by one warp | 10 us more: the others wait for its loads
// tried: weights copied like all else, so that they drive outputs out of the L2 cache | PQ2_0 98 / 84, with a sum of experts by single
// floats
