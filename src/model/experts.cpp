#include <numeric>

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
  f32* logits = p.floats(i64(n) * c.count);
  f32* shared_logit = p.floats(n);
  i32* ids = p.ints(i64(n) * c.used);
  f32* weights = p.floats(i64(n) * c.used);
  f32* h = p.floats(i64(n) * c.used * c.n_ff);
  p.multiply(in, {{&e.router, logits, c.count}, {&e.shared_router, shared_logit, 1}});
  p.route(logits, ids, weights);
  p.moe_glu(in, e.gate, e.up, ids, h);
  // The shared expert reads the same normed input, so it comes before x changes; its output waits in `y`.
  f32* y = nullptr;
  if (e.shared_down) {
    f32* s = p.floats(i64(n) * c.n_ff_shared);
    y = p.floats(i64(n) * d);
    p.glu(in, e.shared_gate, e.shared_up, kernel::Glu::silu, s);
    Input mid = p.input(s, c.n_ff_shared, n, nullptr, {&e.shared_down});
    p.multiply(mid, {{&e.shared_down, y, d}});
  }
  Input mid = p.input(h, c.n_ff, n * c.used, nullptr, {&e.down});
  p.moe_down(mid, e.down, ids, weights, x);
  if (y) p.add_gated(x, y, shared_logit, d);
}

}  // namespace fewbit::model
