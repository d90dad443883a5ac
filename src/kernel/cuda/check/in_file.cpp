// Weights that keep their file's bytes (expand.h): the same bits as packed ones give.
#include <algorithm>

#include "kernel/cuda/check/matrix.h"
#include "kernel/cuda/expand.h"

namespace fewbit::kernel::cuda::check {

namespace {

const PlaceOptions keep{.repack = false};

// Floats of an operation into a buffer of `n`, started from `before`.
template <class F>
std::vector<f32> result(Rig& rig, const std::vector<f32>& before, F&& run) {
  Buffer y = rig.up(before);
  run(y.as<f32>());
  return rig.down<f32>(y.data(), before.size());
}

void products(Rig& rig, Random& random, Type type, i64 rows, i64 cols, const std::vector<int>& widths) {
  std::vector<Buffer> owned;
  Matrix m = matrix(random, type, rows, cols, 1, true), g = matrix(random, type, rows, cols, 1, false);
  Weight w[2];
  std::vector<Weight> pair[2];
  for (int i = 0; i < 2; i++) {
    const PlaceOptions how = i ? keep : PlaceOptions{};
    w[i] = place_on(rig.ctx, {view(m)}, GroupUse::separate, owned, how)[0];
    pair[i] = place_on(rig.ctx, {view(m), view(g)}, GroupUse::glu, owned, how);
  }
  rig.report("in_file.placed", label(type, rows, cols, 0), in_file(w[1]) && !in_file(w[0]), w[1].layout_id);
  for (int n : widths) {
    TwoActs a = make_act(rig, random.normals(size_t(cols) * n), int(cols), n, act_of(rig, type));
    const std::vector<f32> before = random.normals(size_t(rows) * n);
    std::vector<f32> y[2], h[2];
    for (int i = 0; i < 2; i++) {
      y[i] = result(rig, before, [&](f32* to) {
        const Kernels::Product p{&w[i], &a.gpu, to, rows, n % 2 == 1};
        rig.ctx.k->matmul(rig.ctx, {&p, 1});
      });
      h[i] = result(rig, before, [&](f32* to) { rig.ctx.k->glu(rig.ctx, pair[i][0], pair[i][1], a.gpu, Glu::silu, to); });
    }
    rig.same_bits("in_file.matmul", label(type, rows, cols, n), y[1], y[0]);
    rig.same_bits("in_file.glu", label(type, rows, cols, n), h[1], h[0]);
  }
}

void experts(Rig& rig, Random& random, Type type, i64 hidden, i64 ff, int n_experts, int k, int cols) {
  std::vector<Buffer> owned;
  Matrix g = matrix(random, type, ff, hidden, n_experts, true), u = matrix(random, type, ff, hidden, n_experts, true),
         d = matrix(random, type, hidden, ff, n_experts, true);
  g.bias.clear(), u.bias.clear(), d.bias.clear();
  std::vector<Weight> pair[2];
  Weight down[2];
  for (int i = 0; i < 2; i++) {
    const PlaceOptions how = i ? keep : PlaceOptions{};
    pair[i] = place_on(rig.ctx, {view(g), view(u)}, GroupUse::glu, owned, how);
    down[i] = place_on(rig.ctx, {view(d)}, GroupUse::separate, owned, how)[0];
  }
  const std::string name = label(type, ff, hidden, cols) + " top " + std::to_string(k) + " of " + std::to_string(n_experts);
  rig.report("in_file.placed", name, in_file(pair[1][0]) && in_file(down[1]), 0);
  std::vector<i32> ids(size_t(cols) * k);
  std::vector<f32> weights(ids.size());
  for (int c = 0; c < cols; c++)
    for (int j = 0, first = random.below(n_experts), step = 1 + random.below(3); j < k; j++)
      ids[size_t(c * k + j)] = (first + j * step) % n_experts, weights[size_t(c * k + j)] = std::fabs(random.normal());
  Buffer dids = rig.up(ids), dweights = rig.up(weights);
  TwoActs a = make_act(rig, random.normals(size_t(hidden) * cols), int(hidden), cols, act_of(rig, type));
  std::vector<f32> h[2], x[2];
  const std::vector<f32> none(ids.size() * size_t(ff), NAN), before = random.normals(size_t(hidden) * cols);
  for (int i = 0; i < 2; i++)
    h[i] =
        result(rig, none, [&](f32* to) { rig.ctx.k->moe_glu(rig.ctx, pair[i][0], pair[i][1], a.gpu, dids.as<i32>(), k, Glu::silu, to); });
  rig.same_bits("in_file.moe_glu", name, h[1], h[0]);
  TwoActs b = make_act(rig, random.normals(ids.size() * size_t(ff)), int(ff), cols * k, act_of(rig, type));
  for (int i = 0; i < 2; i++)
    x[i] = result(rig, before, [&](f32* to) { rig.ctx.k->moe_down(rig.ctx, down[i], b.gpu, dids.as<i32>(), dweights.as<f32>(), k, to); });
  rig.same_bits("in_file.moe_down", name, x[1], x[0]);
}

void table_rows(Rig& rig, Random& random, Type type, i64 cols, int n) {
  std::vector<Buffer> owned;
  const i64 rows = 301;
  Matrix m = matrix(random, type, rows, cols, 1, false);
  std::vector<i32> ids(static_cast<size_t>(n));
  for (i32& id : ids) id = random.below(int(rows));
  Buffer dids = rig.up(ids);
  std::vector<f32> x[2];
  for (int i = 0; i < 2; i++) {
    const Weight w = place_on(rig.ctx, {view(m)}, GroupUse::table, owned, i ? keep : PlaceOptions{})[0];
    x[i] = result(rig, std::vector<f32>(size_t(n) * size_t(cols), NAN),
                  [&](f32* to) { rig.ctx.k->embed(rig.ctx, w, dids.as<i32>(), n, nullptr, to); });
  }
  rig.same_bits("in_file.embed", label(type, rows, cols, n), x[1], x[0]);
}

}  // namespace

void check_in_file(Rig& rig, bool quick) {
  Random random(14);
  for (Type type :
       {Type::Q1_0,    Type::Q2_0,   Type::PQ2_0, Type::PTQ1_0,  Type::TQ1_0, Type::TQ2_0, Type::I2_S,   Type::IQ1_S,  Type::IQ1_M,
        Type::IQ2_XXS, Type::IQ2_XS, Type::IQ2_S, Type::IQ3_XXS, Type::IQ3_S, Type::Q2_K,  Type::Q3_K,   Type::Q4_0,   Type::Q4_1,
        Type::Q5_0,    Type::Q5_1,   Type::Q8_0,  Type::Q4_K,    Type::Q5_K,  Type::Q6_K,  Type::IQ4_NL, Type::IQ4_XS, Type::MXFP4}) {
    products(rig, random, type, 77, 768, quick ? std::vector<int>{1} : std::vector<int>{1, 3, 8, 40});
    if (quick) continue;
    if (format_info(type).block <= 32) products(rig, random, type, 33, 160, {1, 9});  // a part of a unit
    table_rows(rig, random, type, 1280, 9);
    if (type != Type::I2_S)
      for (int cols : {1, 8, 40}) experts(rig, random, type, 512, 256, 12, 4, cols);
  }
  if (quick) return;
  products(rig, random, Type::IQ2_XXS, 3000, 17408, {1, 65});                            // pieces of a matrix
  table_rows(rig, random, Type::Q6_K, 5120, 400);                                        // of the columns
  for (int cols : {3, 70}) experts(rig, random, Type::IQ2_XS, 2048, 512, 150, 8, cols);  // of the experts
}

}  // namespace fewbit::kernel::cuda::check
