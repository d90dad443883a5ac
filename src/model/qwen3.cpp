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

  void read_layer(Builder& b, int i) override {
    layers_.push_back({read_attention(b, i, {.head_norms = true}), read_feed_forward(b, i, "ffn_norm.weight")});
  }

  void run_layer(Pass& p, int i, f32* x) const override {
    const Layer& l = layers_[size_t(i)];
    attend(p, l.attention, x);
    feed_forward(p, l.ffn, x);
  }
};

}  // namespace

std::unique_ptr<Model> make_qwen3() { return std::make_unique<Qwen3>(); }

}  // namespace fewbit::model
