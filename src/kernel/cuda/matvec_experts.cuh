// Experts of few tokens (decode): every entry (one token's column of one expert) is multiplied alone, and nothing waits that need not.
//
// Fours    as in matvec_one.cuh: with one column, seven of the eight columns of an mma are idle.  The activations of unit u (of four) go
//          into column 2 u of B and zeros into the others, and the mmas of four units add into the same registers: lane 4 g + t then holds
//          the sums of unit t and does its float steps.  Then the results change places, and lane h of each four adds those of row half h
//          in order.  Fewer instructions but more registers; else the four lanes do the same, unit by unit.
// Work     glu: a block per row tile and entry, a warp per slab.  down: a block per row tile and token, a warp or more per entry; the block
//          adds the experts' results to x itself.
// Joined   a launch costs more than repeating a little work in every block: glu's may find their expert themselves, from the router's
//          logits; down's may quantise their token's activations, take the shared expert as one entry more, and add it to x.
// Waits    ids and activations come from the predecessor: all that needs no id is asked for before it.  A warp asks for all its weights.
// Order    unit_dot()'s operations in order of K per slab, slabs in order, experts in order: the bits of matvec.cuh and combine_kernel.
#pragma once
#include "kernel/cuda/lanes.cuh"
#include "kernel/cuda/matvec.cuh"
#include "kernel/cuda/quantise.cuh"
#include "kernel/cuda/route.cuh"
#include "kernel/cuda/unit_terms.cuh"

namespace fewbit::kernel::cuda {

struct EntryArgs {
  MvProduct p;
  int units, k, split;  // k: entries of a token; split: warps of an entry, each with as many slabs
  Glu kind;
  const i32* ids;
  const f32* weights;  // down: of entries
  // glu: the router's choice is made here, if there are logits (tokens, experts).
  struct {
    const f32* logits;
    int experts;
    f32 scale;
    i32* ids;  // (tokens, k), with their weights: written by the first tile's last block of each token
    f32* weights;
  } route;
  // down: what is quantised here, if it is not in p.act.  (tokens * k, n), n a multiple of 4.
  const f32* h;
  int n;
  ActLayout layout;
  // down: the shared expert, as an entry behind the k or computed before (y), and the logit of its factor (nullptr: 1).
  struct {
    const u8* w;
    const f32 *h, *scale, *bias;  // h (tokens, n)
    const f32 *y, *gate;
  } shared;
  FEWBIT_FN int slots() const { return k + (shared.w ? 1 : 0); }
};

inline constexpr int entry_warps = 18, entry_static_smem = 2560;  // of a block, at most
inline constexpr int most_routed = 512;                           // experts that a block chooses from

template <Code C, Scale S>
struct EntryShape {
  static constexpr int unit = code_bytes(C) + scale_bytes(S);
  static constexpr bool fours = S != Scale::g32 && S != Scale::g128;  // too much to exchange; too few steps to gain
  static constexpr int act = 512, zeros = 192;                        // of a warp: q of four units; zeros begin where q's banks end
  // Units | activations of each warp | zeros | barriers | sums: 16 rows of each slab
  FEWBIT_FN static constexpr u32 acts_at(int entries, int units) { return (u32(entries * units * unit) + 127) / 128 * 128; }
  FEWBIT_FN static constexpr u32 zeros_at(int entries, int units, int warps) { return acts_at(entries, units) + u32(warps) * act; }
  FEWBIT_FN static constexpr u32 barriers_at(int entries, int units, int warps) { return zeros_at(entries, units, warps) + zeros; }
  FEWBIT_FN static constexpr u32 sums_at(int entries, int units, int warps) { return barriers_at(entries, units, warps) + u32(warps) * 8; }
  FEWBIT_FN static constexpr u32 smem(int entries, int units, int warps) {
    return sums_at(entries, units, warps) + u32(entries * slab_count(units)) * 64;
  }
  // Activations that the block makes, behind all that.
  FEWBIT_FN static constexpr u32 made_at(int entries, int units, int warps) { return (smem(entries, units, warps) + 15) / 16 * 16; }
};

// A warp's units of one column, from u on.
template <Code C, Scale S>
struct EntryColumn {
  const u8* act;  // block of the first unit
  bool made;      // in shared memory
  int in_group, lane;
  uint4 q;      // lane 8 u + 4 half + t
  ActScales s;  // of unit t

