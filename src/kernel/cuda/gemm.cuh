// y = W a for many columns (prefill): Hopper's wgmma on exact integers held in f16.
//
// Why f16   a sub-block's integer factor goes into the weight: level * sub is an integer up to 2048, exact in f16.  Activations of layout
//           q8_128 and q8_256 are integers times a power of two, so small that every sum over 128 inputs is exact in f32 (act_layout.h).
//           The image holds them as they are, so that a sum needs one multiply-add per weight's scale, by that scale; int8 operands would
//           also need an int-to-float and the activations' own scale.  Sums are exact and the steps between are those of the mat-vec
//           (unit_dot.cuh), so every column has its bits.
// Bytes     level * sub of Q6_K and IQ4_XS needs 12 bits: two planes of bytes, 256 hi + lo, times activations q8_per128 as bytes.  The
//           upper plane's sums are shifted up and the lower one adds on top: a unit's sum is an exact 32-bit integer, scaled once.  The
//           next unit is unpacked while the lower plane is multiplied.
// by_32     activations of layout q8_32 (weights that need more than these sums allow): the image holds q, and every 32 inputs their
//           scales are read from shared memory and multiplied by.
// Tile      128 rows x 128 columns by 2 warpgroups of 64 rows.  A warp unpacks the weights of its own 16 rows into registers (the A
//           operand), so they never pass through shared memory unpacked; B comes as an image that the quantiser wrote (act_layout.h),
//           ready for the 128-byte swizzle.
// Overlap   a warpgroup multiplies a step (the inputs of one scale, at most a unit of 128) and waits while the other one adds its sums up
//           and unpacks its next step's weights, whose instructions mix.  Every step costs the four warps' waiting for each other, so
//           steps are as large as they can be.
// Copies    a third warpgroup fetches units ahead with bulk copies and gives its registers to the others.  Two blocks with neighbouring
//           rows share every image: each fetches a half for both.  Weights have slots of their own: they are needed a unit earlier.
// Work      a tile's sum over K is cut at slab borders into pieces; each pair of blocks takes an equal run of pieces, so that no wave is
//           ragged.  A run that ends inside a tile does that tile first, and leaves the totals to the pair with the rest, which does it
//           last and goes on from them: the order of the slabs stays.
#pragma once
#include "kernel/cuda/gemm_tile.cuh"

