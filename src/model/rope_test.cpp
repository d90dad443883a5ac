#include <gtest/gtest.h>

#include <cmath>

#include "model/config.h"

namespace fewbit::model {

// Bonsai-1.7B, models.md section 14.
static RopeConfig bonsai() {
  RopeConfig r;
  r.n_rot = 128;
  r.base = 1e6;
  r.factor = 4;
  r.ext = 1;
  r.original_context = 8192;
  return r;
}

TEST(Rope, YarnGoldenValues) {
  auto w = rope_frequencies(bonsai(), {});
  EXPECT_NEAR(rope_magnitude(bonsai()), 1.13862944, 5e-9);
  const std::pair<int, f64> golden[] = {{0, 1},
                                        {1, 0.805842188},
                                        {10, 0.115478198},
                                        {17, 0.0254829675},
                                        {18, 0.0196292833},
                                        {25, 0.00293220118},
                                        {30, 6.56733371e-4},
                                        {36, 1.05424126e-4},
                                        {40, 4.44569853e-5},
                                        {63, 3.1023444e-7}};
  for (auto [i, want] : golden) EXPECT_NEAR(w[size_t(i)], want, 1e-8 * want) << i;
}

TEST(Rope, TableHoldsTheMagnitudeAndContinues) {
  RopeConfig r = bonsai();
  auto all = rope_table(r, {}, 0, 100), tail = rope_table(r, {}, 90, 10);
  for (size_t i = 0; i < tail.size(); i++) EXPECT_EQ(tail[i], all[90 * 128 + i]);
  EXPECT_FLOAT_EQ(all[0], f32(rope_magnitude(r)));
  EXPECT_EQ(all[1], 0);
}

TEST(Rope, LinearScalingAndFrequencyFactors) {
  RopeConfig r;
  r.n_rot = 8;
  r.factor = 2;
  f32 ff[4] = {1, 2, 4, 8};
  auto w = rope_frequencies(r, ff);
  for (int i = 0; i < 4; i++) EXPECT_DOUBLE_EQ(w[size_t(i)], std::pow(1e4, -2.0 * i / 8) / 2 / ff[i]);
  EXPECT_EQ(rope_magnitude(r), 1);
}

TEST(Rope, PairsOfNoAxisStay) {
  RopeConfig r;
  r.n_rot = 16;
  r.multi_axis = true;
  r.sections = {2, 1, 1, 0};  // time: pairs 0, 3; height: 1; width: 2
  auto w = rope_frequencies(r, {});
  for (int i = 0; i < 8; i++) EXPECT_EQ(w[size_t(i)] != 0, i < 4) << i;
  auto t = rope_table(r, {}, 5, 1);
  EXPECT_EQ(t[2 * 7], 1);
  EXPECT_EQ(t[2 * 7 + 1], 0);
}

}  // namespace fewbit::model
