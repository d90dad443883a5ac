// What vec16.inl says of its exponential, and that the rows built on it have the same bits on every set of this machine.
#include "kernel/cpu/steps.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernel/testing/rig.h"

#define FEWBIT_VEC 128
#include "kernel/cpu/steps_includes.h"

namespace fewbit::kernel::cpu {
namespace exponential {
#include "kernel/cpu/vec16.inl"
}  // namespace exponential
namespace {

// One in `stride` of the floats from 0 to `end`, with the sign of `end`.
std::vector<f32> floats_to(f32 end, u32 stride) {
  std::vector<f32> v;
  const u32 sign = std::bit_cast<u32>(end) & 0x80000000u;
  for (u32 bits = 0; bits <= (std::bit_cast<u32>(end) & 0x7fffffffu); bits += stride) v.push_back(std::bit_cast<f32>(bits | sign));
  while (v.size() % 16) v.push_back(end);
  return v;
}

TEST(Steps, ExpIsAsGoodAsItSays) {
  f64 worst = 0;
  for (f32 end : {-87.3f, 88.7f}) {
    for (const std::vector<f32> v = floats_to(end, 331); const f32 x : v) {
      const f64 want = std::exp(f64(x)), got = f64(exponential::exp1(x));
      worst = std::max(worst, std::fabs(got - want) / want);
    }
  }
  EXPECT_LE(worst, 1.3e-7);
  EXPECT_GT(worst, 0.5e-7);  // else the bound says nothing
  EXPECT_EQ(exponential::exp1(-87.34f), 0.0f);
  EXPECT_EQ(exponential::exp1(88.73f), INFINITY);
  EXPECT_EQ(exponential::exp1(-INFINITY), 0.0f);
  EXPECT_TRUE(std::isnan(exponential::exp1(NAN)));
}

TEST(Steps, SoftmaxAndGatesHaveTheSameBitsOnEverySet) {
  std::vector<f32> x = floats_to(-100.0f, 65537);
  x[3] = -INFINITY;
  const int n = int(x.size());
  for (Isa isa : testing::sets()) {
    const Steps& s = steps(isa);
    std::vector<f32> a = x, b = x, g(x), h(x), u(x.size(), 1.5f);
    const f32 sum_a = steps_scalar.softmax(a.data(), 0.0f, n), sum_b = s.softmax(b.data(), 0.0f, n);
    EXPECT_EQ(std::bit_cast<u32>(sum_a), std::bit_cast<u32>(sum_b)) << isa_name(isa);
    EXPECT_EQ(0, std::memcmp(a.data(), b.data(), a.size() * 4)) << isa_name(isa);
    for (size_t i = 0; i < a.size(); i++) {
      const f64 want = std::exp(std::max(f64(x[i]), f64(-87.33f)));
      ASSERT_LE(std::fabs(f64(a[i]) - want), 1.4e-7 * want) << x[i];
    }
    for (bool relu2 : {false, true}) {
      steps_scalar.glu(g.data(), x.data(), u.data(), relu2, n);
      s.glu(h.data(), x.data(), u.data(), relu2, n);
      EXPECT_EQ(0, std::memcmp(g.data(), h.data(), g.size() * 4)) << isa_name(isa);
    }
  }
}

}  // namespace
}  // namespace fewbit::kernel::cpu