namespace fewbit::kernel::cuda {

// The steps of a unit: products of some inputs (bytes: of all, the upper bytes and then the lower), sums of q times the weights' minima.
template <Scale S, bool by_32, bool bytes>
struct GemmSteps {
  static constexpr bool each = S == Scale::g32 || S == Scale::g32m;               // a weight's scale of 32 inputs
  static constexpr int inputs = by_32 || each ? 32 : S == Scale::g64 ? 64 : 128;  // of a step
  static constexpr int products = 128 / inputs, minima = !has_min(S) ? 0 : by_32 ? 4 : 1;
  static constexpr int n = bytes ? 2 : products + minima;
  static constexpr bool two_sums = by_32 && !each;   // those of a scale's steps are added up apart
  static constexpr int held = inputs / 32;           // k-steps of which the weights lie in registers
  static constexpr bool in_turn = S == Scale::g32m;  // a product, its minima, the next product
  FEWBIT_FN static constexpr bool is_min(int i) { return in_turn ? i % 2 == 1 : !bytes && i >= products; }
  FEWBIT_FN static constexpr int index(int i) { return in_turn ? i / 2 : i % products; }
  static constexpr int last_product = in_turn ? n - 2 : products - 1;
};

// What the instructions of a step may mix with, as measured.
template <Code C, Scale S, bool by_32, bool bytes, bool plain, bool bf16>
struct GemmOrder {
  // Images that need scaling have code of their own.  Else every step has a branch, and unpacking does not mix with adding up.
  static constexpr bool apart =
      !by_32 && !bytes && (GemmSteps<S, by_32, bytes>::each || S == Scale::g64 || S == Scale::k16m || (C == Code::n4 && S == Scale::k32));
  // Operands are made before the wait for the multiply before, in registers of their own.
  static constexpr bool ahead = bytes || (S == Scale::g64 && !by_32);
  // The next unit's codes come in the step before the last.
  static constexpr bool early = has_min(S) || (C == Code::n4 && S == Scale::g32 && !plain && !bf16);
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// What makes v comes before this: operands not between the multiplies that use them, sums not behind the next multiply.
__device__ __forceinline__ void in_place(u32& v) { asm volatile("" : "+r"(v)); }
__device__ __forceinline__ void in_place(f32& v) { asm volatile("" : "+f"(v)); }

#endif

template <Code C, Scale S, bool by_32, bool bytes, bool plain, bool bf16>
__global__ void __launch_bounds__(GemmShape<C, S, by_32, bytes>::threads, 1) gemm_kernel(const __grid_constant__ GemmArgs a) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  using Shape = GemmShape<C, S, by_32, bytes>;
  using Steps = GemmSteps<S, by_32, bytes>;
  using Order = GemmOrder<C, S, by_32, bytes, plain, bf16>;
  constexpr int workers = Shape::workers;
  extern __shared__ u8 raw[];
  const u32 base = (u32(__cvta_generic_to_shared(raw)) + 1023) & ~1023u;
  const u32 thread = threadIdx.x;  // unsigned: divisions are shifts
  const int tid = int(thread), lane = int(thread % 32), warp = int(thread / 32), g = int(thread % 32 / 4), t = int(thread % 4);
  const int rank = int(blockIdx.x % 2);

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
    if (elect_one()) gemm_fetch<Shape>(a, base, rank, quarter);
    __syncwarp();
    cluster_sync();  // no block leaves while the other copies into it or arrives at its barriers
    return;
  }
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(240));

  const u32 totals = base + Shape::totals_at + u32(tid) * 16;
  const u32 zero = unknown_zero(totals), bias = in_register(bytes ? byte_bias_bits : a.half_bias, zero);
  u32 slot = 0, phase = 0, w_slot = 0, w_phase = 0;
  f32 slab[64], sum[Steps::two_sums ? 64 : 1];  // sum: where the activations have scales, those of a weight's scale
  std::conditional_t<bytes, int, f32> acc[64];
  constexpr int held = (Order::ahead ? 2 : 1) * Steps::held;
  u32 w[bytes ? 1 : held][8], m[2], pairs[bytes ? 4 : 1][2][4], upper[bytes ? 4 : 1][4], lower[bytes ? 4 : 1][4];
  UnitScales<S> now, next;

  GemmRun run(a, int(blockIdx.x) / 2, int(gridDim.x) / 2);
  while (run.next()) {
    const int rows = run.tile / a.across;
    int index = 0;
    while (index + 1 < a.n && rows >= a.p[index + 1].tile0) index++;
    const MvProduct& p = a.p[index];
    Tables table;
#pragma unroll
    for (int i = 0; i < 4; i++) table.w[i] = in_register(bf16 ? p.table.w[i] : p.table.w[i] ^ 0x80808080u, zero);  // 128 + level
    table.fours = in_register(table.fours, zero);
    float4* part = a.parts + u64(blockIdx.x) * (gemm_part_bytes / 16) + tid;
    if (run.piece0 > 0) {  // begun by the pair before
      part -= 2 * (gemm_part_bytes / 16);
      u32* flag = a.flags + blockIdx.x - 2;
      u32 there = 0;
      do asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(there) : "l"(flag) : "memory");
      while (!there);
#pragma unroll
      for (int i = 0; i < 16; i++) put_shared(totals + i * workers * 16, __ldcg(part + i * workers));
      workers_sync<workers>();
      if (tid == 0) *flag = 0;
    }
