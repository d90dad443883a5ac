// qwen35: models.md section 8.  Three Gated DeltaNet layers to one of gated attention, dense feed-forward.  V heads are tiled.
#include "model/model.h"

namespace fewbit::model {
namespace {

struct Qwen35 final : Model {
  struct Layer {
    DeltaNet delta;  // one of the two
    Attention attention;
    FeedForward ffn;
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
      l.ffn = read_feed_forward(b, i, "post_attention_norm.weight");
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
      feed_forward(p, l.ffn, x);
      p.layer_done(i, x);
    }
  }
};

}  // namespace

std::unique_ptr<Model> make_qwen35() { return std::make_unique<Qwen35>(); }

}  // namespace fewbit::model
