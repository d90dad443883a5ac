// Experts of few tokens (decode): every entry (one token's column of one expert) is multiplied alone, and nothing waits that need not.
//
// Fours    as in matvec_one.cuh: with one column, seven of the eight columns of an mma are idle.  The activations of unit u (of four) go
//          into column 2 u of B and zeros into the others, and the mmas of four units add into the same registers: lane 4 g + t then holds
//          the sums of unit t and does its float steps.  Then the results change places, and lane h of each four adds those of row half h
//          in order.  Fewer instructions but more registers; else the four lanes do the same, unit by unit.
// Codes    4-bit levels lie within -64..63: the table holds level - 64, whose bytes have their highest bit set.  A prmt whose selector has
//          bit 3 set repeats that bit, so looking up codes 0..7 in one half and codes 8..15 in the other gives ones where the code is not
//          of that half, and `and` joins them.
// Work     glu: a block per row tile and entry, a warp per slab.  down: a block per row tile and token, a warp or more per entry; the block
//          adds the experts' results to x itself.
// Waits    ids and activations come from the predecessor: all that needs no id is asked for before it.  A warp asks for all its weights.
// Order    unit_dot()'s operations in order of K per slab, slabs in order, experts in order: the bits of matvec.cuh and combine_kernel.
#pragma once
#include "kernel/cuda/lanes.cuh"
#include "kernel/cuda/matvec.cuh"

namespace fewbit::kernel::cuda {

struct EntryArgs {
  MvProduct p;
  int units, k, split;  // k: entries of a token; split: warps of an entry, each with as many slabs
  Glu kind;
  const i32* ids;
  const f32* weights;  // down: of entries
};

inline constexpr int entry_warps = 16, entry_static_smem = 2048;  // of a block, at most

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
};

// The A registers of k-step j; of n4: level - 64.
template <Code C>
__device__ __forceinline__ void entry_codes(const Codes<C>& codes, int j, u32 (&r)[4], const Tables& t) {
  if constexpr (C == Code::n4) {
#pragma unroll
    for (int f = 0; f < 2; f++) {
      const u32 lo = codes.w[2 * j + f], hi = lo ^ 0x88888888u;
      r[2 * f] = permute(t.w[0], t.w[1], lo) & permute(t.w[2], t.w[3], hi);
      r[2 * f + 1] = permute(t.w[0], t.w[1], lo >> 16) & permute(t.w[2], t.w[3], hi >> 16);
    }
  } else {
    codes.a(j, r, t);
  }
}

// Values and their factors in the order in which a unit adds them: acc = fma(value, factor, acc).
template <Scale S>
struct UnitTerms {
  static constexpr int n = S == Scale::g32 ? 4 : S == Scale::g64 || has_min(S) ? 2 : 1;
  f32 value[n][2], factor[n][2];  // [.][row half]
};

// Sums of the k-steps (by_16: of their halves) of one column, biased (float_bias_bits): [.][2 h] of row g + 8 h.
template <Code C, Scale S>
struct UnitSums {
  static constexpr bool by_16 = S == Scale::k16 || S == Scale::k16m, is_signed = Codes<C>::is_signed;
  int d[4][4], e[by_16 ? 4 : 1][4];

  // Multiplies a unit at a shared address; b: as for unit_dot().  `first`: else it adds.
  __device__ __forceinline__ void add(u32 unit, int lane, const uint4 (&b)[2], const Tables& table, bool first) {
    const Codes<C> codes(unit, lane);
#pragma unroll
    for (int j = 0; j < 4; j++) {
#pragma unroll
      for (int i = 0; i < 4; i++)
        if (first) d[j][i] = e[by_16 ? j : 0][i] = float_bias_bits;
      u32 r[4];
      entry_codes<C>(codes, j, r, table);
      const u32 lo = j % 2 ? b[j / 2].z : b[j / 2].x, hi = j % 2 ? b[j / 2].w : b[j / 2].y;
      if constexpr (by_16)
        mma16<is_signed>(d[j], r[0], r[1], lo, d[j]), mma16<is_signed>(e[j], r[2], r[3], hi, e[j]);
      else
        mma32<is_signed>(d[j], r, lo, hi, d[j]);
    }
  }
};

