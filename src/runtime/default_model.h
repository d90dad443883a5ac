// The model that ships with the project.
#pragma once
#include <string>

#include "base/result.h"

namespace fewbit::runtime {

constexpr const char* default_model_name = "mini-hybrid.pq2_0.gguf";

// Looks in $FEWBIT_MODELS, the source tree that the program was built from, ../share/fewbit/models beside the program, and ./models.
Result<std::string> default_model_path();

}  // namespace fewbit::runtime
