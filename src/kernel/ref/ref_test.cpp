// The definition against the golden numbers of the specification.
#include "kernel/ref/ref.h"

#include <gtest/gtest.h>

#include <cmath>

namespace fewbit::kernel {
namespace {

void expect_near(std::span<const f64> got, std::initializer_list<f64> want, f64 tolerance) {
  ASSERT_EQ(got.size(), want.size());
  size_t i = 0;
  for (f64 w : want) {
    EXPECT_NEAR(got[i], w, tolerance) << "element " << i;
    i++;
  }
}

// hadamard.md section 10.
TEST(Ref, RotationGoldenNumbers) {
  const std::vector<f64> x = {1, 2, 3, 4, 5, 6, 7, 8};
  Rotation plain{.block = 8};
  expect_near(ref::rotate(plain, x, false), {12.727922, -1.414214, -2.828427, 0, -5.656854, 0, 0, 0}, 5e-7);
  const f32 signs[8] = {1, -1, 1, 1, -1, -1, 1, -1};
  Rotation r{.block = 8, .signs = signs};
  std::vector<f64> there = ref::rotate(r, x, false);
  expect_near(there, {-2.121320, 6.363961, -6.363961, -3.535534, 6.363961, -4.949747, 0.707107, 6.363961}, 5e-7);
  expect_near(ref::rotate(r, there, true), {1, 2, 3, 4, 5, 6, 7, 8}, 1e-12);
  // Hk = 2, rep = 3: the new order reads old heads 0, 2, 4, 1, 3, 5.
  Rotation order{.block = 1, .perm_k_heads = 2, .perm_rep = 3, .perm_width = 1};
  expect_near(ref::rotate(order, std::vector<f64>{0, 1, 2, 3, 4, 5}, false), {0, 2, 4, 1, 3, 5}, 0);
}

TEST(Ref, RoundsActivationsAsDefined) {
  std::vector<f32> x(64, 0.0f);
  x[0] = 127, x[1] = 0.5f, x[2] = -0.5f, x[3] = 1.5f, x[4] = 0.49f;  // d = 1; the second group is all zero
  std::vector<f64> y = ref::round_act(ActLayout::q8_32, x);
  EXPECT_EQ(y[1], 1);
  EXPECT_EQ(y[2], -1);
  EXPECT_EQ(y[3], 2);
  EXPECT_EQ(y[4], 0);
  EXPECT_EQ(y[40], 0);
  y = ref::round_act(ActLayout::token8, x);  // half to even
  EXPECT_EQ(y[1], 0);
  EXPECT_EQ(y[3], 2);
  x[33] = INFINITY;
  y = ref::round_act(ActLayout::q8_32, x);
  EXPECT_EQ(y[1], 1);
  EXPECT_TRUE(std::isnan(y[33]) && std::isnan(y[63]));
}

TEST(Ref, ActivationsLeaveSumsExact) {
  // All the same: the sum of |s q| decides 2^e.  q8_128: 2^-11 would give 123 x 15 each, 236160 in all; 2^-10 gives 115 x 8.
  const std::vector<f32> x(128, 0.9f);
  EXPECT_EQ(ref::round_act(ActLayout::q8_128, x)[77], 920.0 / 1024);
  EXPECT_EQ(ref::round_act(ActLayout::q8_256, x)[77], 58.0 / 64);  // 115 x 128 would be too much
  std::vector<f32> one(128, 0.0f);                                 // alone it may be as fine as q allows: 127 x 16 = 2032
  one[5] = 1, one[70] = 2.0f / 2032;
  const std::vector<f64> y = ref::round_act(ActLayout::q8_128, one);
  EXPECT_EQ(y[5], 114.0 * 9 / 1024);
  EXPECT_EQ(y[70], 1.0 / 1024);
  EXPECT_EQ(ref::round_act(ActLayout::q8_256, std::vector<f32>(128, 0.0f))[0], 0);
  std::vector<f32> two(256, 0.6f);  // one scale per 128
  two[5] = 127;
  const std::vector<f64> z = ref::round_act(ActLayout::q8_per128, two);
  EXPECT_EQ(z[70], 1);
  EXPECT_NEAR(z[130], 0.6, 1e-6);
}

f64 silu(f64 x) { return x / (1 + std::exp(-x)); }
// The x right of silu's minimum with silu(x) = y >= -0.27.
f64 silu_inverse(f64 y) {
  f64 lo = -1.278, hi = 20;
  for (int i = 0; i < 100; i++) (silu((lo + hi) / 2) < y ? lo : hi) = (lo + hi) / 2;
  return lo;
}

// models.md 14, "Delta rule".  The values are a quarter of the golden ones (silu does not reach -1); the rule is linear in them.
TEST(Ref, DeltaRuleGoldenNumbers) {
  const f64 q[2][2] = {{1, 0}, {0.6, 0.8}}, k[2][2] = {{0, 1}, {0.6, 0.8}}, v[2][2] = {{1, 2}, {3, -1}}, g[2] = {-0.1, -0.2},
            beta[2] = {0.5, 0.25};
  std::vector<f32> u(12), z(4), al(2), be(2), conv_w(6, 1.0f), norm(2, 1.0f), state(4), out(4);
  for (size_t t = 0; t < 2; t++) {
    for (size_t i = 0; i < 2; i++) {
      u[t * 6 + i] = f32(silu_inverse(q[t][i]));
      u[t * 6 + 2 + i] = f32(silu_inverse(k[t][i]));
      u[t * 6 + 4 + i] = f32(silu_inverse(v[t][i] / 4));
      z[t * 2 + i] = f32(silu_inverse(1));
    }
    al[t] = f32(std::log(std::exp(-g[t]) - 1));
    be[t] = f32(std::log(beta[t] / (1 - beta[t])));
  }
  const f32 dt = 0, a = -1;
  const i32 pos[2] = {0, 1}, seq[2] = {0, 0}, first[2] = {0, 2}, slot[1] = {0};
  Batch b{.cols = 2, .seqs = 1, .max_pos = 1, .max_seq_cols = 2, .pos = pos, .seq = seq, .first = first, .slot = slot};
  DeltaNetArgs d{.qkv = u.data(),
                 .z = z.data(),
                 .alpha = al.data(),
                 .beta = be.data(),
                 .ldqkv = 6,
                 .ldz = 2,
                 .ldab = 1,
                 .k_heads = 1,
                 .v_heads = 1,
                 .dim = 2,
                 .conv = 1,
                 .conv_w = conv_w.data(),
                 .dt = &dt,
                 .a = &a,
                 .norm = norm.data(),
                 .state = state.data(),
                 .out = out.data()};
  Ctx ctx;
  ref::delta_net(ctx, b, d);
  const f64 want[4] = {0.40087615, 0.94386692, -0.24824769, 0.48773383}, o[2] = {0.70400911, 0.17058135};
  for (size_t i = 0; i < 4; i++) EXPECT_NEAR(4 * f64(state[i]), want[i], 2e-6);
  const f64 rms = std::sqrt((o[0] * o[0] + o[1] * o[1]) / 2);
  for (size_t i = 0; i < 2; i++) EXPECT_NEAR(f64(out[2 + i]), o[i] / rms, 2e-6);
}

}  // namespace
}  // namespace fewbit::kernel
