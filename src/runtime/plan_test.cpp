// The memory plan: refused with numbers, and kept.
#include "runtime/plan.h"

#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include "runtime/test_models.h"

namespace fewbit::runtime {
namespace {

u64 status_kib(const char* key) {
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(key)) return std::stoull(line.substr(std::string(key).size() + 1));
  return 0;
}

// In a process of its own: loads, runs a prompt and some tokens; (plan, peak) in bytes.
std::pair<u64, u64> peak_of(const EngineOptions& o) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  pid_t child = fork();
  if (child == 0) {
    u64 out[2] = {0, 0};
    auto e = Engine::load(o);
    if (e.ok()) {
      auto seq = (*e)->new_sequence();
      StepItem item{*seq, std::vector<Token>(300, 5), {299}};
      bool fine = (*e)->step({&item, 1}).ok();
      for (int i = 0; fine && i < 4; i++) {
        item.tokens = {Token(i)};
        item.want = {0};
        fine = (*e)->step_argmax({&item, 1}).ok();
      }
      out[0] = fine ? (*e)->memory().total() : 0;
      out[1] = status_kib("VmHWM:") * 1024;
    }
    [[maybe_unused]] ssize_t n = write(ends[1], out, sizeof out);
    _exit(0);
  }
  close(ends[1]);
  u64 got[2] = {0, 0};
  EXPECT_EQ(read(ends[0], got, sizeof got), ssize_t(sizeof got));
  close(ends[0]);
  int status;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  return {got[0], got[1]};
}

TEST(Plan, SizesThatADeviceHasNoKernelsForAreRefused) {
  model::Config c;
  c.layers.resize(2);
  c.layers[1].recurrent = true;
  c.head_dim = 256, c.delta.dim = 128, c.delta.conv = 4;
  const DeviceKind cpu = DeviceKind::cpu, gpu = DeviceKind::cuda;
  EXPECT_TRUE(check_kernel_limits(c, cpu).ok());
  EXPECT_TRUE(check_kernel_limits(c, gpu).ok());
  auto refused = [&](const char* says) {
    EXPECT_TRUE(check_kernel_limits(c, cpu).ok()) << says;
    const Status s = check_kernel_limits(c, gpu);
    ASSERT_FALSE(s.ok()) << says;
    EXPECT_NE(s.error().what.find(says), std::string::npos) << s.error().what;
  };
  c.head_dim = 272;
  refused("heads of 272");
  c.head_dim = 256, c.delta.dim = 48;
  refused("heads of 48");
  c.delta.dim = 256;
  refused("heads of 256");
  c.delta.dim = 16, c.delta.conv = 9;
  refused("over 9 tokens");
  c.delta.conv = 8, c.head_dim = 24;
  EXPECT_FALSE(check_kernel_limits(c, cpu).ok());
  EXPECT_FALSE(check_kernel_limits(c, gpu).ok());
}

TEST(Plan, IsKept) {
#ifdef FEWBIT_SANITIZED
  GTEST_SKIP() << "the sanitizer's own memory is not planned";
#endif
  auto check = [](EngineOptions o, const char* what) {
    o.device = "cpu";
    auto [plan, peak] = peak_of(o);
    ASSERT_GT(plan, 0u) << what;
    f64 slack = std::max(0.03 * f64(plan), 24.0 * (1 << 20));
    EXPECT_LE(f64(peak), f64(plan) + slack) << what;
    EXPECT_GE(f64(peak), f64(plan) - slack) << what;
    testing::Test::RecordProperty(what, fmt::format("plan {:.1f} MiB, peak {:.1f} MiB", f64(plan) / (1 << 20), f64(peak) / (1 << 20)));
  };
  for (bool exact : {false, true}) {
    EngineOptions o;
    o.path = exact ? kernel::Path::exact : kernel::Path::fast;
    o.model = own_model("mini-dense.pq2_0.gguf");
    check(o, exact ? "dense_exact" : "dense");
    o.n_seqs = 8;
    o.n_ctx = 16384;
    check(o, exact ? "eight_exact" : "eight");
    kernel::Path path = o.path;
    o = EngineOptions();
    o.path = path;
    o.synthetic = "smollm2-135m:Q4_1";
    o.layers = 10;
    check(o, exact ? "synthetic_exact" : "synthetic");
  }
}

TEST(Plan, RefusesWhatDoesNotFit) {
  EngineOptions o;
  o.device = "cpu";
  o.model = own_model("mini-dense.pq2_0.gguf");
  o.n_ctx = 1 << 26;
  o.n_seqs = 64;
  auto p = Engine::plan(o);
  ASSERT_FALSE(p.ok());
  EXPECT_EQ(p.error().code, Code::out_of_memory);
  for (const char* part : {"not enough memory", "weights", "KV", "would fit: -c ", "-ctk q4_0"})
    EXPECT_NE(p.error().what.find(part), std::string::npos) << p.error().what;
  EXPECT_EQ(p.error().what.find('\n'), std::string::npos);
  o.model.clear();
  o.synthetic = "bonsai-27b:F16";
  o.n_ctx = 0;
  o.n_seqs = 1;
  auto weights = Engine::plan(o);
  ASSERT_FALSE(weights.ok());
  EXPECT_NE(weights.error().what.find("the weights alone are too large"), std::string::npos) << weights.error().what;
}

TEST(Plan, ChecksOptions) {
  auto refused = [](EngineOptions o, const char* says) {
    o.device = "cpu";
    auto p = Engine::plan(o);
    ASSERT_FALSE(p.ok()) << says;
    EXPECT_NE(p.error().what.find(says), std::string::npos) << p.error().what;
  };
  EngineOptions o;
  refused(o, "model file");
  o.model = own_model("mini-dense.pq2_0.gguf");
  o.n_seqs = 0;
  refused(o, "-np");
  o.n_seqs = 1;
  o.ubatch = 0;
  refused(o, "-ub");
  o.ubatch = 512;
  o.k_type = Type::Q4_K;
  refused(o, "-ctk");
  o.k_type = Type::F16;
  o.model = "/nowhere.gguf";
  refused(o, "/nowhere.gguf");
}

}  // namespace
}  // namespace fewbit::runtime
