// The parts that architectures share: what each is made of, how it is read, how it runs.  spec: models.md section 3.
#pragma once
#include "model/pass.h"
#include "model/weights.h"

namespace fewbit::model {

// ---- attention: projections, optional per-head norms and output gate, output projection ----

struct Attention {
  int layer = 0, n_heads = 0, n_kv_heads = 0;
  bool gated = false;
  const f32* norm = nullptr;
  const f32 *q_norm = nullptr, *k_norm = nullptr;  // (head_dim)
  const f32* sub_norm = nullptr;                   // (n_heads * head_dim), before the output projection
  Linear q, k, v, qkv, output;                     // either q, k, v or qkv
};
struct AttentionTraits {
  bool head_norms = false, gated = false, sub_norm = false;
};
Attention read_attention(Builder& b, int layer, AttentionTraits traits = {});
void attend(Pass& p, const Attention& a, f32* x);  // x (cols, n_embd) += ...

// ---- dense feed-forward ----

struct FeedForward {
  kernel::Glu activation = kernel::Glu::silu;
  const f32* norm = nullptr;
  const f32* sub_norm = nullptr;  // (n_ff), before `down`
  Linear gate, up, down;
};
FeedForward read_feed_forward(Builder& b, int layer, const char* norm, bool sub_norm = false);
void feed_forward(Pass& p, const FeedForward& f, f32* x);

// ---- routed experts, optionally a shared one ----

struct Experts {
  const f32* norm = nullptr;
  Linear router, gate, up, down;
  Linear shared_router, shared_gate, shared_up, shared_down;
};
Experts read_experts(Builder& b, int layer, const char* norm, bool shared);
void experts(Pass& p, const Experts& e, f32* x);

// ---- Gated DeltaNet ----

enum class VHeads { tiled, grouped };  // their order (models.md 8.5 and 10)

struct DeltaNet {
  int layer = 0;
  VHeads order = VHeads::tiled;
  const f32 *norm = nullptr, *conv = nullptr, *dt = nullptr, *a = nullptr, *head_norm = nullptr;
  Linear qkv, z, beta, alpha, output;
};
DeltaNet read_delta_net(Builder& b, int layer, VHeads order);
void delta_net(Pass& p, const DeltaNet& d, f32* x);

// ---- what mixes the columns of a hybrid: DeltaNet in most layers, gated attention in the others ----

struct Mixer {
  bool recurrent = false;
  DeltaNet delta;  // one of the two
  Attention attention;
};
Mixer read_mixer(Builder& b, int layer, VHeads order);
void mix(Pass& p, const Mixer& m, f32* x);

}  // namespace fewbit::model
