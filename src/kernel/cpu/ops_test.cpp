// The small operations of every instruction set of this machine against the double definition, and their bits against each other.
#include "kernel/cpu/ops.h"

#include "kernel/exact/exact.h"
#include "kernel/ref/ref.h"
#include "kernel/testing/rig.h"

namespace fewbit::kernel {
namespace {

using testing::Bench;
using testing::distance;
using testing::Guarded;
using testing::Random;

TEST(Ops, NormWithRotation) {
  struct Case {
    int n, block, cols, k_heads, rep;
  };
  for (Isa isa : testing::sets()) {
    for (auto [n, block, cols, k_heads, rep] :
         {Case{24, 8, 3, 0, 0}, Case{5120, 1024, 2, 0, 0}, Case{384, 64, 5, 2, 3}, Case{96, 1, 1, 0, 0}, Case{2176, 128, 1, 0, 0},
          Case{512, 16, 2, 4, 2}, Case{64, 32, 1, 0, 0}, Case{37, 1, 2, 0, 0}}) {
      SCOPED_TRACE(fmt::format("{} n {} block {}", isa_name(isa), n, block));
      Random random{unsigned(n)};
      std::vector<f32> x = random.normals(size_t((n + 5) * cols), 3), w = random.normals(size_t(n)), signs(static_cast<size_t>(n));
      for (f32& s : signs) s = random.below(2) ? 1.0f : -1.0f;
      Rotation r{.block = block,
                 .signs = n == 64 ? nullptr : signs.data(),
                 .perm_k_heads = k_heads,
                 .perm_rep = rep,
                 .perm_width = k_heads ? n / (k_heads * rep) : 0};
      std::vector<f32> rotated[2], straight[2];
      Guarded<f32> plain[2] = {Guarded<f32>(size_t(n * cols)), Guarded<f32>(size_t(n * cols))};
      const Kernels* tables[2] = {exact::table(isa), ref::table()};
      for (int i = 0; i < 2; i++) {
        Bench b(tables[i], 2);
        Act a = b.act(n, cols), p = b.act(n, cols);
        const Kernels::ActOut outs[2] = {{&a, &r}, {&p, nullptr}};
        b.k->norm(b.ctx, x.data(), n + 5, n, cols, w.data(), 1e-6f, plain[i].data(), {outs, 2});
        for (int c = 0; c < cols; c++) {
          for (int j = 0; j < n; j++) {
            const i64 at = i == 0 ? c * round_up(n, 16) + j : i64(c) * n + j;
            rotated[i].push_back(i == 0 ? static_cast<f32*>(a.data)[at] : f32(static_cast<f64*>(a.data)[at]));
            straight[i].push_back(i == 0 ? static_cast<f32*>(p.data)[at] : f32(static_cast<f64*>(p.data)[at]));
          }
        }
      }
      EXPECT_LT(distance(plain[0], plain[1]), 1e-6);
      EXPECT_LT(distance(straight[0], straight[1]), 1e-6);
      EXPECT_LT(distance(rotated[0], rotated[1]), 2e-6);
      EXPECT_TRUE(plain[0].intact());
    }
  }
}

TEST(Ops, EmbedRotatesBack) {
  Random random(3);
  const int n = 256, rows = 5;
  std::vector<f32> w = random.normals(size_t(n * rows)), signs(static_cast<size_t>(n));
  for (f32& s : signs) s = random.below(2) ? 1.0f : -1.0f;
  Rotation r{.block = 128, .signs = signs.data()};
  HostTensor t{
      .name = "e", .type = Type::F32, .cols = n, .rows = rows, .experts = 1, .data = {reinterpret_cast<u8*>(w.data()), w.size() * 4}};
  const i32 ids[3] = {4, 0, 4};
  for (Isa isa : testing::sets()) {
    std::vector<f32> x[2] = {std::vector<f32>(size_t(3 * n)), std::vector<f32>(size_t(3 * n))};
    const Kernels* tables[2] = {exact::table(isa), ref::table()};
    for (int i = 0; i < 2; i++) {
      Bench b(tables[i], 2);
      std::vector<Buffer> owned;
      auto placed = b.k->place(b.ctx, {&t, 1}, GroupUse::table, {}, owned);
      b.k->embed(b.ctx, (*placed)[0], ids, 3, &r, x[i].data());
    }
    EXPECT_LT(distance(x[0], x[1]), 1e-6);
  }
}

TEST(Ops, RouteBreaksTiesByIndexAndSurvivesNan) {
  Bench b(exact::table(), 1);
  std::vector<f32> logits = {1, 3, 3, 2, 3, 0};
  i32 ids[3];
  f32 w[3];
  b.k->route(b.ctx, logits.data(), 6, 3, 1, 0, ids, w);
  EXPECT_EQ(ids[0], 1);
  EXPECT_EQ(ids[1], 2);
  EXPECT_EQ(ids[2], 4);
  EXPECT_NEAR(w[0], 1.0 / 3, 1e-6);
  std::fill(logits.begin(), logits.end(), NAN);
  b.k->route(b.ctx, logits.data(), 6, 3, 1, 0, ids, w);
  for (int i : ids) EXPECT_TRUE(i >= 0 && i < 6);
  EXPECT_NE(ids[0], ids[1]);
}

TEST(Ops, ArgmaxFindsTheFirstLargest) {
  for (Isa isa : testing::sets()) {
    for (int n : {1, 15, 16, 50, 40000}) {
      Bench b(exact::table(isa), 2);
      Random random{unsigned(n)};
      std::vector<f32> x = random.normals(size_t(2 * n));
      i32 at = n / 3;
      x[size_t(at)] = 9;
      if (at + 1 < n) x[size_t(n - 1)] = 9;
      x[size_t(n)] = n > 1 ? NAN : 0.0f;
      i32 ids[2], want[2];
      b.k->argmax(b.ctx, x.data(), n, 2, ids);
      EXPECT_EQ(ids[0], at);
      if (n > 1) {
        x[size_t(n)] = -INFINITY;
        ref::table()->argmax(b.ctx, x.data(), n, 2, want);
        EXPECT_EQ(ids[1], want[1]);
      }
    }
  }
}

TEST(Ops, GatherAddGatedActMul) {
  Random random(1);
  const int n = 37, cols = 5;
  const std::vector<f32> x = random.normals(size_t(n * cols)), y = random.normals(size_t(n * cols), 4), gate = random.normals(size_t(cols));
  const i32 index[3] = {4, 0, 4};
  for (Isa isa : testing::sets()) {
    for (Glu kind : {Glu::silu, Glu::relu2}) {
      std::vector<f32> a[2] = {x, x}, h[2] = {x, x}, g[2] = {std::vector<f32>(size_t(3 * n)), std::vector<f32>(size_t(3 * n))};
      const Kernels* tables[2] = {exact::table(isa), ref::table()};
      for (int i = 0; i < 2; i++) {
        Bench b(tables[i], 2);
        b.k->add_gated(b.ctx, a[i].data(), y.data(), kind == Glu::silu ? gate.data() : nullptr, n, cols);
        b.k->act_mul(b.ctx, y.data(), x.data(), kind, n * cols, h[i].data());
        b.k->gather(b.ctx, x.data(), index, 3, n, g[i].data());
      }
      EXPECT_LT(distance(a[0], a[1]), 1e-6);
      EXPECT_LT(distance(h[0], h[1]), 1e-6);
      EXPECT_EQ(g[0], g[1]);
    }
  }
}

}  // namespace
}  // namespace fewbit::kernel
