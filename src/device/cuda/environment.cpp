#include "device/cuda/environment.h"

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace fewbit::cuda {

f64 memory_limit_gib() {
  const char* text = std::getenv("FEWBIT_CUDA_MEMORY_MAX");
  if (!text || !*text) return 0;
  f64 gib = -1;
  const char* end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, gib);
  return error == std::errc() && stop == end && gib > 0 && gib < 1e6 ? gib : -1;
}

std::string environment_error() {
  for (const char* name : {"FEWBIT_CUDA_DENSE", "FEWBIT_CUDA_HALF", "FEWBIT_CUDA_EARLY_LAUNCH"}) {
    const char* word = std::getenv(name);
    const std::string_view value = word ? word : "";
    if (!value.empty() && value != "0" && value != "1") return std::string(name) + ": '" + word + "' is not 0 or 1";
  }
  if (memory_limit_gib() < 0) {
    return std::string("FEWBIT_CUDA_MEMORY_MAX: '") + std::getenv("FEWBIT_CUDA_MEMORY_MAX") +
           "' is no number of GiB above 0 and below 1000000";
  }
  return "";
}

}  // namespace fewbit::cuda
