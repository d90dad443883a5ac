// The exact table on every instruction set of this machine against the double definition, over ragged shapes.
#include "kernel/exact/exact.h"

#include "kernel/ref/ref.h"
#include "kernel/testing/rig.h"

namespace fewbit::kernel {
namespace {

using testing::Bench;
using testing::distance;
using testing::Guarded;
using testing::Random;

// f32 sums in 16 lanes over at most a few thousand terms.
constexpr f64 bound = 4e-6;

HostTensor f16_tensor(std::vector<u8>& bytes, Random& random, i64 cols, i64 rows, i64 experts) {
  std::vector<f32> x = random.normals(size_t(cols * rows * experts), 0.1f);
  bytes.resize(x.size() * 2);
  EXPECT_TRUE(encode_row(Type::F16, x, {}, bytes).ok());
  HostTensor t;
  t.name = "w";
  t.type = Type::F16;
  t.cols = cols;
  t.rows = rows;
  t.experts = experts;
  t.data = bytes;
  return t;
}
Weight place(Bench& b, const HostTensor& t) {
  std::vector<Buffer> owned;
  auto placed = b.k->place(b.ctx, {&t, 1}, GroupUse::separate, {}, owned);
  EXPECT_TRUE(placed.ok());
  return (*placed)[0];
}
void fill(Bench& b, Act& act, const std::vector<f32>& x) {
  Kernels::ActOut out{&act, nullptr};
  b.k->norm(b.ctx, x.data(), act.n, act.n, act.cols, nullptr, 0, nullptr, {&out, 1});
}

struct Shape {
  int n, rows, cols;
};
const Shape shapes[] = {{1, 1, 1}, {15, 3, 2}, {16, 4, 5}, {33, 7, 6}, {576, 37, 11}, {320, 64, 17}, {2048, 5, 3}, {4112, 9, 1}};

TEST(Exact, MatmulAndGlu) {
  for (Isa isa : testing::sets()) {
    for (auto [n, rows, cols] : shapes) {
      for (ActLayout layout : {ActLayout::f32, ActLayout::token8}) {
        SCOPED_TRACE(fmt::format("{} n {} rows {} cols {} layout {}", isa_name(isa), n, rows, cols, int(layout)));
        Random random{unsigned(n + rows)};
        std::vector<u8> gate_bytes, up_bytes;
        HostTensor gate = f16_tensor(gate_bytes, random, n, rows, 1), up = f16_tensor(up_bytes, random, n, rows, 1);
        std::vector<f32> bias = random.normals(size_t(rows)), x = random.normals(size_t(n * cols)),
                         y0 = random.normals(size_t((rows + 3) * cols));
        f32 scale = 0.75f;
        gate.scale = &scale;
        gate.bias = bias.data();
        Guarded<f32> y[2] = {Guarded<f32>(y0.size()), Guarded<f32>(y0.size())},
                     h[2] = {Guarded<f32>(size_t(rows * cols)), Guarded<f32>(size_t(rows * cols))};
        const Kernels* tables[2] = {exact::table(isa), ref::table()};
        for (int i = 0; i < 2; i++) {
          Bench b(tables[i], 2);
          Act a = b.act(n, cols, layout);
          fill(b, a, x);
          std::copy(y0.begin(), y0.end(), y[i].begin());
          Weight w = place(b, gate), u = place(b, up);
          const Kernels::Product products[2] = {{&w, &a, y[i].data(), rows + 3, false}, {&u, &a, y[i].data(), rows + 3, true}};
          b.k->matmul(b.ctx, {products, 2});
          b.k->glu(b.ctx, w, u, a, layout == ActLayout::f32 ? Glu::silu : Glu::relu2, h[i].data());
        }
        EXPECT_LT(distance(y[0], y[1]), bound);
        EXPECT_LT(distance(h[0], h[1]), bound);
        EXPECT_TRUE(y[0].intact() && h[0].intact());
      }
    }
  }
}

// Every weight type through the exact product: random valid blocks come from the encoders.
TEST(Exact, EveryTypeDecodesIntoTheProduct) {
  Random random(5);
  const int n = 512, rows = 9, cols = 3;
  for (const FormatInfo& f : all_formats()) {
    if (!f.weights || !f.has_encoder) continue;
    SCOPED_TRACE(f.name);
    std::vector<f32> w = random.normals(size_t(n * rows)), importance(size_t(n), 1.0f), x = random.normals(size_t(n * cols));
    std::vector<u8> bytes(*tensor_bytes(f.type, n, rows));
    ASSERT_TRUE(encode_tensor(f.type, w, n, importance, bytes).ok());
    HostTensor t{.name = "w", .type = f.type, .cols = n, .rows = rows, .experts = 1, .data = bytes};
    std::vector<f32> y[2] = {std::vector<f32>(size_t(rows * cols)), std::vector<f32>(size_t(rows * cols))};
    const Kernels* tables[2] = {exact::table(), ref::table()};
    for (int i = 0; i < 2; i++) {
      Bench b(tables[i], 1);
      Act a = b.act(n, cols);
      fill(b, a, x);
      Weight placed = place(b, t);
      Kernels::Product p{&placed, &a, y[i].data(), rows, false};
      b.k->matmul(b.ctx, {&p, 1});
      std::vector<f32> row(size_t(2 * n));
      const i32 ids[2] = {8, 0};
      b.k->embed(b.ctx, placed, ids, 2, nullptr, row.data());
      std::vector<f32> want(static_cast<size_t>(n));
      decode_tensor_row(f.type, bytes, 8, n, want);
      EXPECT_EQ(std::memcmp(row.data(), want.data(), want.size() * 4), 0);
    }
    EXPECT_LT(distance(y[0], y[1]), bound);
  }
}

TEST(Exact, ExpertsInAnyMixture) {
  for (Isa isa : testing::sets()) {
    for (int cols : {1, 3, 20}) {
      Random random{unsigned(cols)};
      const int n = 96, ff = 45, experts = 7, k = 3;
      std::vector<u8> bytes[3];
      HostTensor gate = f16_tensor(bytes[0], random, n, ff, experts), up = f16_tensor(bytes[1], random, n, ff, experts),
                 down = f16_tensor(bytes[2], random, ff, n, experts);
      std::vector<f32> scale = random.normals(size_t(experts)), x = random.normals(size_t(n * cols)),
                       logits = random.normals(size_t(experts * cols)), x0 = random.normals(size_t(n * cols));
      down.scale = scale.data();
      logits[1] = logits[2];
      Guarded<f32> h[2] = {Guarded<f32>(size_t(cols * k * ff)), Guarded<f32>(size_t(cols * k * ff))},
                   y[2] = {Guarded<f32>(x0.size()), Guarded<f32>(x0.size())};
      std::vector<i32> ids[2];
      const Kernels* tables[2] = {exact::table(isa), ref::table()};
      for (int i = 0; i < 2; i++) {
        Bench b(tables[i], 2);
        Act a = b.act(n, cols), d = b.act(ff, cols * k);
        fill(b, a, x);
        ids[i].resize(size_t(cols * k));
        std::vector<f32> weights(ids[i].size());
        b.k->route(b.ctx, logits.data(), experts, k, cols, 2.5f, ids[i].data(), weights.data());
        Weight wg = place(b, gate), wu = place(b, up), wd = place(b, down);
        b.k->moe_glu(b.ctx, wg, wu, a, ids[i].data(), k, Glu::silu, h[i].data());
        fill(b, d, std::vector<f32>(h[i].begin(), h[i].end()));
        std::copy(x0.begin(), x0.end(), y[i].begin());
        b.k->moe_down(b.ctx, wd, d, ids[i].data(), weights.data(), k, y[i].data());
      }
      EXPECT_EQ(ids[0], ids[1]);
      EXPECT_LT(distance(h[0], h[1]), bound);
      EXPECT_LT(distance(y[0], y[1]), bound);
      EXPECT_TRUE(h[0].intact() && y[0].intact());
    }
  }
}

// A column's bits depend neither on its neighbours nor on the threads.
TEST(Exact, SameBitsAtAnyWidthAndThreadCount) {
  Random random(9);
  const int n = 208, rows = 61, cols = 13;
  std::vector<u8> bytes;
  HostTensor t = f16_tensor(bytes, random, n, rows, 1);
  std::vector<f32> x = random.normals(size_t(n * cols));
  for (Isa isa : testing::sets()) {
    std::vector<f32> whole(size_t(rows * cols)), single(size_t(rows * cols));
    for (int threads : {1, 3}) {
      Bench b(exact::table(isa), threads);
      Weight w = place(b, t);
      Act a = b.act(n, cols);
      fill(b, a, x);
      Kernels::Product p{&w, &a, whole.data(), rows, false};
      b.k->matmul(b.ctx, {&p, 1});
      for (int c = 0; c < cols; c++) {
        Act one = b.act(n, 1);
        fill(b, one, std::vector<f32>(x.begin() + c * n, x.begin() + (c + 1) * n));
        Kernels::Product q{&w, &one, single.data() + c * rows, rows, false};
        b.k->matmul(b.ctx, {&q, 1});
      }
      EXPECT_EQ(std::memcmp(whole.data(), single.data(), whole.size() * 4), 0) << isa_name(isa) << ", threads " << threads;
    }
  }
}

}  // namespace
}  // namespace fewbit::kernel
