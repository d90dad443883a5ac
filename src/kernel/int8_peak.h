// The arithmetic ceiling of a CPU: products of 8-bit numbers per second with everything in registers.
// A kernel's share of it says whether it waits for its instructions or for the memory.
#pragma once
#include <vector>

#include "base/cpu_features.h"
#include "base/thread_pool.h"
#include "base/types.h"

namespace fewbit::kernel {

struct Int8Peak {
  Isa set = Isa::scalar;
  f64 gops = 0;  // 10^9 operations per second of all threads together; a multiplication and its addition are two
};

// One entry per instruction set with 8-bit products that cpu_features() reports, the kernels' best last: vpmaddubsw and vpaddw on AVX2,
// vpdpbusd of 256 and 512 bits, sdot and smmla on ARM.  `seconds`: about how long for each; the best of several passes counts.
std::vector<Int8Peak> measure_int8_peak(ThreadPool& pool, f64 seconds = 0.03);

}  // namespace fewbit::kernel
