// qwen3next: models.md section 10.  As qwen35moe, but V heads stay grouped, alpha and beta lie in one tensor, and the rotation has one
// axis.
#include "model/model.h"

namespace fewbit::model {
namespace {

struct Qwen3Next final : Model {
  struct Layer {
    Mixer mixer;
    Experts ffn;
  };
  std::vector<Layer> layers_;

  void read_layer(Builder& b, int i) override {
    layers_.push_back({read_mixer(b, i, VHeads::grouped), read_experts(b, i, "post_attention_norm.weight", true)});
  }

  void run_layer(Pass& p, int i, f32* x) const override {
    const Layer& l = layers_[size_t(i)];
    mix(p, l.mixer, x);
    experts(p, l.ffn, x);
  }
};

}  // namespace

std::unique_ptr<Model> make_qwen3next() { return std::make_unique<Qwen3Next>(); }

}  // namespace fewbit::model
