#include "kernel/kernel.h"

#include "kernel/cpu/table.h"
#include "kernel/exact/exact.h"

namespace fewbit::kernel {

namespace cuda {  // cuda/table.cu, or cuda/absent.cpp in a build without CUDA
Result<const Kernels*> kernels_for(Device& device, Path path);
}

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

}  // namespace fewbit::kernel
