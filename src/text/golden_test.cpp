// Ids that the reference gives: tests/data and, where they are at hand, the published vocabularies with their publishers' test texts.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/json.h"
#include "gguf/gguf.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace fewbit::text {
namespace {

using Ids = std::vector<Token>;
namespace fs = std::filesystem;
const fs::path root = FEWBIT_SOURCE_DIR, shared = root / ".." / "shared" / "models";

// The first of `places` that exists; "" and, where the absence counts, a failure.
fs::path find(std::initializer_list<fs::path> places, bool required_in_ci) {
  for (const fs::path& p : places)
    if (fs::exists(p)) return p;
  const char* ci = std::getenv("CI");
  if (required_in_ci && ci && std::string_view(ci) == "true") ADD_FAILURE() << places.begin()->string() << " is missing";
  return {};
}

Tokenizer load(const fs::path& path) {
  auto file = gguf::File::open(path.string());
  EXPECT_TRUE(file.ok()) << (file.ok() ? "" : file.error().what);
  auto t = Tokenizer::load(*file);
  EXPECT_TRUE(t.ok()) << (t.ok() ? "" : t.error().what);
  return std::move(t).value();
}

// Every case of a NAME.tokens.json: ids (special tokens as plain text), ids_special (parsed), and back to the text.
void check_cases(const Tokenizer& t, const fs::path& path, size_t expected) {
  std::ifstream in(path);
  Json cases = Json::parse(in);
  EXPECT_EQ(cases.size(), expected) << path;
  for (const Json& c : cases) {
    std::string text = c["text"];
    Ids plain = t.encode(text, {.parse_special = false}), parsed = t.encode(text, {.parse_special = true});
    EXPECT_EQ(plain, c["ids"].get<Ids>()) << text;
    EXPECT_EQ(parsed, c["ids_special"].get<Ids>()) << text;
    EXPECT_EQ(t.decode(plain, true), text);
    std::string streamed;
    Stream s(t, {}, true);
    for (Token id : plain) streamed += s.push(id);
    streamed += s.finish();
    EXPECT_EQ(streamed, t.model() == "llama" && !text.empty() ? " " + text : text);
  }
}

// tokenizer.md section 10, "Ids".
const char* const spec_texts[] = {"Hello  world!  It's 2024, we'LL see\n\n  x=1;\r\n", "你好，世界 3.14€ 😀🏽 ok",
                                  "def f(x):\n    return x**2  # café"};

TEST(Golden, Mini) {
  fs::path model = find({root / "models" / "mini-dense.pq2_0.gguf", shared / "mini-dense.pq2_0.gguf"}, true);
  if (model.empty()) GTEST_SKIP() << "models/mini-dense.pq2_0.gguf is not there";
  Tokenizer t = load(model);
  check_cases(t, root / "tests" / "data" / "mini.tokens.json", 22);
  EXPECT_EQ(t.pre(), "qwen2");
  EXPECT_EQ(Ids(t.end_of_generation().begin(), t.end_of_generation().end()), (Ids{0, 2}));
  EXPECT_EQ(t.eos(), 2);
  EXPECT_FALSE(t.add_bos());
}

TEST(Golden, Smollm2) {
  fs::path model = find({root / ".cache" / "smollm2-135m-instruct.q4_1.gguf"}, false);
  if (model.empty()) GTEST_SKIP() << "SmolLM2 is not there: tools/fetch-smollm2.sh fetches it";
  Tokenizer t = load(model);
  check_cases(t, root / "tests" / "data" / "smollm2.tokens.json", 22);
  EXPECT_EQ(t.pre(), "smollm");
  EXPECT_EQ(Ids(t.end_of_generation().begin(), t.end_of_generation().end()), (Ids{0, 2, 4}));  // 4: <reponame>
  EXPECT_EQ(t.bos(), 1);
  EXPECT_FALSE(t.add_bos());
}

struct Published {
  const char* name;
  size_t cases;
};
class Vocabulary : public testing::TestWithParam<Published> {};
TEST_P(Vocabulary, Cases) {
  fs::path model = find({shared / "vocab" / (std::string(GetParam().name) + ".gguf")}, true);
  if (model.empty()) GTEST_SKIP() << GetParam().name << " is not at hand";
  check_cases(load(model), fs::path(model).replace_extension(".tokens.json"), GetParam().cases);
}
INSTANTIATE_TEST_SUITE_P(Golden, Vocabulary, testing::Values(Published{"gpt-2", 83}, Published{"qwen2", 83}, Published{"llama-spm", 82}),
                         [](auto& info) {
                           std::string s = info.param.name;
                           s.erase(std::remove(s.begin(), s.end(), '-'), s.end());
                           return s;
                         });

TEST(Golden, SpecIdsQwen) {
  fs::path model = find({shared / "vocab" / "qwen2.gguf"}, true);
  if (model.empty()) GTEST_SKIP() << "qwen2 is not at hand";
  Tokenizer t = load(model);
  const Ids want[] = {{9707, 220, 1879, 0, 220, 1084, 594, 220, 17, 15, 17, 19, 11, 582, 6, 4086, 1490, 271, 220, 856, 28, 16, 463},
                      {108386, 3837, 99489, 220, 18, 13, 16, 19, 15056, 90316, 145375, 5394},
                      {750, 282, 2075, 982, 262, 470, 856, 334, 17, 220, 671, 51950}};
  for (size_t i = 0; i < 3; i++) EXPECT_EQ(t.encode(spec_texts[i]), want[i]) << spec_texts[i];
}

TEST(Golden, SpecIdsSpm) {
  fs::path model = find({shared / "vocab" / "llama-spm.gguf"}, true);
  if (model.empty()) GTEST_SKIP() << "llama-spm is not at hand";
  Tokenizer t = load(model);
  const Ids want[] = {{15043, 29871, 3186,  29991, 29871, 739, 29915, 29879, 29871, 29906, 29900, 29906, 29946,
                       29892, 591,   29915, 2208,  1074,  13,  13,    29871, 921,   29922, 29896, 2104,  13},
                      {29871, 30919, 31076, 30214, 30793, 30967, 29871, 29941, 29889, 29896, 29946,
                       30181, 29871, 243,   162,   155,   131,   243,   162,   146,   192,   3431},
                      {822, 285, 29898, 29916, 1125, 13, 1678, 736, 921, 1068, 29906, 29871, 396, 274, 28059}};
  for (size_t i = 0; i < 3; i++) EXPECT_EQ(t.encode(spec_texts[i]), want[i]) << spec_texts[i];
  EXPECT_EQ(t.encode("x", {.add_special = true})[0], 1);
  EXPECT_TRUE(t.is_end_of_generation(2));
}

}  // namespace
}  // namespace fewbit::text
