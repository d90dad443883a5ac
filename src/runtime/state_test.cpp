// Sequences: how they are fed, mixed, forked, cut back and stored changes nothing.
#include <sys/resource.h>

#include "runtime/state_cache.h"
#include "runtime/test_models.h"

namespace fewbit::runtime {
namespace {

EngineOptions options(const std::string& model, kernel::Path path, Type kv = Type::F16) {
  EngineOptions o = exact_options(model);
  o.path = path;
  o.k_type = o.v_type = kv;
  o.n_ctx = 256;
  o.n_seqs = 8;
  o.ubatch = 64;
  return o;
}

std::vector<Token> prompt(int which, int n) {
  std::vector<Token> t;
  for (int i = 0; i < n; i++) t.push_back(Token((which * 131 + i * i * 17 + i * 7) % 500));
  return t;
}

std::vector<f32> last_logits(Engine& e, SequenceId s, const std::vector<Token>& tokens) {
  StepItem item{s, tokens, {int(tokens.size()) - 1}};
  auto l = e.step({&item, 1});
  EXPECT_TRUE(l.ok()) << l.error().what;
  return {l->begin(), l->end()};
}

const char* const models[] = {"qwen35", "qwen3moe", "llama"};

// Eight sequences of different prompts, started at different times, decoded together: each as if alone, to the bit.
class Mixed : public testing::TestWithParam<std::tuple<const char*, Type>> {};

TEST_P(Mixed, EachSequenceIsAsIfAlone) {
  auto [name, kv] = GetParam();
  kernel::Path path = kv == Type::F32 ? kernel::Path::exact : kernel::Path::fast;
  std::string model = oracle_model(name);
  auto alone = load(options(model, path, kv));
  ASSERT_TRUE(alone);
  constexpr int n = 8, steps = 12;
  std::vector<std::vector<Token>> want;
  for (int i = 0; i < n; i++) want.push_back(greedy(*alone, prompt(i / 2, 5 + 23 * (i / 2)), steps));  // pairs of equal prompts
  for (int threads : {1, 2}) {
    EngineOptions o = options(model, path, kv);
    o.threads = threads;
    auto e = load(o);
    ASSERT_TRUE(e);
    for (int repeat = 0; repeat < 3; repeat++) {
      std::vector<SequenceId> seq(n);
      std::vector<std::vector<Token>> got(n);
      for (int step = 0;; step++) {
        std::vector<StepItem> items;
        std::vector<int> of;
        for (int i = 0; i < n; i++) {
          if (step < i * (repeat + 1) || int(got[size_t(i)].size()) == steps) continue;
          auto& g = got[size_t(i)];
          if (g.empty()) seq[size_t(i)] = *e->new_sequence();
          auto tokens = g.empty() ? prompt(i / 2, 5 + 23 * (i / 2)) : std::vector<Token>{g.back()};
          items.push_back({seq[size_t(i)], tokens, {int(tokens.size()) - 1}});
          of.push_back(i);
        }
        if (items.empty() && step > n * (repeat + 1)) break;
        auto ids = e->step_argmax(items);
        ASSERT_TRUE(ids.ok()) << ids.error().what;
        for (size_t j = 0; j < of.size(); j++) got[size_t(of[j])].push_back((*ids)[j]);
      }
      for (int i = 0; i < n; i++) {
        EXPECT_EQ(got[size_t(i)], want[size_t(i)]) << "sequence " << i << ", threads " << threads << ", repeat " << repeat;
        e->free_sequence(seq[size_t(i)]);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Mixed, testing::Combine(testing::ValuesIn(models), testing::Values(Type::F32, Type::F16, Type::Q4_0)),
                         [](const auto& i) { return std::string(std::get<0>(i.param)) + "_" + type_name(std::get<1>(i.param)); });

// Logits of the default path are the same bits at every width and thread count.
TEST(Width, ChangesNoBit) {
  for (const char* file : {"mini-hybrid.pq2_0.gguf", "mini-dense.pq2_0.gguf"}) {
    std::vector<f32> want;
    for (int threads : {1, 2})
      for (int piece : {0, 1, 3, 8, 64}) {
        EngineOptions o = options(own_model(file), kernel::Path::fast);
        o.n_seqs = 1;
        o.threads = threads;
        auto e = load(o);
        ASSERT_TRUE(e);
        auto got = logits_of(*e, prompt(3, 100), piece);
        if (want.empty()) want = got;
        EXPECT_TRUE(got == want) << file << " threads " << threads << " pieces of " << piece;
      }
  }
}

TEST(Fork, BothBranchesAreAsIfAlone) {
  for (const char* name : models) {
    auto e = load(options(oracle_model(name), kernel::Path::exact));
    ASSERT_TRUE(e);
    for (int common : {64, 70, 5}) {  // a whole page, a page and a part, a part
      auto a = *e->new_sequence();
      auto start = prompt(1, common);
      last_logits(*e, a, start);
      auto b = e->fork(a);
      ASSERT_TRUE(b.ok());
      EXPECT_EQ(e->length(*b), common);
      auto la = last_logits(*e, a, prompt(2, 9)), lb = last_logits(*e, *b, prompt(3, 9));
      for (auto [which, got] : {std::pair{2, la}, std::pair{3, lb}}) {
        auto c = *e->new_sequence();
        auto all = start;
        for (Token t : prompt(which, 9)) all.push_back(t);
        EXPECT_EQ(last_logits(*e, c, all), got) << name << " " << common;
        e->free_sequence(c);
      }
      e->free_sequence(a);
      e->free_sequence(*b);
    }
  }
}

TEST(Truncate, AttentionReachesAnyLength) {
  auto e = load(options(oracle_model("llama"), kernel::Path::exact));
  ASSERT_TRUE(e);
  auto s = *e->new_sequence();
  auto t = prompt(1, 100);
  last_logits(*e, s, t);
  auto before = last_logits(*e, s, {7});
  ASSERT_EQ(*e->truncate(s, 40), 40);
  last_logits(*e, s, {t.begin() + 40, t.end()});
  EXPECT_EQ(last_logits(*e, s, {7}), before);
  EXPECT_EQ(*e->truncate(s, 1000), 101);
  EXPECT_EQ(*e->truncate(s, 0), 0);
}

// A page that a fork still reads is not written over after a cut.
TEST(Truncate, LeavesAForkAlone) {
  auto e = load(options(oracle_model("llama"), kernel::Path::exact));
  ASSERT_TRUE(e);
  auto a = *e->new_sequence();
  last_logits(*e, a, prompt(1, 128));
  auto b = *e->fork(a);
  ASSERT_EQ(*e->truncate(a, 100), 100);
  last_logits(*e, a, prompt(5, 20));
  auto got = last_logits(*e, b, {7});
  auto c = *e->new_sequence();
  auto all = prompt(1, 128);
  all.push_back(7);
  EXPECT_EQ(last_logits(*e, c, all), got);
}

TEST(Truncate, RecurrentStateReturnsToACheckpoint) {
  auto e = load(options(oracle_model("qwen35"), kernel::Path::exact));
  ASSERT_TRUE(e);
  auto s = *e->new_sequence();
  auto t = prompt(1, 60);
  last_logits(*e, s, t);
  ASSERT_TRUE(e->checkpoint(s).ok());
  auto want = last_logits(*e, s, prompt(2, 30));
  EXPECT_EQ(*e->truncate(s, 75), 60);
  EXPECT_EQ(e->length(s), 60);
  EXPECT_EQ(last_logits(*e, s, prompt(2, 30)), want);
  EXPECT_EQ(*e->truncate(s, 61), 60);  // the checkpoint is still there
  EXPECT_EQ(*e->truncate(s, 59), 0);
  last_logits(*e, s, t);
  EXPECT_EQ(last_logits(*e, s, prompt(2, 30)), want);
}

TEST(Step, RefusesWithoutChange) {
  EngineOptions o = options(oracle_model("llama"), kernel::Path::exact);
  o.n_ctx = 20;
  o.n_seqs = 2;
  auto e = load(o);
  ASSERT_TRUE(e);
  auto a = *e->new_sequence(), b = *e->new_sequence();
  EXPECT_FALSE(e->new_sequence().ok());
  auto refused = [&](std::vector<StepItem> items, const char* says) {
    auto r = e->step(items);
    ASSERT_FALSE(r.ok()) << says;
    EXPECT_NE(r.error().what.find(says), std::string::npos) << r.error().what;
    EXPECT_EQ(e->length(a), 0);
  };
  refused({{a, prompt(1, 5), {4}}, {b, prompt(1, 21), {}}}, "21 tokens do not fit");
  refused({{a, {512}, {0}}}, "token 512");
  refused({{a, {-1}, {0}}}, "token -1");
  refused({{a, {1}, {1}}}, "wanted column 1");
  refused({{a, {1, 2}, {1, 0}}}, "ascend");
  refused({{a, {1}, {0}}, {a, {1}, {0}}}, "twice");
  refused({{SequenceId{7}, {1}, {0}}}, "no sequence 7");
  StepItem nothing{a, {}, {}};
  EXPECT_TRUE(e->step({&nothing, 1}).ok());
}

TEST(State, HeadsMustBeWholeBlocks) {
  model::StateSpec spec;
  spec.layers.push_back({.n_kv_heads = 2, .head_dim = 48});
  StateOptions o;
  EXPECT_TRUE(StateCache::check(spec, o).ok());
  o.v_type = Type::Q8_0;
  auto s = StateCache::check(spec, o);
  ASSERT_FALSE(s.ok());
  EXPECT_NE(s.error().what.find("heads of 48 are not whole blocks of 32"), std::string::npos) << s.error().what;
  o.v_type = Type::Q4_K;
  EXPECT_FALSE(StateCache::check(spec, o).ok());
}

}  // namespace
}  // namespace fewbit::runtime
