#include "kernel/kernel.h"

#include "kernel/cpu/table.h"
#include "kernel/exact/exact.h"
#include "kernel/moe.h"

namespace fewbit::kernel {

namespace cuda {  // cuda/table.cu, or cuda/absent.cpp in a build without CUDA
Result<const Kernels*> kernels_for(Device& device, Path path);
const JoinedExperts* joined_experts();
}  // namespace cuda

Result<const Kernels*> kernels_for(Device& device, Path path) {
  switch (device.kind()) {
    case DeviceKind::cpu:
      return path == Path::exact ? exact::table() : cpu::fast_table();
    case DeviceKind::cuda:
      return cuda::kernels_for(device, path);
    case DeviceKind::metal:
      break;
  }
  return Error{Code::unsupported, "device '" + device.id() + "': no kernels in this build"};
}

const JoinedExperts* joined_experts(const Device& device) { return device.kind() == DeviceKind::cuda ? cuda::joined_experts() : nullptr; }

}  // namespace fewbit::kernel
