// The small steps for AVX2.
#if defined(__x86_64__)
#include "kernel/cpu/steps_includes.h"

#define FEWBIT_VEC 256
#include "kernel/cpu/target_begin.inl"
namespace fewbit::kernel::cpu {
namespace avx2 {
#include "kernel/cpu/steps.inl"
}
}  // namespace fewbit::kernel::cpu
#include "kernel/cpu/target_end.inl"

namespace fewbit::kernel::cpu {
constinit const Steps steps_avx2 = avx2::table(Isa::avx2);
}
#endif
