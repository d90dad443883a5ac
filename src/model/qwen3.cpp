// qwen3: models.md section 6.  llama with a norm on every query and key head before the rotation.
#include "model/model.h"

namespace fewbit::model {
namespace {

struct Qwen3 final : Model {
  struct Layer {
    Attention attention;
    FeedForward ffn;
  };
  std::vector<Layer> layers_;

  void read(Builder& b) override {
    for (int i = 0; i < b.config().n_layers && b.ok(); i++) {
      Layer& l = layers_.emplace_back();
      l.attention = read_attention(b, i, {.head_norms = true});
      l.ffn = read_feed_forward(b, i, "ffn_norm.weight");
    }
  }

  void layers(Pass& p, f32* x) const override {
    for (const Layer& l : layers_) {
      attend(p, l.attention, x);
      feed_forward(p, l.ffn, x);
      p.layer_done(l.attention.layer, x);
    }
  }
};

}  // namespace

std::unique_ptr<Model> make_qwen3() { return std::make_unique<Qwen3>(); }

}  // namespace fewbit::model
