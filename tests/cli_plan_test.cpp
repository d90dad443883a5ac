// The memory plan that a command prints, against the memory that it took.  A test of whole programs: what each of them holds beside the
// engine (logits, texts, a probe of the bandwidth) counts too.
#include <cmath>

#include "cli_call.h"

using namespace fewbit::cli_test;

namespace {

// "fewbit: memory: 35.1 MiB of 20.1 GiB free: ..." in MiB.
double planned_mib(const std::string& err) {
  const size_t at = err.find("memory: ");
  double n = 0;
  char unit[8] = {};
  if (at == std::string::npos || std::sscanf(err.c_str() + at, "memory: %lf %3s", &n, unit) != 2) return 0;
  return std::string(unit) == "GiB" ? n * 1024 : n;
}

void check(const std::string& args) {
  Outcome r = call(args + " --device cpu");
  ASSERT_EQ(r.code, 0) << args << "\n" << r.err;
  const double plan = planned_mib(r.err), peak = double(r.peak_kib) / 1024, slack = std::max(0.03 * plan, 24.0);
  ASSERT_GT(plan, 0) << args << "\n" << r.err;
  EXPECT_LE(peak, plan + slack) << args << "\n" << r.err;
  EXPECT_GE(peak, plan - slack) << args << "\n" << r.err;
  std::printf("plan %7.1f MiB, peak %7.1f MiB (%+.1f): %s\n", plan, peak, peak - plan, args.substr(0, 100).c_str());
}

std::string shared(const std::string& file) {
  const std::string path = std::string(FEWBIT_SOURCE_DIR) + "/../shared/models/" + file;
  return fs::exists(path) ? path : "";
}

}  // namespace

TEST(CliPlan, IsKept) {
  Folder folder;
  std::ofstream text(folder.file("text"));
  for (int i = 0; i < 600; i++) text << "The fox walked slowly over the hill and saw a lantern in the field, where birds were asleep. ";
  text.close();
  const std::string words = folder.file("text");
  check("run -n 4 -p hello -m " + dense);
  check("run -n 4 -p hello -m " + hybrid);
  check("run -n 4 -p hello -c 30000 -m " + hybrid);
  check("run -n 4 -p hello -c 30000 -ctk q4_0 -ctv q4_0 -m " + hybrid);
  check("run -n 4 -p hello --exact -m " + hybrid);
  check("bench -p 64 -n 4 -r 1 -m " + dense);
  check("bench -p 64 -n 4 -r 1 -ctk q4_0 -ctv q4_0 -m " + hybrid);
  check("batched-bench -npp 16 -ntg 4 -npl 1,8 -r 1 -m " + hybrid);
  check("perplexity --chunks 2 -f " + words + " -m " + dense);
  check("perplexity --chunks 4 -b 2048 -f " + words + " --kl-save " + folder.file("kl") + " -m " + hybrid);
  std::string ids = "1";
  for (int i = 1; i < 2000; i++) ids += "," + std::to_string(i);
  check("eval --tokens " + ids + " -c 4096 --logits " + folder.file("npy") + " -m " + dense);
  if (const std::string moe = shared("mini-moe.iq2_xs.gguf"); !moe.empty()) check("run -n 4 -p hello -m " + moe);
  if (const std::string moe = shared("mini-moe.f16.gguf"); !moe.empty()) check("run -n 4 -p hello -m " + moe);
}

// Models whose tensors are large beside the whole: what is packed stands beside its source for a moment.
TEST(CliPlan, IsKeptByLargeTensors) {
  check("eval --tokens 1,2,3 --synthetic qwen3-0.6b:Q2_0 -c 512");
  check("eval --tokens 1,2,3 --synthetic bonsai-27b:PQ2_0 --layers 4 -c 512");
  check("eval --tokens 1,2,3 --synthetic qwen3-0.6b:PQ2_0 --layers 4 --no-repack");
}
