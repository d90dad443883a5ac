// Stands in for kernel/cuda/*.cu in a build without CUDA.
#ifndef FEWBIT_CUDA
#include "kernel/ab.h"
#include "kernel/ceiling.h"
#include "kernel/moe.h"

namespace fewbit::kernel::cuda {
Result<const Kernels*> kernels_for(Device&, Path) {
  return Error{Code::unsupported, "this build has no CUDA (configure with -DFEWBIT_CUDA=ON)"};
}
const JoinedExperts* joined_experts() { return nullptr; }
u64 ceiling_bytes(Device&) { return 0; }
Result<Ceiling> measure_ceiling(Device&, f64) {
  return Error{Code::unsupported, "this build has no CUDA (configure with -DFEWBIT_CUDA=ON)"};
}
std::vector<std::string> kernel_names(Device&, Type) { return {}; }
Result<std::unique_ptr<Contestant>> contestant(Device&, const std::string&, const AbShape&) {
  return Error{Code::unsupported, "this build has no CUDA (configure with -DFEWBIT_CUDA=ON)"};
}
}  // namespace fewbit::kernel::cuda
#endif
