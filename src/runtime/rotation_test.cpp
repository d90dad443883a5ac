// Rotated weights, end to end: a plain oracle folded in three ways computes the oracle's logits; every part of the contract left out shows.
#include <cstdlib>

#include "model/fold_model.h"
#include "runtime/perplexity.h"
#include "runtime/test_models.h"

namespace fewbit::runtime {
namespace {

using model::Fold;

struct Omit {  // FEWBIT_TEST_OMIT for as long as it lives
  explicit Omit(const std::string& what) { setenv("FEWBIT_TEST_OMIT", what.c_str(), 1); }
  ~Omit() { unsetenv("FEWBIT_TEST_OMIT"); }
};

std::string folded(const std::string& oracle, const Fold& f) {
  auto file = gguf::File::open(oracle_model(oracle));
  EXPECT_TRUE(file.ok()) << file.error().what;
  std::vector<u8> bytes = model::fold(model::toy_from(*file), f).bytes();
  std::string path = testing::TempDir() + "/fewbit_folded_" + std::to_string(getpid()) + ".gguf";
  std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(bytes.data()), std::streamsize(bytes.size()));
  return path;
}

f64 worst_of(const std::string& oracle, const std::string& path) {
  Json want = oracle_expected(oracle);
  auto e = load(exact_options(path));
  if (!e) return 1e9;
  f64 worst = 0;
  for (const char* name : {"len17", "len130"}) {
    const Json& s = want.at("sequences").at(name);
    worst = std::max(worst, compare(s, logits_of(*e, s.at("tokens").get<std::vector<Token>>()), 2e-4).worst());
  }
  return worst;
}

struct Case {
  const char* oracle;
  int block, k_heads, v_heads;
  bool tiled;
};
class Folded : public testing::TestWithParam<Case> {};

TEST_P(Folded, LogitsEqualThePlainModels) {
  Case c = GetParam();
  Fold f;
  f.block = c.block;
  for (const char* way : {"identity", "signs", "grouped"}) {
    f.signs = std::string(way) != "identity";
    f.grouped = std::string(way) == "grouped";
    if (f.grouped && !c.k_heads) continue;
    f.k_heads = c.k_heads;
    f.v_heads = c.v_heads;
    std::string path = folded(c.oracle, f);
    EXPECT_LE(worst_of(c.oracle, path), 2e-4) << c.oracle << " " << way;
    for (const char* what : {"signs", "transform", "inverse", "permutation"}) {
      if (std::string(what) == "permutation" && !f.grouped) continue;
      if (std::string(what) == "signs" && !f.signs) continue;
      Omit omit(what);
      EXPECT_GT(worst_of(c.oracle, path), 1e-2) << c.oracle << " " << way << " without " << what;
    }
    std::filesystem::remove(path);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Folded,
                         testing::Values(Case{"llama", 64, 0, 0, false}, Case{"qwen3", 256, 0, 0, false}, Case{"qwen3moe", 32, 0, 0, false},
                                         Case{"qwen35", 128, 2, 6, true}, Case{"further/qwen35moe", 16, 2, 6, true}),
                         [](const auto& i) {
                           std::string s = i.param.oracle;
                           return s.substr(s.find('/') + 1);
                         });

// qwen3next keeps its V heads grouped, so the flag changes nothing about the columns.
TEST(Folded, GroupedOrderIsQwen3NextsOwn) {
  Fold f;
  f.block = 16;
  auto file = gguf::File::open(oracle_model("further/qwen3next"));
  ASSERT_TRUE(file.ok());
  for (bool flag : {false, true}) {
    model::Toy t = model::fold(model::toy_from(*file), f);
    if (flag) t.set("prism.hadamard.gdn_v_grouped", gguf::Value::of(true));
    std::vector<u8> bytes = t.bytes();
    std::string path = testing::TempDir() + "/fewbit_folded_next_" + std::to_string(getpid()) + ".gguf";
    std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(bytes.data()), std::streamsize(bytes.size()));
    EXPECT_LE(worst_of("further/qwen3next", path), 2e-4) << flag;
    std::filesystem::remove(path);
  }
}

// On the model that ships: each part left out at least doubles the perplexity.
TEST(Omissions, EachAtLeastDoublesThePerplexity) {
  std::ifstream in(FEWBIT_SOURCE_DIR "/tests/data/mini.ppl.txt");
  std::string text((std::istreambuf_iterator<char>(in)), {});
  auto value = [&](const char* omit) {
    Omit o(omit);
    EngineOptions options = exact_options(own_model("mini-hybrid.pq2_0.gguf"));
    options.path = kernel::Path::fast;
    options.n_ctx = 256;
    auto e = load(options);
    if (!e || !e->tokenizer()) return 0.0;
    auto tokens = e->tokenizer()->encode(text.substr(0, 8000), {.add_special = false, .parse_special = false});
    PerplexityOptions p;
    p.n_ctx = 256;
    p.chunks = 3;
    auto r = perplexity(*e, tokens, p);
    EXPECT_TRUE(r.ok());
    return r.ok() ? r->perplexity : 0.0;
  };
  f64 right = value("");
  EXPECT_GT(right, 2);
  EXPECT_LT(right, 20);
  for (const char* what : {"signs", "transform", "permutation", "inverse"}) EXPECT_GT(value(what), 2 * right) << what;
}

// A listed weight that reads the plain activation fails the load; forced, it shows.
TEST(Folded, AListedWeightLeftPlain) {
  std::string path = own_model("mini-hybrid.pq2_0.gguf");
  Json want = read_json(own_model("mini-hybrid.pq2_0.expected.json")).at("sequences").at("len17");
  auto tokens = want.at("tokens").get<std::vector<Token>>();
  for (const char* name : {"blk.0.ffn_gate.weight", "blk.3.attn_q.weight", "blk.7.ffn_down.weight", "output.weight"}) {
    {
      Omit omit(std::string("plain=") + name);
      auto e = Engine::load(exact_options(path));
      ASSERT_FALSE(e.ok()) << name;
      EXPECT_NE(e.error().what.find(name), std::string::npos) << e.error().what;
    }
    Omit omit(std::string("force,plain=") + name);
    auto e = load(exact_options(path));
    ASSERT_TRUE(e);
    EXPECT_GT(compare(want, logits_of(*e, tokens), 5e-4).worst(), 1e-2) << name;
  }
}

}  // namespace
}  // namespace fewbit::runtime
