#include <gtest/gtest.h>

#include <map>

#include "model/mutations.h"

namespace fewbit::model {

TEST(Mutations, ToysLoad) {
  auto device = open_device("cpu", {.threads = 1});
  ASSERT_TRUE(device.ok());
  for (const char* a : toy_architectures) {
    std::string why;
    std::vector<u8> bytes = toy_model(a).bytes();
    EXPECT_TRUE(load_mutated(bytes, **device, &why)) << a << ": " << why;
  }
}

TEST(Mutations, RefusedInOneLineOrLoaded) {
  auto device = open_device("cpu", {.threads = 1});
  ASSERT_TRUE(device.ok());
  int loaded = 0, n = 400;
  std::map<std::string, int> reasons;
  for (int i = 0; i < n; i++) {
    Choices c(static_cast<u64>(i) * 7919 + 1);
    std::vector<u8> bytes = mutated_toy(c).bytes();
    std::string why;
    if (load_mutated(bytes, **device, &why)) {
      loaded++;
    } else {
      reasons[why]++;
    }
  }
  // The mutations must reach beyond one check, and not all be harmless.
  EXPECT_GT(reasons.size(), 100u);
  EXPECT_GT(loaded, 20);
  EXPECT_LT(loaded, n / 2);
}

// MTP blocks, vision tensors and strangers are passed over.
TEST(Tensors, UnusedOnesAreSkipped) {
  auto device = open_device("cpu", {.threads = 1});
  ASSERT_TRUE(device.ok());
  Toy t = toy_model("qwen35");
  t.set("qwen35.block_count", gguf::Value::of(u32(5)));
  t.set("qwen35.nextn_predict_layers", gguf::Value::of(u32(1)));
  t.add("blk.4.nextn.eh_proj.weight", {128, 64});
  t.add("blk.4.attn_q.weight", {64, 256});
  t.add("v.blk.0.attn_q.weight", {32, 32});
  t.add("mm.0.weight", {32, 64});
  t.add("stranger", {3});
  std::vector<u8> bytes = t.bytes();
  std::string why;
  EXPECT_TRUE(load_mutated(bytes, **device, &why)) << why;
}

TEST(Tensors, ShapesAndTypesAreChecked) {
  auto device = open_device("cpu", {.threads = 1});
  ASSERT_TRUE(device.ok());
  auto refused = [&](const char* arch, const std::function<void(Toy&)>& change, const char* says) {
    Toy t = toy_model(arch);
    change(t);
    std::vector<u8> bytes = t.bytes();
    std::string why;
    EXPECT_FALSE(load_mutated(bytes, **device, &why)) << says;
    EXPECT_NE(why.find(says), std::string::npos) << why;
  };
  refused(
      "llama", [](Toy& t) { t.drop("blk.2.ffn_up.weight"); }, "tensor 'blk.2.ffn_up.weight' is missing");
  refused(
      "llama", [](Toy& t) { t.drop("output_norm.weight"); }, "tensor 'output_norm.weight' is missing");
  refused(
      "llama",
      [](Toy& t) {
        t.drop("blk.1.attn_k.weight");
        t.add("blk.1.attn_k.weight", {64, 32});
      },
      "tensor 'blk.1.attn_k.weight': 64 x 32 in the file, the model needs 64 x 64");
  refused(
      "qwen2",
      [](Toy& t) {
        t.drop("blk.0.attn_q.bias");
        t.add("blk.0.attn_q.bias", {64});
      },
      "tensor 'blk.0.attn_q.bias': 64");
  refused(
      "qwen3",
      [](Toy& t) {
        t.drop("blk.0.attn_q_norm.weight");
        t.add("blk.0.attn_q_norm.weight", {16});
      },
      "tensor 'blk.0.attn_q_norm.weight': 16 in the file, the model needs 32");
  refused(
      "qwen3", [](Toy& t) { t.tensor("blk.0.attn_norm.weight").type = Type::Q8_0; }, "type Q8_0 in the file, the model needs floats");
  refused(
      "qwen35",
      [](Toy& t) {
        t.drop("blk.0.ssm_conv1d.weight");
        t.add("blk.0.ssm_conv1d.weight", {3, 160});
      },
      "tensor 'blk.0.ssm_conv1d.weight': 3 x 160 in the file, the model needs 4 x 160");
  refused(
      "llama", [](Toy& t) { t.add("rope_freqs.weight", {8}); }, "rope_freqs.weight");
}

// The plan's dry run and the load count the same bytes.
TEST(Footprint, DryEqualsReal) {
  auto device = open_device("cpu", {.threads = 1});
  ASSERT_TRUE(device.ok());
  kernel::Ctx ctx;
  ctx.device = device->get();
  ctx.k = *kernel::kernels_for(**device, kernel::Path::exact);
  ctx.pool = (*device)->pool();
  for (const char* a : toy_architectures) {
    std::vector<u8> bytes = toy_model(a).bytes();
    auto file = gguf::File::parse(bytes, a);
    ASSERT_TRUE(file.ok());
    LoadOptions o;
    o.positions = 100;
    o.dry = true;
    auto dry = Model::load(*file, ctx, o);
    o.dry = false;
    auto real = Model::load(*file, ctx, o);
    ASSERT_TRUE(dry.ok() && real.ok());
    EXPECT_EQ((*dry)->footprint().mapped, (*real)->footprint().mapped);
    EXPECT_EQ((*dry)->footprint().packed, (*real)->footprint().packed);
    EXPECT_EQ((*dry)->footprint().other, (*real)->footprint().other);
    EXPECT_EQ((*dry)->arena_bytes(ctx, 7, 3), (*real)->arena_bytes(ctx, 7, 3));
    EXPECT_EQ((*dry)->bytes_per_token(), (*real)->bytes_per_token());
  }
}

}  // namespace fewbit::model
