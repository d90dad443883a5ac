#include "format/refit.h"

#include <cmath>

#include "format/formats.h"
#include "format/vectors.h"

namespace fewbit {
namespace {

constexpr size_t block = IQ2_XS::block, bytes = IQ2_XS::bytes;

TEST(Refit, BlocksGetTheStatedScaleAndKeepTheRest) {
  const auto x = read_vector<f32>("imatrix.values.f32"), q = read_vector<f32>("imatrix.weights.f32");
  std::vector<u8> before = read_vector<u8>("IQ2_XS.imatrix.quant"), after = before;
  const size_t n0 = q.size(), row = n0 / block * bytes;
  for (size_t r = 0; r < x.size() / n0; r++)
    refit_scales(Type::IQ2_XS, std::span(x).subspan(r * n0, n0), q, std::span(after).subspan(r * row, row));
  std::vector<f32> y(x.size());
  decode_row(Type::IQ2_XS, after, y);
  int moved = 0;
  for (size_t b = 0; b < x.size() / block; b++) {
    moved += before[b * bytes] != after[b * bytes] || before[b * bytes + 1] != after[b * bytes + 1];
    for (size_t i = 2; i < bytes; i++) ASSERT_EQ(before[b * bytes + i], after[b * bytes + i]);
    f64 square = 0, xy = 0, yy = 0;
    for (size_t e = b * block; e < (b + 1) * block; e++) square += f64(x[e]) * f64(x[e]) / block;
    for (size_t e = b * block; e < (b + 1) * block; e++) {
      const f64 w = f64(q[e % n0]) * std::sqrt(square + f64(x[e]) * f64(x[e]));
      xy += w * f64(x[e]) * f64(y[e]);
      yy += w * f64(y[e]) * f64(y[e]);
    }
    EXPECT_NEAR(yy / xy, 1.07, 0.0006) << b;  // f16 has 11 bits
  }
  EXPECT_GT(moved, 8);
}

TEST(Refit, OthersStay) {
  const auto x = read_vector<f32>("imatrix.values.f32"), q = read_vector<f32>("imatrix.weights.f32");
  for (const char* name : {"IQ2_XXS", "IQ2_S", "IQ3_XXS", "Q2_K"}) {
    const auto before = read_vector<u8>(std::string(name) + ".imatrix.quant");
    auto after = before;
    const size_t row = after.size() / (x.size() / q.size());
    refit_scales(find_format(name)->type, std::span(x).first(q.size()), q, std::span(after).first(row));
    EXPECT_TRUE(same_bytes(after, before)) << name;
  }
  std::vector<f32> zeros(block), ones(block, 1);
  std::vector<u8> blocks(bytes);
  refit_scales(Type::IQ2_XS, zeros, ones, blocks);
  EXPECT_EQ(blocks, std::vector<u8>(bytes));
}

}  // namespace
}  // namespace fewbit