// The float steps of a unit as in unit_dot().  scales: shared address of the unit's scales; s: of its activations.
template <Code C, Scale S>
__device__ __forceinline__ void unit_terms(const UnitSums<C, S>& sums, u32 scales, int g, const ActScales& s, bool bf16,
                                           UnitTerms<S>& out) {
  constexpr bool halves = UnitSums<C, S>::by_16;
  const auto& d = sums.d;
  const auto& e = sums.e;
  auto a = [&](int j) { return operand_shift(C, j) ? s.d[j] * (1.0f / f32(1 << operand_shift(C, j))) : s.d[j]; };
  // The sum of the k-step in row half h as unit_dot() has it; z: what comes off per q.
  auto sum = [&](int j, int h, int z) {
    if (!z) return unbias(d[j][2 * h]);
    const int of = z << operand_shift(C, j);
    return __int_as_float(d[j][2 * h]) - __int_as_float(__dp2a_lo(s.sum[j], (of & 255) | (of & 255) << 8, float_bias_bits));
  };
  if constexpr (S == Scale::g128 || S == Scale::g64) {
    constexpr int parts = S == Scale::g64 ? 2 : 1, steps = 4 / parts;
    u32 w[parts];  // g128: rows; g64: of each row
    if constexpr (S == Scale::g128) {
      w[0] = shared_u32(scales + 4 * g);
    } else {
      const uint2 v = shared_u64(scales + 8 * g);
      w[0] = v.x, w[1] = v.y;
    }
#pragma unroll
    for (int h = 0; h < 2; h++)
#pragma unroll
      for (int i = 0; i < parts; i++) {
        f32 v = 0;
#pragma unroll
        for (int j = i * steps; j < (i + 1) * steps; j++) v = __fmaf_rn(sum(j, h, C == Code::q1 && h ? 8 : 1), a(j), v);
        const f32 f = S == Scale::g128 ? half_of(w[0], h) : half_of(w[S == Scale::g64 ? h : 0], i);
        out.value[i][h] = v, out.factor[i][h] = C == Code::q1 && h ? f * 0.125f : f;
      }
  } else if constexpr (S == Scale::g32) {
    const uint4 v = shared_u128(scales + 16 * g);
    const u32 w[2][2] = {{v.x, v.y}, {v.z, v.w}};
#pragma unroll
    for (int h = 0; h < 2; h++)
#pragma unroll
      for (int j = 0; j < 4; j++) {
        const u32 pair = w[h][j / 2];
        out.value[j][h] = sum(j, h, C == Code::n4 ? -64 : 0) * s.d[j];
        out.factor[j][h] = bf16 ? __uint_as_float((pair >> (16 * (j % 2))) << 16) : half_of(pair, j % 2);
      }
  } else {
    u32 sub[2][2], low[2] = {};
    f32 m[2] = {};
    if constexpr (halves) {
      const uint4 v = shared_u128(scales + 16 * g);
      sub[0][0] = v.x, sub[0][1] = v.y, sub[1][0] = v.z, sub[1][1] = v.w;
    } else {
      const uint2 v = shared_u64(scales + 8 * g);
      sub[0][0] = v.x, sub[1][0] = v.y;
      if constexpr (S == Scale::k32m) {
        const uint2 w = shared_u64(scales + 64 + 8 * g);
        low[0] = w.x, low[1] = w.y;
      }
    }
    const u32 d_at = scales + (halves || S == Scale::k32m ? 128 : 64);
    if constexpr (has_min(S)) {
      const uint2 v = shared_u64(d_at + 8 * g);
      out.factor[0][0] = half_of(v.x, 0), out.factor[0][1] = half_of(v.y, 0);
      out.factor[1][0] = -half_of(v.x, 1), out.factor[1][1] = -half_of(v.y, 1);
    } else {
      const u32 v = shared_u32(d_at + 4 * g);
      out.factor[0][0] = half_of(v, 0), out.factor[0][1] = half_of(v, 1);
    }
#pragma unroll
    for (int h = 0; h < 2; h++) {
      f32 v = 0;
#pragma unroll
      for (int j = 0; j < 4; j++) {
        f32 x;
        if constexpr (halves) {
          const u32 w = sub[h][j / 2];
          const int i = j % 2 * 2;
          const f32 s0 = S == Scale::k16m ? f32(w >> (8 * i) & 15) : signed_byte_float(w, i);
          const f32 s1 = S == Scale::k16m ? f32(w >> (8 * i + 8) & 15) : signed_byte_float(w, i + 1);
          x = __fmaf_rn(unbias(d[j][2 * h]), s0, unbias(e[j][2 * h]) * s1);
        } else if constexpr (S == Scale::k32d) {
          const u32 byte = sub[h][0] >> (8 * j) & 255;
          const f32 f = f32(byte & 127), sign = byte & 128 ? -f : f;
          x = __fmaf_rn(sum(j, h, 1), 8 * f, f32(s.total(j) << operand_shift(C, j)) * sign);
        } else {
          const f32 f = S == Scale::k32m ? byte_float(sub[h][0], j) : signed_byte_float(sub[h][0], j);
          x = sum(j, h, C == Code::n4 ? -64 : 0) * f;
        }
        v = __fmaf_rn(x, a(j), v);
        if constexpr (S == Scale::k16m) {
          const int mins = int(sub[h][j / 2] >> 4 & 0x0f0f0f0f);
          m[h] = __fmaf_rn(f32(j % 2 ? __dp2a_hi(s.sum[j], mins, 0) : __dp2a_lo(s.sum[j], mins, 0)), s.d[j], m[h]);
        } else if constexpr (S == Scale::k32m) {
          m[h] = __fmaf_rn(f32(s.total(j)) * byte_float(low[h], j), s.d[j], m[h]);
        }
      }
      out.value[0][h] = v;
      if constexpr (has_min(S)) out.value[1][h] = m[h];
    }
  }
}

