// y = W a for many columns (prefill): Hopper's wgmma on exact integers held in f16.
//
// Why f16   an activation has one scale per 32 inputs, so sums are promoted to f32 every 32 inputs.  With int8 operands that costs an
//           int-to-float (or a subtraction) and a multiply-add per sum; f16 operands leave f32 sums and cost the multiply-add alone, and
//           a sub-block's integer factor can go into the weight: level * sub is an integer up to 2048, exact in f16.  Products and sums
//           of 32 are integers below 2^24, exact in f32, so every column has the bits that the mat-vec gives (same float order,
//           matvec.cuh).
// Tile      128 rows x 128 columns by 2 warpgroups of 64 rows; a stage is one unit (128 inputs).  A warp unpacks the weights of its own 16
//           rows into registers (the A operand), so they never pass through shared memory unpacked; B comes as an image that the
//           quantiser wrote (act_layout.h), ready for the 128-byte swizzle.
// Pipeline  a third warpgroup fetches stages ahead with bulk copies and gives its registers to the others; while one of these promotes a
//           k-step's sums the other keeps the tensor cores busy.
#pragma once
#include "kernel/cuda/matvec.cuh"

namespace fewbit::kernel::cuda {

struct GemmArgs {
  MvProduct p[mv_products];  // tile0: in blocks of 8 tiles
  int tiles[mv_products];    // row tiles of each
  int n, units, cols;
  Glu kind;
};

inline constexpr int gemm_workers = 256, gemm_threads = gemm_workers + 128;

template <Code C, Scale S>
struct GemmShape {
  static constexpr int unit = code_bytes(C) + scale_bytes(S);
  static constexpr int image = has_min(S) ? act_image_block : act_image_block - act_image_sums;
  static constexpr int stage = (image + 8 * unit + 1023) / 1024 * 1024;
  static constexpr int totals = 128 * 128 * 4;
  static constexpr int stages = (227 * 1024 - 2048 - totals) / stage > 4 ? 4 : (227 * 1024 - 2048 - totals) / stage;
  static constexpr size_t smem = 1024 + size_t(stages) * stage + totals + 128;
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

__device__ __forceinline__ void shared_store(u32 at, f32 v) { asm volatile("st.shared.f32 [%0], %1;" ::"r"(at), "f"(v) : "memory"); }
__device__ __forceinline__ u32 h2(f32 x) {
  const __half2 h = __float2half2_rn(x);
  return *reinterpret_cast<const u32*>(&h);
}
__device__ __forceinline__ u32 hfma2(u32 a, u32 b, u32 c) {
  u32 d;
  asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
  return d;
}
__device__ __forceinline__ u32 hadd2(u32 a, u32 b) {
  u32 d;
  asm("add.rn.f16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  return d;
}
__device__ __forceinline__ u32 hmul2(u32 a, u32 b) {
  u32 d;
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  return d;
}
// A small integer as two halves.
__device__ __forceinline__ u32 int_h2(int v) { return h2(f32(v)); }

// ---- weights of a k-step as f16: a[4 f + x'], x' = h: bytes 0 and 2 of row half h; x' = 2 + h: bytes 1 and 3 --------------------------

template <Code C, Scale S>
__device__ __forceinline__ void half_step(const Codes<C>& codes, const Tables& table, int j, const u32 (&sub)[2][2], const u32 (&shift)[2],
                                          u32 (&a)[8]) {
  if constexpr (C == Code::b2) {
    const u32 w[4] = {codes.w.x, codes.w.y, codes.w.z, codes.w.w};
    const u32 mask = 0x00030003u << (2 * j);
    const f32 s = 1.0f / f32(1 << (2 * j));
#pragma unroll
    for (int x = 0; x < 4; x++) {
      const int h = x % 2, f = x / 2;
      u32 v[2] = {(w[x] & mask) | 0x64006400u, (w[x] >> 8 & mask) | 0x64006400u};  // 1024 + 4^j c
#pragma unroll
      for (int i = 0; i < 2; i++) {
        if constexpr (S == Scale::k32d) {
          v[i] = hfma2(hfma2(v[i], h2(8 * s), h2(-8192 * s)), sub[h][0], shift[h]);  // 8 c sub + (sign - 8) sub
        } else if constexpr (S == Scale::k16m) {
          v[i] = hmul2(hfma2(v[i], h2(s), h2(-1024 * s)), sub[h][f]);
        } else {
          v[i] = hfma2(v[i], h2(s), h2(-1024 * s - 1));
        }
        a[4 * f + 2 * i + h] = v[i];
      }
    }
  } else if constexpr (C == Code::q1) {
#pragma unroll
    for (int f = 0; f < 2; f++)
#pragma unroll
      for (int h = 0; h < 2; h++) {
        const u32 w = h ? codes.w[f] : codes.up[f], mask = (h ? 0x00100010u : 0x00020002u) << j;
        const f32 s = (h ? 0.125f : 1.0f) / f32(1 << j);
#pragma unroll
        for (int i = 0; i < 2; i++) a[4 * f + 2 * i + h] = hfma2(((i ? w >> 8 : w) & mask) | 0x64006400u, h2(s), h2(-1024 * s - 1));
      }
  } else {
    u32 r[4];
    codes.a(j, r, table);
#pragma unroll
    for (int x = 0; x < 4; x++) {
      const int h = x % 2, f = x / 2;
#pragma unroll
      for (int i = 0; i < 2; i++) {
        u32 v = ((i ? r[x] >> 8 : r[x]) & 0x00ff00ffu) ^ 0x64806480u;  // 1024 + 128 + level
        v = hadd2(v, h2(-1152));
        if constexpr (S == Scale::k16 || S == Scale::k32 || S == Scale::k32m) v = hmul2(v, sub[h][S == Scale::k16 ? f : 0]);
        a[4 * f + 2 * i + h] = v;
      }
    }
  }
}

// ---- wgmma ------------------------------------------------------------------------------------------------------------------------------

__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int n>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(n) : "memory");
}
// d (64 x 128) = a (64 x 16, registers) * b (16 x 128, shared) [+ d]
__device__ __forceinline__ void wgmma128(f32 (&d)[64], u32 a0, u32 a1, u32 a2, u32 a3, u64 desc, int add) {
  // clang-format off
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %69, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
      "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}, "
      "{%64,%65,%66,%67}, %68, p, 1, 1, 0;\n}\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
        "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
        "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
        "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
        "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]),
        "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
        "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
        "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(desc), "r"(add));
  // clang-format on
}
__device__ __forceinline__ u64 smem_desc(u32 address, u32 lead, u32 stride, u64 swizzle) {
  return u64(address >> 4 & 0x3fff) | u64(lead >> 4) << 16 | u64(stride >> 4) << 32 | swizzle << 62;
}

#endif

template <Code C, Scale S>
__global__ void __launch_bounds__(gemm_threads, 1) gemm_kernel(const __grid_constant__ GemmArgs a) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  using Shape = GemmShape<C, S>;
  constexpr int stages = Shape::stages;
  extern __shared__ u8 raw[];
  const u32 base = (u32(__cvta_generic_to_shared(raw)) + 1023) & ~1023u,
            totals = base + stages * Shape::stage;  // totals: [64][workers] f32
  const u32 full = totals + Shape::totals, empty = full + 8 * stages;
  const int tid = int(threadIdx.x), lane = tid % 32, warp = tid / 32, g = lane / 4, t = lane % 4;

