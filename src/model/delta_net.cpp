#include "model/blocks.h"

namespace fewbit::model {

using kernel::GroupUse;

namespace {

// Legacy qwen3next: one matrix, per K head [q | k | v of its V heads | z of its V heads].  Rows of it in flat order (models.md 10).
struct LegacyRows {
  std::vector<i64> qkv, z;
  explicit LegacyRows(const DeltaConfig& d) {
    i64 dim = d.dim, rep = d.v_heads / d.k_heads, group = (2 + 2 * rep) * dim;
    auto add = [&](std::vector<i64>& to, i64 g, i64 from, i64 n) {
      for (i64 i = 0; i < n; i++) to.push_back(g * group + from + i);
    };
    for (i64 g = 0; g < d.k_heads; g++) add(qkv, g, 0, dim);
    for (i64 g = 0; g < d.k_heads; g++) add(qkv, g, dim, dim);
    for (i64 g = 0; g < d.k_heads; g++) add(qkv, g, 2 * dim, rep * dim);
    for (i64 g = 0; g < d.k_heads; g++) add(z, g, (2 + rep) * dim, rep * dim);
  }
};

// ssm_ba: per K head, the betas of its V heads, then their alphas.
std::vector<i64> interleaved_rows(const DeltaConfig& d, i64 second) {
  std::vector<i64> rows;
  i64 rep = d.v_heads / d.k_heads;
  for (i64 g = 0; g < d.k_heads; g++)
    for (i64 r = 0; r < rep; r++) rows.push_back(g * 2 * rep + second * rep + r);
  return rows;
}

}  // namespace

DeltaNet read_delta_net(Builder& b, int layer, VHeads order) {
  const Config& c = b.config();
  const DeltaConfig& d = c.delta;
  i64 n = c.n_embd, channels = d.channels(), inner = d.inner(), v = d.v_heads;
  auto name = [&](const char* s) { return block_name(layer, s); };
  const bool tiled = order == VHeads::tiled;
  DeltaNet x;
  x.layer = layer;
  x.order = order;
  x.norm = b.floats(name("attn_norm.weight"), {n});
  std::string legacy = name("ssm_in.weight"), pair = name("ssm_ba.weight");
  std::vector<Builder::Want> wants;
  if (!tiled && b.has(legacy)) {
    LegacyRows rows(d);
    wants.push_back({&x.qkv, legacy, n, channels, 1, false, std::move(rows.qkv), channels + inner});
    wants.push_back({&x.z, legacy, n, inner, 1, false, std::move(rows.z), channels + inner});
  } else {
    wants.push_back({&x.qkv, name("attn_qkv.weight"), n, channels});
    wants.push_back({&x.z, name("attn_gate.weight"), n, inner});
  }
  if (!tiled) {
    wants.push_back({&x.beta, pair, n, v, 1, false, interleaved_rows(d, 0), 2 * v});
    wants.push_back({&x.alpha, pair, n, v, 1, false, interleaved_rows(d, 1), 2 * v});
  } else {
    wants.push_back({&x.beta, name("ssm_beta.weight"), n, v});
    wants.push_back({&x.alpha, name("ssm_alpha.weight"), n, v});
  }
  b.place(GroupUse::same_input, std::move(wants));
  x.conv = b.floats(name("ssm_conv1d.weight"), {d.conv, channels});
  x.dt = b.floats(name("ssm_dt.bias"), {v});
  x.a = b.floats(name("ssm_a"), {v});
  x.head_norm = b.floats(name("ssm_norm.weight"), {d.dim});
  b.place({&x.output, name("ssm_out.weight"), inner, n});
  return x;
}

void delta_net(Pass& p, const DeltaNet& d, f32* x) {
  Pass::Scope scope(p);
  const DeltaConfig& c = p.config().delta;
  int n = p.cols(), width = p.config().n_embd, inner = c.inner();
  i64 channels = c.channels(), heads = c.v_heads;
  f32* qkv = p.floats(n * channels);
  f32* z = p.floats(i64(n) * inner);
  f32* beta = p.floats(n * heads);
  f32* alpha = p.floats(n * heads);
  f32* out = p.floats(i64(n) * inner);
  {
    Pass::Scope inner_scope(p);
    Input h = p.input(x, width, n, d.norm, {&d.qkv, &d.z, &d.beta, &d.alpha});
    p.multiply(h, {{&d.qkv, qkv, channels}, {&d.z, z, inner}, {&d.beta, beta, heads}, {&d.alpha, alpha, heads}});
  }
  kernel::DeltaNetArgs args;
  args.qkv = qkv;
  args.z = z;
  args.alpha = alpha;
  args.beta = beta;
  args.ldqkv = channels;
  args.ldz = inner;
  args.ldab = heads;
  args.tiled = d.order == VHeads::tiled;
  args.conv_w = d.conv;
  args.dt = d.dt;
  args.a = d.a;
  args.norm = d.head_norm;
  args.out = out;
  p.delta_net(d.layer, args);
  Input o = p.input(out, inner, n, nullptr, {&d.output});
  p.multiply(o, {{&d.output, x, width, true}});
}

Mixer read_mixer(Builder& b, int layer, VHeads order) {
  Mixer m;
  m.recurrent = b.config().layers[size_t(layer)].recurrent;
  if (m.recurrent) {
    m.delta = read_delta_net(b, layer, order);
  } else {
    m.attention = read_attention(b, layer, {.head_norms = true, .gated = true});
  }
  return m;
}

void mix(Pass& p, const Mixer& m, f32* x) {
  if (m.recurrent) {
    delta_net(p, m.delta, x);
  } else {
    attend(p, m.attention, x);
  }
}

}  // namespace fewbit::model
