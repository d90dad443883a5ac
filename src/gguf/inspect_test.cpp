#include "gguf/inspect.h"

#include <algorithm>

#include "gguf/hostile_cases.h"
#include "gguf/test_files.h"

namespace fewbit::gguf {

TEST(Inspect, EveryKindOfValueIsValidJson) {
  hostile::Maker m = hostile::valid();
  m.f32_key("eps", 1e-6f)
      .f32_key("nan", std::numeric_limits<f32>::quiet_NaN())
      .string_key("bytes", "a\xff\xc3(\xf0\x9f\x98\x80\xed\xa0\x80\n");
  m.string_key("long", std::string(1000, 'x')).strings_key("list", {"1", "2", "3", "4", "5", "6", "7", "8", "9"});
  const std::vector<u8> bytes = m.bytes();
  auto f = File::parse(bytes, "folder/m\xff.gguf");
  ASSERT_TRUE(f.ok()) << f.error().what;
  const Json j = inspect(*f);
  const Json again = Json::parse(j.dump());  // throws on bytes that are not UTF-8
  EXPECT_EQ(again, j);
  const Json& v = j["metadata"];
  EXPECT_EQ(v["eps"].dump(), "1e-06");
  EXPECT_EQ(v["nan"], "nan");
  EXPECT_EQ(v["bytes"], "a\xef\xbf\xbd\xef\xbf\xbd(\xf0\x9f\x98\x80\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\n");
  EXPECT_EQ(v["long"].get<std::string>().size(), 163u);
  EXPECT_EQ(v["list"]["count"], 9);
  EXPECT_EQ(v["list"]["first"].size(), 8u);
  EXPECT_EQ(v["t.u64"], ~u64(0));
  EXPECT_EQ(v["t.i64"], -1);
  EXPECT_EQ(v["t.bools"].dump(), "[false,true,true]");
  EXPECT_EQ(v["t.empty"].dump(), "[]");
  EXPECT_EQ(inspect(*f, {.list_items = 0, .string_bytes = 0})["metadata"]["long"].get<std::string>().size(), 1000u);
  EXPECT_EQ(j["tensors"][3]["shape"].dump(), "[128,1,2,2]");
  EXPECT_EQ(j["tensors"][3]["bytes"], 4 * 34);
  EXPECT_EQ(j["tensors"][4]["shape"].dump(), "[]");
  EXPECT_EQ(j["types"]["F16"]["parameters"], 1);
  EXPECT_EQ(j["parameters"], 5 + 192 + 1024 + 512 + 1);
  EXPECT_EQ(j["bits_per_weight"].get<f64>(), std::round(8e4 * (6 * 34 + 4 * 84 + 4 * 34) / 1728.0) / 1e4);
  const std::string text = inspect_text(j, true);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), i64(7 + j["types"].size() + 2 + v.size() + 2 + 5)) << text;
}

TEST(Inspect, NamesTheVariant) {
  const std::string folder = models_folder();
  if (folder.empty()) GTEST_SKIP() << "no models";
  struct Known {
    const char *name, *architecture, *variant, *producer;
    f64 bits;  // counted by hand from the types of all matrices
  };
  for (const Known& k : {Known{"mini-dense.pq2_0.gguf", "qwen3", "PQ2_0 ternary", "PrismML's llama.cpp", 2.125},
                         {"mini-hybrid.ptq1_0.gguf", "qwen35", "PTQ1_0 ternary (and F32, BF16), Hadamard-rotated in blocks of 256",
                          "PrismML's llama.cpp", 0},
                         {"mini-moe.f16.gguf", "qwen3moe", "F16 floats (and F32), 8 experts of which 2 are used", "", 0},
                         {"mini-moe.iq2_xs.gguf", "qwen3moe",
                          "IQ2_XS (and F32, Q4_K, Q5_K, Q6_K, IQ3_S), 8 experts of which 2 are used, quantised with an importance matrix",
                          "llama-quantize", 0},
                         {"vocab/qwen2.gguf", "qwen2", "vocabulary only", "", 0}}) {
    auto f = File::open(folder + "/" + k.name);
    ASSERT_TRUE(f.ok()) << f.error().what;
    const Json j = inspect(*f);
    EXPECT_EQ(j["architecture"], k.architecture);
    EXPECT_EQ(j["variant"], k.variant);
    EXPECT_EQ(j["producer"], k.producer);
    if (k.bits > 0) { EXPECT_EQ(j["bits_per_weight"], k.bits); }
  }
}

}  // namespace fewbit::gguf
