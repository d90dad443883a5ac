#include "gguf/synth.h"

#include <cmath>
#include <set>

#include "base/half.h"
#include "gguf/synth_shape.h"
#include "gguf/test_files.h"

namespace fewbit::gguf {

// Every type: valid blocks, the deviation that was asked for, and bits that look random.
TEST(Synth, BlocksAreValidAndOfTheRightSize) {
  for (const FormatInfo& f : all_formats()) {
    if (!f.weights || u32(f.type) > 0xffff) continue;
    for (f64 deviation : {0.0076, 0.03, 1.0}) {
      const i64 n = 256 * 512;
      std::vector<u8> bytes(*tensor_bytes(f.type, 256, 512)), other(bytes.size());
      fill_random(f.type, bytes, deviation, 7);
      Status s = check_blocks(f.type, bytes);
      EXPECT_TRUE(s.ok()) << f.name << ": " << s.error().what;
      std::vector<f32> x(static_cast<size_t>(n));
      decode_tensor(f.type, bytes, x);
      f64 sum = 0, squares = 0;
      std::set<f32> values;
      for (f32 v : x) {
        ASSERT_TRUE(std::isfinite(v)) << f.name;
        sum += v;
        squares += f64(v) * v;
        if (values.size() < 10) values.insert(v);
      }
      const f64 got = std::sqrt(squares / f64(n));
      // Powers of two, and NVFP4's coarse smallest scales, cannot be closer than a factor.
      const f64 factor = f.type == Type::NVFP4 ? 1.7 : f.type == Type::MXFP4 || f.block == 1 ? 1.6 : 1.1;
      EXPECT_LT(got, deviation * factor) << f.name;
      EXPECT_GT(got, deviation / factor) << f.name;
      EXPECT_LT(std::abs(sum / f64(n)), 0.15 * got) << f.name;  // no mean worth speaking of
      EXPECT_GE(values.size(), f.type == Type::I2_S ? 3u : 10u) << f.name;
      fill_random(f.type, other, deviation, 7);
      EXPECT_EQ(bytes, other) << f.name;
      fill_random(f.type, other, deviation, 8);
      EXPECT_NE(bytes, other) << f.name;
    }
  }
}

TEST(Synth, TernaryCodesAreThree) {
  for (Type t : {Type::Q2_0, Type::PQ2_0, Type::TQ2_0, Type::TQ1_0, Type::PTQ1_0, Type::I2_S}) {
    std::vector<u8> bytes(*tensor_bytes(t, 256, 64));
    fill_random(t, bytes, 1, 3);
    std::vector<f32> x(256 * 64);
    decode_tensor(t, bytes, x);
    i64 zero = 0, plus = 0, minus = 0;
    const i64 block = t == Type::I2_S ? 256 * 64 : format_info(t).block;
    for (i64 b = 0; b < i64(x.size()); b += block) {
      f32 d = 0;
      for (i64 i = b; i < b + block; i++) d = std::max(d, std::abs(x[size_t(i)]));
      for (i64 i = b; i < b + block; i++) {
        const f32 v = x[size_t(i)];
        ASSERT_TRUE(v == 0 || v == d || v == -d) << type_name(t);
        (v == 0 ? zero : v > 0 ? plus : minus)++;
      }
    }
    EXPECT_GT(std::min({zero, plus, minus}), i64(x.size()) / 5) << type_name(t);
  }
}

// The tensors of the shapes against what is known of the models: their number and their parameters.
TEST(Synth, ShapesAreThoseOfTheModels) {
  struct Known {
    const char* shape;
    size_t tensors;
    f64 parameters;  // millions, as the models' cards say
  };
  for (const Known& k : {Known{"smollm2-135m", 272, 134.5},
                         {"qwen3-0.6b", 310, 596.0},
                         {"qwen3-1.7b", 310, 1720.6},
                         {"qwen3-8b", 399, 8190.7},
                         {"qwen3-30b-a3b", 579, 30532.1},
                         {"bonsai-27b", 851, 26895.998},
                         {"bonsai-2-27b", 851, 26895.998},
                         {"qwen35-35b-a3b", 733, 34660.6}}) {
    auto plan = plan_synthetic({.shape = k.shape, .type = Type::PQ2_0});
    ASSERT_TRUE(plan.ok());
    EXPECT_EQ(plan->tensors.size(), k.tensors) << k.shape;
    f64 n = 0;
    for (const Planned& p : plan->tensors) {
      f64 elements = 1;
      for (i64 d : p.info.dims) elements *= f64(d);
      n += elements;
    }
    EXPECT_NEAR(n / 1e6, k.parameters, k.parameters * 1e-3) << k.shape;
    std::set<std::string> tokens;
    for (const KeyValue& kv : plan->metadata) {
      if (kv.key == "tokenizer.ggml.tokens") tokens = {kv.value.as_strings()->begin(), kv.value.as_strings()->end()};
      if (kv.key.ends_with(".vocab_size")) { EXPECT_GT(*kv.value.as_int(), 0); }
    }
    const auto& embedding = plan->tensors[0].info;
    EXPECT_EQ(i64(tokens.size()), embedding.dims[1]) << k.shape << ": all tokens differ";
  }
}

TEST(Synth, RotatedBonsaiAsPublished) {
  auto plan = plan_synthetic({.shape = "bonsai-2-27b", .type = Type::PTQ1_0});
  ASSERT_TRUE(plan.ok());
  for (const KeyValue& kv : plan->metadata) {  // hadamard.md section 3
    if (kv.key == "prism.hadamard.weight_names") { EXPECT_EQ(kv.value.as_strings()->size(), 401u); }
    if (kv.key == "prism.hadamard.sign_values") { EXPECT_EQ(kv.value.as_ints()->size(), 28672u); }
  }
  size_t ternary = 0, bf16 = 0, f32 = 0;  // and section 11
  for (const Planned& p : plan->tensors) (p.info.type == Type::PTQ1_0 ? ternary : p.info.type == Type::BF16 ? bf16 : f32)++;
  EXPECT_EQ(ternary, 402u);
  EXPECT_EQ(bf16, 96u);
  EXPECT_EQ(f32, 353u);
}

TEST(Synth, FileAndMemoryAreTheSame) {
  TempFolder folder;
  const std::string path = folder.file("m.gguf");
  SynthOptions o{.shape = "smollm2-135m", .type = Type::Q4_0, .n_layers = 1, .seed = 5, .n_threads = 2};
  ASSERT_TRUE(write_synthetic(o, path).ok());
  auto file = File::open(path, {.check_data = true});
  ASSERT_TRUE(file.ok()) << file.error().what;
  o.n_threads = 1;
  auto memory = synthesize(o);
  ASSERT_TRUE(memory.ok()) << memory.error().what;
  EXPECT_EQ(memory->path(), "smollm2-135m:Q4_0");
  EXPECT_EQ(memory->file_bytes(), file->file_bytes());
  ASSERT_EQ(memory->tensors().size(), file->tensors().size());
  for (const Tensor& t : file->tensors()) {
    const Tensor* m = memory->tensor(t.name);
    ASSERT_TRUE(m);
    EXPECT_EQ(m->type, t.type);
    EXPECT_EQ(m->dims, t.dims);
    EXPECT_TRUE(std::equal(t.data.begin(), t.data.end(), m->data.begin(), m->data.end())) << t.name;
  }
  EXPECT_EQ(memory->get_int("llama.block_count", {}).value(), 1);
  o.fill = false;
  auto shapes = synthesize(o);
  ASSERT_TRUE(shapes.ok());
  EXPECT_EQ(shapes->tensors().size(), file->tensors().size());
  EXPECT_EQ(shapes->tensor("blk.0.ffn_up.weight")->data[5000], 0);
  const Tensor* t = memory->tensor("blk.0.ffn_up.weight");
  memory->drop(*t);
  EXPECT_EQ(t->data[5000], 0);
  EXPECT_NE(memory->tensor("blk.0.ffn_down.weight")->data[5000], 0);
}

TEST(Synth, RowsThatDoNotDivideFallBack) {
  auto plan = plan_synthetic({.shape = "smollm2-135m", .type = Type::PQ2_0, .n_layers = 1});
  ASSERT_TRUE(plan.ok());
  for (const Planned& p : plan->tensors) {
    if (p.info.name == "blk.0.ffn_up.weight") {  // 576
      EXPECT_EQ(p.info.type, Type::Q8_0);
    }
    if (p.info.name == "blk.0.ffn_down.weight") {  // 1536
      EXPECT_EQ(p.info.type, Type::PQ2_0);
    }
  }
}

TEST(Synth, NamesAreChecked) {
  EXPECT_EQ(parse_synthetic("qwen3-8b:pq2_0").value().type, Type::PQ2_0);
  for (const char* bad :
       {"", "qwen3-8b", "qwen3-8b:", "qwen3-8b:Q9", "qwen3-8b:Q8_K", "qwen3-8b:I8", "qwen3-8b:Q2_0_LEGACY128", "qwen4:Q4_0", ":Q4_0"}) {
    EXPECT_FALSE(parse_synthetic(bad).ok()) << bad;
  }
  EXPECT_FALSE(plan_synthetic({.shape = "qwen3-8b", .type = Type::Q8_1}).ok());
  EXPECT_FALSE(plan_synthetic({.shape = "qwen3-8b", .type = Type::F16, .n_layers = -1}).ok());
}

}  // namespace fewbit::gguf
