// Hopper's own instructions for the wide kernel (gemm.cuh): warpgroup multiplies, pairs of blocks that share copies, f16 arithmetic on
// two halves at once.
#pragma once
#include "kernel/cuda/ring.cuh"
#include "kernel/cuda/unit_dot.cuh"

namespace fewbit::kernel::cuda {

// ---- two halves in 32 bits ------------------------------------------------------------------------------------------------------------

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
__device__ __forceinline__ u32 and_or(u32 a, u32 b, u32 c) {
  u32 d;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
  return d;
}
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// ---- wgmma ----------------------------------------------------------------------------------------------------------------------------

__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int n>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(n) : "memory");
}
// d (64 x 128) = a (registers) * b (shared) [+ d] by one form of the instruction; `sums`: what asm calls registers like those of d.  A
// macro, as asm takes neither an array nor a text that is no literal.
// clang-format off
#define FEWBIT_WGMMA_128(form, more, sums)                                                                                                 \
  asm volatile(                                                                                                                            \
      "{\n.reg .pred p;\nsetp.ne.b32 p, %69, 0;\n"                                                                                         \
      "wgmma.mma_async.sync.aligned." form " "                                                                                             \
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"            \
      "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}, " \
      "{%64,%65,%66,%67}, %68, p" more ";\n}\n"                                                                                            \
      : sums(d[0]), sums(d[1]), sums(d[2]), sums(d[3]), sums(d[4]), sums(d[5]), sums(d[6]), sums(d[7]),                                    \
        sums(d[8]), sums(d[9]), sums(d[10]), sums(d[11]), sums(d[12]), sums(d[13]), sums(d[14]), sums(d[15]),                              \
        sums(d[16]), sums(d[17]), sums(d[18]), sums(d[19]), sums(d[20]), sums(d[21]), sums(d[22]), sums(d[23]),                            \
        sums(d[24]), sums(d[25]), sums(d[26]), sums(d[27]), sums(d[28]), sums(d[29]), sums(d[30]), sums(d[31]),                            \
        sums(d[32]), sums(d[33]), sums(d[34]), sums(d[35]), sums(d[36]), sums(d[37]), sums(d[38]), sums(d[39]),                            \
        sums(d[40]), sums(d[41]), sums(d[42]), sums(d[43]), sums(d[44]), sums(d[45]), sums(d[46]), sums(d[47]),                            \
        sums(d[48]), sums(d[49]), sums(d[50]), sums(d[51]), sums(d[52]), sums(d[53]), sums(d[54]), sums(d[55]),                            \
        sums(d[56]), sums(d[57]), sums(d[58]), sums(d[59]), sums(d[60]), sums(d[61]), sums(d[62]), sums(d[63])                             \
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(desc), "r"(add))
// clang-format on

// a: 64 x 16, b: 16 x 128.
__device__ __forceinline__ void wgmma128(f32 (&d)[64], u32 a0, u32 a1, u32 a2, u32 a3, u64 desc, int add) {
  FEWBIT_WGMMA_128("m64n128k16.f32.f16.f16", ", 1, 1, 0", "+f");
}
// a: 64 x 32 bytes, signed or not, b: 32 x 128 signed bytes.
__device__ __forceinline__ void wgmma_signed(int (&d)[64], u32 a0, u32 a1, u32 a2, u32 a3, u64 desc, int add) {
  FEWBIT_WGMMA_128("m64n128k32.s32.s8.s8", "", "+r");
}
__device__ __forceinline__ void wgmma_unsigned(int (&d)[64], u32 a0, u32 a1, u32 a2, u32 a3, u64 desc, int add) {
  FEWBIT_WGMMA_128("m64n128k32.s32.u8.s8", "", "+r");
}
#undef FEWBIT_WGMMA_128

// d (64 x 8 NG) = a (64 x 16, registers) * b (16 x 8 NG, shared) [+ d]
template <int NG>
__device__ __forceinline__ void wgmma_columns(f32 (&d)[4 * NG], const u32* a, u64 desc, int add) {
  if constexpr (NG == 1)
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %9, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0,%1,%2,%3}, {%4,%5,%6,%7}, %8, p, 1, 1, 0;\n}\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(desc), "r"(add));
  else if constexpr (NG == 2)
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %13, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {%0,%1,%2,%3,%4,%5,%6,%7}, {%8,%9,%10,%11}, %12, p, 1, 1, 0;\n}\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(desc), "r"(add));
  else if constexpr (NG == 3)
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %17, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n24k16.f32.f16.f16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11}, {%12,%13,%14,%15}, %16, p, 1, 1, "
        "0;\n}\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]),
          "+f"(d[10]), "+f"(d[11])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(desc), "r"(add));
  else if constexpr (NG == 4)
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %21, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15}, {%16,%17,%18,%19}, "
        "%20, p, 1, 1, 0;\n}\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]),
          "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(desc), "r"(add));
}
// Descriptor of a K-major operand at a shared address; lead and stride between core matrices in bytes; swizzle 1: 128 bytes, 3: 32
// bytes, as wide as a row.
__device__ __forceinline__ u64 smem_desc(u32 address, u32 lead, u32 stride, u32 swizzle) {
  const u32 lo = address >> 4 | lead >> 4 << 16, hi = stride >> 4 | swizzle << 30;
  return u64(hi) << 32 | lo;
}

// Whether the phase has ended.  Asked early, the answer is there when it is needed.
__device__ __forceinline__ bool barrier_test(u32 bar, u32 phase) {
  u32 done;
  asm volatile("{\n.reg .pred p;\nmbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.b32 %0, 1, 0, p;\n}\n"
               : "=r"(done)
               : "r"(bar), "r"(phase)
               : "memory");
  return done;
}
// barrier_wait that leaves the issue slots to others meanwhile.
__device__ __forceinline__ void barrier_wait_asleep(u32 bar, u32 phase) {
  constexpr u32 most_ns = 10000000;
  for (u32 done = 0; !done;)
    asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2, %3;\nselp.b32 %0, 1, 0, p;\n}\n"
                 : "=r"(done)
                 : "r"(bar), "r"(phase), "r"(most_ns)
                 : "memory");
}

// ---- pairs of blocks ------------------------------------------------------------------------------------------------------------------

__device__ __forceinline__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
// Arrives at the barrier at the same address of block `rank`.
__device__ __forceinline__ void cluster_arrive(u32 bar, u32 rank) {
  asm volatile("{\n.reg .b32 r;\nmapa.shared::cluster.u32 r, %0, %1;\nmbarrier.arrive.shared::cluster.b64 _, [r];\n}\n" ::"r"(bar),
               "r"(rank)
               : "memory");
}
// Copies into the same place of both blocks; each block's own barrier counts the bytes.
__device__ __forceinline__ void bulk_copy_both(u32 to, const void* from, u32 bytes, u32 bar) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], %4;" ::"r"(to),
               "l"(from), "r"(bytes), "r"(bar), "h"(u16(3))
               : "memory");
}

#endif

}  // namespace fewbit::kernel::cuda
