// qwen3moe: models.md section 7.  qwen3's attention, routed experts in every block, none shared.
#include "model/model.h"

namespace fewbit::model {
namespace {

struct Qwen3Moe final : Model {
  struct Layer {
    Attention attention;
    Experts ffn;
  };
  std::vector<Layer> layers_;

  void read(Builder& b) override {
    for (int i = 0; i < b.config().n_layers && b.ok(); i++) {
      Layer& l = layers_.emplace_back();
      l.attention = read_attention(b, i, {.head_norms = true});
      l.ffn = read_experts(b, i, "ffn_norm.weight", false);
    }
  }

  void layers(Pass& p, f32* x) const override {
    for (const Layer& l : layers_) {
      attend(p, l.attention, x);
      experts(p, l.ffn, x);
      p.layer_done(l.attention.layer, x);
    }
  }
};

}  // namespace

std::unique_ptr<Model> make_qwen3moe() { return std::make_unique<Qwen3Moe>(); }

}  // namespace fewbit::model
