// llama and qwen2: models.md sections 4 and 5.  They differ in the pairing of the rotation, which Config knows, and in the biases of
// q, k and v, which come with their weights.  With expert_count > 0 (Mixtral) experts take the feed-forward's place.
#include "model/model.h"

namespace fewbit::model {
namespace {

struct Llama final : Model {
  struct Layer {
    Attention attention;
    FeedForward dense;
    Experts routed;  // one of the two
  };
  std::vector<Layer> layers_;

  void read_layer(Builder& b, int i) override {
    Layer& l = layers_.emplace_back();
    l.attention = read_attention(b, i);
    if (b.config().experts.count > 0) {
      l.routed = read_experts(b, i, "ffn_norm.weight", false);
    } else {
      l.dense = read_feed_forward(b, i, "ffn_norm.weight");
    }
  }

  void run_layer(Pass& p, int i, f32* x) const override {
    const Layer& l = layers_[size_t(i)];
    attend(p, l.attention, x);
    if (p.config().experts.count > 0) {
      experts(p, l.routed, x);
    } else {
      feed_forward(p, l.dense, x);
    }
  }
};

}  // namespace

std::unique_ptr<Model> make_llama() { return std::make_unique<Llama>(); }

}  // namespace fewbit::model
