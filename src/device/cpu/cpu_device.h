// The processor and its memory as a Device.  Work is not enqueued but done: everything is complete on return.
#pragma once
#include <memory>
#include <vector>

#include "device/device.h"

namespace fewbit::cpu {

constexpr int max_threads = 1024;

Result<std::unique_ptr<Device>> open(const DeviceOptions& options);
std::vector<DeviceInfo> list();

}  // namespace fewbit::cpu
