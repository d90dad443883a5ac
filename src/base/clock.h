// Seconds since some fixed moment: for durations.
#pragma once
#include <chrono>

#include "base/types.h"

namespace fewbit {

inline f64 now_s() { return std::chrono::duration<f64>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace fewbit
