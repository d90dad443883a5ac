// A warp's ring of stages in shared memory, filled from global memory ahead of use.  sm_90 and later: one lane asks the copy engine for
// whole runs of bytes; before: every lane copies 16 bytes at a time.
//
// Use   fill slots 0 .. depth - 1; then for each stage in order: wait(), read at data(), release (all lanes done), refill that slot,
// next().
#pragma once
#include "kernel/cuda/common.cuh"

namespace fewbit::kernel::cuda {

// ---- barriers in shared memory (by 32-bit address) -------------------------------------------------------------------------------------

__device__ __forceinline__ void barrier_init(u32 bar, u32 arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(arrivals) : "memory");
}
__device__ __forceinline__ void barrier_arrive(u32 bar) {
  asm volatile("{\n.reg .b64 t;\nmbarrier.arrive.shared::cta.b64 t, [%0];\n}\n" ::"r"(bar) : "memory");
}
__device__ __forceinline__ void barrier_wait(u32 bar, u32 phase) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{\n.reg .pred p;\nagain_%=:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@p bra done_%=;\nbra again_%=;\ndone_%=:\n}\n" ::
          "r"(bar),
      "r"(phase)
      : "memory");
#else
  asm volatile(
      "{\n.reg .pred p;\nagain_%=:\nmbarrier.test_wait.parity.shared::cta.b64 p, [%0], %1;\n@p bra done_%=;\nbra "
      "again_%=;\ndone_%=:\n}\n" ::"r"(bar),
      "r"(phase)
      : "memory");
#endif
}
#if __CUDA_ARCH__ >= 900
// True in one lane; all call it.  Unlike `lane == 0` the compiler then knows that a copy's operands need not be made the same in all lanes.
__device__ __forceinline__ bool elect_one() {
  u32 one;
  asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.u32 %0, 1, 0, p;\n}\n" : "=r"(one));
  return one;
}
__device__ __forceinline__ void barrier_expect(u32 bar, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
}
__device__ __forceinline__ void bulk_copy(u32 to, const void* from, u32 bytes, u32 bar) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to), "l"(from), "r"(bytes),
               "r"(bar)
               : "memory");
}
#endif

template <int STAGE, int DEPTH>
struct Ring {
  u32 base, bars;  // shared addresses
  u32 slot = 0, phase = 0;
  int lane;

  // `memory`: DEPTH * STAGE bytes, 16-byte aligned; `barriers`: DEPTH of 8 bytes.
  __device__ __forceinline__ Ring(const void* memory, const void* barriers, int lane_)
      : base(u32(__cvta_generic_to_shared(memory))), bars(u32(__cvta_generic_to_shared(barriers))), lane(lane_) {
#if __CUDA_ARCH__ >= 900
    if (lane == 0) {
      for (int i = 0; i < DEPTH; i++) barrier_init(bars + 8 * i, 1);
      asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    __syncwarp();
#endif
  }
  __device__ __forceinline__ u32 data() const { return base + slot * STAGE; }

  // Fills slot `at` with `runs` runs of `bytes` bytes, from `from` and `stride` bytes further on each; bytes % 16 == 0.
  __device__ __forceinline__ void fill(u32 at, const u8* from, u32 stride, int runs, u32 bytes) const {
#if __CUDA_ARCH__ >= 900
    if (elect_one()) {
      const u32 bar = bars + 8 * at;
      barrier_expect(bar, bytes * u32(runs));
      for (int r = 0; r < runs; r++) bulk_copy(base + at * STAGE + u32(r) * bytes, from + u64(stride) * u32(r), bytes, bar);
    }
#else
    for (int r = 0; r < runs; r++)
      for (u32 i = u32(lane) * 16; i < bytes; i += 512)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(base + at * STAGE + u32(r) * bytes + i),
                     "l"(from + u64(stride) * u32(r) + i)
                     : "memory");
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
  }
  // Nothing more to fill: keeps the count of groups.
  __device__ __forceinline__ void fill_nothing() const {
#if __CUDA_ARCH__ < 900
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
  }
  __device__ __forceinline__ void wait() const {
#if __CUDA_ARCH__ >= 900
    barrier_wait(bars + 8 * slot, phase);
#else
    asm volatile("cp.async.wait_group %0;" ::"n"(DEPTH - 1) : "memory");
    __syncwarp();
#endif
  }
  __device__ __forceinline__ void next() {
    if (++slot == DEPTH) slot = 0, phase ^= 1;
  }
};

}  // namespace fewbit::kernel::cuda
