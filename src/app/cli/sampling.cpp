#include "app/cli/sampling.h"

namespace fewbit::cli {}  // namespace fewbit::cli
