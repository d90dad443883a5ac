// y = W a for 2 to 8 columns (and more, by eights), weights with a scale per 64 or 128 inputs or with sub-scales, activations q8_128 or
// q8_256.
//
// Idea     such activations are integers s q (s = 1..16 per 32 inputs) times one power of two u per 128, so a unit's sum is an exact
//          integer: the k-steps' sums are put together in integers and become floats once per scale.
// Minima   are multiplied by the sums of s q, also by the tensor cores: as f16, a sum in two parts, which is exact in f32 (k16m, and what
//          comes off 8 c of k32d).
// Work     items of T row tiles, slabs and rings as in matvec.cuh; the more tiles, the fewer loads of activations per tile.  One buffer of
//          sums: the parts of an item are added up after the first stage of the next.
// Order    t = u * sum exactly, then acc = fma(t, d, acc): the bits of unit_dot(), of one column and of the wide kernel.
#pragma once
#include "kernel/cuda/matvec.cuh"

namespace fewbit::kernel::cuda {

template <Code C, Scale S, int T>
struct FewShape {
  static constexpr int unit = code_bytes(C) + scale_bytes(S);
  static constexpr int stage_units = 3300 / (T * unit) ? 3300 / (T * unit) : 1;  // of each of the T tiles, at most
  static constexpr int stage = T * unit * stage_units;
  static constexpr int depth = stage > 2600 ? 2 : 3;
  // Rings | barriers: per warp and slot, then `written` and `free` | sums, and 8 floats more
  FEWBIT_FN static constexpr u32 ring_at(int warp) { return u32(warp) * depth * stage; }
  FEWBIT_FN static constexpr u32 sums_at(int warps) { return ring_at(warps) + u32(warps * depth + 2) * 8; }
  static constexpr size_t smem(int nc, int warps) { return sums_at(warps) + size_t(warps * 64 * nc * T + 8) * sizeof(f32); }
};

// What integer sums of one column need (act_layout.h).
struct WholeScales {
  int m[4], k[2];
  f32 u, nb;
  __device__ __forceinline__ void load(const u8* p) {
    const int4 a = *reinterpret_cast<const int4*>(p), b = *reinterpret_cast<const int4*>(p + 16);
    m[0] = a.x, m[1] = a.y, m[2] = a.z, m[3] = a.w, k[0] = b.x, k[1] = b.y, u = __int_as_float(b.z), nb = __int_as_float(b.w);
  }
};

// unit_dot() with integer sums.
template <Code C, Scale S, int NC>
__device__ __forceinline__ void whole_dot(u32 unit, int lane, const uint4 (&b)[2], const WholeScales (&s)[NC], f32 (&acc)[NC][2]) {
  const Codes<C> codes(unit, lane);
  const u32 scales = unit + code_bytes(C);
  constexpr int parts = S == Scale::g64 ? 2 : 1, steps = 4 / parts;
  f32 w[2][2];  // [row half][part]
  if constexpr (S == Scale::g128) {
    const u32 v = shared_u32(scales + 4 * (lane / 4));
    w[0][0] = half_of(v, 0), w[1][0] = half_of(v, 1);
  } else {
    const uint2 v = shared_u64(scales + 8 * (lane / 4));
    w[0][0] = half_of(v.x, 0), w[0][1] = half_of(v.x, 1), w[1][0] = half_of(v.y, 0), w[1][1] = half_of(v.y, 1);
  }
  constexpr int zero[4] = {0, 0, 0, 0};
  int d[4][4];
#pragma unroll
  for (int j = 0; j < 4; j++) {
    u32 a[4];
    codes.a(j, a, Tables{});
    mma32<false>(d[j], a, j % 2 ? b[j / 2].z : b[j / 2].x, j % 2 ? b[j / 2].w : b[j / 2].y, zero);
  }
#pragma unroll
  for (int n = 0; n < NC; n++)
#pragma unroll
    for (int h = 0; h < 2; h++)
#pragma unroll
      for (int part = 0; part < parts; part++) {
        // Operands of k-step j are 4^j too large (q1: 2^j, and 8 times that in rows g + 8; t5: 64, 64, 64, 16), multipliers 4^(3 - j).
        constexpr bool one_bit = C == Code::q1;
        const int shift = one_bit && h == 0 ? 3 : 6;
        int sum = parts == 2 ? s[n].k[part] : s[n].k[0] + s[n].k[1];
        if (shift == 3) sum >>= 3;
#pragma unroll
        for (int j = part * steps; j < (part + 1) * steps; j++)
          sum += d[j][2 * h + n] * (one_bit         ? s[n].m[j] >> (3 - j)
                                    : C == Code::t5 ? (j < 3 ? s[n].m[j] >> (6 - 2 * j) : s[n].m[j] << 2)
                                                    : s[n].m[j]);
        const f32 t = __fmaf_rn(__int_as_float((sum >> shift) + float_bias_bits), s[n].u, s[n].nb);
        acc[n][h] = __fmaf_rn(t, w[h][part], acc[n][h]);
      }
}

// ---- sub-scales ------------------------------------------------------------------------------------------------------------------------

FEWBIT_FN constexpr bool has_subs(Scale s) { return s != Scale::g128 && s != Scale::g64; }
FEWBIT_FN constexpr bool sums_matter(Scale s) { return s == Scale::k16m || s == Scale::k32d; }

// B registers of sums of s q for the minima: lane 4 n + t has those of k-step t of the column at n.  A sum's parts are its lowest five bits
// and the rest.  k32d: [0] the k-step's (parts 0, 1);  k16m: its halves' (part 0), (part 1).
template <Scale S>
__device__ __forceinline__ void sum_parts(const u8* block, int column, int t, u32 (&out)[2]) {
  const int s = *reinterpret_cast<const int*>(block + act_whole_of(column) + 4 * t) >> (6 - 2 * t);
  const int pair = *reinterpret_cast<const int*>(block + act_sum_of(column, t));
  auto halves = [](int a, int b) {
    const __half2 h = __floats2half2_rn(f32(a), f32(b));
    return *reinterpret_cast<const u32*>(&h);
  };
  if constexpr (S == Scale::k32d) {
    const int v = s * __dp2a_lo(pair, 0x0101, 0);
    out[0] = halves(v & 31, v & ~31), out[1] = 0;
  } else {
    const int v = s * __dp2a_lo(pair, 0x0001, 0), w = s * __dp2a_lo(pair, 0x0100, 0);
    out[0] = halves(v & 31, w & 31), out[1] = halves(v & ~31, w & ~31);
  }
}
// Their factors for a row, twice as f16 or those of two halves.  scales: of the unit; row: 2 g + h.
template <Scale S>
__device__ __forceinline__ __half2 sum_factors(u32 scales, int row, int t) {
  u32 bits;
  __half2 by = __float2half2_rn(1);
  if constexpr (S == Scale::k32d) {  // -(8 - sign) sub
    const u32 byte = shared_u8(scales + u32(4 * row + t));
    bits = (byte & 127) * 0x00010001u + 0x64006400u;
    by = __float2half2_rn(byte & 128 ? -9.0f : -7.0f);
  } else {
    bits = permute(u32(shared_u16(scales + u32(8 * row + 2 * t))) >> 4 & 0x0f0fu, 0x64006400u, 0x5150);
  }
  return __hmul2(__hadd2(*reinterpret_cast<const __half2*>(&bits), __float2half2_rn(-1024)), by);
}
template <Scale S>
__device__ __forceinline__ void mma_sums(f32 (&d)[4], __half2 g, __half2 g8, const u32 (&b)[2]) {
  const u32 a0 = *reinterpret_cast<const u32*>(&g), a1 = *reinterpret_cast<const u32*>(&g8);
  if constexpr (S == Scale::k32d)
    asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%7,%7,%7,%7};"
        : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
        : "r"(a0), "r"(a1), "r"(b[0]), "f"(0.0f));
  else
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%4,%5}, {%6,%7}, {%8,%8,%8,%8};"
        : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
        : "r"(a0), "r"(a1), "r"(b[0]), "r"(b[1]), "f"(0.0f));
}

