// qwen35moe: models.md section 9.  qwen35's mixers; routed experts and a gated shared one in every block.
#include "model/model.h"

namespace fewbit::model {
namespace {

struct Qwen35Moe final : Model {
  struct Layer {
    Mixer mixer;
    Experts ffn;
  };
  std::vector<Layer> layers_;

  void read_layer(Builder& b, int i) override {
    layers_.push_back({read_mixer(b, i, VHeads::tiled), read_experts(b, i, "post_attention_norm.weight", true)});
  }

  void run_layer(Pass& p, int i, f32* x) const override {
    const Layer& l = layers_[size_t(i)];
    mix(p, l.mixer, x);
    experts(p, l.ffn, x);
  }
};

}  // namespace

std::unique_ptr<Model> make_qwen35moe() { return std::make_unique<Qwen35Moe>(); }

}  // namespace fewbit::model
