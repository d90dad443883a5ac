#include "runtime/scheduler.h"

#include <map>

#include "runtime/test_models.h"

namespace fewbit::runtime {
namespace {

EngineOptions options() {
  EngineOptions o = exact_options(oracle_model("qwen35"));
  o.path = kernel::Path::fast;
  o.n_ctx = 256;
  o.n_seqs = 3;
  o.ubatch = 32;
  return o;
}

std::vector<Token> prompt(int which, int n) {
  std::vector<Token> t;
  for (int i = 0; i < n; i++) t.push_back(Token((which * 131 + i * i * 17 + i * 7) % 500));
  return t;
}

SampleParams greedy_params() {
  SampleParams p;
  p.temperature = 0;
  return p;
}

struct Answer {
  std::vector<Token> tokens;
  StopReason reason = StopReason::cancelled;
  bool done = false;
};

Request request(std::vector<Token> p, Answer& a, int n, SampleParams sampling = greedy_params()) {
  Request r;
  r.prompt = std::move(p);
  r.sampling = sampling;
  r.max_tokens = n;
  r.ignore_end = true;
  r.on_token = [&a](Token t) {
    a.tokens.push_back(t);
    return true;
  };
  r.on_done = [&a](StopReason why) {
    a.reason = why;
    a.done = true;
  };
  return r;
}

void run_all(Scheduler& s) {
  for (;;) {
    auto more = s.step();
    ASSERT_TRUE(more.ok()) << more.error().what;
    if (!*more) return;
  }
}

// Equal prompts that start at different times, with more requests than sequences and prompts longer than a batch: equal answers, and equal
// to the answer alone.
TEST(Scheduler, EqualPromptsGiveEqualAnswers) {
  auto e = load(options());
  ASSERT_TRUE(e);
  const int lengths[] = {70, 5};
  std::map<int, std::vector<Token>> alone;
  for (int n : lengths) alone[n] = greedy(*e, prompt(1, n), 10);
  for (int prefill : {0, 7}) {
    Scheduler s(*e, {.prefill_columns = prefill});
    std::vector<Answer> answers(7);
    for (size_t i = 0; i < answers.size(); i++) {
      ASSERT_TRUE(s.submit(request(prompt(1, lengths[i % 2]), answers[i], 10)).ok());
      for (size_t k = 0; k < i; k++) ASSERT_TRUE(s.step().ok());
    }
    run_all(s);
    for (size_t i = 0; i < answers.size(); i++) {
      EXPECT_EQ(answers[i].tokens, alone[lengths[i % 2]]) << i;
      EXPECT_EQ(answers[i].reason, StopReason::length);
    }
    EXPECT_EQ(s.running() + s.waiting(), 0u);
  }
}

TEST(Scheduler, SampledAnswersDoNotDependOnTheCompany) {
  auto e = load(options());
  ASSERT_TRUE(e);
  SampleParams p;
  p.seed = 42;
  Answer alone, together, other;
  {
    Scheduler s(*e);
    ASSERT_TRUE(s.submit(request(prompt(1, 20), alone, 12, p)).ok());
    run_all(s);
  }
  Scheduler s(*e);
  ASSERT_TRUE(s.submit(request(prompt(2, 50), other, 15)).ok());
  ASSERT_TRUE(s.step().ok());
  ASSERT_TRUE(s.submit(request(prompt(1, 20), together, 12, p)).ok());
  run_all(s);
  EXPECT_EQ(alone.tokens, together.tokens);
  EXPECT_EQ(other.tokens, greedy(*e, prompt(2, 50), 15));
}

TEST(Scheduler, CancelsAndStops) {
  auto e = load(options());
  ASSERT_TRUE(e);
  Scheduler s(*e);
  std::vector<Answer> a(5);
  std::vector<RequestId> id;
  for (auto& x : a) id.push_back(*s.submit(request(prompt(1, 10), x, 50)));
  ASSERT_TRUE(s.step().ok());
  s.cancel(id[0]);  // running
  s.cancel(id[4]);  // waiting
  s.cancel(999);
  ASSERT_TRUE(s.step().ok());
  EXPECT_TRUE(a[0].done && a[4].done && !a[1].done);
  EXPECT_EQ(a[0].reason, StopReason::cancelled);
  EXPECT_TRUE(a[4].tokens.empty());
  run_all(s);
  EXPECT_EQ(a[1].tokens.size(), 50u);

  Answer stopped;
  Request r = request(prompt(1, 10), stopped, 50);
  r.on_token = [&](Token t) {
    stopped.tokens.push_back(t);
    return stopped.tokens.size() < 3;
  };
  ASSERT_TRUE(s.submit(std::move(r)).ok());
  run_all(s);
  EXPECT_EQ(stopped.tokens.size(), 3u);
  EXPECT_EQ(stopped.reason, StopReason::stop_string);
}

TEST(Scheduler, TheContextEndsAnAnswer) {
  EngineOptions o = options();
  o.n_ctx = 24;
  auto e = load(o);
  ASSERT_TRUE(e);
  Scheduler s(*e);
  Answer a, none;
  ASSERT_TRUE(s.submit(request(prompt(1, 20), a, -1)).ok());
  ASSERT_TRUE(s.submit(request(prompt(1, 20), none, 0)).ok());
  run_all(s);
  EXPECT_EQ(a.reason, StopReason::context);
  EXPECT_EQ(a.tokens.size(), 5u);  // four in the context, one more that nothing follows
  EXPECT_TRUE(none.done && none.tokens.empty());
  auto refused = s.submit(request(prompt(1, 25), a, 1));
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().what.find("25 tokens does not fit"), std::string::npos);
  EXPECT_FALSE(s.submit(request({}, a, 1)).ok());
  EXPECT_FALSE(s.submit(request({-5}, a, 1)).ok());
}

}  // namespace
}  // namespace fewbit::runtime
