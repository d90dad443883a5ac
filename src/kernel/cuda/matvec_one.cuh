// y = W a for one column: the float steps of four units at once.
//
// Idea     with one column, seven of the eight columns of an mma are idle.  The activations of unit u (of four) go into column 2 u of B and
//          zeros into the others, and the mmas of all four units add into the same registers: lane 4 g + t then holds the sums of unit t
//          alone and does its float steps; the four lanes of a row work on four units instead of four times on one.  Then the units'
//          results change places: lane t gets those of (tile, row half) t and adds them in order.
// Halves   where a weight has a scale per 16, the inputs 16..31 of a k-step stand in column 2 u + 1, and one mma of 32 inputs gives the
//          sums of both halves.
// Mixed    t5: to tell all digits apart takes instructions, so 9 a + 3 b + c and 3 p + q (base3.cuh) are multiplied as they are and what is
//          too much comes off the sums: column 2 u + 1 holds the activations of c where column 2 u has those of a and b, and those of q
//          where it has those of p.
// Work     items of two row tiles, slabs, rings and sums as in matvec.cuh.  The slab's activations lie in shared memory.
// Order    the same operations in the same order as in unit_dot(): the bits of a column at every width.
#pragma once
#include "kernel/cuda/lanes.cuh"
#include "kernel/cuda/matvec.cuh"

