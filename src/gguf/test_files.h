// Where the tests find and put files.
#pragma once
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.h"

namespace fewbit::gguf {

// A folder of its own for each test, empty, removed at the end.
class TempFolder {
 public:
  TempFolder() {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    path_ = std::filesystem::path(testing::TempDir()) / (std::string("fewbit_") + info->test_suite_name() + "_" + info->name());
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~TempFolder() { std::filesystem::remove_all(path_); }
  std::string file(std::string_view name) const { return (path_ / name).string(); }
  size_t count() const { return size_t(std::distance(std::filesystem::directory_iterator(path_), {})); }

 private:
  std::filesystem::path path_;
};

inline void put_file(const std::string& path, const std::vector<u8>& bytes) {
  FILE* f = std::fopen(path.c_str(), "wb");
  ASSERT_TRUE(f);
  EXPECT_EQ(std::fwrite(bytes.data(), 1, bytes.size(), f), bytes.size());
  std::fclose(f);
}

// The optional models: "" if they are not there (the caller then skips), a failure under CI.
inline std::string models_folder() {
  std::string path = FEWBIT_SOURCE_DIR "/../shared/models";
  if (std::filesystem::exists(path)) return path;
  const char* ci = std::getenv("CI");
  if (ci && std::string_view(ci) == "true") ADD_FAILURE() << path << " is missing";
  return "";
}

}  // namespace fewbit::gguf
