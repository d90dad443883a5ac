// The small steps: router, gated sums, gather, argmax, elementwise gate.
#include "kernel/cuda/common.cuh"
#include "kernel/cuda/ops.h"
#include "kernel/cuda/route.cuh"

namespace fewbit::kernel::cuda {

namespace {

__global__ void act_mul_kernel(const f32* gate, const f32* up, Glu kind, i64 n, f32* h) {
  early_launch();
  early_wait();
  const i64 i = i64(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) h[i] = glu_of(gate[i], up[i], kind);
}

// One warp per column; PER: numbers of a lane.
template <int PER>
__global__ void __launch_bounds__(128) route_kernel(const f32* logits, int n, int k, int cols, f32 scale, i32* ids, f32* weights) {
  early_launch();
  early_wait();
  const int lane = int(threadIdx.x % 32), c = int((blockIdx.x * blockDim.x + threadIdx.x) / 32);
  if (c >= cols) return;
  ids += i64(c) * k, weights += i64(c) * k;
  const f32 total = route_column<PER>(logits + i64(c) * n, n, k, [&](int j, int id, f32 probability) {
    if (lane == j % 32) ids[j] = id, weights[j] = probability;
  });
  for (int j = lane; j < k; j += 32) weights[j] = weights[j] / total * scale;  // what this lane wrote
}

__global__ void add_gated_kernel(f32* x, const f32* y, const f32* gate, int n) {
  early_launch();
  early_wait();
  const int c = int(blockIdx.y), i = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= n) return;
  const f32 g = gate ? sigmoid(gate[c]) : 1.0f;
  x[i64(c) * n + i] += g * y[i64(c) * n + i];
}

__global__ void gather_kernel(const f32* from, const i32* index, int n, f32* to) {
  early_launch();
  early_wait();
  const int c = int(blockIdx.y), i = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) to[i64(c) * n + i] = from[i64(index[c]) * n + i];
}

constexpr int argmax_parts = 128;
// A number that is not finite counts as the best of all, with the index -1.
struct Best {
  f32 value;
  i32 index;
};
__device__ __forceinline__ bool better(f32 v, int i, f32 w, int j) { return v > w || (v == w && i < j); }

__device__ __forceinline__ Best block_best(Best b) {
  __shared__ Best part[32];
#pragma unroll
  for (int m = 16; m; m /= 2) {
    const f32 v = __shfl_xor_sync(~0u, b.value, m);
    const int i = __shfl_xor_sync(~0u, b.index, m);
    if (better(v, i, b.value, b.index)) b = {v, i};
  }
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = b;
  __syncthreads();
  for (int w = 0; w < int(blockDim.x) / 32; w++)
    if (better(part[w].value, part[w].index, b.value, b.index)) b = part[w];
  return b;
}

__global__ void argmax_kernel(const f32* logits, int n, Best* out) {
  early_launch();
  early_wait();
  const f32* l = logits + i64(blockIdx.y) * n;
  Best b{-INFINITY, 0x7fffffff};
  for (int i = int(blockIdx.x * blockDim.x + threadIdx.x); i < n; i += int(gridDim.x * blockDim.x)) {
    const f32 v = l[i];
    if (!(fabsf(v) < INFINITY)) b = {INFINITY, -1};
    if (better(v, i, b.value, b.index)) b = {v, i};
  }
  b = block_best(b);
  if (threadIdx.x == 0) out[blockIdx.y * gridDim.x + blockIdx.x] = b;
}
__global__ void argmax_last_kernel(const Best* in, int n, i32* ids) {
  early_launch();
  early_wait();
  const Best* p = in + i64(blockIdx.x) * n;
  Best b{-INFINITY, 0x7fffffff};
  for (int i = int(threadIdx.x); i < n; i += int(blockDim.x))
    if (better(p[i].value, p[i].index, b.value, b.index)) b = p[i];
  b = block_best(b);
  if (threadIdx.x == 0) ids[blockIdx.x] = b.index;
}

LaunchShape wide(const char* name, int n, int cols) {
  LaunchShape s;
  s.grid = dim3(unsigned((n + 255) / 256), unsigned(cols)), s.block = dim3(256), s.cols = cols, s.name = name;
  return s;
}

}  // namespace

void act_mul(Ctx& ctx, const f32* gate, const f32* up, Glu kind, i64 count, f32* h) {
  LaunchShape s;
  s.grid = dim3(unsigned((count + 255) / 256)), s.block = dim3(256), s.name = "act_mul";
  launch(ctx, act_mul_kernel, s, gate, up, kind, count, h);
}

void route(Ctx& ctx, const f32* logits, int experts, int k, int cols, f32 scale, i32* ids, f32* weights) {
  FEWBIT_CHECK(k >= 1 && k <= experts && experts <= 2048, "route to %d of %d experts", k, experts);
  const int warps = cols < 4 ? cols : 4;
  LaunchShape s;
  s.grid = dim3(unsigned((cols + warps - 1) / warps)), s.block = dim3(unsigned(32 * warps)), s.cols = cols, s.name = "route";
  launch(ctx, experts <= 256 ? route_kernel<8> : route_kernel<64>, s, logits, experts, k, cols, scale == 0 ? 1.0f : scale, ids, weights);
}

void add_gated(Ctx& ctx, f32* x, const f32* y, const f32* gate, int n, int cols) {
  launch(ctx, add_gated_kernel, wide("add_gated", n, cols), x, y, gate, n);
}

void gather(Ctx& ctx, const f32* from, const i32* index, int count, int n, f32* to) {
  launch(ctx, gather_kernel, wide("gather", n, count), from, index, n, to);
}

void argmax(Ctx& ctx, const f32* logits, int n, int cols, i32* ids) {
  FEWBIT_CHECK(scratch_room(ctx) >= u64(argmax_parts) * u64(cols) * sizeof(Best), "scratch of %llu bytes for argmax",
               (unsigned long long)ctx.scratch_bytes);
  Best* parts = static_cast<Best*>(ctx.scratch);
  LaunchShape s;
  s.grid = dim3(argmax_parts, unsigned(cols)), s.block = dim3(256), s.name = "argmax";
  launch(ctx, argmax_kernel, s, logits, n, parts);
  s.grid = dim3(unsigned(cols)), s.block = dim3(argmax_parts), s.name = "argmax.last";
  launch(ctx, argmax_last_kernel, s, static_cast<const Best*>(parts), argmax_parts, ids);
}

}  // namespace fewbit::kernel::cuda