// unit_dot() with integer sums.  parts: sum_parts().
template <Code C, Scale S, int NC>
__device__ __forceinline__ void whole_sub_dot(u32 unit, int lane, const uint4 (&b)[2], const WholeScales (&s)[NC], const u32 (&parts)[2],
                                              const Tables& table, f32 (&acc)[NC][2]) {
  constexpr bool halves = S == Scale::k16 || S == Scale::k16m, in_place = C == Code::b2, is_signed = Codes<C>::is_signed;
  const Codes<C> codes(unit, lane);
  const u32 scales = unit + code_bytes(C);
  const int g = lane / 4;
  u32 sub[2][2] = {}, d[2], dmin[2] = {};
  if constexpr (halves) {
    const uint4 v = shared_u128(scales + 16 * g);
    sub[0][0] = v.x, sub[0][1] = v.y, sub[1][0] = v.z, sub[1][1] = v.w;
  } else {
    const uint2 v = shared_u64(scales + 8 * g);
    sub[0][0] = v.x, sub[1][0] = v.y;
  }
  if constexpr (has_min(S)) {
    const uint2 v = shared_u64(scales + 128 + 8 * g);
    d[0] = v.x, d[1] = v.y, dmin[0] = v.x >> 16, dmin[1] = v.y >> 16;
  } else {
    const u32 v = shared_u32(scales + (halves ? 128 : 64) + 4 * g);
    d[0] = v, d[1] = v >> 16;
  }
  constexpr u32 mask = S == Scale::k16m ? 0x0f0f0f0fu : S == Scale::k32d ? 0x7f7f7f7fu : ~0u;
#pragma unroll
  for (int h = 0; h < 2; h++) sub[h][0] &= mask, sub[h][1] &= mask;
  auto sub_of = [&](int h, int i) {  // byte i of row h, with its sign where it has one
    const u32 byte = u32(i % 4), above = mask == ~0u ? (byte + 8) * 0x1110 : 0x4440;
    return int(permute(sub[h][i / 4], 0, byte + above));
  };
  constexpr int zero[4] = {};
  int total[NC][2] = {};
#pragma unroll
  for (int j = 0; j < 4; j++) {
    const u32 lo = j % 2 ? b[j / 2].z : b[j / 2].x, hi = j % 2 ? b[j / 2].w : b[j / 2].y;
    u32 a[4];
    codes.a(j, a, table);
    int v[4], w[4];
    if constexpr (halves)
      mma16<is_signed>(v, a[0], a[1], lo, zero), mma16<is_signed>(w, a[2], a[3], hi, zero);
    else
      mma32<is_signed>(v, a, lo, hi, zero);
#pragma unroll
    for (int h = 0; h < 2; h++)
#pragma unroll
      for (int n = 0; n < NC; n++) {
        const int x = v[2 * h + n], y = halves ? w[2 * h + n] : 0;
        int sum;
        if constexpr (C == Code::d2) {  // levels of at most 9: sums of 16 inputs need no more than 16 bits
          const int both = int(permute(u32(x), u32(y), 0x5410)), subs = int(sub[h][j / 2]);
          sum = j % 2 ? __dp2a_hi(both, subs, 0) : __dp2a_lo(both, subs, 0);
        } else if constexpr (halves) {
          sum = x * sub_of(h, 2 * j) + y * sub_of(h, 2 * j + 1);
        } else {
          sum = x * sub_of(h, j);
        }
        // Operands in place are 4^j too large, multipliers 4^(3 - j).
        total[n][h] += sum * (in_place ? s[n].m[j] : s[n].m[j] >> (6 - 2 * j));
      }
  }
  f32 off[4] = {};
  if constexpr (sums_matter(S))
    mma_sums<S>(off, sum_factors<S>(scales, 2 * g, lane % 4), sum_factors<S>(scales, 2 * g + 1, lane % 4), parts);
#pragma unroll
  for (int n = 0; n < NC; n++)
#pragma unroll
    for (int h = 0; h < 2; h++) {
      f32 t = f32(total[n][h]);
      if constexpr (S == Scale::k32d)
        t = __fmaf_rn(t, 1 / 8.0f, off[2 * h + n]);
      else if constexpr (in_place)
        t *= 1 / 64.0f;
      acc[n][h] = __fmaf_rn(t * s[n].u, half_of(d[h], 0), acc[n][h]);
      if constexpr (has_min(S)) acc[n][h] = __fmaf_rn(off[2 * h + n] * s[n].u, -half_of(dmin[h], 0), acc[n][h]);
    }
}

