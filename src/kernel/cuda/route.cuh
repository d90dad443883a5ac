// The router's choice for one column, by one warp (models.md 3.5).
#pragma once
#include "kernel/cuda/common.cuh"

namespace fewbit::kernel::cuda {

// Softmax over n logits, at most 32 PER of them; calls chosen(j, expert, probability) in all lanes for the `count` largest (the lowest of
// equals first) and returns their sum, at least 2^-14, which the probabilities are to be divided by.  Numbers that are not finite: expert 0
// and NaN.
template <int PER, class F>
__device__ __forceinline__ f32 route_column(const f32* logits, int n, int count, F&& chosen) {
  const int lane = int(threadIdx.x % 32);
  f32 p[PER], top = -INFINITY, sum = 0;  // beyond the last: probability 0
#pragma unroll
  for (int i = 0; i < PER; i++) p[i] = lane + 32 * i < n ? logits[lane + 32 * i] : -INFINITY;
#pragma unroll
  for (int i = 0; i < PER; i++) top = fmaxf(top, p[i]);
  top = warp_max(top);
#pragma unroll
  for (int i = 0; i < PER; i++) p[i] = expf(p[i] - top), sum += p[i];
  sum = warp_sum(sum);
#pragma unroll
  for (int i = 0; i < PER; i++) p[i] /= sum;
  f32 best, total = 0;
  int at;
  auto look = [&] {  // the best of this lane
    best = -1, at = n;
#pragma unroll
    for (int i = 0; i < PER; i++)
      if (p[i] > best) best = p[i], at = lane + 32 * i;
  };
  look();
  for (int j = 0; j < count; j++) {
    const int most = __reduce_max_sync(~0u, __float_as_int(best));  // in the order of the floats, as only -1 is below 0
    int id = int(__reduce_min_sync(~0u, __float_as_int(best) == most ? u32(at) : ~0u));
    f32 probability = __int_as_float(most);
    if (most < 0) id = 0, probability = NAN;  // NaN everywhere: any choice, the weights carry the NaN
    chosen(j, id, probability);
    total += probability;
    if (id % 32 == lane) {
#pragma unroll
      for (int i = 0; i < PER; i++)
        if (lane + 32 * i == id) p[i] = -2;
      look();
    }
  }
  return fmaxf(total, 6.103515625e-5f);
}

}  // namespace fewbit::kernel::cuda
