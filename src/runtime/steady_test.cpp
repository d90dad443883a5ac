// What must hold for every token: nothing is allocated, every input of a product is seen by the tap, every operation by the lister.
#include <atomic>
#include <cstdlib>
#include <map>
#include <new>

#include "runtime/test_models.h"

#ifndef FEWBIT_SANITIZED
// Counts allocations of the whole program while it is told to.
static std::atomic<bool> counting{false};
static std::atomic<int> allocations{0};

// Not inlined: GCC would otherwise see free() meet a pointer from new, and warn.
[[gnu::noinline]] void* operator new(size_t n) {
  if (counting) allocations++;
  if (void* p = std::malloc(n)) return p;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(size_t n, const std::nothrow_t&) noexcept {  // std::stable_sort's
  if (counting) allocations++;
  return std::malloc(n);
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, size_t) noexcept { std::free(p); }
#endif

namespace fewbit::runtime {
namespace {

#ifndef FEWBIT_SANITIZED
TEST(Steady, StepAllocatesNothing) {
  // The default path; the exact one's products keep lists of columns on the heap.
  for (const char* name : {"qwen35", "qwen3moe"}) {
    EngineOptions o = exact_options(oracle_model(name));
    o.path = kernel::Path::fast;
    o.n_seqs = 2;
    auto e = load(o);
    ASSERT_TRUE(e);
    auto a = *e->new_sequence(), b = *e->new_sequence();
    std::vector<StepItem> items = {{a, {1, 2, 3}, {2}}, {b, {4}, {0}}};
    auto step = [&] { return e->step(items).ok() && e->step_argmax(items).ok(); };
    ASSERT_TRUE(step());
    items[0] = {a, {5}, {0}};
    // Lists of tiles grow with the context, once a page.
    for (int i = 0; i < 34; i++) ASSERT_TRUE(step());
    allocations = 0;
    counting = true;
    bool fine = true;
    for (int i = 0; i < 20; i++) fine &= step();
    counting = false;
    EXPECT_TRUE(fine);
    EXPECT_EQ(allocations, 0) << name;
  }
}
#endif

TEST(Tap, SeesEveryInputOfEveryWeight) {
  auto e = load(exact_options(oracle_model("qwen3moe")));
  ASSERT_TRUE(e);
  std::map<std::string, std::map<int, int>> columns;  // weight -> expert -> columns
  e->tap_inputs([&](const std::string& w, int expert, const f32* x, int n, int cols) {
    columns[w][expert] += cols;
    f64 sum = 0;
    for (int i = 0; i < n * cols; i++) sum += f64(x[i]) * x[i];
    EXPECT_GT(sum, 0) << w;
  });
  std::vector<Token> tokens = {1, 2, 3, 4, 5, 6, 7};
  auto with = logits_of(*e, tokens);
  e->tap_inputs({});
  EXPECT_EQ(with, logits_of(*e, tokens));
  for (const kernel::Weight& w : e->weights()) {
    // A tied head is the embedding table.
    if (w.name == "token_embd.weight" && !columns.count(w.name)) continue;
    ASSERT_TRUE(columns.count(w.name)) << w.name;
    int all = 0;
    for (auto [expert, n] : columns[w.name]) {
      EXPECT_EQ(expert >= 0, w.experts > 1) << w.name;
      all += n;
    }
    EXPECT_EQ(all, w.experts > 1 ? 2 * 7 : 7) << w.name;  // two experts for each token
  }
}

// A rotated weight's columns meet the rotated input, and that is what an importance matrix must weigh.
TEST(Tap, ShowsTheRotatedInput) {
  auto e = load(exact_options(own_model("mini-hybrid.pq2_0.gguf")));
  ASSERT_TRUE(e);
  std::map<std::string, std::vector<f32>> seen;
  e->tap_inputs([&](const std::string& w, int, const f32* x, int n, int) { seen[w].assign(x, x + n); });
  logits_of(*e, {5});
  const auto &plain = seen.at("blk.0.ssm_alpha.weight"), &rotated = seen.at("blk.0.attn_qkv.weight");
  ASSERT_EQ(plain.size(), rotated.size());
  f64 a = 0, b = 0, difference = 0;
  for (size_t i = 0; i < plain.size(); i++) {
    a += f64(plain[i]) * plain[i];
    b += f64(rotated[i]) * rotated[i];
    difference = std::max(difference, std::abs(f64(plain[i]) - rotated[i]));
  }
  EXPECT_NEAR(a, b, 1e-4 * a);  // the rotation keeps the norm
  EXPECT_GT(difference, 0.1);
  EXPECT_EQ(seen.at("blk.0.attn_gate.weight"), rotated);
}

// Norm, q, k, v, attention, norm, output, norm, gate and up, norm, down: eleven entries (a product each, even where several share a
// launch); a DeltaNet layer has one product more.  Around them the embedding, the last norm and the head.
TEST(Launches, AreFewPerLayer) {
  for (auto [model, entries] : {std::pair{"mini-hybrid.pq2_0.gguf", 6 * 12 + 2 * 11 + 3}, std::pair{"mini-dense.pq2_0.gguf", 5 * 11 + 3}}) {
    auto e = load(exact_options(own_model(model)));
    ASSERT_TRUE(e);
    auto s = *e->new_sequence();
    StepItem item{s, {5}, {0}};
    std::vector<kernel::Launch> launches;
    e->record_launches(&launches);
    ASSERT_TRUE(e->step({&item, 1}).ok());
    e->record_launches(nullptr);
    EXPECT_EQ(launches.size(), size_t(entries)) << model;
  }
}

}  // namespace
}  // namespace fewbit::runtime
