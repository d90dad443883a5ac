#include "model/blocks.h"

namespace fewbit::model {

using kernel::GroupUse;

Attention read_attention(Builder& b, int layer, AttentionTraits traits) {
  const Config& c = b.config();
  const LayerConfig& l = c.layers[size_t(layer)];
  auto name = [&](const char* s) { return block_name(layer, s); };
  Attention a;
  a.layer = layer;
  a.n_heads = l.n_heads;
  a.n_kv_heads = l.n_kv_heads;
  a.gated = traits.gated;
  i64 d = c.n_embd, hd = c.head_dim, q = hd * l.n_heads, kv = hd * l.n_kv_heads;
  a.norm = b.floats(name("attn_norm.weight"), {d});
  if (!traits.gated && b.has(name("attn_qkv.weight"))) {
    b.place({&a.qkv, name("attn_qkv.weight"), d, q + 2 * kv});
  } else {
    b.place(GroupUse::same_input, {{&a.q, name("attn_q.weight"), d, traits.gated ? 2 * q : q},
                                   {&a.k, name("attn_k.weight"), d, kv},
                                   {&a.v, name("attn_v.weight"), d, kv}});
  }
  if (traits.head_norms) {
    a.q_norm = b.floats(name("attn_q_norm.weight"), {hd});
    a.k_norm = b.floats(name("attn_k_norm.weight"), {hd});
  }
  if (traits.sub_norm) a.sub_norm = b.floats(name("attn_sub_norm.weight"), {q});
  b.place({&a.output, name("attn_output.weight"), q, d});
  return a;
}

void attend(Pass& p, const Attention& a, f32* x) {
  Pass::Scope scope(p);
  i64 n = p.cols(), hd = p.config().head_dim;
  i64 q = hd * a.n_heads * (a.gated ? 2 : 1), kv = hd * a.n_kv_heads, all = q + 2 * kv;
  int d = p.config().n_embd, out_width = int(hd * a.n_heads);
  f32* qkv = p.floats(n * all);
  f32* out = p.floats(n * out_width);
  {
    Pass::Scope inner(p);
    Input h = p.input(x, d, p.cols(), a.norm, {&a.q, &a.k, &a.v, &a.qkv});
    p.multiply(h, {{&a.qkv, qkv, all}, {&a.q, qkv, all}, {&a.k, qkv + q, all}, {&a.v, qkv + q + kv, all}});
  }
  kernel::AttentionArgs args;
  args.q = qkv;
  args.k = qkv + q;
  args.v = qkv + q + kv;
  args.ldq = args.ldk = args.ldv = all;
  args.n_q = a.n_heads;
  args.n_kv = a.n_kv_heads;
  args.q_stride = int(hd) * (a.gated ? 2 : 1);
  args.gated = a.gated;
  args.q_norm = a.q_norm;
  args.k_norm = a.k_norm;
  args.out = out;
  p.attention(a.layer, args);
  Input o = p.input(out, out_width, p.cols(), a.sub_norm, {&a.output});
  p.multiply(o, {{&a.output, x, d, true}});
}

}  // namespace fewbit::model
