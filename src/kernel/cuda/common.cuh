// What every .cu file here needs: launching on the Ctx's stream, early launch, warp sums, recording for `launches`.
#pragma once
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "device/cuda/cuda_device.h"
#include "kernel/kernel.h"

namespace fewbit::kernel::cuda {

inline fewbit::cuda::CudaDevice& device_of(Ctx& ctx) { return *static_cast<fewbit::cuda::CudaDevice*>(ctx.device); }

// The end of the scratch holds counters, zero between launches (zero when allocated; whoever counts to the end resets).
inline constexpr int counter_count = 16384;
inline u64 scratch_room(const Ctx& ctx) {
  return ctx.scratch_bytes < counter_count * 4 ? 0 : (ctx.scratch_bytes - counter_count * 4) & ~u64(255);
}
inline u32* counters(const Ctx& ctx) { return reinterpret_cast<u32*>(static_cast<u8*>(ctx.scratch) + scratch_room(ctx)); }

// ---- early launch (programmatic dependent launch) ---------------------------------------------------------------------------------
// A kernel may start while its predecessor still runs.  It may then read weights, which never change (those that are packed for a moment
// do: expand.h's InOrder), and what earlier steps left (a step begins with an upload, which nothing overtakes), but nothing that a kernel
// of this step computed, before early_wait().  Every kernel calls it, also one with nothing to read: completion is then transitive.

__device__ __forceinline__ void early_launch() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
__device__ __forceinline__ void early_wait() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

inline constexpr int early_columns = 64;

// Times a launch for `launches`.
struct LaunchTimer {
  cudaEvent_t begin = nullptr, end = nullptr;
};
void record_begin(Ctx& ctx, LaunchTimer& timer);
void record_end(Ctx& ctx, LaunchTimer& timer, const char* name, const std::string& shape, u64 bytes);

struct LaunchShape {
  dim3 grid, block;
  size_t smem = 0;
  int cluster = 1;        // blocks along x that share memory (sm_90)
  int cols = 1;           // of the step: with many, successors that wait would only take room from the kernel that runs
  const char* name = "";  // for the launch lister
  std::string shape = {};
  u64 bytes = 0;
};

template <class... P, class... A>
void launch(Ctx& ctx, void (*kernel)(P...), const LaunchShape& s, A&&... args) {
  if (s.grid.x == 0 || s.grid.y == 0 || s.grid.z == 0) return;
  cudaLaunchConfig_t config = {};
  config.gridDim = s.grid;
  config.blockDim = s.block;
  config.dynamicSmemBytes = s.smem;
  config.stream = device_of(ctx).cuda_stream();
  cudaLaunchAttribute attr[2];
  unsigned n = 0;
  if (device_of(ctx).early_launch() && s.cols <= early_columns) {
    attr[n].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attr[n++].val.programmaticStreamSerializationAllowed = 1;
  }
  if (s.cluster > 1) {
    attr[n].id = cudaLaunchAttributeClusterDimension;
    attr[n].val.clusterDim.x = unsigned(s.cluster);
    attr[n].val.clusterDim.y = attr[n].val.clusterDim.z = 1;
    n++;
  }
  config.attrs = attr;
  config.numAttrs = n;
  LaunchTimer timer;
  if (ctx.launches) record_begin(ctx, timer);
  FEWBIT_CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, static_cast<P>(args)...));
  if (ctx.launches) record_end(ctx, timer, s.name, s.shape, s.bytes);
}

// Raises a kernel's limit of dynamic shared memory, on the current device.
template <class K>
void allow_smem(K kernel, size_t bytes) {
  FEWBIT_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(bytes)));
}

// The warp's number in its block, known to the compiler to be the same in all lanes: what follows from it goes into uniform registers.
__device__ __forceinline__ int warp_index() { return __shfl_sync(~0u, int(threadIdx.x / 32), 0); }

// ---- sums in a fixed order ----------------------------------------------------------------------------------------------------------

__device__ __forceinline__ f32 warp_sum(f32 v) {
#pragma unroll
  for (int m = 16; m; m /= 2) v += __shfl_xor_sync(~0u, v, m);
  return v;
}
__device__ __forceinline__ f32 warp_max(f32 v) {
#pragma unroll
  for (int m = 16; m; m /= 2) v = fmaxf(v, __shfl_xor_sync(~0u, v, m));
  return v;
}
// Sum over the block; `shared` holds one float per warp.  All threads call it, all get the sum; ends with a barrier behind the last read
// of `shared` only if the caller adds one.  WARPS: their number where it is known.
template <int WARPS = 0>
__device__ __forceinline__ f32 block_sum(f32 v, f32* shared) {
  v = warp_sum(v);
  const int warps = WARPS ? WARPS : int(blockDim.x + 31) / 32;
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = v;
  __syncthreads();
  f32 s = 0;
#pragma unroll WARPS ? WARPS : 1
  for (int w = 0; w < warps; w++) s += shared[w];
  return s;
}

// The quick division (2 units in the last place) has no slow path, so no branch; beyond 2^126 it gives 0, as it should here.
__device__ __forceinline__ f32 silu(f32 x) { return __fdividef(x, 1.0f + expf(-x)); }
__device__ __forceinline__ f32 sigmoid(f32 x) { return __fdividef(1.0f, 1.0f + expf(-x)); }
__device__ __forceinline__ f32 glu_of(f32 gate, f32 up, Glu kind) {
  if (kind == Glu::silu) return silu(gate) * up;
  const f32 r = fmaxf(gate, 0.0f);
  return r * r * up;
}

}  // namespace fewbit::kernel::cuda

// tried: one division into L1 and shared memory for all kernels (100 %, 72 %) | a 27B token 4.75, 4.69 ms against 4.62 | H200, 30 Nov 2026