  early_launch();
  int index = 0;
  while (index + 1 < a.n && int(blockIdx.y) >= a.p[index + 1].tile0) index++;
  const MvProduct& p = a.p[index];
  const int tile = (int(blockIdx.y) - p.tile0) * 8, last_tile = a.tiles[index] - 1;
  const int columns = int(blockIdx.x) * 128;
  const u8* image = p.act + act_image_at(a.units, a.cols) + u64(blockIdx.x) * u64(a.units) * act_image_block;
  if (tid == 0) {
    for (int i = 0; i < stages; i++) barrier_init(full + 8 * i, 1), barrier_init(empty + 8 * i, 8);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  __syncthreads();
  early_wait();
  if (tid >= gemm_workers) {  // the fetching group
    asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
    if (tid == gemm_workers) {
      const u8* weights = p.w + u64(tile) * u64(a.units) * Shape::unit;
      const u32 tile_bytes = u32(a.units) * Shape::unit;
      const int beyond = last_tile - tile;
      for (int u = 0; u < a.units; u++) {
        const int s = u % stages;
        const u32 bar = full + 8 * s, at = base + s * Shape::stage;
        if (u >= stages) barrier_wait(empty + 8 * s, (u / stages - 1) & 1);
        barrier_expect(bar, u32(Shape::image + 8 * Shape::unit));
        bulk_copy(at, image + u64(u) * act_image_block, Shape::image, bar);
#pragma unroll
        for (int i = 0; i < 8; i++)
          bulk_copy(at + Shape::image + i * Shape::unit, weights + u64(min(i, beyond)) * tile_bytes + u64(u) * Shape::unit, Shape::unit,
                    bar);
      }
    }
    return;
  }
  asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");

  f32 slab[64];
#pragma unroll
  for (int i = 0; i < 64; i++) slab[i] = 0, shared_store(totals + (i * gemm_workers + tid) * 4, 0);
  // The border behind the current slab.  With fewer units than slabs some are empty: their borders coincide and count once.
  int next_slab = 1;
  while (slab_begin(a.units, next_slab) == 0) next_slab++;

  for (int u = 0; u < a.units; u++) {
    const int s = u % stages;
    const u32 at = base + s * Shape::stage;
    barrier_wait(full + 8 * s, (u / stages) & 1);

    const u32 unit = at + Shape::image + warp * Shape::unit, scales = unit + code_bytes(C);
    f32 d[2][4] = {}, dm[2][4] = {};  // per row half; g32: per k-step
    u32 sub[4][2][2] = {}, shift[4][2] = {}, mins[4][2] = {};
    if constexpr (S == Scale::g128) {
      const u32 v = shared_u32(scales + 4 * g);
      d[0][0] = half_of(v, 0), d[1][0] = half_of(v, 1);
    } else if constexpr (S == Scale::g64) {
      const uint2 v = shared_u64(scales + 8 * g);
      d[0][0] = half_of(v.x, 0), d[0][1] = half_of(v.x, 1), d[1][0] = half_of(v.y, 0), d[1][1] = half_of(v.y, 1);
    } else if constexpr (S == Scale::g32 || S == Scale::g32m) {
#pragma unroll
      for (int h = 0; h < 2; h++) {
        uint2 v, m = make_uint2(0, 0);
        if constexpr (S == Scale::g32) {
          v = shared_u64(scales + 16 * g + 8 * h);
        } else {
          const uint4 q = shared_u128(scales + 32 * g + 16 * h);
          v = make_uint2(q.x, q.y), m = make_uint2(q.z, q.w);
        }
#pragma unroll
        for (int j = 0; j < 4; j++) {
          const u32 pair = j < 2 ? v.x : v.y;
          d[h][j] = p.bf16 ? __uint_as_float((pair >> (16 * (j % 2))) << 16) : half_of(pair, j % 2);
          if constexpr (S == Scale::g32m) {
            dm[h][j] = half_of(j < 2 ? m.x : m.y, j % 2);
            mins[j][h] = h2(1);
          }
        }
      }
    } else {
      constexpr bool halves = S == Scale::k16 || S == Scale::k16m;
      u32 w[2][2], low[2] = {};
      if constexpr (halves) {
        const uint4 v = shared_u128(scales + 16 * g);
        w[0][0] = v.x, w[0][1] = v.y, w[1][0] = v.z, w[1][1] = v.w;
      } else {
        const uint2 v = shared_u64(scales + 8 * g);
        w[0][0] = v.x, w[1][0] = v.y;
        if constexpr (S == Scale::k32m) {
          const uint2 m = shared_u64(scales + 64 + 8 * g);
          low[0] = m.x, low[1] = m.y;
        }
      }
#pragma unroll
      for (int j = 0; j < 4; j++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
          if constexpr (halves) {
            const u32 b0 = w[h][j / 2] >> (16 * (j % 2)) & 255, b1 = w[h][j / 2] >> (16 * (j % 2) + 8) & 255;
            if constexpr (S == Scale::k16m) {
              sub[j][h][0] = int_h2(int(b0 & 15)), sub[j][h][1] = int_h2(int(b1 & 15));
              mins[j][h] = permute(int_h2(int(b0 >> 4)), int_h2(int(b1 >> 4)), 0x5410);
            } else {
              sub[j][h][0] = int_h2(int(i8(b0))), sub[j][h][1] = int_h2(int(i8(b1)));
            }
          } else {
            const u32 b = w[h][0] >> (8 * j) & 255;
            if constexpr (S == Scale::k32d) {
              sub[j][h][0] = int_h2(int(b & 127)), shift[j][h] = int_h2(int(b & 127) * (b & 128 ? -9 : -7));
            } else if constexpr (S == Scale::k32m) {
              sub[j][h][0] = int_h2(int(b)), mins[j][h] = int_h2(int(low[h] >> (8 * j) & 255));
            } else {
              sub[j][h][0] = int_h2(int(i8(b)));
            }
          }
        }
      const u32 d_at = scales + (halves || S == Scale::k32m ? 128 : 64);
      if constexpr (has_min(S)) {
        const uint2 v = shared_u64(d_at + 8 * g);
        d[0][0] = half_of(v.x, 0), dm[0][0] = -half_of(v.x, 1), d[1][0] = half_of(v.y, 0), dm[1][0] = -half_of(v.y, 1);
      } else {
        const u32 v = shared_u32(d_at + 4 * g);
        d[0][0] = half_of(v, 0), d[1][0] = half_of(v, 1);
      }
    }
    const Codes<C> codes(unit, lane);
    // A step: a k-step's products, or (with minima) its minima.
    constexpr bool each = S == Scale::g32 || S == Scale::g32m;  // a scale per k-step
    constexpr int kinds = has_min(S) ? 2 : 1, steps = 4 * kinds, parts = S == Scale::g64 ? 2 : 1;
    const u32 scale_at = at + act_image_d_at + 8 * t;
    f32 acc[64], sum[64];
    u32 w[2][8];
    half_step<C, S>(codes, p.table, 0, sub[0], shift[0], w[0]);
#pragma unroll
    for (int i = 0; i < steps; i++) {
      const int kind = each ? i % kinds : i / 4, j = each ? i / kinds : i % 4;  // g32m: a k-step's product, then its minimum
      wgmma_fence();
      if (kind == 0) {
#pragma unroll
        for (int f = 0; f < 2; f++) {
          const int k16 = 2 * j + f;
          const u64 desc = smem_desc(at + (k16 / 4) * 16384 + (k16 % 4) * 32, 16, 1024, 1);
          wgmma128(acc, w[j % 2][4 * f], w[j % 2][4 * f + 1], w[j % 2][4 * f + 2], w[j % 2][4 * f + 3], desc, f);
        }
      } else {  // k position 2 j + f of the sums' tile holds the sum of half f of k-step j
        wgmma128(acc, t == j ? mins[j][0] : 0, t == j ? mins[j][1] : 0, 0, 0, smem_desc(at + act_image_sums_at, 0, 128, 0), 0);
      }
      wgmma_commit();
      if (j < 3 && (each ? kind == kinds - 1 : kind == 0)) half_step<C, S>(codes, p.table, j + 1, sub[j + 1], shift[j + 1], w[(j + 1) % 2]);
      wgmma_wait<0>();
      // sum += acc * activation scale, then into the slab where a scale block ends.
      const f32(&scale)[2][4] = kind ? dm : d;
      const bool first = j % (4 / parts) == 0, last = j % (4 / parts) == 4 / parts - 1;
#pragma unroll
      for (int n = 0; n < 16; n++) {
        const uint2 q = shared_u64(scale_at + (j * 128 + 8 * n) * 4);
        const f32 s0 = __uint_as_float(q.x), s1 = __uint_as_float(q.y);
#pragma unroll
        for (int h = 0; h < 2; h++) {
          const int k = 4 * n + 2 * h;
          if constexpr (each) {
            slab[k] = __fmaf_rn(acc[k] * s0, scale[h][j], slab[k]), slab[k + 1] = __fmaf_rn(acc[k + 1] * s1, scale[h][j], slab[k + 1]);
          } else {
            sum[k] = __fmaf_rn(acc[k], s0, first ? 0.0f : sum[k]), sum[k + 1] = __fmaf_rn(acc[k + 1], s1, first ? 0.0f : sum[k + 1]);
            const f32 block = scale[h][parts == 2 ? j / 2 : 0];
            if (last) slab[k] = __fmaf_rn(sum[k], block, slab[k]), slab[k + 1] = __fmaf_rn(sum[k + 1], block, slab[k + 1]);
          }
        }
      }
    }
    __syncwarp();
    if (lane == 0) barrier_arrive(empty + 8 * s);
    if (u + 1 == slab_begin(a.units, next_slab)) {
      while (next_slab < slab_count(a.units) && slab_begin(a.units, next_slab + 1) == u + 1) next_slab++;
      next_slab++;
#pragma unroll
      for (int i = 0; i < 64; i++) {
        const u32 to = totals + (i * gemm_workers + tid) * 4;
        shared_store(to, __uint_as_float(shared_u32(to)) + slab[i]), slab[i] = 0;
      }
    }
  }

  auto finish = [&](f32 v, int row, int which) {
    v *= p.factor;
    if (p.scale[which]) v *= p.scale[which][0];
    if (p.bias[which]) v += p.bias[which][row];
    return v;
  };
  const int row0 = (tile + warp) * (p.pair ? 8 : 16) + g;
  if (tile + warp > last_tile) return;
#pragma unroll 1
  for (int i = 0; i < 16; i++)
#pragma unroll 1
    for (int e = 0; e < 2; e++) {
      const int col = columns + 8 * i + 2 * t + e;
      if (col >= a.cols) continue;
      const u32 from = totals + ((4 * i + e) * gemm_workers + tid) * 4;
      const f32 v0 = __uint_as_float(shared_u32(from)), v1 = __uint_as_float(shared_u32(from + 2 * gemm_workers * 4));
      f32* y = p.y + i64(col) * p.ldy;
      if (p.pair) {
        if (row0 < p.rows) {
          const f32 v = glu_of(finish(v0, row0, 0), finish(v1, row0, 1), a.kind);
          y[row0] = p.add ? y[row0] + v : v;
        }
      } else {
#pragma unroll
        for (int h = 0; h < 2; h++) {
          const int row = row0 + 8 * h;
          if (row >= p.rows) continue;
          const f32 v = finish(h ? v1 : v0, row, 0);
          y[row] = p.add ? y[row] + v : v;
        }
      }
    }
#endif
}

struct GemmEntry {
  void (*kernel)(GemmArgs) = nullptr;
  size_t smem = 0;
};
template <Code C, Scale S>
inline GemmEntry gemm_entry() {
  return {gemm_kernel<C, S>, GemmShape<C, S>::smem};
}
// One function per file of instances; no kernel for layouts of other files, and none for b8.k16 (level * sub needs 12 bits).
GemmEntry gemm_entry_2(int layout);  // q1, b2
GemmEntry gemm_entry_4(int layout);  // t3, n4
GemmEntry gemm_entry_8(int layout);  // b8

}  // namespace fewbit::kernel::cuda

// Measured on an H200 (nvcc 13.0, 30 Nov 2026): 34816x5120, 512 columns, PQ2_0: 654 us, 279 TOP/s.
// tried: two products of 64 columns in turn, one promoted while the other multiplies | 660 us | IPC 1.9, tensor pipe 27 % busy
// tried: no copies into shared memory, for the timing alone | 656 us | so not bound by L2
// tried: activation scales read before the wait | 660 us