  __device__ __forceinline__ EntryColumn(const u8* acts, bool made_, int units, int column, int u, int lane_)
      : act(acts + act_block_at(units, column, u)), made(made_), in_group(column % 8), lane(lane_) {}
  // Asks for the activations of n units (fours: up to 4) from the i-th on.
  __device__ __forceinline__ void ask(int i, int n) {
    if constexpr (EntryShape<C, S>::fours) {
      const int u = min(lane / 8, n - 1), t = min(lane % 4, n - 1);
      const uint4* from =
          reinterpret_cast<const uint4*>(act + (i + u) * act_block + lane / 4 % 2 * 512 + (4 * act_n_of_column(in_group) + lane % 4) * 16);
      q = made ? *from : __ldcg(from);
      s.load(act + (i + t) * act_block + act_d_of(in_group, 0));
    } else if (!made) {
      const int line = lane % 3 == 2 ? act_d_of(in_group, 0) : 64 * act_n_of_column(in_group) + lane % 3 * 512;
      for (int u = lane / 3; u < n && lane < 30; u += 10) touch(act + (i + u) * act_block + line);
    }
  }
  // Multiplies n units at shared address `unit`.  Behind `border` of them next(sum) takes the sum of a slab and tells where the next ends;
  // lanes t = 0, 1 have rows g, g + 8.
  template <class Next>
  __device__ __forceinline__ void multiply(u32 unit, int n, int border, const MvProduct& p, u32 q_at, u32 zero, Next&& next) {
    constexpr int unit_bytes = EntryShape<C, S>::unit, n_terms = UnitTerms<S>::n;
    const int g = lane / 4, t = lane % 4;
    UnitSums<C, S> sums;
    UnitTerms<S> terms;
    if constexpr (EntryShape<C, S>::fours) {
      f32 acc = 0;
      for (int i = 0; i < n; i += 4, unit += 4 * unit_bytes) {
        const int left = min(n - i, 4);
        put_shared(q_at + u32(16 * lane), q);
        __syncwarp();
        auto add = [&](int u) {
          const u32 from = (g == 2 * u ? q_at + u32(128 * u) : zero) + u32(16 * t);
          const uint4 b[2] = {shared_u128(from), shared_u128(from + 64)};
          sums.add(unit + u32(u * unit_bytes), lane, b, p.table, u == 0);
        };
        if (left == 4) {
#pragma unroll
          for (int u = 0; u < 4; u++) add(u);
        } else {
          add(0);
          if (left > 1) add(1);
          if (left > 2) add(2);
        }
        unit_terms<C, S>(sums, unit + u32(min(t, left - 1) * unit_bytes) + code_bytes(C), g, s, p.bf16, terms);
        __syncwarp();
        if (i + 4 < n) ask(i + 4, min(n - i - 4, 4));
        f32 value[n_terms][4], factor[n_terms][4];
#pragma unroll
        for (int k = 0; k < n_terms; k++) {
          f32 v[4] = {terms.value[k][0], terms.value[k][1], terms.factor[k][0], terms.factor[k][1]};
          transpose4(v, t);
#pragma unroll
          for (int u = 0; u < 4; u++) value[k][u] = v[u], factor[k][u] = __shfl_down_sync(~0u, v[u], 2);
        }
#pragma unroll
        for (int u = 0; u < 4; u++) {
          if (u >= left) break;
#pragma unroll
          for (int k = 0; k < n_terms; k++) acc = __fmaf_rn(value[k][u], factor[k][u], acc);
          if (i + u + 1 == border) border = next(acc), acc = 0;
        }
      }
    } else {
      const u8* from = act + (4 * act_n_of_column(in_group) + t) * 16;
      const u8* d = act + act_d_of(in_group, 0);
      f32 acc[2] = {};
      for (int i = 0; i < n; acc[0] = acc[1] = 0) {
#pragma unroll 2
        for (; i < border; i++, from += act_block, d += act_block, unit += unit_bytes) {
          const uint4 b[2] = {*reinterpret_cast<const uint4*>(from), *reinterpret_cast<const uint4*>(from + 512)};
          s.load(d);
          sums.add(unit, lane, b, p.table, true);
          unit_terms<C, S>(sums, unit + code_bytes(C), g, s, p.bf16, terms);
#pragma unroll
          for (int k = 0; k < n_terms; k++)
#pragma unroll
            for (int h = 0; h < 2; h++) acc[h] = __fmaf_rn(terms.value[k][h], terms.factor[k][h], acc[h]);
        }
        border = next(t % 2 ? acc[1] : acc[0]);
      }
    }
  }
};

// What a warp does: slabs s0 .. s1 of the entry whose activations are at `column` of `acts`.  Its sums go to `sums` (of the entry), 16 rows
// of each slab.  weights(): where the entry's begin; make(): makes the activations, if the block does.  Every warp calls both once.
template <Code C, Scale S, class Weights, class Make>
__device__ __forceinline__ void entry_slabs(const EntryArgs& a, int tile, const u8* acts, bool made, int column, int s0, int s1, u8* shared,
                                            u32 data, u32 q_at, u32 zero, u8* barrier, f32* sums, int lane, Weights&& weights,
                                            Make&& make) {
  using Shape = EntryShape<C, S>;
  const MvProduct& p = a.p;
  const int u0 = slab_begin(a.units, s0), n = slab_begin(a.units, s1) - u0;
  Ring<0, 1> ring(shared, barrier, lane);
  ring.base = data + u32(u0 * Shape::unit);
  EntryColumn<C, S> x(acts, made, a.units, column, u0, lane);
  if (n && !made) x.ask(0, Shape::fours ? min(n, 4) : n);
  const u8* w = weights();
  if (n) ring.fill(0, w + (u64(tile) * u32(a.units) + u32(u0)) * Shape::unit, 0, 1, u32(n) * Shape::unit);
  if (made) {
    make();
    if (n) x.ask(0, Shape::fours ? min(n, 4) : n);
  }
  f32* to = sums + s0 * 16 + 8 * (lane % 2) + lane / 4;
  int slab = s0, end = 0;
  // Where the next slab with units ends; zeros are the sums of empty ones.
  auto border = [&] {
    for (; slab < s1; slab++, to += 16) {
      const int begin = end;
      end = slab_begin(a.units, slab + 1) - u0;
      if (end > begin) break;
      if (lane % 4 < 2) *to = 0;
    }
    return end;
  };
  const int first = border();
  if (!n) return;
  ring.wait();
  x.multiply(ring.base, n, first, p, q_at, zero, [&](f32 sum) {
    if (lane % 4 < 2) *to = sum;
    slab++, to += 16;
    return border();
  });
}

// The expert of entry `of` of a token by the router's logits; `write`: all k of the token, and their weights.  One warp.
template <int = 0>
__device__ __noinline__ int entry_route(const EntryArgs& a, int token, int of, bool write) {
  const int lane = int(threadIdx.x % 32), n = a.route.experts;
  int mine = 0, expert = 0;
  f32 weight = 0;
  auto choose = [&](int j, int id, f32 probability) {
    if (j == of) expert = id;
    if (j == lane) mine = id, weight = probability;
  };
  const f32* logits = a.route.logits + i64(token) * n;
  const int count = write ? a.k : of + 1;
  const f32 total = n <= 256 ? route_column<8>(logits, n, count, choose) : route_column<most_routed / 32>(logits, n, count, choose);
  if (write && lane < a.k) {
    a.route.ids[token * a.k + lane] = mine;
    a.route.weights[token * a.k + lane] = weight / total * a.route.scale;
  }
  return expert;
}

// The activations of a token's slots as columns 0, 1, ... of `to`; the whole block, with a barrier behind it.
template <int = 0>
__device__ __noinline__ void entry_quantise(const EntryArgs& a, int token, u8* to) {
  const int lane = int(threadIdx.x % 32), warps = int(blockDim.x / 32), slots = a.slots(), all = slots * a.units;
  for (int i = int(threadIdx.x / 32); i < all; i += 2 * warps) {
    float4 v[2];
#pragma unroll
    for (int m = 0; m < 2; m++) {
      const int slot = (i + m * warps) / a.units, at = (i + m * warps) % a.units * 128 + 4 * lane;
      const f32* from = slot < a.k ? a.h + i64(token * a.k + slot) * a.n : a.shared.h + i64(token) * a.n;
      v[m] = slot < slots && at < a.n ? *reinterpret_cast<const float4*>(from + at) : make_float4(0, 0, 0, 0);
    }
#pragma unroll
    for (int m = 0; m < 2; m++) {
      const int slot = (i + m * warps) / a.units, at = (i + m * warps) % a.units * 128 + 4 * lane;
      store_q8<false>(to, a.units, slots, slot, at, v[m], slot < slots, a.layout, 0);
    }
  }
  __syncthreads();
}

template <Code C, Scale S>
__global__ void __launch_bounds__(32 * max_slabs, 2) entry_glu_kernel(const __grid_constant__ EntryArgs a) {
  using Shape = EntryShape<C, S>;
  extern __shared__ __align__(128) u8 shared[];
  __shared__ int chosen;
  const int lane = int(threadIdx.x % 32), warp = warp_index(), warps = int(blockDim.x / 32);  // = slabs
  const int tile = int(blockIdx.x), entry = int(blockIdx.y);
  const u32 base = u32(__cvta_generic_to_shared(shared)), zero = base + Shape::zeros_at(1, a.units, warps) + 64;
  if (threadIdx.x < 8) put_shared(zero + 16 * threadIdx.x, make_uint4(0, 0, 0, 0));
  __syncthreads();
  f32* sums = reinterpret_cast<f32*>(shared + Shape::sums_at(1, a.units, warps));
  early_launch();
  early_wait();
  const MvProduct& p = a.p;
  int expert = 0;
  entry_slabs<C, S>(
      a, tile, p.act, false, entry / a.k, warp, warp + 1, shared, base, base + Shape::acts_at(1, a.units) + u32(warp) * Shape::act, zero,
      shared + Shape::barriers_at(1, a.units, warps) + warp * 8, sums, lane,
      [&] {
        if (a.route.logits) {
          const int of = entry % a.k;
          if (warp == (tile + entry) % warps) {
            const int e = entry_route(a, entry / a.k, of, tile == 0 && of == a.k - 1);
            if (lane == 0) chosen = e;
          }
          __syncthreads();
          expert = chosen;
        } else {
          expert = a.ids[entry];
        }
        return p.w + u64(expert) * p.expert_bytes;
      },
      [] {});
  __syncthreads();
  if (threadIdx.x >= 16) return;
  const int up = lane / 8, row = tile * 8 + lane % 8;  // gate in lanes 0..7, up behind
  f32 s = 0;
  for (int w = 0; w < warps; w += 4)
#pragma unroll
    for (int k = 0; k < 4; k++) s += sums[(w + k) * 16 + lane];
  s *= p.factor;
  if (p.scale[up]) s *= p.scale[up][expert];
  if (p.bias[up] && row < p.rows) s += p.bias[up][row];
  const f32 other = __shfl_down_sync(0xffffu, s, 8);
  if (!up && row < p.rows) p.y[i64(entry) * p.ldy + row] = glu_of(s, other, a.kind);
}

template <Code C, Scale S>
__global__ void __launch_bounds__(32 * entry_warps, 1) entry_down_kernel(const __grid_constant__ EntryArgs a) {
  using Shape = EntryShape<C, S>;
  extern __shared__ __align__(128) u8 shared[];
  const int lane = int(threadIdx.x % 32), warp = warp_index(), warps = int(blockDim.x / 32), slots = a.slots();
  const int tile = int(blockIdx.x), token = int(blockIdx.y), slabs = slab_count(a.units), share = slabs / a.split;
  const int j = warp / a.split, s0 = warp % a.split * share;
  const u32 base = u32(__cvta_generic_to_shared(shared)), zero = base + Shape::zeros_at(slots, a.units, warps) + 64;
  __shared__ f32 results[entry_warps][16], weights[entry_warps];
  if (threadIdx.x < 8) put_shared(zero + 16 * threadIdx.x, make_uint4(0, 0, 0, 0));
  __syncthreads();
  f32* sums = reinterpret_cast<f32*>(shared + Shape::sums_at(slots, a.units, warps));
  early_launch();
  early_wait();
  const MvProduct& p = a.p;
  const int r = int(threadIdx.x) % 16, e = int(threadIdx.x) / 16, row = tile * 16 + r;
  f32* x = p.y + i64(token) * p.ldy + row;
  const bool mine = e == 0 && row < p.rows;
  const f32 before = mine ? *x : 0.0f;
  const f32 factor = mine && a.shared.gate ? sigmoid(a.shared.gate[token]) : 1.0f;
  if (int(threadIdx.x) < a.k) weights[threadIdx.x] = a.weights[token * a.k + int(threadIdx.x)];
  u8* made = a.h ? shared + Shape::made_at(slots, a.units, warps) : nullptr;
  entry_slabs<C, S>(
      a, tile, made ? made : p.act, made, made ? j : token * a.k + j, s0, s0 + share, shared, base + u32(j * a.units * Shape::unit),
      base + Shape::acts_at(slots, a.units) + u32(warp) * Shape::act, zero, shared + Shape::barriers_at(slots, a.units, warps) + warp * 8,
      sums + j * slabs * 16, lane, [&] { return j < a.k ? p.w + u64(a.ids[token * a.k + j]) * p.expert_bytes : a.shared.w; },
      [&] { entry_quantise(a, token, made); });
  __syncthreads();
  if (e < slots) {
    f32 s = 0;
    for (int k = 0; k < slabs; k += 4)
#pragma unroll
      for (int i = 0; i < 4; i++) s += sums[(e * slabs + k + i) * 16 + r];
    s *= p.factor;
    const f32 *scale = e < a.k ? p.scale[0] : a.shared.scale, *bias = e < a.k ? p.bias[0] : a.shared.bias;
    if (scale) s *= scale[e < a.k ? a.ids[token * a.k + e] : 0];
    if (bias && row < p.rows) s += bias[row];
    results[e][r] = s;
  }
  __syncthreads();
  if (!mine) return;
  f32 sum = 0;
  for (int k = 0; k < a.k; k++) sum = __fmaf_rn(weights[k], results[k][r], sum);
  sum = before + sum;
  if (a.shared.w) sum += factor * results[a.k][r];
  if (a.shared.y) sum += factor * a.shared.y[i64(token) * p.ldy + row];
  *x = sum;
}

struct EntryKernels {
  void (*glu)(EntryArgs) = nullptr;
  void (*down)(EntryArgs) = nullptr;
  u32 glu_smem = 0, down_smem = 0;  // for these units, slots and split
};
template <Code C, Scale S>
inline EntryKernels entry_kernels_of(int units, int slots, int split) {
  using Shape = EntryShape<C, S>;
  return {entry_glu_kernel<C, S>, entry_down_kernel<C, S>, Shape::smem(1, units, slab_count(units)),
          Shape::made_at(slots, units, slots * split)};
}
// No kernels: this layout has none.
EntryKernels entry_kernels(int layout, int units, int slots, int split);
EntryKernels entry_kernels_t5(int layout, int units, int slots, int split);  // its part for t5

}  // namespace fewbit::kernel::cuda

