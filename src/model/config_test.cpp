#include <gtest/gtest.h>

#include <functional>

#include "model/config.h"
#include "model/hadamard.h"
#include "model/toy_model.h"

namespace fewbit::model {

using gguf::Value;

static Result<Config> read(const Toy& t) {
  std::vector<u8> bytes = t.bytes();
  FEWBIT_TRY(auto file, gguf::File::parse(bytes, "toy"));
  return Config::read(file);
}

TEST(Config, EveryArchitectureReads) {
  for (const char* a : toy_architectures) {
    auto c = read(toy_model(a));
    ASSERT_TRUE(c.ok()) << a << ": " << c.error().what;
    EXPECT_EQ(c->n_layers, 4);
    EXPECT_EQ(c->head_dim, 32);
    EXPECT_EQ(c->rope.neox, std::string(a) != "llama");
    EXPECT_EQ(c->layers[2].recurrent, c->arch->delta) << a;
    EXPECT_FALSE(c->layers[3].recurrent);
  }
}

TEST(Config, DefaultsOfAbsentKeys) {
  Toy t = toy_model("llama");
  for (const char* k : {"attention.head_count_kv", "attention.key_length", "attention.value_length", "rope.freq_base", "vocab_size"})
    t.erase(std::string("llama.") + k);
  t.set("llama.attention.head_count", Value::of(u32(2)));
  auto c = read(t);
  ASSERT_TRUE(c.ok()) << c.error().what;
  EXPECT_EQ(c->layers[0].n_kv_heads, 2);
  EXPECT_EQ(c->head_dim, 32);
  EXPECT_EQ(c->rope.n_rot, 32);
  EXPECT_EQ(c->rope.base, 10000);
  EXPECT_EQ(c->n_vocab, 96);
  EXPECT_FLOAT_EQ(c->attention_scale, 1 / std::sqrt(32.0f));
}

TEST(Config, RecurrentLayersAsFlagsAndAsNumbers) {
  for (bool flags : {true, false}) {
    Toy t = toy_model("qwen35");
    t.set("qwen35.attention.recurrent_layers", flags ? Value::of_i32s({0, 1, 1, 0}) : Value::of_i32s({2, 1}));
    auto c = read(t);
    ASSERT_TRUE(c.ok()) << c.error().what;
    for (int i = 0; i < 4; i++) EXPECT_EQ(c->layers[size_t(i)].recurrent, i == 1 || i == 2);
  }
}

TEST(Config, MtpBlocksAreNotLayers) {
  Toy t = toy_model("qwen35");
  t.set("qwen35.block_count", Value::of(u32(5)));
  t.set("qwen35.nextn_predict_layers", Value::of(u32(1)));
  auto c = read(t);
  ASSERT_TRUE(c.ok()) << c.error().what;
  EXPECT_EQ(c->n_layers, 4);
}

TEST(Config, ActivationOfBitnet) {
  EXPECT_EQ(read(toy_model("bitnet"))->activation, kernel::Glu::silu);
  EXPECT_EQ(read(toy_model("bitnet-b1.58"))->activation, kernel::Glu::relu2);
  EXPECT_EQ(read(toy_model("bitnet-25"))->activation, kernel::Glu::relu2);
  for (const char* s : {"relu2", "relu_sqr", "relu^2", "squared_relu"}) {
    Toy t = toy_model("bitnet");
    t.set("bitnet.hidden_activation", Value::of(std::string(s)));
    EXPECT_EQ(read(t)->activation, kernel::Glu::relu2) << s;
  }
}

struct Refusal {
  const char* arch;
  std::function<void(Toy&)> change;
  const char* says;
};

TEST(Config, RefusesInOneLine) {
  auto put = [](const char* key, Value v) { return [=](Toy& t) { t.set(key, v); }; };
  auto no = [](const char* key) { return [=](Toy& t) { t.erase(key); }; };
  auto n = [](i64 v) { return v < 0 ? Value::of(i32(v)) : Value::of(u32(v)); };
  auto f = [](f32 v) { return Value::of(v); };
  auto s = [](const char* v) { return Value::of(std::string(v)); };
  const Refusal list[] = {
      {"llama", no("general.architecture"), "general.architecture"},
      {"llama", put("general.architecture", s("gpt2")), "'gpt2' is not supported"},
      {"llama", no("llama.block_count"), "llama.block_count"},
      {"llama", put("llama.block_count", n(0)), "llama.block_count"},
      {"llama", put("llama.block_count", n(4000000000)), "llama.block_count"},
      {"llama", put("llama.block_count", n(-1)), "llama.block_count"},
      {"llama", put("llama.block_count", s("four")), "llama.block_count"},
      {"llama", no("llama.context_length"), "llama.context_length"},
      {"llama", put("llama.context_length", n(0)), "llama.context_length"},
      {"llama", no("llama.embedding_length"), "llama.embedding_length"},
      {"llama", put("llama.embedding_length", n(4000000000)), "llama.embedding_length"},
      {"llama", no("llama.attention.head_count"), "llama.attention.head_count"},
      {"llama", put("llama.attention.head_count", n(0)), "llama.attention.head_count"},
      {"llama", put("llama.attention.head_count", Value::of_i32s({4, 4})), "llama.attention.head_count"},
      {"llama", put("llama.attention.head_count", Value::of_i32s({4, 4, 0, 4})), "layer 2"},
      {"llama", put("llama.attention.head_count_kv", n(3)), "llama.attention.head_count_kv"},
      {"llama", put("llama.attention.head_count_kv", n(0)), "llama.attention.head_count_kv"},
      {"llama", put("llama.attention.key_length", n(0)), "key_length"},
      {"llama", put("llama.attention.key_length", n(100000)), "key_length"},
      {"llama", put("llama.attention.value_length", n(64)), "heads of two widths"},
      {"llama", no("llama.attention.layer_norm_rms_epsilon"), "layer_norm_rms_epsilon"},
      {"llama", put("llama.attention.layer_norm_rms_epsilon", f(NAN)), "layer_norm_rms_epsilon"},
      {"llama", put("llama.attention.layer_norm_rms_epsilon", f(-1)), "layer_norm_rms_epsilon"},
      {"llama", no("llama.feed_forward_length"), "feed_forward_length"},
      {"llama", put("llama.feed_forward_length", n(0)), "feed_forward_length"},
      {"llama", put("llama.rope.dimension_count", n(16)), "rotates whole heads"},
      {"llama", put("llama.rope.dimension_count", n(0)), "rope.dimension_count"},
      {"qwen3", put("qwen3.rope.dimension_count", n(34)), "rope.dimension_count"},
      {"qwen3", put("qwen3.rope.dimension_count", n(15)), "must be even"},
      {"qwen3", put("qwen3.rope.freq_base", f(0)), "rope.freq_base"},
      {"qwen3", put("qwen3.rope.freq_base", f(INFINITY)), "rope.freq_base"},
      {"qwen3", put("qwen3.rope.scaling.type", s("longrope")), "longrope"},
      {"qwen3", put("qwen3.rope.scaling.factor", f(-2)), "rope.scaling.factor"},
      {"qwen3", put("qwen3.rope.scaling.yarn_beta_fast", f(0)), "yarn_beta_fast"},
      {"qwen3", put("qwen3.attention.causal", Value::of(false)), "causal"},
      {"qwen3", put("qwen3.nextn_predict_layers", n(4)), "nextn_predict_layers"},
      {"qwen3", put("qwen3.vocab_size", n(1 << 30)), "vocab"},
      {"llama", put("llama.expert_count", n(8)), "expert_used_count"},
      {"qwen3moe", no("qwen3moe.expert_count"), "qwen3moe.expert_"},
      {"qwen3moe", put("qwen3moe.expert_count", n(0)), "qwen3moe.expert_"},
      {"qwen3moe", put("qwen3moe.expert_used_count", n(5)), "expert_used_count"},
      {"qwen3moe", put("qwen3moe.expert_used_count", n(0)), "expert_used_count"},
      {"qwen3moe", no("qwen3moe.expert_feed_forward_length"), "expert_feed_forward_length"},
      {"qwen35", no("qwen35.rope.dimension_sections"), "dimension_sections"},
      {"qwen35", put("qwen35.rope.dimension_sections", Value::of_i32s({1, 2})), "dimension_sections"},
      {"qwen35", put("qwen35.rope.dimension_sections", Value::of_i32s({1, -2, 1, 0})), "dimension_sections"},
      {"qwen35", no("qwen35.ssm.conv_kernel"), "ssm.conv_kernel"},
      {"qwen35", put("qwen35.ssm.conv_kernel", n(0)), "ssm.conv_kernel"},
      {"qwen35", put("qwen35.ssm.conv_kernel", n(1000)), "ssm.conv_kernel"},
      {"qwen35", put("qwen35.ssm.group_count", n(0)), "ssm.group_count"},
      {"qwen35", put("qwen35.ssm.group_count", n(4)), "cannot share 4 K heads"},
      {"qwen35", put("qwen35.ssm.inner_size", n(100)), "ssm.inner_size"},
      {"qwen35", put("qwen35.full_attention_interval", n(0)), "full_attention_interval"},
      {"qwen35", put("qwen35.attention.recurrent_layers", Value::of_i32s({7})), "recurrent_layers"},
      {"bitnet", put("bitnet.hidden_activation", s("gelu")), "hidden_activation"},
  };
  for (const Refusal& r : list) {
    Toy t = toy_model(r.arch);
    r.change(t);
    auto c = read(t);
    ASSERT_FALSE(c.ok()) << r.arch << ": should say " << r.says;
    EXPECT_NE(c.error().what.find(r.says), std::string::npos) << c.error().what;
    EXPECT_EQ(c.error().what.find('\n'), std::string::npos);
  }
}

// ---- prism.hadamard.* ----

static Toy rotated() {
  Toy t = toy_model("qwen35");
  t.set("prism.hadamard.version", Value::of(u32(1)));
  t.set("prism.hadamard.block_size", Value::of(u32(16)));
  t.set("prism.hadamard.transform", Value::of(std::string("normalized-sylvester-walsh-hadamard")));
  t.set("prism.hadamard.axis", Value::of(std::string("input-last-dimension")));
  t.set("prism.hadamard.sign_mode", Value::of(std::string("explicit")));
  t.set("prism.hadamard.weight_names",
        Value::of(std::vector<std::string>{"output.weight", "blk.0.attn_qkv.weight", "blk.0.ssm_out.weight", "blk.3.ffn_down.weight"}));
  t.set("prism.hadamard.sign_widths", Value::of_i32s({64, 96, 160}));
  std::vector<i64> signs(64 + 96 + 160, 1);
  signs[3] = signs[64 + 95] = -1;
  t.set("prism.hadamard.sign_values", Value::of_i32s(signs));
  t.set("prism.hadamard.inverse_weight_names", Value::of(std::vector<std::string>{"token_embd.weight"}));
  t.set("prism.hadamard.gdn_v_grouped", Value::of(true));
  return t;
}

static Result<std::optional<Hadamard>> read_hadamard(const Toy& t) {
  std::vector<u8> bytes = t.bytes();
  FEWBIT_TRY(auto file, gguf::File::parse(bytes, "toy"));
  FEWBIT_TRY(Config config, Config::read(file));
  return Hadamard::read(file, config);
}

TEST(Hadamard, ReadsTheContract) {
  auto none = read_hadamard(toy_model("qwen35"));
  ASSERT_TRUE(none.ok());
  EXPECT_FALSE(none->has_value());
  auto h = read_hadamard(rotated());
  ASSERT_TRUE(h.ok()) << h.error().what;
  ASSERT_TRUE(h->has_value());
  EXPECT_EQ((*h)->block, 16);
  EXPECT_TRUE((*h)->embedding && (*h)->v_grouped);
  EXPECT_FALSE((*h)->tied);
  EXPECT_EQ((*h)->signs.at(64)[3], -1);
  EXPECT_EQ((*h)->signs.at(96)[95], -1);
  EXPECT_EQ((*h)->signs.at(160)[0], 1);
}

TEST(Hadamard, RefusesInOneLine) {
  using Names = std::vector<std::string>;
  auto put = [](const char* key, Value v) { return [=](Toy& t) { t.set(std::string("prism.hadamard.") + key, v); }; };
  auto no = [](const char* key) { return [=](Toy& t) { t.erase(std::string("prism.hadamard.") + key); }; };
  auto text = [](const char* v) { return Value::of(std::string(v)); };
  const Refusal list[] = {
      {"", no("version"), "version is missing"},
      {"", put("version", Value::of(u32(3))), "version is 3"},
      {"", put("version", Value::of(u32(2))), "tied_output is false in version 2"},
      {"", put("tied_output", Value::of(true)), "tied_output is true in version 1"},
      {"", no("block_size"), "block_size"},
      {"", put("block_size", Value::of(u32(0))), "block_size is 0"},
      {"", put("block_size", Value::of(u32(24))), "block_size is 24"},
      {"", put("block_size", Value::of(u32(128))), "sign_widths: 64 is not"},
      {"", put("transform", text("walsh")), "transform is 'walsh'"},
      {"", no("transform"), "transform"},
      {"", put("axis", text("output")), "axis is 'output'"},
      {"", no("axis"), "axis"},
      {"", put("sign_mode", text("random")), "sign_mode is 'random'"},
      {"", no("sign_mode"), "sign_mode"},
      {"", put("sign_mode", text("identity")), "identity"},
      {"", no("sign_widths"), "sign_widths is missing"},
      {"", put("sign_widths", Value::of_i32s({64, 96, 160, 64})), "occurs twice"},
      {"", put("sign_widths", Value::of_i32s({64, 96, 176})), "too few"},
      {"", put("sign_widths", Value::of_i32s({64, 96, -160})), "-160"},
      {"", put("sign_widths", Value::of_i32s({64, 96})), "add up to 160"},
      {"", [](Toy& t) {
         t.set("prism.hadamard.sign_widths", Value::of_i32s({64, 96}));
         t.set("prism.hadamard.sign_values", Value::of_i32s(std::vector<i64>(160, 1)));
       }, "no signs for the width 160 of 'blk.3.ffn_down.weight'"},
      {"", put("sign_values", Value::of_i32s(std::vector<i64>(320, 0))), "sign_values[0] is 0"},
      {"", put("sign_values", text("x")), "sign_values"},
      {"", no("weight_names"), "weight_names is missing"},
      {"", put("weight_names", Value::of(Names{})), "weight_names is missing or empty"},
      {"", put("weight_names", Value::of(Names{"output.weight", "output.weight"})), "occurs twice"},
      {"", put("weight_names", Value::of(Names{"blk.9.attn_q.weight"})), "no tensor 'blk.9.attn_q.weight'"},
      {"", put("weight_names", Value::of(Names{"blk.0.ssm_alpha.weight"})), "not a kind of weight"},
      {"", put("weight_names", Value::of(Names{"blk.x.attn_q.weight"})), "not a kind of weight"},
      {"", put("weight_names", Value::of(Names{"output_norm.weight"})), "not a kind of weight"},
      {"", put("inverse_weight_names", Value::of(Names{"output.weight"})), "is in weight_names too"},
      {"", put("inverse_weight_names", Value::of(Names{"output_norm.weight"})), "only 'token_embd.weight'"},
      {"", put("gdn_v_grouped", text("yes")), "gdn_v_grouped"},
      {"", put("sequency", Value::of(true)), "unknown key"},
      {"", [](Toy& t) {
         t.drop("output.weight");
         t.set("prism.hadamard.weight_names", Value::of(Names{"blk.0.attn_qkv.weight"}));
       }, "needs version 2"},
  };
  for (const Refusal& r : list) {
    Toy t = rotated();
    r.change(t);
    auto h = read_hadamard(t);
    ASSERT_FALSE(h.ok()) << "should say " << r.says;
    EXPECT_NE(h.error().what.find(r.says), std::string::npos) << h.error().what;
  }
}

TEST(Hadamard, OnlyForVerifiedArchitectures) {
  Toy t = toy_model("qwen2");
  for (const auto& kv : rotated().metadata)
    if (kv.key.starts_with("prism.")) t.set(kv.key, kv.value);
  t.set("prism.hadamard.weight_names", Value::of(std::vector<std::string>{"output.weight"}));
  t.erase("prism.hadamard.gdn_v_grouped");
  auto h = read_hadamard(t);
  ASSERT_FALSE(h.ok());
  EXPECT_NE(h.error().what.find("not verified for architecture 'qwen2'"), std::string::npos) << h.error().what;
}

TEST(Hadamard, GroupedNeedsDeltaNet) {
  Toy t = toy_model("qwen3moe");
  for (const auto& kv : rotated().metadata)
    if (kv.key.starts_with("prism.")) t.set(kv.key, kv.value);
  t.set("prism.hadamard.weight_names", Value::of(std::vector<std::string>{"output.weight"}));
  auto h = read_hadamard(t);
  ASSERT_FALSE(h.ok());
  EXPECT_NE(h.error().what.find("gdn_v_grouped"), std::string::npos) << h.error().what;
}

}  // namespace fewbit::model
