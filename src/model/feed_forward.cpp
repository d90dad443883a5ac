#include "model/blocks.h"

namespace fewbit::model {

using kernel::GroupUse;

FeedForward read_feed_forward(Builder& b, int layer, const char* norm, bool sub_norm) {
  const Config& c = b.config();
  i64 d = c.n_embd, ff = c.layers[size_t(layer)].n_ff;
  auto name = [&](const char* s) { return block_name(layer, s); };
  FeedForward f;
  f.activation = c.activation;
  f.norm = b.floats(name(norm), {d});
  b.place(GroupUse::glu, {{&f.gate, name("ffn_gate.weight"), d, ff}, {&f.up, name("ffn_up.weight"), d, ff}});
  if (sub_norm) f.sub_norm = b.floats(name("ffn_sub_norm.weight"), {ff});
  b.place({&f.down, name("ffn_down.weight"), ff, d});
  return f;
}

void feed_forward(Pass& p, const FeedForward& f, f32* x) {
  Pass::Scope scope(p);
  int n = p.cols(), d = p.config().n_embd, ff = f.down.n_in();
  f32* h = p.floats(i64(n) * ff);
  {
    Pass::Scope inner(p);
    Input in = p.input(x, d, n, f.norm, {&f.gate, &f.up});
    p.glu(in, f.gate, f.up, f.activation, h);
  }
  Input mid = p.input(h, ff, n, f.sub_norm, {&f.down});
  p.multiply(mid, {{&f.down, x, d, true}});
}

}  // namespace fewbit::model
