// qwen35moe: models.md section 9.  qwen35's mixers; routed experts and a gated shared one in every block.
#include "model/model.h"

namespace fewbit::model {
namespace {

struct Qwen35Moe final : Model {
  struct Layer {
    DeltaNet delta;  // one of the two
    Attention attention;
    Experts ffn;
  };
  std::vector<Layer> layers_;

  void read(Builder& b) override {
    for (int i = 0; i < b.config().n_layers && b.ok(); i++) {
      Layer& l = layers_.emplace_back();
      if (b.config().layers[size_t(i)].recurrent) {
        l.delta = read_delta_net(b, i, /*tiled=*/true);
      } else {
        l.attention = read_attention(b, i, {.head_norms = true, .gated = true});
      }
      l.ffn = read_experts(b, i, "post_attention_norm.weight", true);
    }
  }

  void layers(Pass& p, f32* x) const override {
    for (int i = 0; i < p.config().n_layers; i++) {
      const Layer& l = layers_[size_t(i)];
      if (p.config().layers[size_t(i)].recurrent) {
        delta_net(p, l.delta, x);
      } else {
        attend(p, l.attention, x);
      }
      experts(p, l.ffn, x);
      p.layer_done(i, x);
    }
  }
};

}  // namespace

std::unique_ptr<Model> make_qwen35moe() { return std::make_unique<Qwen35Moe>(); }

}  // namespace fewbit::model
