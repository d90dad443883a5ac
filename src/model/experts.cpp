#include <numeric>

#include "kernel/moe.h"
#include "model/blocks.h"

namespace fewbit::model {

using kernel::GroupUse;

static std::vector<i64> range(i64 from, i64 to) {
  std::vector<i64> r(static_cast<size_t>(to - from));
  std::iota(r.begin(), r.end(), from);
  return r;
}

Experts read_experts(Builder& b, int layer, const char* norm, bool shared) {
  const Config& c = b.config();
  const ExpertConfig& e = c.experts;
  i64 d = c.n_embd, ff = e.n_ff, n = e.count, sff = e.n_ff_shared;
  auto name = [&](const char* s) { return block_name(layer, s); };
  Experts x;
  x.norm = b.floats(name(norm), {d});
  b.place({&x.router, name("ffn_gate_inp.weight"), d, n});
  std::string fused = name("ffn_gate_up_exps.weight");
  if (b.has(fused)) {  // gate rows first, then up rows
    b.place(GroupUse::glu,
            {{&x.gate, fused, d, ff, n, false, range(0, ff), 2 * ff}, {&x.up, fused, d, ff, n, false, range(ff, 2 * ff), 2 * ff}});
  } else {
    b.place(GroupUse::glu, {{&x.gate, name("ffn_gate_exps.weight"), d, ff, n}, {&x.up, name("ffn_up_exps.weight"), d, ff, n}});
  }
  b.require_same_input(x.gate, x.up);
  b.place({&x.down, name("ffn_down_exps.weight"), ff, d, n});
  if (shared) {
    b.place({&x.shared_router, name("ffn_gate_inp_shexp.weight"), d, 1});
    b.place(GroupUse::glu, {{&x.shared_gate, name("ffn_gate_shexp.weight"), d, sff}, {&x.shared_up, name("ffn_up_shexp.weight"), d, sff}});
    b.place({&x.shared_down, name("ffn_down_shexp.weight"), sff, d});
  }
  return x;
}

void experts(Pass& p, const Experts& e, f32* x) {
  Pass::Scope scope(p);
  const ExpertConfig& c = p.config().experts;
  int n = p.cols(), d = p.config().n_embd;
  Input in = p.input(x, d, n, e.norm, {&e.router, &e.shared_router, &e.gate, &e.up, &e.shared_gate, &e.shared_up});
  ExpertSteps s{p.floats(i64(n) * c.count), p.floats(n), p.ints(i64(n) * c.used), p.floats(i64(n) * c.used),
                p.floats(i64(n) * c.used * c.n_ff)};
  // The shared expert reads the same normed input, so it comes before x changes; its output waits in `y`.
  if (e.shared_down) s.shared_h = p.floats(i64(n) * c.n_ff_shared);
  if (!p.experts_up(in, e, s)) {
    p.multiply(in, {{&e.router, s.logits, c.count}, {&e.shared_router, s.shared_logit, 1}});
    p.route(s.logits, s.ids, s.weights);
    p.moe_glu(in, e.gate, e.up, s.ids, s.h);
    if (e.shared_down) p.glu(in, e.shared_gate, e.shared_up, kernel::Glu::silu, s.shared_h);
  }
  if (p.experts_down(e, s, x)) return;
  if (e.shared_down) {
    s.y = p.floats(i64(n) * d);
    Input mid = p.input(s.shared_h, c.n_ff_shared, n, nullptr, {&e.shared_down});
    p.multiply(mid, {{&e.shared_down, s.y, d}});
    if (p.experts_down(e, s, x)) return;
  }
  Input mid = p.input(s.h, c.n_ff, n * c.used, nullptr, {&e.down});
  p.moe_down(mid, e.down, s.ids, s.weights, x);
  if (s.y) p.add_gated(x, s.y, s.shared_logit, d);
}

bool Pass::experts_up(Input& in, const Experts& e, const ExpertSteps& s) {
  const kernel::JoinedExperts* joined = kernel::joined_experts(*ctx_.device);
  if (measure_ || tapped() || !joined) return false;
  kernel::ExpertsUp a;
  auto input = [&](const Linear& w) { return w ? kernel::ExpertsUp::Input{&w.w_, &in.find(w)} : kernel::ExpertsUp::Input{}; };
  a.router = input(e.router), a.shared_router = input(e.shared_router);
  a.gate = input(e.gate), a.up = &e.up.w_;
  a.shared_gate = input(e.shared_gate), a.shared_up = &e.shared_up.w_;
  if (a.gate.a != &in.find(e.up) || (e.shared_up && a.shared_gate.a != &in.find(e.shared_up))) return false;
  a.k = config_.experts.used, a.scale = config_.experts.scale;
  a.logits = s.logits, a.shared_logit = s.shared_logit, a.ids = s.ids, a.weights = s.weights, a.h = s.h, a.shared_h = s.shared_h;
  joined->up(ctx_, a);
  return true;
}

bool Pass::experts_down(const Experts& e, const ExpertSteps& s, f32* x) {
  const kernel::JoinedExperts* joined = kernel::joined_experts(*ctx_.device);
  if (measure_ || tapped() || !joined || e.down.rotation_) return false;
  kernel::ExpertsDown a;
  a.down = &e.down.w_, a.h = s.h, a.ids = s.ids, a.weights = s.weights, a.x = x;
  if (e.shared_down && !s.y) {
    if (e.shared_down.rotation_) return false;
    a.shared = &e.shared_down.w_, a.shared_h = s.shared_h;
  }
  a.y = s.y, a.gate = e.shared_down ? s.shared_logit : nullptr;
  a.k = config_.experts.used, a.cols = batch.cols;
  return joined->down(ctx_, a);
}

}  // namespace fewbit::model
