// qwen35: models.md section 8.  Three Gated DeltaNet layers to one of gated attention, dense feed-forward.  V heads are tiled.
#include "model/model.h"

namespace fewbit::model {
namespace {

struct Qwen35 final : Model {
  struct Layer {
    Mixer mixer;
    FeedForward ffn;
  };
  std::vector<Layer> layers_;

  void read_layer(Builder& b, int i) override {
    layers_.push_back({read_mixer(b, i, VHeads::tiled), read_feed_forward(b, i, "post_attention_norm.weight")});
  }

  void run_layer(Pass& p, int i, f32* x) const override {
    const Layer& l = layers_[size_t(i)];
    mix(p, l.mixer, x);
    feed_forward(p, l.ffn, x);
  }
};

}  // namespace

std::unique_ptr<Model> make_qwen35() { return std::make_unique<Qwen35>(); }

}  // namespace fewbit::model
