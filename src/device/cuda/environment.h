// What the environment says about GPUs; docs/cli.md names the variables.  Host code, in builds without CUDA too.
#pragma once
#include <string>

#include "base/types.h"

namespace fewbit::cuda {

// The first FEWBIT_CUDA_* variable that holds none of its values, in one line; "" if all are well.  Empty counts as not set.
std::string environment_error();

// FEWBIT_CUDA_MEMORY_MAX, GiB of the GPU's memory that an opened device may allocate: for a GPU that is shared.  0: not set.  Negative: no
// number.
f64 memory_limit_gib();

}  // namespace fewbit::cuda
