// llama and qwen2: models.md sections 4 and 5.  They differ in the pairing of the rotation, which Config knows, and in the biases of
// q, k and v, which come with their weights.  With expert_count > 0 (Mixtral) experts take the feed-forward's place.
#include "model/model.h"

namespace fewbit::model {
namespace {

struct Llama final : Model {
  struct Layer {
    Attention attention;
    FeedForward dense;
    Experts routed;
  };
  std::vector<Layer> layers_;
  bool moe_ = false;

  void read(Builder& b) override {
    moe_ = b.config().experts.count > 0;
    for (int i = 0; i < b.config().n_layers && b.ok(); i++) {
      Layer& l = layers_.emplace_back();
      l.attention = read_attention(b, i);
      if (moe_) {
        l.routed = read_experts(b, i, "ffn_norm.weight", false);
      } else {
        l.dense = read_feed_forward(b, i, "ffn_norm.weight");
      }
    }
  }

  void layers(Pass& p, f32* x) const override {
    for (const Layer& l : layers_) {
      attend(p, l.attention, x);
      if (moe_) {
        experts(p, l.routed, x);
      } else {
        feed_forward(p, l.dense, x);
      }
      p.layer_done(l.attention.layer, x);
    }
  }
};

}  // namespace

std::unique_ptr<Model> make_llama() { return std::make_unique<Llama>(); }

}  // namespace fewbit::model