// Measured on an H200 (nvcc 13.0, 30 Nov 2026), 256 experts of 512x2048, top 8, us of gate and up / down with its sum, 1 token, weights in
// the L2 cache (before: matvec.cuh and combine_kernel): PQ2_0 3.8 / 3.5 (4.1 / 5.8), Q1_0 3.6 / 3.3 (4.4 / 6.2), IQ1_S 3.9 / 3.5 (5.8
// / 6.9), IQ2_XS 4.5 / 3.9 (5.7 / 6.6), IQ3_S 5.2 / 4.1 (7.1 / 7.4), Q2_K 4.0 / 3.7 (5.6 / 6.6), Q4_0 6.0 / 4.1 (6.9 / 7.2), Q4_K 5.5 / 4.2
// (7.2 / 7.2), Q8_0 5.3 / 4.2 (6.3 / 6.6).  Not in the cache: PQ2_0 4.2 / 3.5 (4.6 / 5.7), IQ3_S 6.2 / 4.5 (8.6 / 7.4), Q8_0 7.5 / 5.1
// (8.8 / 7.4).  8 tokens: PQ2_0 18 / 16 (20 / 25), IQ3_S 26 / 18 (35 / 30).
// tried: unit by unit for all | IQ1_S 4.9 us, IQ2_XS 5.4, Q4_K 6.2, 8 tokens of IQ3_S 28; PQ2_0 the same
// tried: a look, unit by unit, whether a slab ends there | PQ2_0 5.6 us against 3.8, IQ2_XS 7.5 against 5.4: units no longer overlap
// tried: down by 16 warps that share the slabs of all entries | PQ2_0 6.4 us: the sum of the experts waited for its weights
