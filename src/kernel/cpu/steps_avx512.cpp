// The small steps for AVX-512.
#if defined(__x86_64__)
#include "kernel/cpu/steps_includes.h"

#define FEWBIT_VEC 512
#include "kernel/cpu/target_begin.inl"
namespace fewbit::kernel::cpu {
namespace avx512 {
#include "kernel/cpu/steps.inl"
}
}  // namespace fewbit::kernel::cpu
#include "kernel/cpu/target_end.inl"

namespace fewbit::kernel::cpu {
constinit const Steps steps_avx512 = avx512::table(Isa::avx512);
}
#endif
