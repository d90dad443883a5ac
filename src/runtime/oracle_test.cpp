// Whole models against logits that other programs computed in double precision (tests/data/oracles, models/).
#include <fmt/format.h>

#include "runtime/test_models.h"

namespace fewbit::runtime {
namespace {

void check_sequences(Engine& e, const Json& sequences, f64 tol, const std::vector<int>& pieces) {
  for (const auto& [name, s] : sequences.items()) {
    auto tokens = s.at("tokens").get<std::vector<Token>>();
    std::vector<f32> whole;
    for (int piece : pieces) {
      if (piece == 1 && tokens.size() > 200) continue;
      std::vector<f32> got = logits_of(e, tokens, piece);
      Difference d = compare(s, got, tol);
      EXPECT_LE(d.worst(), tol) << name << " in pieces of " << piece;
      EXPECT_EQ(d.argmax_wrong, 0) << name << " in pieces of " << piece;
      testing::Test::RecordProperty(name + "_" + std::to_string(piece), fmt::format("{:.1e}", d.worst()));
      // How tokens are fed changes no bit.
      if (whole.empty()) whole = got;
      EXPECT_EQ(got, whole) << name << " in pieces of " << piece;
    }
  }
}

void check_greedy(Engine& e, const Json& g, f64 tol) {
  auto got = greedy(e, g.at("prompt").get<std::vector<Token>>(), int(g.at("tokens").size()));
  for (size_t i = 0; i < got.size(); i++) {
    if (got[i] == g.at("tokens")[i].get<Token>()) continue;
    EXPECT_LE(g.at("margin")[i].get<f64>(), 2 * tol) << "token " << i;  // a closer choice may go the other way, and then all that follows
    break;
  }
}

// The residual stream after each layer: names the layer where a difference begins.
void check_layers(Engine& e, const Json& want, f64 tol) {
  const Json& h = want.at("hidden_after_layer");
  const Json& prompt = h.contains("prompt") ? h.at("prompt") : want.at("sequences").at(h.at("sequence").get<std::string>()).at("tokens");

  std::vector<std::vector<f32>> rows;
  e.trace_layers([&](int, const f32* x, int n, int cols) { rows.emplace_back(x + i64(cols - 1) * n, x + i64(cols) * n); });
  logits_of(e, prompt.get<std::vector<Token>>());
  e.trace_layers({});
  ASSERT_EQ(rows.size(), h.at("layers").size());
  for (size_t l = 0; l < rows.size(); l++) {
    f64 worst = 0;
    for (size_t i = 0; i < rows[l].size(); i++) worst = std::max(worst, std::abs(rows[l][i] - h.at("layers")[l][i].get<f64>()));
    EXPECT_LE(worst, tol) << "after layer " << l;
  }
}

std::string plain_name(std::string s) {
  s = s.substr(s.find('/') + 1);
  for (char& c : s)
    if (!isalnum(c)) c = '_';
  return s;
}

class Oracle : public testing::TestWithParam<const char*> {};

TEST_P(Oracle, ExactPathWithinTolerance) {
  Json want = oracle_expected(GetParam());
  auto e = load(exact_options(oracle_model(GetParam())));
  ASSERT_TRUE(e);
  check_sequences(*e, want.at("sequences"), 2e-4, {0, 1, 64});
  check_greedy(*e, want.at("greedy"), 2e-4);
  check_layers(*e, want, 2e-4);
}

INSTANTIATE_TEST_SUITE_P(Models, Oracle,
                         testing::Values("llama", "qwen3", "qwen3-ternary", "qwen3moe", "qwen35", "qwen35-ternary", "bitnet"),
                         [](const auto& i) { return plain_name(i.param); });

// What the seven leave out, made by tests/tools/make_oracles.py: qwen35moe (fused gate_up), qwen3next in both layouts, Llama 3's
// rope_freqs, YaRN, linear scaling, biases, Mixtral.
class Further : public testing::TestWithParam<const char*> {};

TEST_P(Further, ExactPathWithinTolerance) {
  Json want = oracle_expected(GetParam());
  auto e = load(exact_options(oracle_model(GetParam())));
  ASSERT_TRUE(e);
  check_sequences(*e, want.at("sequences"), 2e-4, {0, 1, 64});
}

INSTANTIATE_TEST_SUITE_P(Models, Further,
                         testing::Values("further/qwen35moe", "further/qwen3next", "further/qwen3next-legacy", "further/llama-rope",
                                         "further/qwen3-yarn", "further/qwen2-linear", "further/mixtral"),
                         [](const auto& i) { return plain_name(i.param); });

TEST(OracleBitnet, Int8Activations) {
  Json want = oracle_expected("bitnet").at("act_int8");
  EngineOptions o = exact_options(oracle_model("bitnet"));
  o.act_int8 = true;
  auto e = load(o);
  ASSERT_TRUE(e);
  for (const char* name : {"len1", "len17"}) {  // in len130 one value rounds the other way (oracles' README)
    const Json& s = want.at("sequences").at(name);
    Difference d = compare(s, logits_of(*e, s.at("tokens").get<std::vector<Token>>()), 2e-4);
    EXPECT_LE(d.worst(), 2e-4) << name;
  }
  o.model = oracle_model("llama");
  auto other = Engine::load(o);
  ASSERT_FALSE(other.ok());
  EXPECT_NE(other.error().what.find("bitnet"), std::string::npos);
}

void check_real_model(const std::string& path, const std::string& expected) {
  Json want = read_json(expected);
  auto e = load(exact_options(path));
  ASSERT_TRUE(e);
  check_sequences(*e, want.at("sequences"), 5e-4, {0, 64});
  check_greedy(*e, want.at("greedy"), 5e-4);
  check_layers(*e, want, 5e-4);
}

TEST(RealModels, OwnDense) { check_real_model(own_model("mini-dense.pq2_0.gguf"), own_model("mini-dense.pq2_0.expected.json")); }
TEST(RealModels, OwnHybrid) { check_real_model(own_model("mini-hybrid.pq2_0.gguf"), own_model("mini-hybrid.pq2_0.expected.json")); }

class SharedModels : public testing::TestWithParam<const char*> {};
TEST_P(SharedModels, ExactPathWithinTolerance) {
  std::string path = shared_model(std::string(GetParam()) + ".gguf");
  if (path.empty()) GTEST_SKIP() << "../shared/models is not here";
  check_real_model(path, shared_model(std::string(GetParam()) + ".expected.json"));
}
INSTANTIATE_TEST_SUITE_P(Models, SharedModels, testing::Values("mini-hybrid.ptq1_0", "mini-moe.f16", "mini-moe.iq2_xs", "mini-moe.iq3_xxs"),
                         [](const auto& i) { return plain_name(i.param); });

// The same ternary numbers in two encodings: equal logits to the bit.
TEST(SharedModels, EncodingsOfOneModelAgree) {
  std::string other = shared_model("mini-hybrid.ptq1_0.gguf");
  if (other.empty()) GTEST_SKIP() << "../shared/models is not here";
  auto tokens = read_json(own_model("mini-hybrid.pq2_0.expected.json")).at("sequences").at("len130").at("tokens").get<std::vector<Token>>();
  auto a = load(exact_options(own_model("mini-hybrid.pq2_0.gguf"))), b = load(exact_options(other));
  ASSERT_TRUE(a && b);
  EXPECT_EQ(logits_of(*a, tokens), logits_of(*b, tokens));
}

}  // namespace
}  // namespace fewbit::runtime
