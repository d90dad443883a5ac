// What all fuzz targets share.  A target may bring its own first inputs: run with FEWBIT_FUZZ_SEEDS=FOLDER it writes them there and ends.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>

#include "base/types.h"

namespace fewbit::fuzz {

// seeds(write): calls write(name, bytes) for each.  To be called from LLVMFuzzerInitialize.
template <class F>
void write_seeds_if_asked(F&& seeds) {
  const char* folder = std::getenv("FEWBIT_FUZZ_SEEDS");
  if (!folder) return;
  seeds([&](std::string_view name, std::span<const u8> bytes) {
    const std::string path = std::string(folder) + "/" + std::string(name);
    std::FILE* f = std::fopen(path.c_str(), "wb");
    const bool ok = f && std::fwrite(bytes.data(), 1, bytes.size(), f) == bytes.size();
    if (f) std::fclose(f);
    if (!ok) {
      std::fprintf(stderr, "cannot write %s\n", path.c_str());
      std::exit(1);
    }
  });
  std::exit(0);
}

}  // namespace fewbit::fuzz
