// Stands in for the CUDA device in a build without it.
#include "device/device.h"

namespace fewbit::cuda {

Result<std::unique_ptr<Device>> open(int) {
  return Error{Code::unsupported, "device 'cuda': this build has no CUDA backend (configure with -DFEWBIT_CUDA=ON)"};
}
std::vector<DeviceInfo> list() {
  DeviceInfo none;
  none.id = "cuda", none.note = "not in this build (-DFEWBIT_CUDA=ON)";
  return {none};
}

}  // namespace fewbit::cuda
