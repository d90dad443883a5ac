// What this machine can do at most: read and copy bandwidth of its memory, cost of a barrier and of a launch.
// Every speed is reported as a share of these, measured in the same process.
#pragma once
#include <atomic>

#include "device/device.h"

namespace fewbit::kernel {

struct Ceiling {
  f64 read_gb_s = 0;   // 10^9 bytes per second, buffers several times the last cache
  f64 copy_gb_s = 0;   // bytes read plus bytes written
  f64 barrier_us = 0;  // CPU: one ThreadPool::run of nothing; GPU: a grid barrier
  f64 launch_us = 0;   // GPU: one kernel of a recorded graph
};

// Memory of the device that the measurement takes, and gives back: more than three times the last cache, at most a half of what is free.
u64 ceiling_bytes(Device& device);

// `seconds`: about how long to measure.  The best of several interleaved passes counts.  Ends early when `cancel` is set (CPU).
// Error: a GPU has so little free that its cache would be measured.
Result<Ceiling> measure_ceiling(Device& device, f64 seconds = 0.6, const std::atomic<bool>* cancel = nullptr);

namespace cuda {  // kernel/cuda, or an error in a build without CUDA
Result<Ceiling> measure_ceiling(Device& device, f64 seconds);
u64 ceiling_bytes(Device& device);
}  // namespace cuda

}  // namespace fewbit::kernel