template <Code C, Scale S, int NC, int T>
__global__ void __maxnreg__(has_subs(S) && T < 4 ? 128 : 96) matvec_few_kernel(const __grid_constant__ MvArgs a) {
  using Shape = FewShape<C, S, T>;
  constexpr int depth = Shape::depth, unit_bytes = Shape::unit, stage = Shape::stage, stage_units = Shape::stage_units;
  extern __shared__ __align__(128) u8 shared[];
  const int lane = int(threadIdx.x % 32), warp = warp_index(), t = lane % 4;
  const int warps = int(blockDim.x / 32);  // = slabs
  u8* barriers = shared + Shape::ring_at(warps);
  Ring<stage, depth> ring(shared + Shape::ring_at(warp), barriers + warp * depth * 8, lane);
  f32* sums = reinterpret_cast<f32*>(shared + Shape::sums_at(warps));
  // All warps have left their part of an item; all have read what they add up.
  const u32 written = u32(__cvta_generic_to_shared(barriers + warps * depth * 8)), free = written + 8;
  if (threadIdx.x == 0) barrier_init(written, blockDim.x), barrier_init(free, blockDim.x);
  __syncthreads();
  early_launch();

  const int u0 = slab_begin(a.units, warp), nu = slab_begin(a.units, warp + 1) - u0;
  const u32 tile_bytes = u32(a.units) * unit_bytes;
  auto product = [&](int tile) {
    int i = 0;
    while (i + 1 < a.n && tile >= a.p[i + 1].tile0) i++;
    return i;
  };
  // Items of T tiles among single ones, one for each block, go to blocks at even distances: early launches fill one multiprocessor after
  // the other, so neighbours tend to lie on the same one.
  int block = int(blockIdx.x);
  if (a.tiles - (T - 1) * a.full == int(gridDim.x) && (T == 4 || a.units > 56)) {
    const int before = block * a.full / int(gridDim.x);
    block = (block + 1) * a.full / int(gridDim.x) > before ? before : a.full + block - before;
  }
  block = __shfl_sync(~0u, block, 0);  // known to the compiler to be the same in all lanes
  auto first_tile = [&](int item) { return item < a.full ? T * item : (T - 1) * a.full + item; };
  auto tiles_of = [&](int item) { return item < a.full ? T : 1; };
  // What the ring asks for next: `ask_left` units of an item from ask_from on.
  int ask_item = block, ask_left = 0, ask_tiles = 0;
  const u8* ask_from = nullptr;
  auto ask = [&](u32 slot) {
    if (ask_left == 0) {
      const int tile = first_tile(ask_item);
      if (tile >= a.tiles) return ring.fill_nothing();
      const MvProduct& p = a.p[product(tile)];
      ask_from = p.w + u64(tile - p.tile0) * tile_bytes + u32(u0) * unit_bytes;
      ask_left = nu, ask_tiles = tiles_of(ask_item), ask_item += int(gridDim.x);
    }
    const int n = min(ask_left, stage_units);
    ring.fill(slot, ask_from, tile_bytes, ask_tiles, u32(n) * unit_bytes);
    ask_from += u32(n) * unit_bytes, ask_left -= n;
  };
  if (nu) {
#pragma unroll 1
    for (int i = 0; i < depth; i++) ask(u32(i));
  }
  const int first = int(blockIdx.y) * 8, n_cols = min(8, a.cols - first);
  prefetch_rows(a.rows, a.n_rows, n_cols);
  early_wait();

  // The slab's activations into L1: a unit's are lines 0 .. 7 (q) and two more of its block, or all.
  constexpr int lines = sums_matter(S) ? 12 : 10, at_once = 32 / lines;
  const u64 block0 = act_block_at(a.units, first, u0);
  const int line = lines == 12 || lane % lines < 8 ? 128 * (lane % lines) : act_whole_at + 128 * (lane % lines - 8);
  for (int u = lane / lines; u < nu && lane < at_once * lines; u += at_once) touch(a.p[0].act + block0 + u32(u * act_block + line));
  const bool far = a.units > 56;  // more than L1 holds beside the rings

  // A warp adds up one set of 32 outputs - a column half and a row half - of every (warps / sets)-th tile of an item.
  constexpr int sets = 2 * NC;
  const int row_half = warp % 2, out_col = t + 4 * (warp / 2 % NC);
  struct Outputs {
    f32* y;    // of the first tile
    int rows;  // left from there on
  };
  auto outputs = [&](const MvProduct& p, int tile) {
    const int row = (tile - p.tile0) * (p.pair ? 8 : 16) + lane / 4 + 8 * row_half;
    return Outputs{p.y + i64(first + out_col) * p.ldy + row, (p.pair && row_half) || out_col >= n_cols ? 0 : p.rows - row};
  };
  // Adds the slabs' parts of an item in order and writes its outputs.
  auto add_up = [&](int item) {
    const int tile0 = first_tile(item);
    const MvProduct& p = a.p[product(tile0)];
    const Outputs out = outputs(p, tile0);
    const f32* from = sums + (warp % sets) * 32 + lane;
    auto total = [&](int tile, int h) {
      f32 s = 0;
#pragma unroll
      for (int w = 0; w < max_slabs; w++)
        if (w < 4 || warps == max_slabs) s += from[((w * T + tile) * sets + h) * 32];
      s *= p.factor;
      if (p.scale[h]) s *= p.scale[h][0];
      if (p.bias[h]) s += p.bias[h][p.rows - out.rows + tile * (p.pair ? 8 : 16)];
      return s;
    };
    const int n = tiles_of(item), step = p.pair ? 8 : 16;
    for (int tile = warp / sets; tile < n; tile += warps / sets) {
      if (tile * step >= out.rows) continue;
      f32* y = out.y + tile * step;
      const f32 before = p.add ? *y : 0, s = total(tile, 0), r = p.pair ? glu_of(s, total(tile, 1), a.kind) : s;
      *y = p.add ? before + r : r;
    }
  };

  const int column = min(act_column_of_n(NC == 1 ? lane / 8 * 2 : lane / 4), n_cols - 1);
  const u32 mine = u32(4 * act_n_of_column(column) + t) * 16;
  u32 bs0[NC];
#pragma unroll
  for (int n = 0; n < NC; n++) bs0[n] = u32(act_whole_of(min(t + 4 * n, n_cols - 1)));
  int last = 0, number = 0;
  for (int item = block;; item += int(gridDim.x)) {
    const bool more = first_tile(item) < a.tiles;
    f32 acc[T][NC][2] = {};
    auto settle = [&] {
      if (number == 0) return;
      barrier_wait(written, u32(number - 1) & 1);
      add_up(last);
      barrier_arrive(free);
    };
    if (more) {
      const MvProduct& p = a.p[product(first_tile(item))];
      if (p.add) {  // what the outputs are added to comes into L1 meanwhile
        const Outputs out = outputs(p, first_tile(item));
        for (int tile = warp / sets; tile < tiles_of(item); tile += warps / sets)
          if (tile * 16 < out.rows) touch(out.y + tile * 16);
      }
      const u8* block = p.act + block0;
      auto multiply = [&](auto tiles, int left, int n_units) {
        u32 unit = ring.data();
        for (int u = 0; u < n_units; u++) {
          WholeScales s[NC];
#pragma unroll
          for (int n = 0; n < NC; n++) s[n].load(block + bs0[n]);
          const uint4 b[2] = {*reinterpret_cast<const uint4*>(block + mine), *reinterpret_cast<const uint4*>(block + mine + 512)};
          [[maybe_unused]] u32 parts[2] = {};
          if constexpr (sums_matter(S)) sum_parts<S>(block, column, t, parts);
          block += act_block;
          if (far && lane < lines && u + 1 < left) touch(block + line);
#pragma unroll
          for (int i = 0; i < tiles(); i++) {
            const u32 at = unit + u32(i * n_units) * unit_bytes;
            if constexpr (has_subs(S))
              whole_sub_dot<C, S, NC>(at, lane, b, s, parts, p.table, acc[i]);
            else
              whole_dot<C, S, NC>(at, lane, b, s, acc[i]);
          }
          unit += unit_bytes;
        }
      };
      for (int left = nu; left > 0;) {
        const int n_units = min(left, stage_units);
        ring.wait();
        if (tiles_of(item) == T)
          multiply(std::integral_constant<int, T>(), left, n_units);
        else
          multiply(std::integral_constant<int, 1>(), left, n_units);
        __syncwarp();
        ask(ring.slot);
        ring.next();
        if (left == nu) settle();
        left -= n_units;
      }
    }
    if (!more || nu == 0) settle();
    if (!more) break;
    if (number > 0) barrier_wait(free, u32(number - 1) & 1);
#pragma unroll
    for (int i = 0; i < T; i++)
#pragma unroll
      for (int n = 0; n < NC; n++)
#pragma unroll
        for (int h = 0; h < 2; h++) sums[(((warp * T + i) * NC + n) * 2 + h) * 32 + lane] = acc[i][n][h];
    barrier_arrive(written);
    number++, last = item;
  }
  for_rows(a.rows, a.n_rows, n_cols,
           [&](const RowsProduct& p, int row, int col) { row_product(p, row, first + col, sums + warps * 64 * NC * T); });
}

