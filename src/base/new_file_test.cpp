#include "base/new_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace fewbit {
namespace {

namespace fs = std::filesystem;

struct Folder {
  fs::path path = fs::path(testing::TempDir()) / ("fewbit_new_file_" + std::to_string(getpid()));
  Folder() { fs::create_directories(path); }
  ~Folder() { fs::remove_all(path); }
  int files() const { return int(std::distance(fs::directory_iterator(path), fs::directory_iterator())); }
};

std::string slurp(const fs::path& p) {
  std::ifstream in(p, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(NewFile, AppearsOnlyWhenComplete) {
  Folder f;
  const std::string path = (f.path / "x").string();
  {
    auto n = NewFile::create(path);
    ASSERT_TRUE(n.ok()) << n.error().what;
    EXPECT_TRUE(n->write("abc", 3).ok());
    EXPECT_FALSE(fs::exists(path));
  }
  EXPECT_EQ(f.files(), 0);
  std::ofstream(path) << "older";
  auto n = NewFile::create(path);
  ASSERT_TRUE(n.ok());
  const std::string large(3 << 20, 'z');
  EXPECT_TRUE(n->reserve(large.size() + 3).ok());
  EXPECT_TRUE(n->write("abc", 3).ok());
  EXPECT_TRUE(n->write(large.data(), large.size()).ok());
  EXPECT_EQ(slurp(path), "older");
  EXPECT_TRUE(n->publish().ok());
  EXPECT_EQ(slurp(path), "abc" + large);
  EXPECT_FALSE(n->write("d", 1).ok());
  EXPECT_EQ(f.files(), 1);
}

TEST(NewFile, DevicesAreWrittenToAndFoldersRefused) {
  auto full = NewFile::create("/dev/full");
  ASSERT_TRUE(full.ok());
  EXPECT_TRUE(full->write("abc", 3).ok());  // held back
  Status s = full->publish();
  ASSERT_FALSE(s.ok());
  EXPECT_EQ(s.error().what, "/dev/full: cannot write: No space left on device");
  auto null = NewFile::create("/dev/null");
  ASSERT_TRUE(null.ok());
  EXPECT_TRUE(null->write("abc", 3).ok());
  EXPECT_TRUE(null->publish().ok());
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  EXPECT_FALSE(NewFile::create(testing::TempDir()).ok());
  EXPECT_FALSE(NewFile::create("/no/such/folder/x").ok());
}

}  // namespace
}  // namespace fewbit
