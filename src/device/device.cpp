#include "device/device.h"

#include <fmt/format.h>

#include <charconv>
#include <string_view>

#include "device/cpu/cpu_device.h"

namespace fewbit {

Buffer::~Buffer() {
  if (device_ && data_) device_->release(data_, bytes_);
}

static Result<std::unique_ptr<Device>> open_cuda(std::string_view spec) {
  int index = 0;
  if (spec.size() > 4) {
    std::string_view number = spec.substr(5);
    auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), index);
    if (spec[4] != ':' || error != std::errc() || end != number.data() + number.size() || index < 0) {
      return Error{Code::invalid_argument, fmt::format("device '{}': expected 'cuda' or 'cuda:NUMBER'", spec)};
    }
  }
  return cuda::open(index);
}

Result<std::unique_ptr<Device>> open_device(const std::string& spec, const DeviceOptions& options) {
  if (options.threads < 0 || options.threads > cpu::max_threads) {
    return Error{Code::invalid_argument,
                 fmt::format("{} threads asked for, 0 (one per core) to {} possible", options.threads, cpu::max_threads)};
  }
  if (spec == "cpu") return cpu::open(options);
  if (spec == "auto") {
    for (const DeviceInfo& gpu : cuda::list()) {
      if (!gpu.note.empty()) continue;
      if (auto device = open_cuda(gpu.id)) return device;
    }
    return cpu::open(options);
  }
  if (spec == "cuda" || std::string_view(spec).substr(0, 5) == "cuda:") return open_cuda(spec);
  if (spec == "metal") return Error{Code::unsupported, "device 'metal': this build has no Metal backend (use 'cpu')"};
  return Error{Code::invalid_argument, fmt::format("device '{}': known are cpu, cuda, cuda:NUMBER, auto", spec)};
}

std::vector<DeviceInfo> list_devices() {
  std::vector<DeviceInfo> all = cpu::list();
  for (DeviceInfo& gpu : cuda::list()) all.push_back(std::move(gpu));
  return all;
}

}  // namespace fewbit
