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

  void read_layer(Builder& b, int i) override {
    layers_.push_back({read_attention(b, i, {.sub_norm = true}), read_feed_forward(b, i, "ffn_norm.weight", true)});
  }

  void run_layer(Pass& p, int i, f32* x) const override {
    const Layer& l = layers_[size_t(i)];
    attend(p, l.attention, x);
    feed_forward(p, l.ffn, x);
  }
};

}  // namespace

std::unique_ptr<Model> make_bitnet() { return std::make_unique<Bitnet>(); }

}  // namespace fewbit::model