template <Code C, Scale S, int NC, int T>
inline MvEntry mv_few_of() {
  return {matvec_few_kernel<C, S, NC, T>, {FewShape<C, S, T>::smem(NC, 4), FewShape<C, S, T>::smem(NC, 8)}, T};
}
template <Code C, Scale S>
inline MvEntry mv_few_of(int nc, int tiles) {
  if (nc == 1) return tiles == 1 ? mv_few_of<C, S, 1, 1>() : tiles == 2 ? mv_few_of<C, S, 1, 2>() : mv_few_of<C, S, 1, 4>();
  return tiles == 1 ? mv_few_of<C, S, 2, 1>() : tiles == 2 ? mv_few_of<C, S, 2, 2>() : mv_few_of<C, S, 2, 4>();
}
// The kernel for up to 4 * nc columns, items of up to `tiles` = 1, 2 or 4 tiles; no kernel: the layout has none.
MvEntry mv_few(int layout, int nc, int tiles);
MvEntry mv_few_t5(int layout, int nc, int tiles);  // its part for t5
MvEntry mv_few_k(int layout, int nc, int tiles);   // sub-scales

}  // namespace fewbit::kernel::cuda

// Measured on an H200 (nvcc 13.0, 30 Nov 2026), PQ2_0, 8 columns, us of 34816x5120 / 16384x5120 / 5120x17408 / 5120x6144 / 248320x5120:
// 16.4 / 9.6 / 11.1 / 5.1 / 100 (matvec.cuh: 24.9 / 11.6 / 14.0 / 6.0 / 130); one column 13.9 / 8.5 / 9.0 / 4.2 / 86.  Of the gain, integer
// sums are 4 to 6 %; the rest is fewer instructions around them (half of all were): uniform registers (warp_index(), elect_one()), outputs
// added up without branches, 96 registers (20 warps on a multiprocessor).
// PTQ1_0 in base 3 (t5), 8 columns: 22.6 / 12.0 / 14.8 / 6.0 / 128; 4: 18.8 / 10.4 / 12.9 / 5.2 / 107.
// Sub-scales, 8 columns (in brackets: matvec.cuh): IQ1_S 23.5 / 12.1 / 16.2 / 6.3 / 135 (30.4 / 14.9 / 22.1 / 9.1 / 204), IQ1_M 28.4 /
// 13.0 / 19.8 / 7.8 / 161 (35.0 / 17.9 / 24.9 / 10.3 / 232), IQ2_XXS 26.8 / 13.6 / 19.4 / 7.6 / 157 (28.8 / 14.9 / 20.3 / 8.3 / 185),
// IQ2_XS 31.0 / 15.0 / 23.0 / 8.9 / 178 (35.2 / 17.8 / 25.9 / 10.3 / 235), IQ3_XXS 39.3 / 18.2 / 27.5 / 10.5 / 223 (38.4 / 19.3 / 28.2
// / 10.9 / 256), Q2_K 29.8 / 13.3 / 20.8 / 8.0 / 169 (38.7 / 19.6 / 27.6 / 11.2 / 257).
// tried: 128 registers | 21.7 / 9.8 / 11.6 / 5.1 / 102;  80 registers | 20.7 / 11.2 / 14.8 / 7.0 / 108
// tried: two tiles at a time in the largest matrices | 19.6, 103;  one everywhere | 22.3 / 11.2 / 16.3 / 5.8 / 119
// tried: all items of two tiles where a few multiprocessors then get four | 5120x17408 12.0, 5120x6144 5.3
// tried: stages of four units of two tiles | 16384x5120 10.2 | less of L1 is left for the activations
// tried: q of the next unit loaded a unit ahead | 2 to 5 % slower
// tried: fewer stages asked for before the predecessor ends | a token's products 3.87 and 4.03 ms (one stage, none) against 3.78
// tried: fours in the largest matrices only, without single tiles | 34816x5120 17.2, 8 sequences 1627 tok/s against 1656
// tried: blocks of two tiles at even distances along short rows too | 5120x6144 5.22;  along long rows not | 5120x17408 11.5
// tried: items of three tiles where a multiprocessor gets two or three | 5120x17408 15.1, 5120x6144 6.6
// tried: single tiles for two blocks on every multiprocessor, of two tiles where they do not go round | 11.6, 5.8
// tried: sub-scales by unit_dot()'s float steps | the head of IQ1_S 184 us against 135, IQ2_XS 221 against 178, Q2_K 240 against 169
// tried: sub-scales, 128 registers for items of four tiles | IQ1_S 34816x5120 27.3 against 23.5;  96 for two | 16384x5120 13.3 for 12.1
// tried: single tiles for two blocks on every multiprocessor, cut between neighbours along K (matvec_one.cuh) | 13.9, 5120x6144 7.1
// tried: the largest shared memory, the least L1 | 34816x5120 17.1 against 16.5, 16384x5120 10.2 against 9.7, 8 sequences the same
