// Arrows point down: the #include lines of each module name only itself and modules below it (docs/architecture: the picture).
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>

namespace fs = std::filesystem;

// What a module may include besides itself.  text stands beside kernel and model: it rests on gguf alone.
static const std::map<std::string, std::set<std::string>> below{
    {"base", {}},
    {"format", {"base"}},
    {"gguf", {"base", "format"}},
    {"device", {"base"}},
    {"kernel", {"base", "format", "device"}},
    {"model", {"base", "format", "gguf", "device", "kernel"}},
    {"text", {"base", "format", "gguf"}},
    {"runtime", {"base", "format", "gguf", "device", "kernel", "model", "text"}},
    {"app", {"base", "format", "gguf", "device", "kernel", "model", "text", "runtime"}},
};

TEST(Layering, IncludesPointDown) {
  const std::regex include(R"(^\s*#include \"([a-z_]+)/)");
  const fs::path src = fs::path(FEWBIT_SOURCE_DIR) / "src";
  int seen = 0;
  for (const auto& e : fs::recursive_directory_iterator(src)) {
    if (!e.is_regular_file()) continue;
    const std::string ext = e.path().extension();
    if (!std::set<std::string>{".h", ".cpp", ".inl", ".cu", ".cuh"}.contains(ext)) continue;
    const fs::path rel = fs::relative(e.path(), src);
    const std::string module = *rel.begin();
    ASSERT_TRUE(below.contains(module)) << rel << " lies in no known module";
    std::ifstream in(e.path());
    std::smatch m;
    for (std::string line; std::getline(in, line);) {
      if (!std::regex_search(line, m, include) || !below.contains(m[1])) continue;
      seen++;
      EXPECT_TRUE(m[1] == module || below.at(module).contains(m[1])) << rel << ": " << line;
    }
  }
  EXPECT_GT(seen, 100) << "the pattern finds no includes any more";
}
