// The joined steps of a layer of experts (kernel/moe.h) against the single operations, bit for bit.
#include <cstring>

#include "kernel/cuda/check/matrix.h"
#include "kernel/moe.h"

namespace fewbit::kernel::cuda::check {

namespace {

struct Case {
  Type type, shared_down;  // of everything but the routers; of the shared expert's last matrix
  int experts, k, cols;
  i64 hidden, ff;
  bool shared;
  f32 scale;
  f32 spoilt;  // one of the logits' inputs
};

// A vector as it is wanted by one weight.
struct Given {
  Buffer memory;
  Act act;
  Given(Rig& rig, const f32* x, int n, int cols, ActLayout layout)
      : memory(rig.buffer(rig.ctx.k->act_bytes(layout, n, cols))), act{layout, n, cols, memory.data()} {
    const Kernels::ActOut out{&act, nullptr};
    rig.ctx.k->norm(rig.ctx, x, n, n, cols, nullptr, 0, nullptr, {&out, 1});
  }
};

void joined(Rig& rig, Random& random, const Case& t) {
  const Kernels& k = *rig.ctx.k;
  const JoinedExperts& j = *joined_experts(*rig.gpu);
  const int hidden = int(t.hidden), ff = int(t.ff), entries = t.cols * t.k;
  std::vector<Buffer> owned;
  Matrix m[8] = {matrix(random, Type::F32, t.experts, hidden, 1, false), matrix(random, t.type, ff, hidden, t.experts, false),
                 matrix(random, t.type, ff, hidden, t.experts, true),    matrix(random, t.type, hidden, ff, t.experts, true),
                 matrix(random, Type::F32, 1, hidden, 1, false),         matrix(random, t.type, ff, hidden, 1, false),
                 matrix(random, t.type, ff, hidden, 1, false),           matrix(random, t.shared_down, hidden, ff, 1, true)};
  for (int i : {0, 4}) {  // of a size that tells experts apart without making one certain
    const std::vector<f32> rows = random.normals(m[i].data.size() / 4, 0.05f);
    std::memcpy(m[i].data.data(), rows.data(), m[i].data.size());
  }
  const Weight router = place_on(rig.ctx, {view(m[0])}, GroupUse::separate, owned)[0],
               down = place_on(rig.ctx, {view(m[3])}, GroupUse::separate, owned)[0],
               gated = place_on(rig.ctx, {view(m[4])}, GroupUse::separate, owned)[0],
               shared_down = place_on(rig.ctx, {view(m[7])}, GroupUse::separate, owned)[0];
  const std::vector<Weight> pair = place_on(rig.ctx, {view(m[1]), view(m[2])}, GroupUse::glu, owned),
                            shared = place_on(rig.ctx, {view(m[5]), view(m[6])}, GroupUse::glu, owned);
  std::vector<f32> in = random.normals(size_t(hidden) * size_t(t.cols));
  in[3] += t.spoilt;
  const Buffer din = rig.up(in);
  const Given q(rig, din.as<f32>(), hidden, t.cols, pair[0].act), f(rig, din.as<f32>(), hidden, t.cols, ActLayout::f32);
  const std::vector<f32> x = random.normals(in.size());

  struct Run {
    Buffer logits, gate, ids, weights, h, s, y, x;
  };
  auto make = [&] {
    auto floats = [&](int n) { return rig.up(std::vector<f32>(size_t(n), NAN)); };
    return Run{floats(t.cols * t.experts), floats(t.cols),      floats(entries),         floats(entries),
               floats(entries * ff),       floats(t.cols * ff), floats(t.cols * hidden), rig.up(x)};
  };
  Run one = make(), both = make(), with_y = make();
  // Step by step.
  const Kernels::Product rows[2] = {{&router, &f.act, one.logits.as<f32>(), t.experts, false},
                                    {&gated, &f.act, one.gate.as<f32>(), 1, false}};
  for (int i = 0; i < (t.shared ? 2 : 1); i++) k.matmul(rig.ctx, {rows + i, 1});
  k.route(rig.ctx, one.logits.as<f32>(), t.experts, t.k, t.cols, t.scale, one.ids.as<i32>(), one.weights.as<f32>());
  k.moe_glu(rig.ctx, pair[0], pair[1], q.act, one.ids.as<i32>(), t.k, Glu::silu, one.h.as<f32>());
  if (t.shared) {
    k.glu(rig.ctx, shared[0], shared[1], q.act, Glu::silu, one.s.as<f32>());
    const Given s(rig, one.s.as<f32>(), ff, t.cols, shared_down.act);
    const Kernels::Product p{&shared_down, &s.act, one.y.as<f32>(), hidden, false};
    k.matmul(rig.ctx, {&p, 1});
  }
  const Given h(rig, one.h.as<f32>(), ff, entries, down.act);
  k.moe_down(rig.ctx, down, h.act, one.ids.as<i32>(), one.weights.as<f32>(), t.k, one.x.as<f32>());
  if (t.shared) k.add_gated(rig.ctx, one.x.as<f32>(), one.y.as<f32>(), one.gate.as<f32>(), hidden, t.cols);
  // Joined.
  ExpertsUp up;
  up.router = {&router, &f.act}, up.gate = {&pair[0], &q.act}, up.up = &pair[1];
  if (t.shared) up.shared_router = {&gated, &f.act}, up.shared_gate = {&shared[0], &q.act}, up.shared_up = &shared[1];
  up.k = t.k, up.scale = t.scale, up.logits = both.logits.as<f32>(), up.shared_logit = both.gate.as<f32>();
  up.ids = both.ids.as<i32>(), up.weights = both.weights.as<f32>(), up.h = both.h.as<f32>(), up.shared_h = both.s.as<f32>();
  std::vector<Launch> launches;
  rig.ctx.launches = &launches;
  j.up(rig.ctx, up);
  const size_t of_up = launches.size();
  auto finish = [&](Run& to, bool along) {
    ExpertsDown d;
    d.down = &down, d.h = both.h.as<f32>(), d.ids = both.ids.as<i32>(), d.weights = both.weights.as<f32>(), d.k = t.k, d.cols = t.cols;
    d.x = to.x.as<f32>();
    if (t.shared) {
      d.gate = both.gate.as<f32>();
      if (along)
        d.shared = &shared_down, d.shared_h = both.s.as<f32>();
      else
        d.y = one.y.as<f32>();
    }
    return j.down(rig.ctx, d);
  };
  // The 16 levels of IQ4 are too far apart for the kernels of single entries.
  const bool few = t.cols <= 4 && t.type != Type::IQ4_NL && t.type != Type::IQ4_XS, done = finish(both, true),
             done_y = finish(with_y, false);
  rig.ctx.launches = nullptr;

  const std::string name = label(t.type, ff, hidden, t.cols) + " top " + std::to_string(t.k) + " of " + std::to_string(t.experts) +
                           (t.shared ? " and " + std::string(type_name(t.shared_down)) : "") + (t.spoilt != 0 ? ", not finite" : "");
  auto same = [&](const char* what, const Buffer& a, const Buffer& b) {
    rig.report(what, name, rig.down<u8>(a.data(), a.bytes()) == rig.down<u8>(b.data(), b.bytes()), 0);
  };
  auto same_floats = [&](const char* what, const Buffer& a, const Buffer& b) {  // any NaN for any other
    const std::vector<f32> v = rig.down<f32>(a.data(), a.bytes() / 4), w = rig.down<f32>(b.data(), b.bytes() / 4);
    size_t different = 0, nan = 0;
    for (size_t i = 0; i < v.size(); i++)
      different += std::memcmp(&v[i], &w[i], 4) != 0 && !(std::isnan(v[i]) && std::isnan(w[i])), nan += std::isnan(w[i]);
    const bool spoilt = t.spoilt != 0;
    rig.report(what, name + (spoilt || !nan ? "" : ": NaN"), different == 0 && (spoilt || !nan), f64(different));
  };
  same_floats("joined.logits", both.logits, one.logits);
  same("joined.ids", both.ids, one.ids);
  same_floats("joined.weights", both.weights, one.weights);
  same_floats("joined.h", both.h, one.h);
  if (t.shared) same_floats("joined.gate", both.gate, one.gate), same_floats("joined.shared_h", both.s, one.s);
  rig.report("joined.launches", name, !few || of_up == 2, f64(of_up));
  rig.report("joined.down", name, done == (few && (!t.shared || t.shared_down == t.type)) && done_y == few, done + 2 * done_y);
  if (done) same_floats("joined.x", both.x, one.x);
  if (done_y) same_floats("joined.x of y", with_y.x, one.x);
}

}  // namespace

void check_joined(Rig& rig, bool quick) {
  Random random(15);
  const Type a = Type::IQ2_XS;
  joined(rig, random, {a, a, 256, 8, 1, 256, 256, true, 0, 0});
  joined(rig, random, {a, a, 16, 2, 3, 512, 768, true, 1.5f, 0});
  if (quick) return;
  joined(rig, random, {a, a, 32, 8, 1, 2048, 512, true, 0, 0});   // qwen35-35b-a3b, with fewer experts
  joined(rig, random, {a, a, 16, 8, 1, 2048, 768, false, 0, 0});  // qwen3-30b-a3b
  for (int cols : {2, 4, 5, 8}) joined(rig, random, {a, a, 64, 8, cols, 512, 256, true, 0, 0});
  for (Type type : {Type::PQ2_0, Type::Q1_0, Type::Q2_0, Type::Q2_K, Type::IQ1_S, Type::IQ1_M, Type::IQ3_XXS, Type::Q3_K, Type::Q4_0,
                    Type::Q4_K, Type::IQ4_NL, Type::IQ4_XS, Type::Q8_0, Type::MXFP4, Type::TQ2_0, Type::PTQ1_0})
    for (bool shared : {true, false}) joined(rig, random, {type, type, 12, shared ? 6 : 4, 1 + shared, 512, 512, shared, 2.5f, 0});
  joined(rig, random, {a, Type::Q4_K, 300, 10, 1, 256, 256, true, 0, 0});
  joined(rig, random, {Type::Q4_0, Type::Q8_0, 60, 4, 2, 320, 160, true, 0, 0});  // rows and inputs that fill no tile
  joined(rig, random, {Type::Q4_0, Type::Q4_0, 60, 4, 1, 320, 160, true, 0, 0});
  joined(rig, random, {a, a, 512, 16, 1, 256, 256, true, 0, 0});
  for (f32 bad : {NAN, INFINITY}) joined(rig, random, {a, a, 64, 8, 2, 512, 256, true, 0, bad});
}

}  // namespace fewbit::kernel::cuda::check
