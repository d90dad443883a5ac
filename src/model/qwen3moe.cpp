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

  void read_layer(Builder& b, int i) override {
    layers_.push_back({read_attention(b, i, {.head_norms = true}), read_experts(b, i, "ffn_norm.weight", false)});
  }

  void run_layer(Pass& p, int i, f32* x) const override {
    const Layer& l = layers_[size_t(i)];
    attend(p, l.attention, x);
    experts(p, l.ffn, x);
  }
};

}  // namespace

std::unique_ptr<Model> make_qwen3moe() { return std::make_unique<Qwen3Moe>(); }

}  // namespace fewbit::model
