// The small steps for any processor: 128-bit vectors of the compiler (SSE2, NEON).
#include "kernel/cpu/steps_includes.h"

#define FEWBIT_VEC 128
#include "kernel/cpu/target_begin.inl"
namespace fewbit::kernel::cpu {
namespace scalar {
#include "kernel/cpu/steps.inl"
}
}  // namespace fewbit::kernel::cpu
#include "kernel/cpu/target_end.inl"

namespace fewbit::kernel::cpu {
constinit const Steps steps_scalar = scalar::table(Isa::scalar);
}
