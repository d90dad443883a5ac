// For tests: the stored vectors of tests/data/vectors (their README says what each file holds).
#pragma once
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/types.h"

namespace fewbit {

inline std::filesystem::path vector_path(const std::string& name) {
  return std::filesystem::path(FEWBIT_SOURCE_DIR) / "tests/data/vectors" / (name + ".bin");
}

template <class T>
std::vector<T> read_vector(const std::string& name) {
  std::ifstream f(vector_path(name), std::ios::binary);
  EXPECT_TRUE(f.good()) << "cannot open " << vector_path(name);
  std::string bytes((std::istreambuf_iterator<char>(f)), {});
  std::vector<T> v(bytes.size() / sizeof(T));
  std::memcpy(v.data(), bytes.data(), v.size() * sizeof(T));
  return v;
}

// Number of elements whose bytes differ (the sign of zero counts), and where the first does.
template <class T>
testing::AssertionResult same_bytes(const std::vector<T>& got, const std::vector<T>& want) {
  if (got.size() != want.size()) return testing::AssertionFailure() << got.size() << " elements, expected " << want.size();
  size_t differ = 0, first = 0;
  for (size_t i = got.size(); i-- > 0;)
    if (std::memcmp(&got[i], &want[i], sizeof(T)) != 0) differ++, first = i;
  if (differ == 0) return testing::AssertionSuccess();
  return testing::AssertionFailure() << differ << " of " << got.size() << " differ, first " << first << ": " << +got[first] << ", expected "
                                     << +want[first];
}

}  // namespace fewbit
