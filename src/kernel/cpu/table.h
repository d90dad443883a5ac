// The fast CPU table: the matmul family of matmul.h and the small operations of ops.h.
#pragma once
#include "kernel/kernel.h"

namespace fewbit::kernel::cpu {

const Kernels* fast_table();

}  // namespace fewbit::kernel::cpu