#pragma unroll
    for (int i = 0; i < 64; i++) slab[i] = 0;

    const int u0 = run.border(run.piece0), u1 = run.border(run.piece1);
    // The next unit's scales and codes; behind the last unit, unused, of whatever lies there.
    auto take = [&](bool exists, bool there) {
      if (exists && !there) barrier_wait(base + Shape::w_full + 8 * w_slot, w_phase);
      const u32 unit = base + Shape::weights_at + w_slot * Shape::weights + u32(warp * Shape::unit);
      next.load(unit + code_bytes(C), g);
      return UnitCodes<C, !Steps::two_sums>(unit, lane);
    };
    auto give_back = [&] {  // its weights are in registers
      __syncwarp();
      if ((Order::apart ? lane_id() : u32(lane)) == 0) barrier_arrive(base + Shape::w_empty + 8 * w_slot);
      if (++w_slot == Shape::slots) w_slot = 0, w_phase ^= 1;
    };
    UnitCodes<C, !Steps::two_sums> codes = take(true, false);
    // Operands of step i into registers.  Minima: k position 2 j + f of the sums' tile holds the sum of half f of k-step j, 8 + 2 j + f its
    // rest.
    auto prepare = [&](int i, const UnitScales<S>& scales) {
      if (Steps::is_min(i)) {
        const int j = Steps::index(i);
#pragma unroll
        for (int h = 0; h < 2; h++) m[h] = Steps::minima == 1 ? scales.mins(h, t, bias) : t == j ? scales.mins(h, j, bias) : 0;
        return;
      }
      if constexpr (bytes) {
#pragma unroll
        for (int j = 0; j < 4; j++) {
          if (i == 0) byte_pairs<C, S>(codes, table, j, scales, bias, pairs[j][0], pairs[j][1]);
          u32(&to)[4] = i == 0 ? upper[j] : lower[j];
#pragma unroll
          for (int k = 0; k < 4; k++) {
            to[k] = i == 0 ? upper_bytes(pairs[j][0][k], pairs[j][1][k]) : lower_bytes(pairs[j][0][k], pairs[j][1][k]);
            in_place(to[k]);
          }
        }
      } else {
        constexpr int steps = Steps::inputs / 32;
#pragma unroll
        for (int j = Steps::index(i) * steps; j < (Steps::index(i) + 1) * steps; j++) {
          u32(&to)[8] = w[j % held];
          half_step<C, S, 1, plain, bf16>(codes, table, j, scales, bias, to);
#pragma unroll
          for (int k = 0; k < 8; k++) in_place(to[k]);
        }
      }
    };
    auto multiply = [&](int i, u32 at) {
      wgmma_fence();
      if constexpr (bytes) {
#pragma unroll
        for (int j = 0; j < 4; j++) {
          const u64 desc = smem_desc(at + Shape::q_at, 16, 1024, 1) + u32(32 * j >> 4);
          const u32(&v)[4] = i == 0 ? upper[j] : lower[j];
          if (i == 0)
            wgmma_signed(acc, v[0], v[1], v[2], v[3], desc, j > 0);
          else
            wgmma_unsigned(acc, v[0], v[1], v[2], v[3], desc, 1);
        }
      } else if (Steps::is_min(i)) {
        wgmma128(acc, m[0], m[1], m[0], m[1], smem_desc(at, 16, 256, 3), 0);
      } else {
        constexpr int k16s = Steps::inputs / 16;
#pragma unroll
        for (int k = 0; k < k16s; k++) {
          const int k16 = Steps::index(i) * k16s + k, f = k16 % 2;
          const u32(&v)[8] = w[k16 / 2 % held];
          const u64 desc = smem_desc(at, 16, 1024, 1) + u32((Shape::q_at + k16 / 4 * Shape::q + k16 % 4 * 32) >> 4);
          wgmma128(acc, v[4 * f], v[4 * f + 1], v[4 * f + 2], v[4 * f + 3], desc, k > 0);
        }
      }
      wgmma_commit();
    };
    // f(i, scale of the image) for all sums.
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
    auto add_scaled = [&](const auto& v, const f32(&d)[2]) {
#pragma unroll
      for (int i = 0; i < 64; i++) slab[i] = __fmaf_rn(v[i], d[i / 2 % 2], slab[i]);
    };
    // Adds the sums of step i, where the image's scales lie at d_at; d: the weights' scales of the lane's rows.
    auto add_up = [&](int i, u32 d_at, auto ones, const f32(&d)[2]) {
      const u32 from = d_at + u32(by_32 ? Steps::index(i) * 512 : 0);
      if constexpr (bytes) {
        if (i == 0) {
#pragma unroll
          for (int k = 0; k < 64; k++) acc[k] = k % 8 < 3 ? int(permute(u32(acc[k]), 0, 0x2104)) : acc[k] << 8;  // on both pipes
        } else {
          for_scales(from, [&](int k, f32 act) { slab[k] = __fmaf_rn(f32(acc[k]) * act, d[k / 2 % 2], slab[k]); });
        }
      } else if constexpr (by_32 && !Steps::two_sums) {
        for_scales(from, [&](int k, f32 act) { slab[k] = __fmaf_rn(acc[k] * act, d[k / 2 % 2], slab[k]); });
      } else if constexpr (by_32) {
        for_scales(from, [&](int k, f32 act) { sum[k] = __fmaf_rn(acc[k], act, Steps::index(i) ? sum[k] : 0.0f); });
        if (Steps::index(i) == 3) add_scaled(sum, d);
      } else {
        if (__builtin_expect(!ones, 0)) for_scales(from, [&](int k, f32 act) { acc[k] *= act; });
        add_scaled(acc, d);
      }
#pragma unroll
      for (f32& v : slab) in_place(v);
      if constexpr (Steps::two_sums) {
#pragma unroll
        for (f32& v : sum) in_place(v);
      }
    };
    bool begun = run.piece0 > 0;  // there are totals
    auto flush = [&] {
#pragma unroll
      for (int i = 0; i < 16; i++) {
        const u32 to = totals + i * workers * 16;
        const float4 q = begun ? shared_f128(to) : make_float4(0, 0, 0, 0);
        f32* s = slab + 4 * i;
        put_shared(to, make_float4(q.x + s[0], q.y + s[1], q.z + s[2], q.w + s[3]));
        s[0] = s[1] = s[2] = s[3] = 0;
      }
      begun = true;
    };
    // Waits for the image of the next unit.  The scales of it that the lane looks at: all ones, if it needs no scaling.
    auto wait_image = [&](bool there) {
      if (!there) barrier_wait(base + Shape::full + 8 * slot, phase);
      return by_32 || bytes ? float4{} : shared_f128(base + slot * Shape::stage + Shape::d_at + u32(lane) * 16);
    };
    auto leave_image = [&](u32 slot) {
      __syncwarp();
      const u32 other = Order::apart ? lane_id() : u32(lane);
      if (other < 2) cluster_arrive(base + Shape::empty + 8 * slot, other);
    };
    auto are_ones = [](float4 d) { return by_32 || bytes || __all_sync(~0u, d.x == 1 && d.y == 1 && d.z == 1 && d.w == 1); };

    int slab_at = 1;  // the border behind the current slab; with fewer units than slabs some are empty
    while (slab_begin(a.units, slab_at) <= u0) slab_at++;
    int border = slab_begin(a.units, slab_at);
    auto weights_there = [&] { return barrier_test(base + Shape::w_full + 8 * w_slot, w_phase); };
    constexpr bool early = Order::early;
    // A step: its sums are added up and the operands of the step behind it are made; then that is multiplied.
    prepare(0, next);
    if (Steps::products == 1) give_back();
    now = next;
    bool ones = are_ones(wait_image(false)), there = false;  // the next unit's weights
    multiply(0, base + slot * Shape::stage);
    for (int u = u0; u < u1; u++) {
      const u32 here = slot, at = base + here * Shape::stage;
      const bool more = u + 1 < u1;
      float4 next_d{};
      auto steps = [&](auto unscaled) {
#pragma unroll
        for (int i = 0; i < Steps::n; i++) {
          const bool last = i == Steps::n - 1;
          const int to = last ? 0 : i + 1;
          bool image = false;
          if (last) {
            if (more && ++slot == Shape::stages) slot = 0, phase ^= 1;
            image = barrier_test(base + Shape::full + 8 * slot, phase);
            if (!early) codes = take(more, there);
          }
          f32 d[2];
#pragma unroll
          for (int h = 0; h < 2; h++)
            d[h] = Steps::is_min(i) ? now.dmin(h, Steps::index(i)) : now.d(h, Steps::index(i) * Steps::inputs / 32, bf16);
          if (Order::ahead) prepare(to, last ? next : now);
          if (bytes && last && more) {  // branches, which keep what is before the wait there
            give_back();
            wait_image(image);
          }
          wgmma_wait<0>();
          if (!Order::ahead) prepare(to, last ? next : now);
          add_up(i, at + Shape::d_at, unscaled, d);
          if (!bytes && to == Steps::last_product && (!last || more)) give_back();
          if (!bytes && last && more) next_d = wait_image(image);
          const bool ask = (i + 2) % Steps::n == 0;
          if (early && ask) there = weights_there();
          multiply(to, last ? base + slot * Shape::stage : at);  // behind the last unit: of whatever lies there, unused
          if (early && ask) codes = take(more, there);
          if (!early && ask) there = weights_there();
        }
      };
      if constexpr (!Order::apart)
        steps(ones);
      else if (__builtin_expect(ones, 1))
        steps(std::true_type());
      else
        steps(std::false_type());
      now = next;
      ones = are_ones(next_d);
      if (more) leave_image(here);
      if (u + 1 == border) {
        flush();
        while (border == u + 1) border = slab_begin(a.units, ++slab_at);
      }
    }
    wgmma_wait<0>();  // of the step behind the last unit, with its image
    leave_image(slot);
    if (++slot == Shape::stages) slot = 0, phase ^= 1;
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
template <Code C, Scale S, bool by_32 = false, bool bytes = false, bool plain = false, bool bf16 = false>
inline GemmEntry gemm_entry() {
  using Shape = GemmShape<C, S, by_32, bytes>;
  return {gemm_kernel<C, S, by_32, bytes, plain, bf16>, Shape::smem, Shape::columns, Shape::tiles, Shape::threads};
}
// What a kernel depends on besides the layout.
struct GemmKind {
  bool by_32;  // activations
  bool bytes;  // activations q8_per128: level * sub needs 12 bits
  bool plain;  // nibbles: level = c - 8
  bool bf16;   // MXFP4: scales g32; the table has to hold the upper bytes of its levels as f16 (half_bytes)
};
// One function per file of instances; no kernel for layouts of other files.
GemmEntry gemm_entry_2(int layout, GemmKind kind);  // q1, b2, t5
GemmEntry gemm_entry_t5(int layout, GemmKind kind);
GemmEntry gemm_entry_4(int layout, GemmKind kind);  // t3, n4
GemmEntry gemm_entry_8(int layout, GemmKind kind);  // b8

}  // namespace fewbit::kernel::cuda

