#include "format/decode.h"

#include <set>

#include "format/format.h"
#include "format/vectors.h"

namespace fewbit {
namespace {

std::vector<f32> decode_file(Type type, const std::string& name) {
  const auto packed = read_vector<u8>(name + ".packed");
  std::vector<f32> out(read_vector<f32>(name + ".f32").size());
  decode_tensor(type, packed, out);
  return out;
}

// Every NAME.packed.bin in the folder, so that a vector that no test reads cannot exist.
TEST(Decode, EveryStoredVectorToTheBit) {
  std::set<std::string> names;
  const std::string suffix = ".packed.bin";
  for (const auto& entry : std::filesystem::directory_iterator(vector_path("").parent_path())) {
    const std::string file = entry.path().filename();
    if (file.ends_with(suffix)) names.insert(file.substr(0, file.size() - suffix.size()));
  }
  EXPECT_EQ(names.size(), 36u);
  for (const std::string& name : names) {
    SCOPED_TRACE(name);
    const FormatInfo* f = find_format(name.substr(0, name.find('.')));  // "TQ2_0.code3" is a TQ2_0
    ASSERT_NE(f, nullptr);
    EXPECT_TRUE(same_bytes(decode_file(f->type, name), read_vector<f32>(name + ".f32")));
  }
}

TEST(Decode, TensorRowIsAPieceOfTheTensor) {
  for (const FormatInfo& f : all_formats()) {
    if (!f.weights) continue;
    SCOPED_TRACE(f.name);
    const auto packed = read_vector<u8>(std::string(f.name) + ".packed");
    const auto want = read_vector<f32>(std::string(f.name) + ".f32");
    const i64 n0 = 2 * f.block, rows = i64(want.size()) / n0;
    std::vector<f32> got(want.size());
    for (i64 r = 0; r < rows; r++) decode_tensor_row(f.type, packed, r, n0, std::span(got).subspan(size_t(r * n0), size_t(n0)));
    EXPECT_TRUE(same_bytes(got, want));
  }
}

}  // namespace
}  // namespace fewbit