namespace fewbit::kernel::cuda {

template <Code C, Scale S>
struct OneShape {
  static constexpr int unit = code_bytes(C) + scale_bytes(S);
  static constexpr bool halves = S == Scale::k16 || S == Scale::k16m, mixed = C == Code::t5;
  static constexpr int tiles = 2, units = 4;
  // A stage holds `per` units of each tile; four units come in one stage or two.
  static constexpr int per = S == Scale::g128 ? 4 : 2, stage = tiles * per * unit, depth = C != Code::q1 && S == Scale::g128 ? 2 : 3;
  // Per unit of activations: q as it lies in column 0 (halves: all of the lower, then all of the upper; mixed: then as it lies in column 1,
  // k-steps 2 and 3 first), then 16 bytes of each of what the k-steps need (step_scales()).
  static constexpr int lists = C == Code::q1 || S == Scale::k32d || S == Scale::k16m ? 3 : S == Scale::g128 ? 2 : 1;
  static constexpr int lists_at = mixed ? 256 : 128, act = lists_at + 16 * lists;
  static constexpr int zeros = 80;
  FEWBIT_FN static constexpr int most(int n_units, int warps) { return (n_units + warps - 1) / warps; }
  // Rings | activations | zeros | barriers | sums
  FEWBIT_FN static constexpr u32 acts_at(int warps) { return u32(warps * depth * stage); }
  FEWBIT_FN static constexpr u32 zeros_at(int warps, int n_units) { return acts_at(warps) + u32(warps * most(n_units, warps) * act); }
  FEWBIT_FN static constexpr u32 barriers_at(int warps, int n_units) { return zeros_at(warps, n_units) + zeros; }
  FEWBIT_FN static constexpr u32 sums_at(int warps, int n_units) { return barriers_at(warps, n_units) + u32(warps * depth + 2) * 8; }
  FEWBIT_FN static constexpr u32 smem(int warps, int n_units) { return sums_at(warps, n_units) + u32(2 * warps * 32 + 8) * 4; }
};

// What the float steps of k-step j need of the activations, as f32 bits: list 0 the scale a, divided by how much larger the operands are;
// then, as the layout wants it, what comes off the sums of rows g (their bias, and the zero point's), the same of rows g + 8, the sum of q.
template <Code C, Scale S>
__device__ __forceinline__ void step_scales(int j, u32 d, u32 sums, u32 (&list)[3]) {
  const int z = 1 << operand_shift(C, j), z8 = 8 * z;
  list[0] = __float_as_uint(__uint_as_float(d) * ((S == Scale::k32d ? 8.0f : 1.0f) / f32(z)));
  if constexpr (S == Scale::g128 || S == Scale::k32d) list[1] = u32(__dp2a_lo(int(sums), z | z << 8, float_bias_bits));
  if constexpr (C == Code::t5) {  // what is to be added to the integer sum, the 3 of every number of k-step 0 too
    if (j == 0) list[1] = 4 * list[1] - 3 * u32(float_bias_bits);
    list[1] = 2 * u32(float_bias_bits) - list[1];
  }
  if constexpr (C == Code::q1) list[2] = u32(__dp2a_lo(int(sums), z8 | z8 << 8, float_bias_bits));
  if constexpr (S == Scale::k32d) list[2] = __float_as_uint(f32(__dp2a_lo(int(sums), z | z << 8, 0)) * 0.125f);
  if constexpr (S == Scale::k16m) list[1] = d, list[2] = sums;
}

// The slab's activations (column 0 of the blocks from `act`) into shared memory, by one warp; every load of 20 units at once.
// q1: by way of L1, as the other blocks of a multiprocessor want the same.
template <Code C, Scale S>
__device__ __forceinline__ void stage_activations(const u8* act, int nu, int lane, u32 to) {
  using Shape = OneShape<C, S>;
  constexpr int at_once = 20, chunks = at_once * 8 / 32;
  auto load = [](const u8* p) {
    const uint4* from = reinterpret_cast<const uint4*>(p);
    return C == Code::q1 ? *from : __ldcg(from);
  };
  for (int first = 0; first < nu; first += at_once, act += at_once * act_block, to += at_once * Shape::act) {
    const int n = min(at_once, nu - first);
    uint4 q[chunks], d{}, sum{};
    if (lane < n) d = load(act + lane * act_block + act_d_at), sum = load(act + lane * act_block + act_d_at + 16);
#pragma unroll
    for (int i = 0; i < chunks; i++) {
      const int u = (lane + 32 * i) / 8, c = lane % 8;
      if (u < n) q[i] = load(act + u * act_block + c / 4 * 512 + c % 4 * 16);
    }
    if (lane < n) {
      const u32 ds[4] = {d.x, d.y, d.z, d.w}, ss[4] = {sum.x, sum.y, sum.z, sum.w};
      u32 list[4][3];
#pragma unroll
      for (int j = 0; j < 4; j++) step_scales<C, S>(j, ds[j], ss[j], list[j]);
      const u32 at = to + u32(lane * Shape::act + Shape::lists_at);
#pragma unroll
      for (int i = 0; i < Shape::lists; i++) put_shared(at + 16 * i, make_uint4(list[0][i], list[1][i], list[2][i], list[3][i]));
    }
#pragma unroll
    for (int i = 0; i < chunks; i++) {
      const int u = (lane + 32 * i) / 8, c = lane % 8;
      const u32 at = to + u32(u * Shape::act);
      if (u >= n) continue;
      if constexpr (Shape::halves) {
        const u32 mine = at + 16 * (c % 4) + 8 * (c / 4);
        put_shared(mine, q[i].x, q[i].z), put_shared(mine + 64, q[i].y, q[i].w);
      } else {
        put_shared(at + 16 * c, q[i]);
        // Column 1: in k-steps 1 and 2 the q of k-step 0, in the lower half of k-step 3 those of its upper half.
        if (Shape::mixed && c < 4)
          put_shared(at + 192 + 16 * c, make_uint4(0, 0, q[i].x, q[i].y)), put_shared(at + 128 + 16 * c, q[i].x, q[i].y);
        if (Shape::mixed && c >= 4) put_shared(at + 72 + 16 * c, q[i].w, 0);
      }
    }
  }
}

// Scales that lane 4 g + t of a row tile pair needs: the sub-scales of unit t (both tiles, rows g and g + 8), and d (d and dmin) of all
// four units for the row that it ends with.
template <Scale S>
struct OneScales {
  static constexpr int words = S == Scale::g128 ? 1 : S == Scale::k16 || S == Scale::k16m ? 4 : 2;
  u32 sub[2][words] = {};  // [tile]: row g, then row g + 8
  u32 d[4];
  // Of a unit at `scales`.
  __device__ __forceinline__ void load_sub(int tile, u32 scales, int g) {
    if constexpr (words == 4) {
      const uint4 v = shared_u128(scales + 16 * g);
      sub[tile][0] = v.x, sub[tile][1] = v.y, sub[tile][2] = v.z, sub[tile][3] = v.w;
    } else if constexpr (words == 2) {
      const uint2 v = shared_u64(scales + 8 * g);
      sub[tile][0] = v.x, sub[tile][1] = v.y;
    }
  }
  __device__ __forceinline__ void load_d(int u, u32 scales, int row) {
    d[u] = S == Scale::k16m ? shared_u32(scales + 128 + 4 * u32(row)) : shared_u16(scales + (words == 1 ? 0 : 32 * words) + 2 * u32(row));
  }
};

// Byte i of a word as a float: 2^23 + byte, put together, minus 2^23.
__device__ __forceinline__ f32 float_of_byte(u32 w, int i) {
  return __uint_as_float(permute(w, 0x4b000000u, u32(0x7440 + i))) - 8388608.0f;
}
// Byte i, its sign bit turned round beforehand, as a signed one.
__device__ __forceinline__ f32 float_of_turned_byte(u32 w, int i) {
  return __uint_as_float(permute(w, 0x4b000000u, u32(0x7440 + i))) - (8388608.0f + 128.0f);
}

// The float steps of a unit for a row: v as unit_dot()'s t, m as its m.  d: per k-step the mma's two columns; sub: of the row.
template <Code C, Scale S>
__device__ __forceinline__ void float_steps(const int (&d)[4][2], const u32* sub, const u32 (&a)[4], const u32 (&second)[4],
                                            const u32 (&third)[4], f32& v, f32& m) {
  v = m = 0;
#pragma unroll
  for (int j = 0; j < 4; j++) {
    const f32 scale = __uint_as_float(a[j]);
    if constexpr (C == Code::t5) {
      const int sum = j == 0 ? 64 * d[0][0] - 9 * d[1][1] - 3 * d[2][1] : j == 3 ? d[3][0] - 3 * d[3][1] : d[j][0];
      v = __fmaf_rn(unbias(sum + int(second[j])), scale, v);
    } else if constexpr (S == Scale::g128) {
      v = __fmaf_rn(__int_as_float(d[j][0]) - __uint_as_float(second[j]), scale, v);
    } else if constexpr (C == Code::d2) {  // levels of at most 9: sums of 16 inputs need no more than 16 bits
      const int both = int(permute(u32(d[j][0]), u32(d[j][1]), 0x5410)), subs = int(sub[j / 2]);
      v = __fmaf_rn(unbias(j % 2 ? __dp2a_hi(both, subs, float_bias_bits) : __dp2a_lo(both, subs, float_bias_bits)), scale, v);
    } else if constexpr (S == Scale::k16) {
      const u32 w = sub[j / 2] ^ 0x80808080u;
      const int i = j % 2 * 2;
      v = __fmaf_rn(__fmaf_rn(unbias(d[j][0]), float_of_turned_byte(w, i), unbias(d[j][1]) * float_of_turned_byte(w, i + 1)), scale, v);
    } else if constexpr (S == Scale::k16m) {
      const u32 w = sub[j / 2] & 0x0f0f0f0fu, mins = sub[j / 2] >> 4 & 0x0f0f0f0fu;
      const int i = j % 2 * 2, sums = int(third[j]);
      v = __fmaf_rn(__fmaf_rn(unbias(d[j][0]), float_of_byte(w, i), unbias(d[j][1]) * float_of_byte(w, i + 1)), scale, v);
      const int low = j % 2 ? __dp2a_hi(sums, int(mins), float_bias_bits) : __dp2a_lo(sums, int(mins), float_bias_bits);
      m = __fmaf_rn(unbias(low), __uint_as_float(second[j]), m);
    } else if constexpr (S == Scale::k32d) {  // an eighth of unit_dot()'s, times 8 a
      const f32 f = float_of_byte(sub[0] & 0x7f7f7f7fu, j);
      const f32 sign = __uint_as_float(__float_as_uint(f) ^ (sub[0] << (24 - 8 * j) & 0x80000000u));
      v = __fmaf_rn(__fmaf_rn(__int_as_float(d[j][0]) - __uint_as_float(second[j]), f, __uint_as_float(third[j]) * sign), scale, v);
    } else {
      v = __fmaf_rn(unbias(d[j][0]) * float_of_turned_byte(sub[0] ^ 0x80808080u, j), scale, v);
    }
  }
}

// Adds n <= 4 units of two tiles to acc, in lane 4 g + t: tile t / 2, row g + 8 (t % 2).  A stage of the ring holds the first tile's units,
// then the second's; `release` gives it back.  act: of the first unit's activations.
template <Code C, Scale S, bool FULL, class R, class Release>
__device__ __forceinline__ void four_units(const R& ring, int n, int lane, u32 act, u32 zero, const Tables& table,
                                           const Base3Constants& base3, f32& acc, Release&& release) {
  using Shape = OneShape<C, S>;
  constexpr int bias = Shape::mixed ? 0 : float_bias_bits, c[4] = {bias, bias, bias, bias};
  constexpr int per = Shape::per;
  const int g = lane / 4, t = lane % 4;
  int d[2][4][4];
  OneScales<S> scales;
#pragma unroll
  for (int s = 0; s < 4 / per; s++) {
    if (!FULL && s * per >= n) break;
    const int there = FULL ? per : min(per, n - s * per);
    ring.wait();
    const u32 unit = ring.data(), next_tile = u32(there) * Shape::unit;
#pragma unroll
    for (int k = 0; k < per; k++) {
      if (!FULL && k >= there) break;
      const int u = s * per + k;
      const u32 from = act + u32(u * Shape::act + 16 * t);
      const bool other = Shape::mixed && g == 2 * u + 1;
      const uint4 first = shared_u128(g == 2 * u ? from : other ? from + 192 : zero);
      const uint4 second = shared_u128(other ? from + 128 : (g == 2 * u + Shape::halves ? from : zero) + 64);
      const u32 b[2][4] = {{first.x, first.y, first.z, first.w}, {second.x, second.y, second.z, second.w}};
#pragma unroll
      for (int i = 0; i < 2; i++) {
        const Codes<C> codes(unit + u32(i) * next_tile + u32(k * Shape::unit), lane);
#pragma unroll
        for (int j = 0; j < 4; j++) {
          u32 r[4];
          if constexpr (Shape::mixed)
            codes.mixed(j, r, base3);
          else
            codes.a(j, r, table);
          const u32 lo = Shape::halves ? b[0][j] : b[j / 2][j % 2 * 2], hi = Shape::halves ? b[1][j] : b[j / 2][j % 2 * 2 + 1];
          if (u == 0)
            mma32<Codes<C>::is_signed>(d[i][j], r, lo, hi, c);
          else
            mma32<Codes<C>::is_signed>(d[i][j], r, lo, hi, d[i][j]);
        }
      }
    }
    const u32 at = unit + code_bytes(C);
    const int mine = t - s * per;  // lane t takes unit t
    if (S != Scale::g128 && mine >= 0 && mine < there) {
      scales.load_sub(0, at + u32(mine * Shape::unit), g);
      scales.load_sub(1, at + next_tile + u32(mine * Shape::unit), g);
    }
#pragma unroll
    for (int k = 0; k < per; k++) {
      if (!FULL && k >= there) break;
      scales.load_d(s * per + k, at + u32(t / 2) * next_tile + u32(k * Shape::unit), 2 * g + t % 2);
    }
    release();
  }
  // A lane without a unit takes the last one's: what lies behind belongs to other warps, and may be being written.
  const u32 s = act + u32((FULL ? t : min(t, n - 1)) * Shape::act + Shape::lists_at);
  u32 list[3][4] = {};
#pragma unroll
  for (int i = 0; i < Shape::lists; i++) {
    const uint4 v = shared_u128(s + 16 * i);
    list[i][0] = v.x, list[i][1] = v.y, list[i][2] = v.z, list[i][3] = v.w;
  }
  f32 v[4], m[4];
#pragma unroll
  for (int k = 0; k < 4; k++) {
    const int h = k % 2;
    const int sums[4][2] = {{d[k / 2][0][2 * h], d[k / 2][0][2 * h + 1]},
                            {d[k / 2][1][2 * h], d[k / 2][1][2 * h + 1]},
                            {d[k / 2][2][2 * h], d[k / 2][2][2 * h + 1]},
                            {d[k / 2][3][2 * h], d[k / 2][3][2 * h + 1]}};
    constexpr int words = OneScales<S>::words;
    float_steps<C, S>(sums, scales.sub[k / 2] + (words == 1 ? 0 : h * words / 2), list[0], C == Code::q1 && h ? list[2] : list[1], list[2],
                      v[k], m[k]);
  }
  transpose4(v, t);
  if constexpr (has_min(S)) transpose4(m, t);
  const f32 row8 = C == Code::q1 && t % 2 ? 0.125f : 1.0f;
#pragma unroll
  for (int u = 0; u < 4; u++) {
    if (!FULL && u >= n) break;
    const f32 d = half_of(scales.d[u], 0);
    acc = __fmaf_rn(v[u], C == Code::q1 ? d * row8 : d, acc);
    if constexpr (has_min(S)) acc = __fmaf_rn(m[u], -half_of(scales.d[u], 1), acc);
  }
}

template <Code C, Scale S, int WARPS>
__global__ void __launch_bounds__(32 * WARPS) __maxnreg__(C == Code::q1 ? 96 : 128) matvec_one_kernel(const __grid_constant__ MvArgs a) {
  using Shape = OneShape<C, S>;
  extern __shared__ __align__(128) u8 shared[];
  const int lane = int(threadIdx.x % 32), warp = warp_index(), t = lane % 4;
  constexpr int warps = WARPS;  // = slabs
  u8* barriers = shared + Shape::barriers_at(warps, a.units);
  const u32 base = u32(__cvta_generic_to_shared(shared)), zero = base + Shape::zeros_at(warps, a.units);
  const u32 done = u32(__cvta_generic_to_shared(barriers)) + u32(warps * Shape::depth * 8);
  Base3Constants base3;
  if constexpr (Shape::mixed) base3.into_registers(unknown_zero(base + Shape::sums_at(warps, a.units) + 4 * threadIdx.x));
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
    const int n = min(ask_left, Shape::per);
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
  stage_activations<C, S>(a.p[0].act + act_block_at(a.units, 0, u0), nu, lane, act);
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
      const Tables& table = a.p[product(tile)].table;
      auto release = [&] {
        __syncwarp();
        ask(ring.slot);
        ring.next();
      };
      for (int left = nu; left > 0; left -= Shape::units, from += Shape::units * Shape::act) {
        if (left >= Shape::units)
          four_units<C, S, true>(ring, Shape::units, lane, from, zero, table, base3, acc, release);
        else
          four_units<C, S, false>(ring, left, lane, from, zero, table, base3, acc, release);
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
template <Code C, Scale S>
inline MvOne mv_one_entry(int units, int warps) {
  return {warps == 4 ? matvec_one_kernel<C, S, 4> : matvec_one_kernel<C, S, 8>, OneShape<C, S>::smem(warps, units)};
}
// No kernel: this layout has none.  mv_one_k: sub-scales.
MvOne mv_one(int layout, int units, int warps);
MvOne mv_one_k(int layout, int units, int warps);
MvOne mv_one_t5(int layout, int units, int warps);  // mv_one()'s part for t5

}  // namespace fewbit::kernel::cuda

// Measured on an H200 (nvcc 13.0, 30 Nov 2026), us of 34816x5120 / 16384x5120 / 5120x17408 / 5120x6144 / 248320x5120:
// PQ2_0 13.9 / 8.5 / 9.1 / 4.1 / 86 (matvec.cuh: 19.7 / 9.3 / 11.3 / 5.1 / 95), Q1_0 12.3 / 7.0 / 8.6 / 4.0 / 61 (15.8 / 8.1 / 10.4 /
// 4.5 / 90).  A token's 257 products: 2.26 and 2.11 ms.
// Sub-scales (in brackets: matvec.cuh): IQ1_S 15.4 / 8.9 / 10.6 / 4.8 / 97 (23.0 / 12.2 / 16.9 / 7.1 / 153), IQ2_XXS 21.6 / 12.0 / 15.5 /
// 7.1 / 137 (24.6 / 12.9 / 17.6 / 7.5 / 158), IQ2_XS 23.7 / 13.0 / 17.0 / 8.0 / 150 (28.3 / 14.5 / 20.9 / 8.7 / 188), IQ3_XXS 32.0 / 17.7 /
// 23.0 / 9.5 / 196 (34.9 / 17.6 / 26.5 / 10.3 / 234), Q2_K 17.4 / 10.2 / 12.8 / 5.7 / 110 (29.0 / 14.9 / 21.9 / 9.2 / 194), IQ1_M with
// float steps for both halves 22.0 / 11.2 / 16.1 / 7.6 / 134 (in 3.6 bits: 28 / 14.5 / 21 / 8.7 / 184).
// tried: half of every SM left free for the next launch | 4.8 ms against 3.1 (before this form) | bound by instructions, not by memory
// tried: the next items' weights by bulk prefetch into L2 | 34816x5120 22 us against 20, the head 144 against 95
// tried: 80 or 96 registers for more warps (PQ2_0) | 34816x5120 17.7 us against 15.2, the head 110 against 88 | spills
// tried: one tile per item, for matrices of few rows or the last items of a large one | 34816x5120 16.4 us against 14.6
// tried: Q1_0 with 4 blocks of 4 stages instead of 5 of 3 | 11.9 / 7.1 / 9.3 / 4.0 / 63
// tried: fewer stages asked for before the predecessor ends | a token's products 2.49 and 2.86 ms (one stage, none) against 2.36;
//        of two, with the norms between: 282.6 tok/s against 290.5
// tried: a stage multiplied before the predecessor ends, for its instructions alone | a token 3.30 ms against 3.00
// tried: one block of 16 warps on every multiprocessor, all with an equal share | Q1_0 301 tok/s, PQ2_0 259 | launches overlap no more
// tried: a high and a low plane of activations in two columns, units' sums as integers | the head 90 and 65 us against 86 and 61
// tried: single tiles until every block has an item | 16384x5120 9.4 us against 8.5, 5120x6144 5.7 against 4.2 (PQ2_0)
// tried: small matrices behind the items of the last blocks instead of by blocks of their own | Q1_0 299 tok/s against 306
// tried: small matrices first, by a call in the midst of the kernel | Q1_0 34816x5120 32 us against 12.4 | 96 registers, spills
// tried: copies of 16 bytes by the lanes instead of the copy engine | the head 89 and 69 us against 86 and 61
//
// PTQ1_0 in base 3 (t5), us of the same shapes: 14.9 / 9.2 / 11.6 / 5.0 / 86 against 13.8 / 8.5 / 9.1 / 4.1 / 86 as b2, the same bits: 0.82
// of the bytes, but 534 instructions for eight units instead of 287.  (Predicted: 0.87 of the time, had they hidden behind the memory.)
// tried: t5, all digits told apart | 1.09 / 1.04 / 1.06 / 1.06 / 1.15 times the time of an early form with mixed ones
// tried: t5 with 96 registers, five blocks instead of four | 34816x5120 17.2 us against 15.5, the head the same
// tried: t5, the second digit from what a mask leaves of the first one's word | 1.01 to 1.02 times the time | as many instructions
// tried: sub-scales, stages of four units | the head of IQ2_XS 145 us against 149, of IQ3_XXS 203 against 198 | three blocks for four
// tried: sub-scales, two stages and 96 registers | heads 1 to 3 % faster, 34816x5120 2 to 9 % slower
// tried: sub-scales, four stages of two units | heads up to 5 % slower
//
// tried: an item cut in two between neighbouring blocks (as stream-K; its head first, whose sums are handed on through L2: the same bits),
//        1.2 items on every multiprocessor instead of one or two | 5120x17408 9.1 us as before, 5120x6144 5.4 against 4.2, decode PQ2_0 268
//        tok/s against 292 | a third piece of a warp's chain, and 0.4 us more in every launch
// tried: the next matrix's first 4, 8, 16 MB by bulk prefetch into L2 behind a block's last weights | multiplies, norms and DeltaNet of a
//        token 3.33, 3.36, 3.37 ms against 3.34; what the ring does not hold of its own first item, before the wait | 3.44
// tried: the largest shared memory for every kernel of a one-column step (launch attribute) | 3.53 ms against 3.50
// tried: PQ2_0 in 96 registers (now without spills), five blocks instead of four | products alone 2.43 ms against 2.26, with norms and
//        DeltaNet 3.156 against 3.154;  80 registers | 3.19, Q1_0 3.01 against 2.85
// tried: activations by way of L1 for PQ2_0 too | 5120x17408 8.87 us against 9.02, decode 319.5 tok/s against 317.4, but 8 columns cost
//        1.256 of one column there then, and at most 1.25 is asked for;  Q1_0, which has it: a token 2.81 ms against 2.85
// tried: one kernel for 4 and 8 warps, for the instruction cache | no gain
// tried: 800 ns between the stages asked for first | products alone 2.235 ms against 2.28, a token 3.297 against 3.295
//
// Where a launch's time goes (time stamps in a token of PQ2_0, us after the predecessor's end; 16384x5120 / 34816x5120 / 5120x17408 /
// 5120x6144): activations in shared memory 1.0 / 1.0 / 1.2 / 0.6, first four units 1.3 / 1.3 / 1.0 / 1.0, sums and end 0.6, in all
// 6.1 / 12.3 / 8.0 / 3.5, where the median block ends at 4.1 / 9.0 / 5.2 / 2.4.  In front of it 2.9 / 3.7 / 2.8 with a norm.
// 160 blocks lie on 108 to 112 multiprocessors, two on those that were free first.
//
// What bounds it: without arithmetic the head takes 83 and 46 us, without weights 56 and 55.  A multiprocessor's quarter issues an
// mma.m16n8k32 in 6.1 cycles, a logic operation in 2.0, and the two do not overlap (one and four: 13.2); a unit's 4 and 18 are 60 of its
// 89 cycles.  dp4a 2.0; and mma.m16n8k256 of bits 6.1, k128 4.2: of 1-bit weights against bit planes of activations, a way not tried yet.