// Measured on an H200 (nvcc 13.0, 30 Nov 2026): 34816x5120, 512 columns, TOP/s: PQ2_0 597 (base 3: 566), Q1_0 602, Q2_0 557, IQ2_*,
// IQ1_M, Q3_K 535 to 541, IQ3_* 492, IQ1_S 490, Q2_K 486, Q4_K 480, Q8_0 457, Q4_0 456, Q6_K 444, MXFP4 427, IQ4_XS 422, IQ4_NL 421.
//
// Bound by  what a scheduler's two warps do (ncu, IQ4_NL): of 2,480 cycles a unit 1,100 issue, its multiplies take 1,024; the rest are
//           waits for the multiply, for the warps that share it, for results a few cycles away, and jumps.  So instructions count:
//           constants and tables in vector registers were worth the most (82 of 598 instructions copied them from uniform ones), then
//           code of its own for images that need scaling: without a branch in each step its instructions mix (400 to 421).
//
// tried: columns in two halves, so that a warpgroup's own multiply goes on while it adds up | Q8_0 346 for 395 | four warps meet more often
// tried: two sets of sums, so that a step of 32 inputs is multiplied while the one before is added up | IQ4_NL 410 for 421, Q8_0 436 for
// 457 | multiplies and additions share the registers' ports: stalls at dispatch grow from 9 to 23 %
// tried: code of its own for images that need scaling, for all | IQ2_*, IQ1_M, Q3_K 503 for 538, Q4_K 470 for 480, PQ2_0 the same
// tried: sums on their way around the loop (wait_group 1) | the compiler serialises them (C7514)
// tried: operands made behind the next multiply, in two sets of registers | PQ2_0 630, Q4_K 492, but IQ2_* 509, Q8_0 431, MXFP4 396
// tried: codes loaded a step earlier for all | IQ4_NL 405 for 401, Q4_K 482 for 450, but Q1_0 531 for 606, IQ2_* 513 for 538, Q8_0 432
// tried: Q6_K, IQ4_XS with their levels as operands, d * sub as factor of each sub's sum | 313 and 402 | sums of 16 and 32 inputs
// tried: Q6_K, IQ4_XS by two planes of f16, sums of 32 inputs | 242 and 230
// tried: a step's four k-steps as groups, so that weights need no second set of registers | the compiler waits for all at once
// tried: fetching warps that sleep 100 to 1000 ns between looks at a barrier | 1 % slower | they hardly sleep, a third of all instructions
// tried: minima's sums without swizzle, parts 128 bytes apart | wrong, NaN | the second half of K is not read from there
// tried: 3 warpgroups of 64 rows, 64 columns, sums of 32 | 747 us against 608 (IQ2_XS)
