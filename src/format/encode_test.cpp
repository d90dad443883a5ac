#include <set>

#include "format/encode.h"
#include "format/format.h"
#include "format/search/search.h"
#include "format/vectors.h"

namespace fewbit {
namespace {

// Names of the stored files NAME + suffix.
std::set<std::string> vectors_named(const std::string& suffix, const std::string& but_not) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(vector_path("").parent_path())) {
    const std::string file = entry.path().filename();
    if (file.ends_with(suffix) && !file.ends_with(but_not)) names.insert(file.substr(0, file.size() - suffix.size()));
  }
  return names;
}

TEST(Encode, EveryPlainVectorToTheBit) {
  const auto names = vectors_named(".quant.bin", ".imatrix.quant.bin");
  EXPECT_EQ(names.size(), 28u);
  for (const std::string& name : names) {
    SCOPED_TRACE(name);
    const FormatInfo* f = find_format(name);
    ASSERT_NE(f, nullptr);
    const auto x = read_vector<f32>(name + ".input.f32");
    const auto want = read_vector<u8>(name + ".quant");
    std::vector<u8> got(want.size());
    // The 16-bit floats' inputs hold infinities, which encode_tensor refuses.
    if (f->type == Type::F16)
      encode(F16{}, x.data(), nullptr, i64(x.size()), got.data());
    else if (f->type == Type::BF16)
      encode(BF16{}, x.data(), nullptr, i64(x.size()), got.data());
    else {
      auto s = encode_tensor(f->type, x, i64(x.size()), {}, got);
      EXPECT_TRUE(s.ok()) << s.error().what;
    }
    EXPECT_TRUE(same_bytes(got, want));
  }
}

TEST(Encode, EveryWeightedVectorToTheBit) {
  const auto names = vectors_named(".imatrix.quant.bin", "-");
  EXPECT_EQ(names.size(), 18u);
  const auto x = read_vector<f32>("imatrix.values.f32"), q = read_vector<f32>("imatrix.weights.f32");
  for (const std::string& name : names) {
    SCOPED_TRACE(name);
    const FormatInfo* f = find_format(name);
    ASSERT_NE(f, nullptr);
    const auto want = read_vector<u8>(name + ".imatrix.quant");
    std::vector<u8> got(want.size());
    auto s = encode_tensor(f->type, x, i64(q.size()), q, got);
    EXPECT_TRUE(s.ok()) << s.error().what;
    EXPECT_TRUE(same_bytes(got, want));
  }
}

}  // namespace
}  // namespace fewbit
