#include "kernel/cpu/steps.h"

namespace fewbit::kernel::cpu {

const Steps& steps(Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::avx512 || isa == Isa::avx512_vnni) return steps_avx512;
  if (isa == Isa::avx2 || isa == Isa::avx_vnni) return steps_avx2;
#else
  (void)isa;
#endif
  return steps_scalar;
}

const Steps& best_steps() {
  const CpuFeatures& f = cpu_features();
  return steps(f.avx512 ? Isa::avx512 : f.avx2 ? Isa::avx2 : Isa::scalar);
}

}  // namespace fewbit::kernel::cpu
