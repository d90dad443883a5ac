// Attention over an f16 cache on tensor cores: what the kernels for few and for many columns share.
//
// Maths   a query is q = (hi + lo) / s, hi and lo in f16, s a power of two of its row that brings the largest number to 2^14..2^15;
//         keys and
//         values are f16 as they lie in the cache.  A split is 64 keys:
//           a_k = hi.K_k + lo.K_k                       two chains of mma.m16n8k16 over the head, added
//           t   = max_k a_k f - 15                      f = scale log2(e) / s;  the row's zero: p lies in 0..2^15
//           p_k = 2^(a_k f - t), 0 beyond the position  p = hi + lo in f16
//           o   = hi V + lo V                           two chains over the keys, added; l likewise with a column of ones
//         and the splits are folded in order: T = max(t, t_s); o = o 2^(t - T) + o_s 2^(t_s - T); l likewise; out = o (1 / l).
// Order   all of it is fixed, and a row of an mma depends on nothing in other rows: a column has the same bits in every kernel and in every
//         company.  (An inf or NaN in a value that a later column of the same call wrote is the exception: 0 times it is NaN.)
#pragma once
#include "kernel/cuda/attention.cuh"

namespace fewbit::kernel::cuda::attend {

constexpr f32 log2_e = 1.44269504f, p_exponent = 15;
constexpr int few_rows = 32;  // queries of a block for few columns; half of them where it prepares them itself

__device__ __forceinline__ u32 shared_at(const void* p) { return u32(__cvta_generic_to_shared(p)); }

// ---- copies ------------------------------------------------------------------------------------------------------------------------

// 16 bytes into shared memory; with `bytes` = 0 zeros.
__device__ __forceinline__ void copy16(u32 to, const void* from, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}
__device__ __forceinline__ void copies_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int PENDING>
__device__ __forceinline__ void copies_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

// ---- fragments ---------------------------------------------------------------------------------------------------------------------

// Rows in shared memory are multiples of 128 bytes; their 16-byte piece j stands at j ^ (row % 8), so that 8 rows' same piece lie in
// different banks.  `at` for piece 0, in bytes: piece j is at ^ 16 (j % 8) + 128 (j / 8).
__device__ __forceinline__ u32 piece_at(u32 row_at, int row, int piece) {
  return row_at + u32(((piece ^ (row & 7)) & 7) + (piece & ~7)) * 16;
}
__device__ __forceinline__ u32 piece_on(u32 at, int j) { return (at ^ u32(16 * (j % 8))) + u32(128 * (j / 8)); }

__device__ __forceinline__ void load_matrices(u32 at, u32 (&r)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at));
}
__device__ __forceinline__ void load_matrices_t(u32 at, u32 (&r)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(at));
}
__device__ __forceinline__ void mma16(f32* d, const u32 (&a)[4], u32 b0, u32 b1) {  // d: 4 registers
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
constexpr u32 two_ones = 0x3c003c00;

// ---- numbers -----------------------------------------------------------------------------------------------------------------------

__device__ __forceinline__ f32 exp2_quick(f32 x) {
  f32 y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Two numbers as f16 hi and lo.
__device__ __forceinline__ void halves_of(f32 x, f32 y, u32& hi, u32& lo) {
  const __half2 h = __floats2half2_rn(x, y);
  const float2 f = __half22float2(h);
  const __half2 l = __floats2half2_rn(x - f.x, y - f.y);
  hi = *reinterpret_cast<const u32*>(&h), lo = *reinterpret_cast<const u32*>(&l);
}

// A query's power of two, from the largest magnitude in it, and what a sum of its products is multiplied by.
__device__ __forceinline__ f32 query_power(f32 largest, f32 scale, f32& factor) {
  const int e = min(max(268 - int(__float_as_uint(largest) >> 23 & 255), 1), 253);
  factor = scale * log2_e * __uint_as_float(u32(254 - e) << 23);
  return __uint_as_float(u32(e) << 23);
}

// A split's zero from its largest sum of products.
__device__ __forceinline__ f32 zero_of(f32 largest, f32 factor) { return largest * factor - p_exponent; }
// A key's weight; with no key at all (zero = -inf) 0.
__device__ __forceinline__ f32 weight_of(f32 sum, f32 factor, f32 zero) {
  return exp2_quick(__fmaf_rn(sum, factor, zero == -INFINITY ? 0.0f : -zero));
}

// What is behind and what comes new in a fold, each times its power of two.
struct Turn {
  f32 old, fresh;
};
__device__ __forceinline__ Turn turn(f32& top, f32 zero) {
  const f32 m = fmaxf(top, zero);
  const Turn t{exp2_quick(top - m), exp2_quick(zero - m)};
  top = m;
  return t;
}
__device__ __forceinline__ f32 folded(f32 behind, f32 fresh, Turn t) { return __fmaf_rn(fresh, t.fresh, behind * t.old); }

// What a row's folded sums are multiplied by, and a number of the result from its own; -0, which an empty fold would turn into 0, never
// leaves.
__device__ __forceinline__ f32 share_of(f32 mass) { return 1.0f / mass; }
__device__ __forceinline__ f32 result_of(f32 o, f32 share) { return (o + 0.0f) * share; }

__device__ __forceinline__ f32 gated_result(const Args& a, f32 x, f32 gate) { return a.at.gated ? x * sigmoid(gate) : x; }
// Two neighbours of a result, and their gates, or anything if there are none.
__device__ __forceinline__ float2 gate_pair(const Args& a, int c, int h, int d) {
  const f32* gates = a.at.q + c * a.at.ldq + i64(h) * a.at.q_stride + (a.at.gated ? a.at.head_dim : 0) + d;
  return make_float2(gates[0], gates[1]);
}
__device__ __forceinline__ void write_pair(const Args& a, int c, int h, int d, f32 x, f32 y, f32 share, float2 gate) {
  *reinterpret_cast<float2*>(a.at.out + (i64(c) * a.at.n_q + h) * a.at.head_dim + d) =
      make_float2(gated_result(a, result_of(x, share), gate.x), gated_result(a, result_of(y, share), gate.y));
}

// A query's head by one warp as f16 hi and lo; put(i, hi, lo) takes them, zeros from head_dim to max_head_dim; the factor is returned in
// every lane.
template <class Put>
__device__ __forceinline__ f32 prepare_query(const Args& a, int c, int h, f32* work, const Put& put) {
  f32 x[max_head_dim / 32], largest = 0, factor;
  prepare_values(a, c, 0, h, work, x);
#pragma unroll
  for (int j = 0; j < max_head_dim / 32; j++) largest = fmaxf(largest, fabsf(x[j]));
  const f32 power = query_power(warp_max(largest), a.at.scale, factor);
  __syncwarp();  // `work` may be where they go
#pragma unroll
  for (int j = 0; j < max_head_dim / 32; j++) {
    const int i = int(threadIdx.x % 32) + 32 * j;
    const f32 v = x[j] * power;
    const __half hi = __float2half_rn(v);
    put(i, hi, __float2half_rn(v - __half2float(hi)));
  }
  return factor;
}

// Up to 8 columns, or one of each sequence, by blocks of one split (attention_few.cu).  prepare: their heads are not in scratch yet, and
// one column per sequence.
template <int WIDTH>
void launch_few(Ctx& ctx, Args& a, bool prepare);
// What they left of more than one split, into results (attention_fold.cu).
void launch_fold(Ctx& ctx, const Args& a);
// Any number (attention_tiles.cu).
template <int WIDTH>
void launch_tiles(Ctx& ctx, Args& a);

}  // namespace fewbit::kernel::cuda::attend
