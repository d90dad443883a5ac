// y = W a for one column: the float steps of four units at once.
//
// Idea     with one column, seven of the eight columns of an mma are idle.  The activations of unit u (of four) go into column 2 u of B and
//          zeros into the others, and the mmas of all four units add into the same registers: lane 4 g + t then holds the sums of unit t
//          alone and does its float steps; the four lanes of a row work on four units instead of four times on one.  Then the units'
//          results change places: lane t gets those of (tile, row half) t and adds them in order.
// Work     items of two row tiles, slabs, rings and sums as in matvec.cuh.  The slab's activations lie in shared memory.
// Order    the same operations in the same order as in unit_dot(): the bits of a column at every width.
#pragma once
#include "kernel/cuda/lanes.cuh"
#include "kernel/cuda/matvec.cuh"

namespace fewbit::kernel::cuda {

template <Code C>
struct OneShape {
  static constexpr int unit = code_bytes(C) + scale_bytes(Scale::g128);
  static constexpr int tiles = 2, units = 4, stage = tiles * units * unit, depth = C == Code::b2 ? 2 : 3;
  // Per unit of activations: q as it lies in column 0 (128 bytes), then per k-step f32 a / 2^(field j), what comes off the sums of rows g
  // and, where it differs, of rows g + 8.
  static constexpr int off8 = C == Code::q1 ? 32 : 16;
  static constexpr int scales = 16 + off8, act = 128 + scales;
  static constexpr int zeros = 80;
  FEWBIT_FN static constexpr int most(int n_units, int warps) { return (n_units + warps - 1) / warps; }
  // Rings | activations | zeros | barriers | sums
  FEWBIT_FN static constexpr u32 acts_at(int warps) { return u32(warps * depth * stage); }
  FEWBIT_FN static constexpr u32 zeros_at(int warps, int n_units) { return acts_at(warps) + u32(warps * most(n_units, warps) * act); }
  FEWBIT_FN static constexpr u32 barriers_at(int warps, int n_units) { return zeros_at(warps, n_units) + zeros; }
  FEWBIT_FN static constexpr u32 sums_at(int warps, int n_units) { return barriers_at(warps, n_units) + u32(warps * depth + 2) * 8; }
  FEWBIT_FN static constexpr u32 smem(int warps, int n_units) { return sums_at(warps, n_units) + u32(2 * warps * 32 + 8) * 4; }
};

__device__ __forceinline__ void put_shared(u32 at, uint4 v) {
  asm volatile("st.shared.v4.b32 [%0], {%1,%2,%3,%4};" ::"r"(at), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
}
__device__ __forceinline__ uint4 load_l2(const u8* p) { return __ldcg(reinterpret_cast<const uint4*>(p)); }
__device__ __forceinline__ f32 shared_half(u32 at) {
  u16 v;
  asm volatile("ld.shared.u16 %0, [%1];" : "=h"(v) : "r"(at));
  return __half2float(__ushort_as_half(v));
}

// The slab's activations (column 0 of the blocks from `act`) into shared memory, by one warp; every load of 20 units at once.
template <Code C>
__device__ __forceinline__ void stage_activations(const u8* act, int nu, int lane, u32 to) {
  using Shape = OneShape<C>;
  constexpr int field = C == Code::b2 ? 2 : 1, at_once = 20, chunks = at_once * 8 / 32;
  for (int first = 0; first < nu; first += at_once, act += at_once * act_block, to += at_once * Shape::act) {
    const int n = min(at_once, nu - first);
    uint4 q[chunks], d{}, sum{};
    if (lane < n) d = load_l2(act + lane * act_block + act_d_at), sum = load_l2(act + lane * act_block + act_d_at + 16);
#pragma unroll
    for (int i = 0; i < chunks; i++) {
      const int u = (lane + 32 * i) / 8, c = lane % 8;
      if (u < n) q[i] = load_l2(act + u * act_block + c / 4 * 512 + c % 4 * 16);
    }
    if (lane < n) {
      const u32 ds[4] = {d.x, d.y, d.z, d.w}, ss[4] = {sum.x, sum.y, sum.z, sum.w};
      u32 a[4], off[4], off8[4];
#pragma unroll
      for (int j = 0; j < 4; j++) {
        const int z = 1 << (field * j), z8 = C == Code::q1 ? 8 * z : z;
        a[j] = __float_as_uint(__uint_as_float(ds[j]) * (1.0f / f32(z)));
        off[j] = u32(__dp2a_lo(int(ss[j]), z | z << 8, float_bias_bits));
        off8[j] = u32(__dp2a_lo(int(ss[j]), z8 | z8 << 8, float_bias_bits));
      }
      const u32 at = to + u32(lane * Shape::act + 128);
      put_shared(at, make_uint4(a[0], a[1], a[2], a[3]));
      put_shared(at + 16, make_uint4(off[0], off[1], off[2], off[3]));
      if constexpr (C == Code::q1) put_shared(at + 32, make_uint4(off8[0], off8[1], off8[2], off8[3]));
    }
#pragma unroll
    for (int i = 0; i < chunks; i++) {
      const int u = (lane + 32 * i) / 8, c = lane % 8;
      if (u < n) put_shared(to + u32(u * Shape::act + 16 * c), q[i]);
    }
  }
}

// Adds n <= 4 units of two tiles to acc, in lane 4 g + t: tile t / 2, row g + 8 (t % 2).  unit: shared address of the
// first tile's units, the second's follow; act: of the first unit's activations.
template <Code C, bool FULL>
__device__ __forceinline__ void four_units(u32 unit, int n, int lane, u32 act, u32 zero, f32& acc) {
  using Shape = OneShape<C>;
  constexpr int c[4] = {float_bias_bits, float_bias_bits, float_bias_bits, float_bias_bits};
  const int g = lane / 4, t = lane % 4;
  const u32 next_tile = u32(FULL ? 4 : n) * Shape::unit;
  int d[2][4][4];
#pragma unroll
  for (int u = 0; u < 4; u++) {
    if (!FULL && u >= n) break;
    const u32 from = g == 2 * u ? act + u32(u * Shape::act + 16 * t) : zero;
    const uint4 b[2] = {shared_u128(from), shared_u128(from + 64)};
#pragma unroll
    for (int i = 0; i < 2; i++) {
      const Codes<C> codes(unit + u32(i) * next_tile + u32(u * Shape::unit), lane);
#pragma unroll
      for (int j = 0; j < 4; j++) {
        u32 r[4];
        codes.a(j, r, Tables{});
        const u32 lo = j % 2 ? b[j / 2].z : b[j / 2].x, hi = j % 2 ? b[j / 2].w : b[j / 2].y;
        if (u == 0)
          mma32<false>(d[i][j], r, lo, hi, c);
        else
          mma32<false>(d[i][j], r, lo, hi, d[i][j]);
      }
    }
  }
  // A lane without a unit takes the last one's: what lies behind belongs to other warps, and may be being written.
  const u32 s = act + u32((FULL ? t : min(t, n - 1)) * Shape::act + 128);
  const uint4 a4 = shared_u128(s), off4 = shared_u128(s + 16), off84 = C == Code::q1 ? shared_u128(s + 32) : off4;
  const u32 a[4] = {a4.x, a4.y, a4.z, a4.w}, off[2][4] = {{off4.x, off4.y, off4.z, off4.w}, {off84.x, off84.y, off84.z, off84.w}};
  f32 v[4];
#pragma unroll
  for (int k = 0; k < 4; k++) {
    v[k] = 0;
#pragma unroll
    for (int j = 0; j < 4; j++)
      v[k] = __fmaf_rn(__int_as_float(d[k / 2][j][k % 2 * 2]) - __uint_as_float(off[k % 2][j]), __uint_as_float(a[j]), v[k]);
  }
  transpose4(v, t);
  const u32 scale = unit + u32(t / 2) * next_tile + code_bytes(C) + u32(4 * g + 2 * (t % 2));
  const f32 row8 = C == Code::q1 && t % 2 ? 0.125f : 1.0f;
#pragma unroll
  for (int u = 0; u < 4; u++) {
    if (!FULL && u >= n) break;
    const f32 d = shared_half(scale + u32(u * Shape::unit));
    acc = __fmaf_rn(v[u], C == Code::q1 ? d * row8 : d, acc);
  }
}

template <Code C, int WARPS>
__global__ void __launch_bounds__(32 * WARPS) __maxnreg__(C == Code::b2 ? 128 : 96) matvec_one_kernel(const __grid_constant__ MvArgs a) {
  using Shape = OneShape<C>;
  extern __shared__ __align__(128) u8 shared[];
  const int lane = int(threadIdx.x % 32), warp = warp_index(), t = lane % 4;
  constexpr int warps = WARPS;  // = slabs
  u8* barriers = shared + Shape::barriers_at(warps, a.units);
  const u32 base = u32(__cvta_generic_to_shared(shared)), zero = base + Shape::zeros_at(warps, a.units);
  const u32 done = u32(__cvta_generic_to_shared(barriers)) + u32(warps * Shape::depth * 8);
  Ring<Shape::stage, Shape::depth> ring(shared + warp * Shape::depth * Shape::stage, barriers + warp * Shape::depth * 8, lane);
  f32* sums = reinterpret_cast<f32*>(shared + Shape::sums_at(warps, a.units));
  if (threadIdx.x < Shape::zeros / 16) put_shared(zero + 16 * threadIdx.x, make_uint4(0, 0, 0, 0));
  if (threadIdx.x == 0) barrier_init(done, u32(32 * warps));
  __syncthreads();
  early_launch();

  const int u0 = slab_begin(a.units, warp), nu = slab_begin(a.units, warp + 1) - u0;
  const u32 tile_bytes = u32(a.units) * Shape::unit;
  auto product = [&](int tile) {
    int i = 0;
    while (i + 1 < a.n && tile >= a.p[i + 1].tile0) i++;
    return i;
  };
  // What the ring asks for next: `ask_left` units of an item from ask_from on.
  int ask_tile = int(blockIdx.x) * 2, ask_left = 0;
  const u8* ask_from = nullptr;
  auto ask = [&](u32 slot) {
    if (ask_left == 0) {
      if (ask_tile >= a.tiles) return ring.fill_nothing();
      const MvProduct& p = a.p[product(ask_tile)];
      ask_from = p.w + u64(ask_tile - p.tile0) * tile_bytes + u32(u0) * Shape::unit;
      ask_left = nu, ask_tile += int(gridDim.x) * 2;
    }
    const int n = min(ask_left, Shape::units);
    ring.fill(slot, ask_from, tile_bytes, 2, u32(n) * Shape::unit);
    ask_from += u32(n) * Shape::unit, ask_left -= n;
  };
  if (nu) {
#pragma unroll 1
    for (int i = 0; i < Shape::depth; i++) ask(u32(i));
  }
  prefetch_rows(a.rows, a.n_rows, 1);
  early_wait();
  const u32 act = base + Shape::acts_at(warps) + u32(warp * Shape::most(a.units, warps) * Shape::act);
  stage_activations<C>(a.p[0].act + act_block_at(a.units, 0, u0), nu, lane, act);
  __syncwarp();

  auto row_of = [&](const MvProduct& p, int tile) {
    return (tile + t / 2 - p.tile0) * (p.pair ? 8 : 16) + lane / 4 + (p.pair ? 0 : 8 * (t % 2));
  };
  // What an item is added to; read while it is multiplied.
  auto read_before = [&](int tile) {
    const MvProduct& p = a.p[product(tile)];
    const int row = row_of(p, tile);
    return p.add && row < p.rows ? p.y[row] : 0.0f;
  };
  // Adds the slabs' parts of an item in order and writes its outputs; one warp.
  auto add_up = [&](int tile, int parity, f32 before) {
    const MvProduct& p = a.p[product(tile)];
    const int h = t % 2, row = row_of(p, tile);
    const bool live = row < p.rows;
    const f32* from = sums + parity * warps * 32 + lane;
    f32 s = 0;
    for (int w = 0; w < warps; w += 4, from += 128)
#pragma unroll
      for (int k = 0; k < 4; k++) s += from[32 * k];
    const int m = p.pair ? h : 0;
    s *= p.factor;
    if (p.scale[m]) s *= p.scale[m][0];
    if (live && p.bias[m]) s += p.bias[m][row];
    if (p.pair) {
      const f32 up = __shfl_xor_sync(~0u, s, 1);
      if (h) return;
      s = glu_of(s, up, a.kind);
    }
    if (live) p.y[row] = p.add ? before + s : s;
  };

  int last = 0, number = 0;
  f32 before = 0, next_before = 0;
  for (int tile = int(blockIdx.x) * 2;; tile += int(gridDim.x) * 2) {
    const bool more = tile < a.tiles;
    f32 acc = 0;
    if (more) {
      if (warp == (number + 1) % warps) next_before = read_before(tile);
      u32 from = act;
      for (int left = nu; left > 0; left -= Shape::units, from += Shape::units * Shape::act) {
        ring.wait();
        if (left >= Shape::units)
          four_units<C, true>(ring.data(), Shape::units, lane, from, zero, acc);
        else
          four_units<C, false>(ring.data(), left, lane, from, zero, acc);
        __syncwarp();
        ask(ring.slot);
        ring.next();
      }
    }
    if (number > 0) {
      barrier_wait(done, u32(number - 1) & 1);
      if (warp == number % warps) add_up(last, (number - 1) & 1, before);
    }
    if (!more) break;
    sums[((number & 1) * warps + warp) * 32 + lane] = acc;
    barrier_arrive(done);
    number++, last = tile, before = next_before;
  }
  for_rows(a.rows, a.n_rows, 1, [&](const RowsProduct& p, int row, int) { row_product(p, row, 0, sums + 2 * warps * 32); });
}

struct MvOne {
  MvKernel kernel = nullptr;
  u32 smem = 0;
};
// No kernel: this layout has none.
MvOne mv_one(int layout, int units, int warps);

}  // namespace fewbit::kernel::cuda

// Measured on an H200 (nvcc 13.0, 30 Nov 2026), us of 34816x5120 / 16384x5120 / 5120x17408 / 5120x6144 / 248320x5120:
// PQ2_0 13.9 / 8.5 / 9.1 / 4.1 / 86 (matvec.cuh: 19.7 / 9.3 / 11.3 / 5.1 / 95), Q1_0 12.3 / 7.0 / 8.6 / 4.0 / 61 (15.8 / 8.1 / 10.4 /
// 4.5 / 90).  A token's 257 products: 2.26 and 2.11 ms.
// tried: half of every SM left free for the next launch | 4.8 ms against 3.1 (before this form) | bound by instructions, not by memory
// tried: the next items' weights by bulk prefetch into L2 | 34816x5120 22 us against 20, the head 144 against 95
// tried: 80 or 96 registers for more warps (PQ2_0) | 34816x5120 17.7 us against 15.2, the head 110 against 88 | spills
// tried: one tile per item, for matrices of few rows or the last items of a large one | 34816x5120 16.4 us against 14.6
// tried: Q1_0 with 4 blocks of 4 stages instead of 5 of 3 | 11.9 / 7.1 / 9.3 / 4.0 / 63
// tried: fewer stages asked for before the predecessor ends | a token's products 2.49 and 2.86 ms (one stage, none) against 2.36
// tried: one block of 16 warps on every multiprocessor, all with an equal share | Q1_0 301 tok/s, PQ2_0 259 | launches overlap no more
// tried: a high and a low plane of activations in two columns, units' sums as integers | the head 90 and 65 us against 86 and 61
// tried: single tiles until every block has an item | 16384x5120 9.4 us against 8.5, 5120x6144 5.7 against 4.2 (PQ2_0)
// tried: small matrices behind the items of the last blocks instead of by blocks of their own | Q1_0 299 tok/s against 306
// tried: small matrices first, by a call in the midst of the kernel | Q1_0 34816x5120 32 us against 12.4 | 96 registers, spills
// tried: copies of 16 bytes by the lanes instead of the copy engine | the head 89 and 69 us against 86 and 61
//
// What bounds it: without arithmetic the head takes 83 and 46 us, without weights 56 and 55.  A multiprocessor's quarter issues an
// mma.m16n8k32 in 6.1 cycles, a logic operation in 2.0, and the two do not overlap (one and four: 13.2); a unit's 4 and 18 are 60 of its
// 89 cycles.  dp4a 2.0; and mma.m16n8k256 of bits 6.1, k128 4.2: of 1-bit weights against bit planes of activations, a way not tried yet.
