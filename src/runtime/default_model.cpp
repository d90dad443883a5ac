#include "runtime/default_model.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <vector>

namespace fewbit::runtime {

Result<std::string> default_model_path() {
  namespace fs = std::filesystem;
  std::vector<fs::path> folders;
  if (const char* own = std::getenv("FEWBIT_MODELS"); own && *own) folders.emplace_back(own);
  folders.emplace_back(FEWBIT_MODELS_DIR);
  std::error_code error;
  if (fs::path program = fs::read_symlink("/proc/self/exe", error); !error)
    folders.push_back(program.parent_path().parent_path() / "share" / "fewbit" / "models");
  folders.emplace_back("models");
  for (const fs::path& f : folders)
    if (fs::exists(f / default_model_name, error)) return (f / default_model_name).string();
  return Error{Code::not_found,
               fmt::format("the default model {} is not in {} nor in ./models; name a model with -m, or its folder in FEWBIT_MODELS",
                           default_model_name, folders.front().string())};
}

}  // namespace fewbit::runtime
