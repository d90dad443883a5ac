#include "runtime/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "base/log.h"

namespace fewbit::runtime {
namespace {

#if defined(FEWBIT_SANITIZED) || !defined(NDEBUG)
constexpr bool slow_build = true;
#else
constexpr bool slow_build = false;
#endif
constexpr f32 inf = std::numeric_limits<f32>::infinity(), nan = std::numeric_limits<f32>::quiet_NaN();

// Everything off: the plain softmax at temperature 1.
SampleParams plain(i64 seed = 1) {
  SampleParams p;
  p.temperature = 1;
  p.top_k = 0;
  p.top_p = 1;
  p.min_p = 0;
  p.seed = seed;
  return p;
}
SampleParams greedy() {
  SampleParams p = plain();
  p.temperature = 0;
  return p;
}

Token sample(const SampleParams& p, const std::vector<f32>& logits, const std::vector<Token>& accepted = {}) {
  Sampler s(p);
  for (Token t : accepted) s.accept(t);
  return s.sample(logits);
}

// How often each token comes in n draws.
std::vector<int> histogram(const SampleParams& p, const std::vector<f32>& logits, int n) {
  Sampler s(p);
  std::vector<int> count(logits.size());
  for (int i = 0; i < n; i++) count[size_t(s.sample(logits))]++;
  return count;
}

// Pearson's statistic against the probabilities `want`; tokens with probability 0 must not come.
f64 chi_square(const std::vector<int>& count, const std::vector<f64>& want) {
  f64 n = std::accumulate(count.begin(), count.end(), 0.0), x = 0;
  for (size_t i = 0; i < count.size(); i++) {
    if (want[i] == 0) {
      EXPECT_EQ(count[i], 0) << i;
      continue;
    }
    f64 d = count[i] - n * want[i];
    x += d * d / (n * want[i]);
  }
  return x;
}

std::vector<f64> softmax(const std::vector<f32>& x, f64 temperature = 1) {
  std::vector<f64> p(x.begin(), x.end());
  f64 max = *std::max_element(p.begin(), p.end()), sum = 0;
  for (f64& v : p) sum += v = std::exp((v - max) / temperature);
  for (f64& v : p) v /= sum;
  return p;
}

TEST(Random, KnownNumbers) {
  // An independent implementation of splitmix64 and xoshiro256** gives these.
  Random r(42);
  const u64 want[] = {1546998764402558742u, 6990951692964543102u, 12544586762248559009u, 17057574109182124193u};
  for (u64 w : want) EXPECT_EQ(r.next(), w);
  Random u(7);
  f64 sum = 0;
  for (int i = 0; i < 100000; i++) {
    f64 x = u.uniform();
    ASSERT_TRUE(x >= 0 && x < 1);
    sum += x;
  }
  EXPECT_NEAR(sum / 100000, 0.5, 0.005);
}

TEST(Sampler, GreedyTakesTheLowestIdOnTies) {
  EXPECT_EQ(sample(greedy(), {1, 3, 2, 3}), 1);
  EXPECT_EQ(sample(greedy(), {-5}), 0);
  std::vector<f32> x(1000, -1.f);
  x[700] = x[701] = x[999] = 4;
  EXPECT_EQ(sample(greedy(), x), 700);
  EXPECT_TRUE(Sampler(greedy()).is_argmax());
  EXPECT_FALSE(Sampler(plain()).is_argmax());
  SampleParams p = greedy();
  p.repeat_penalty = 1.1f;
  EXPECT_FALSE(Sampler(p).is_argmax());
  p.penalty_last_n = 0;
  EXPECT_TRUE(Sampler(p).is_argmax());
}

TEST(Sampler, OddLogits) {
  std::vector<SampleParams> all{greedy(), plain()};
  for (int i = 0; i < 3; i++) all.push_back(plain());
  all[2].top_k = 2;
  all[3].top_p = 0.9f;
  all[4].min_p = 0.1f;
  all.push_back(SampleParams{});
  for (const SampleParams& p : all) {
    EXPECT_EQ(sample(p, {}), -1);
    EXPECT_EQ(sample(p, {nan, nan}), 0);
    EXPECT_EQ(sample(p, {-inf, -inf, -inf}), 0);
    EXPECT_EQ(sample(p, {-inf, nan, 2, -inf}), 2);
    EXPECT_EQ(sample(p, {1, inf, 1, nan, -inf}), 1);
    Token t = sample(p, {1, inf, 1, inf});
    EXPECT_TRUE(t == 1 || t == 3);
    EXPECT_EQ(sample(p, {-3e38f, 3e38f, -3e38f}), 1);
    std::vector<f32> x(10000, nan);
    x[4321] = -1e30f;
    EXPECT_EQ(sample(p, x), 4321);
  }
  SampleParams p = plain();
  p.temperature = 1e-38f;
  EXPECT_EQ(sample(p, {1, 2, 1.999999f}), 1);
}

TEST(Sampler, PenaltiesAreTheFormula) {
  SampleParams p = greedy();
  // Positive divided, negative multiplied, then count * frequency + presence.
  p.repeat_penalty = 2;
  EXPECT_EQ(sample(p, {10, 5.01f, 4.99f}, {0}), 1);  // 10 / 2 = 5
  EXPECT_EQ(sample(p, {10, 4.99f, -1}, {0}), 0);
  EXPECT_EQ(sample(p, {-2, -3.99f, -9}, {0}), 1);  // -2 * 2 = -4
  EXPECT_EQ(sample(p, {-2, -4.01f, -9}, {0}), 0);
  EXPECT_EQ(sample(p, {10, 5.01f, 2}, {0, 0, 0}), 1);  // once, however often seen
  EXPECT_EQ(sample(p, {10, 4.99f, 2}, {0, 0, 0}), 0);
  p.repeat_penalty = 1;
  p.frequency_penalty = 0.5f;
  EXPECT_EQ(sample(p, {3, 1.51f}, {0, 0, 0}), 1);  // 3 - 3 * 0.5
  EXPECT_EQ(sample(p, {3, 1.49f}, {0, 0, 0}), 0);
  p.presence_penalty = 0.25f;
  EXPECT_EQ(sample(p, {3, 1.26f}, {0, 0, 0}), 1);
  EXPECT_EQ(sample(p, {3, 1.24f}, {0, 0, 0}), 0);
  p.repeat_penalty = 2;
  EXPECT_EQ(sample(p, {3, 0.76f}, {0}), 1);  // 3 / 2 - 0.75
  EXPECT_EQ(sample(p, {3, 0.74f}, {0}), 0);
  EXPECT_EQ(sample(p, {3, 0.74f}, {-1, 77, 5}), 0);  // ids that this vocabulary does not have
}

TEST(Sampler, PenaltyWindow) {
  SampleParams p = greedy();
  p.presence_penalty = 5;
  p.penalty_last_n = 2;
  EXPECT_EQ(sample(p, {3, 2, 1}, {0}), 1);
  EXPECT_EQ(sample(p, {3, 2, 1}, {0, 1}), 2);
  EXPECT_EQ(sample(p, {3, 2, 1}, {0, 1, 2}), 0);  // 0 has left the window
  EXPECT_EQ(sample(p, {3, 2, 1}, {0, 1, 2, 0}), 1);
  p.penalty_last_n = 0;
  EXPECT_EQ(sample(p, {3, 2, 1}, {0, 1}), 0);
  p.penalty_last_n = -1;
  std::vector<Token> many(1000, 2);
  many.insert(many.begin(), 0);
  EXPECT_EQ(sample(p, {3, 2, 1}, many), 1);
  // The count falls as tokens leave.
  p.penalty_last_n = 3;
  p.presence_penalty = 0;
  p.frequency_penalty = 1;
  EXPECT_EQ(sample(p, {3, 1.5f}, {0, 0, 0}), 1);
  EXPECT_EQ(sample(p, {3, 1.5f}, {0, 0, 0, 9, 9}), 0);
}

TEST(Sampler, LogitBias) {
  SampleParams p = greedy();
  p.logit_bias = {{0, -inf}, {2, 1.5f}, {99, 1}};
  EXPECT_EQ(sample(p, {9, 2, 1}), 2);
  EXPECT_FALSE(Sampler(p).is_argmax());
  p = plain();
  p.logit_bias = {{1, -inf}};
  EXPECT_EQ(histogram(p, {0, 5, 0}, 1000)[1], 0);
}

// 0.999 quantiles of chi square: 9 degrees of freedom 27.9, 4: 18.5, 2: 13.8.  The seeds are fixed, so this is no lottery.
TEST(Sampler, DrawsFromTheSoftmax) {
  std::vector<f32> x{0, 1, 2, -1, 0.5f, 1.5f, -2, 0.1f, 2.2f, 1.9f};
  EXPECT_LT(chi_square(histogram(plain(), x, 200000), softmax(x)), 27.9);
  SampleParams p = plain(2);
  p.temperature = 2.5f;
  EXPECT_LT(chi_square(histogram(p, x, 200000), softmax(x, 2.5)), 27.9);
  EXPECT_GT(chi_square(histogram(p, x, 200000), softmax(x)), 1000);
  p.temperature = 0.3f;
  p.top_k = 5;
  std::vector<f64> want = softmax(x, 0.3);
  f64 sum = 0;
  for (size_t i = 0; i < x.size(); i++) sum += want[i] *= x[i] >= 1 ? 1 : 0;
  for (f64& w : want) w /= sum;
  EXPECT_LT(chi_square(histogram(p, x, 200000), want), 18.5);
  // A vocabulary of several blocks, where few tokens matter.
  std::vector<f32> wide(1000, -30.f);
  wide[3] = 1, wide[500] = 2, wide[999] = 0;
  std::vector<f64> w = softmax(wide);
  for (f64& v : w) v = v < 1e-9 ? 0 : v;
  EXPECT_LT(chi_square(histogram(plain(3), wide, 40000), w), 13.8);
}

TEST(Sampler, TruncationKeepsWhatItShould) {
  std::vector<f32> x{std::log(0.4f), std::log(0.1f), std::log(0.3f), std::log(0.05f), std::log(0.15f)};
  auto kept = [&](SampleParams p) {
    std::vector<int> h = histogram(p, x, 20000);
    std::string s;
    for (size_t i = 0; i < h.size(); i++)
      if (h[i]) s += char('0' + i);
    return s;
  };
  SampleParams p = plain();
  EXPECT_EQ(kept(p), "01234");
  p.top_k = 3;
  EXPECT_EQ(kept(p), "024");
  p.top_k = 1;
  EXPECT_EQ(kept(p), "0");
  p.top_k = 99;
  EXPECT_EQ(kept(p), "01234");
  p = plain();
  p.top_p = 0.69f;
  EXPECT_EQ(kept(p), "02");
  p.top_p = 0.71f;
  EXPECT_EQ(kept(p), "024");
  p.top_p = 0;
  EXPECT_EQ(kept(p), "0");
  p = plain();
  p.min_p = 0.35f;  // of 0.4: 0.14
  EXPECT_EQ(kept(p), "024");
  p.min_p = 0.38f;
  EXPECT_EQ(kept(p), "02");
  p.min_p = 1;
  EXPECT_EQ(kept(p), "0");
  // top-p counts the mass of what top-k left: of 0.85, 0.4 + 0.3 is 0.82.
  p = plain();
  p.top_k = 3;
  p.top_p = 0.8f;
  EXPECT_EQ(kept(p), "02");
  // Temperature comes last: it does not change what is kept.
  p.temperature = 100;
  EXPECT_EQ(kept(p), "02");
}

// The chain as the specification words it, in double precision over a full sort.
Token chain(const SampleParams& p, const std::vector<f32>& x, f64 uniform) {
  struct C {
    f64 logit;
    Token token;
  };
  std::vector<C> c;
  for (size_t i = 0; i < x.size(); i++) c.push_back({f64(x[i]), Token(i)});
  bool top_k = p.top_k > 0 && size_t(p.top_k) < x.size();
  if (top_k || p.top_p < 1) std::stable_sort(c.begin(), c.end(), [](const C& a, const C& b) { return a.logit > b.logit; });
  if (top_k) c.resize(size_t(p.top_k));
  f64 max = -1e300;
  for (const C& v : c) max = std::max(max, v.logit);
  if (p.top_p < 1) {
    f64 total = 0, mass = 0;
    for (const C& v : c) total += std::exp(v.logit - max);
    size_t keep = 0;
    while (keep == 0 || (keep < c.size() && mass < f64(p.top_p) * total)) mass += std::exp(c[keep++].logit - max);
    c.resize(keep);
  }
  if (p.min_p > 0) std::erase_if(c, [&](const C& v) { return v.logit < max + std::log(f64(p.min_p)); });
  // The draw goes by likelihood after top-k, else by id.
  if (!top_k) std::sort(c.begin(), c.end(), [](const C& a, const C& b) { return a.token < b.token; });
  f64 total = 0;
  for (const C& v : c) total += std::exp((v.logit - max) / f64(p.temperature));
  f64 left = uniform * total;
  for (const C& v : c) {
    f64 w = std::exp((v.logit - max) / f64(p.temperature));
    if (left < w) return v.token;
    left -= w;
  }
  return c.back().token;
}

TEST(Sampler, SameAsTheFullSort) {
  std::mt19937 rng(11);
  int differ = 0, cases = 8000;
  for (int i = 0; i < cases; i++) {
    size_t n = 1 + rng() % (i % 10 == 0 ? 5000 : 300);
    std::vector<f32> x(n);
    bool ties = rng() % 3 == 0;
    std::normal_distribution<f32> normal(0, 0.5f + f32(rng() % 8));
    for (f32& v : x) v = ties ? f32(int(rng() % 7)) : normal(rng);
    SampleParams p = plain(i);
    if (rng() % 2) p.top_k = i32(1 + rng() % (rng() % 2 ? 5 : 400));
    if (rng() % 2) p.top_p = f32(rng() % 1000) / 1000;
    if (rng() % 2) p.min_p = f32(rng() % 100) / 300;
    p.temperature = 0.1f + f32(rng() % 30) / 10;
    if (sample(p, x) != chain(p, x, Random(u64(i)).uniform())) differ++;
  }
  EXPECT_LE(differ, 4) << "of " << cases << "; single precision may move a border now and then, not more";
}

TEST(Sampler, SeedDecides) {
  std::vector<f32> x(500);
  for (size_t i = 0; i < x.size(); i++) x[i] = std::sin(f32(i));
  auto run = [&](SampleParams p) {
    Sampler s(p);
    std::vector<Token> out;
    for (int i = 0; i < 50; i++) {
      out.push_back(s.sample(x));
      s.accept(out.back());
    }
    return out;
  };
  for (SampleParams p : {SampleParams{}, plain()}) {
    p.seed = 5;
    p.repeat_penalty = 1.1f;
    EXPECT_EQ(run(p), run(p));
    SampleParams q = p;
    q.seed = 6;
    EXPECT_NE(run(p), run(q));
    q.seed = -1;
    Sampler a(q), b(q);
    EXPECT_NE(a.seed(), b.seed());
    q.seed = i64(a.seed());  // the one reported makes the run again
    Sampler c(q);
    for (int i = 0; i < 20; i++) ASSERT_EQ(a.sample(x), c.sample(x));
  }
}

TEST(SampleParams, Check) {
  EXPECT_TRUE(SampleParams{}.check().ok());
  auto what = [](auto change) {
    SampleParams p;
    change(p);
    Status s = p.check();
    return s.ok() ? std::string("ok") : s.error().what;
  };
  EXPECT_EQ(what([](auto& p) { p.temperature = -1; }), "temperature is -1, must be a number >= 0");
  EXPECT_NE(what([](auto& p) { p.temperature = nan; }), "ok");
  EXPECT_NE(what([](auto& p) { p.temperature = inf; }), "ok");
  EXPECT_EQ(what([](auto& p) { p.top_k = -2; }), "top_k is -2, must be >= 0");
  EXPECT_NE(what([](auto& p) { p.top_p = 1.5f; }), "ok");
  EXPECT_NE(what([](auto& p) { p.min_p = nan; }), "ok");
  EXPECT_NE(what([](auto& p) { p.repeat_penalty = 0; }), "ok");
  EXPECT_NE(what([](auto& p) { p.presence_penalty = inf; }), "ok");
  EXPECT_NE(what([](auto& p) { p.penalty_last_n = -2; }), "ok");
  EXPECT_NE(what([](auto& p) { p.logit_bias = {{-1, 0}}; }), "ok");
  EXPECT_NE(what([](auto& p) { p.logit_bias = {{1, nan}}; }), "ok");
  EXPECT_EQ(what([](auto& p) { p.logit_bias = {{1, -inf}}; }), "ok");
}

TEST(SampleParams, DefaultsOfTheFile) {
  std::string path = (std::filesystem::temp_directory_path() / ("fewbit-sampling-" + std::to_string(std::random_device{}()))).string();
  auto write = [&](const std::vector<gguf::KeyValue>& metadata) {
    auto w = gguf::Writer::create(path, metadata, {});
    ASSERT_TRUE(w.ok()) << w.error().what;
    ASSERT_TRUE(w->finish().ok());
  };
  using V = gguf::Value;
  write({{"general.architecture", V::of(std::string("llama"))},
         {"general.sampling.temp", V::of(0.6f)},
         {"general.sampling.top_k", V::of(i32(20))},
         {"general.sampling.min_p", V::of(2.0f)},                     // of no use
         {"general.sampling.top_p", V::of(std::string("nonsense"))},  // likewise
         {"general.sampling.penalty_last_n", V::of(i32(-1))},
         {"general.sampling.penalty_repeat", V::of(1.05f)}});
  log::set_level(log::Level::off);
  auto file = gguf::File::open(path);
  ASSERT_TRUE(file.ok()) << file.error().what;
  SampleParams p = sampling_defaults(*file);
  log::set_level(log::Level::warn);
  std::filesystem::remove(path);
  EXPECT_EQ(p.temperature, 0.6f);
  EXPECT_EQ(p.top_k, 20);
  EXPECT_EQ(p.min_p, 0.05f);
  EXPECT_EQ(p.top_p, 0.95f);
  EXPECT_EQ(p.penalty_last_n, -1);
  EXPECT_EQ(p.repeat_penalty, 1.05f);
}

// Qwen3.5's vocabulary.  Most of these take 0.1 ms, the flat one with top-p 20; processor time, so a busy machine does not matter.
TEST(Sampler, LargeVocabularyIsQuick) {
  std::vector<f32> x(248320);
  std::mt19937 rng(3);
  std::normal_distribution<f32> normal(0, 3);
  for (f32& v : x) v = normal(rng);
  std::vector<f32> rising(x), flat(x.size(), 1.f);
  std::sort(rising.begin(), rising.end());
  std::vector<SampleParams> all{SampleParams{}, plain(), plain(), greedy()};
  all[0].repeat_penalty = 1.1f;
  all[2].top_p = 0.9f;
  for (const SampleParams& p : all) {
    for (const std::vector<f32>* logits : {&x, &rising, &flat}) {
      Sampler s(p);
      std::clock_t begin = std::clock();
      for (int i = 0; i < 4; i++) s.accept(s.sample(*logits));
      EXPECT_LT(f64(std::clock() - begin) / CLOCKS_PER_SEC, 4 * (slow_build ? 1.0 : 0.1));
    }
  }
}

}  // namespace
}  // namespace fewbit::runtime