// A warp's units of one column, from u on.
template <Code C, Scale S>
struct EntryColumn {
  const u8* act;  // block of the first unit
  int in_group, lane;
  uint4 q;      // lane 8 u + 4 half + t
  ActScales s;  // of unit t

  __device__ __forceinline__ EntryColumn(const MvProduct& p, int units, int column, int u, int lane_)
      : act(p.act + act_block_at(units, column, u)), in_group(column % 8), lane(lane_) {}
  // Asks for the activations of n units (fours: up to 4) from the i-th on.
  __device__ __forceinline__ void ask(int i, int n) {
    if constexpr (EntryShape<C, S>::fours) {
      const int u = min(lane / 8, n - 1), t = min(lane % 4, n - 1);
      q = __ldcg(
          reinterpret_cast<const uint4*>(act + (i + u) * act_block + lane / 4 % 2 * 512 + (4 * act_n_of_column(in_group) + lane % 4) * 16));
      s.load(act + (i + t) * act_block + act_d_of(in_group, 0));
    } else {
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

// What a warp does: slabs s0 .. s1 of `entry`.  Its sums go to `sums` (of the entry), 16 rows of each slab.
template <Code C, Scale S>
__device__ __forceinline__ void entry_slabs(const EntryArgs& a, int tile, int entry, int column, int s0, int s1, u8* shared, u32 data,
                                            u32 q_at, u32 zero, u8* barrier, f32* sums, int lane) {
  using Shape = EntryShape<C, S>;
  const MvProduct& p = a.p;
  const int u0 = slab_begin(a.units, s0), n = slab_begin(a.units, s1) - u0;
  Ring<0, 1> ring(shared, barrier, lane);
  ring.base = data + u32(u0 * Shape::unit);
  const int expert = a.ids[entry];
  EntryColumn<C, S> x(p, a.units, column, u0, lane);
  if (n) x.ask(0, Shape::fours ? min(n, 4) : n);
  if (n) ring.fill(0, p.w + u64(expert) * p.expert_bytes + (u64(tile) * u32(a.units) + u32(u0)) * Shape::unit, 0, 1, u32(n) * Shape::unit);
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

template <Code C, Scale S>
__global__ void __launch_bounds__(32 * max_slabs, 2) entry_glu_kernel(const __grid_constant__ EntryArgs a) {
  using Shape = EntryShape<C, S>;
  extern __shared__ __align__(128) u8 shared[];
  const int lane = int(threadIdx.x % 32), warp = warp_index(), warps = int(blockDim.x / 32);  // = slabs
  const int tile = int(blockIdx.x), entry = int(blockIdx.y);
  const u32 base = u32(__cvta_generic_to_shared(shared)), zero = base + Shape::zeros_at(1, a.units, warps) + 64;
  if (threadIdx.x < 8) put_shared(zero + 16 * threadIdx.x, make_uint4(0, 0, 0, 0));
  __syncthreads();
  f32* sums = reinterpret_cast<f32*>(shared + Shape::sums_at(1, a.units, warps));
  early_launch();
  early_wait();
  entry_slabs<C, S>(a, tile, entry, entry / a.k, warp, warp + 1, shared, base, base + Shape::acts_at(1, a.units) + u32(warp) * Shape::act,
                    zero, shared + Shape::barriers_at(1, a.units, warps) + warp * 8, sums, lane);
  __syncthreads();
  if (threadIdx.x >= 16) return;
  const MvProduct& p = a.p;
  const int up = lane / 8, row = tile * 8 + lane % 8;  // gate in lanes 0..7, up behind
  f32 s = 0;
  for (int w = 0; w < warps; w += 4)
#pragma unroll
    for (int k = 0; k < 4; k++) s += sums[(w + k) * 16 + lane];
  s *= p.factor;
  if (p.scale[up]) s *= p.scale[up][a.ids[entry]];
  if (p.bias[up] && row < p.rows) s += p.bias[up][row];
  const f32 other = __shfl_down_sync(0xffffu, s, 8);
  if (!up && row < p.rows) p.y[i64(entry) * p.ldy + row] = glu_of(s, other, a.kind);
}

template <Code C, Scale S>
__global__ void __launch_bounds__(32 * entry_warps, 1) entry_down_kernel(const __grid_constant__ EntryArgs a) {
  using Shape = EntryShape<C, S>;
  extern __shared__ __align__(128) u8 shared[];
  const int lane = int(threadIdx.x % 32), warp = warp_index(), warps = int(blockDim.x / 32);
  const int tile = int(blockIdx.x), token = int(blockIdx.y), slabs = slab_count(a.units), share = slabs / a.split;
  const int j = warp / a.split, s0 = warp % a.split * share, entry = token * a.k + j;
  const u32 base = u32(__cvta_generic_to_shared(shared)), zero = base + Shape::zeros_at(a.k, a.units, warps) + 64;
  __shared__ f32 results[entry_warps][16], weights[entry_warps];
  if (threadIdx.x < 8) put_shared(zero + 16 * threadIdx.x, make_uint4(0, 0, 0, 0));
  __syncthreads();
  f32* sums = reinterpret_cast<f32*>(shared + Shape::sums_at(a.k, a.units, warps));
  early_launch();
  early_wait();
  const MvProduct& p = a.p;
  const int r = int(threadIdx.x) % 16, e = int(threadIdx.x) / 16, row = tile * 16 + r;
  f32* x = p.y + i64(token) * p.ldy + row;
  const f32 before = e == 0 && row < p.rows ? *x : 0.0f;
  if (int(threadIdx.x) < a.k) weights[threadIdx.x] = a.weights[token * a.k + int(threadIdx.x)];
  entry_slabs<C, S>(a, tile, entry, entry, s0, s0 + share, shared, base + u32(j * a.units * Shape::unit),
                    base + Shape::acts_at(a.k, a.units) + u32(warp) * Shape::act, zero,
                    shared + Shape::barriers_at(a.k, a.units, warps) + warp * 8, sums + j * slabs * 16, lane);
  __syncthreads();
  if (e < a.k) {
    f32 s = 0;
    for (int k = 0; k < slabs; k += 4)
#pragma unroll
      for (int i = 0; i < 4; i++) s += sums[(e * slabs + k + i) * 16 + r];
    s *= p.factor;
    if (p.scale[0]) s *= p.scale[0][a.ids[token * a.k + e]];
    if (p.bias[0] && row < p.rows) s += p.bias[0][row];
    results[e][r] = s;
  }
  __syncthreads();
  if (e || row >= p.rows) return;
  f32 sum = 0;
  for (int k = 0; k < a.k; k++) sum = __fmaf_rn(weights[k], results[k][r], sum);
  *x = before + sum;
}

struct EntryKernels {
  void (*glu)(EntryArgs) = nullptr;
  void (*down)(EntryArgs) = nullptr;
  u32 glu_smem = 0, down_smem = 0;  // for these units, k and split
};
template <Code C, Scale S>
inline EntryKernels entry_kernels_of(int units, int k, int split) {
  using Shape = EntryShape<C, S>;
  return {entry_glu_kernel<C, S>, entry_down_kernel<C, S>, Shape::smem(1, units, slab_count(units)), Shape::smem(k, units, k * split)};
}
// No kernels: this layout has none.
EntryKernels entry_kernels(int layout, int units, int k, int split);
EntryKernels entry_kernels_t5(int layout, int units, int k, int split);  // its part for t5

}  // namespace fewbit::kernel::cuda

// Measured on an H200 (nvcc 13.0, 30 Nov 2026), 256 experts of 512x2048, top 8, us of gate and up / down with its sum, 1 token, weights in
// the L2 cache (before: matvec.cuh and combine_kernel): PQ2_0 3.8 / 3.5 (4.1 / 5.8), Q1_0 3.6 / 3.3 (4.4 / 6.2), IQ1_S 3.9 / 3.5 (5.8
// / 6.9), IQ2_XS 4.5 / 3.9 (5.7 / 6.6), IQ3_S 5.2 / 4.1 (7.1 / 7.4), Q2_K 4.0 / 3.7 (5.6 / 6.6), Q4_0 6.0 / 4.1 (6.9 / 7.2), Q4_K 5.5 / 4.2
// (7.2 / 7.2), Q8_0 5.3 / 4.2 (6.3 / 6.6).  Not in the cache: PQ2_0 4.2 / 3.5 (4.6 / 5.7), IQ3_S 6.2 / 4.5 (8.6 / 7.4), Q8_0 7.5 / 5.1
// (8.8 / 7.4).  8 tokens: PQ2_0 18 / 16 (20 / 25), IQ3_S 26 / 18 (35 / 30).
// tried: unit by unit for all | IQ1_S 4.9 us, IQ2_XS 5.4, Q4_K 6.2, 8 tokens of IQ3_S 28; PQ2_0 the same
// tried: a look, unit by unit, whether a slab ends there | PQ2_0 5.6 us against 3.8, IQ2_XS 7.5 against 5.4: units no longer overlap
// tried: down by 16 warps that share the slabs of all entries | PQ2_0 6.4 us: the sum of the experts waited for its weights
