// bitnet, bitnet-b1.58, bitnet-25: models.md section 11.  llama with a norm in front of each output projection, whole heads rotated in
// halves, and relu(gate)^2 in the newer ones.
#include "model/model.h"

namespace fewbit::model {
namespace {

struct Bitnet final : Model {
  struct Layer {
    Attention attention;
    FeedForward ffn;
  };
  std::vector<Layer> layers_;

  void read(Builder& b) override {
    for (int i = 0; i < b.config().n_layers && b.ok(); i++) {
      Layer& l = layers_.emplace_back();
      l.attention = read_attention(b, i, {.sub_norm = true});
      l.ffn = read_feed_forward(b, i, "ffn_norm.weight", true);
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

std::unique_ptr<Model> make_bitnet() { return std::make_unique<Bitnet>(); }

}  // namespace fewbit::model
