#include "kernel/verify.h"

#include <gtest/gtest.h>

#include "kernel/cpu/matmul.h"

namespace fewbit::kernel {
namespace {

struct OnCpu {
  std::unique_ptr<Device> device = std::move(open_device("cpu", {.threads = 2}).value());
  const Kernels& table(Path path) { return *kernels_for(*device, path).value(); }
};

std::string text(const VerifyRow& r) {
  return r.op + " " + r.type + " " + r.shape + " x " + std::to_string(r.columns) + " " + r.kernel + ": " + r.note;
}

TEST(Verify, EveryCaseOfBothPaths) {
  OnCpu cpu;
  for (Path path : {Path::fast, Path::exact}) {
    const VerifyReport report = verify(*cpu.device, cpu.table(path), {}, [](const VerifyRow& r) {
      EXPECT_EQ(r.verdict, Verdict::ok) << text(r) << " nmse " << r.nmse << " max " << r.max_error;
    });
    EXPECT_GT(report.counts[0].ok, 900);
    EXPECT_EQ(report.counts[0].fail, 0);
    EXPECT_EQ(report.counts[0].missing, 0);
  }
}

// Weights that stay as they lie in the file have kernels of their own.
TEST(Verify, EveryCaseOfTheFilesOwnLayout) {
  OnCpu cpu;
  VerifyOptions options;
  options.repack = false;
  int products = 0;
  const VerifyReport report = verify(*cpu.device, cpu.table(Path::fast), options, [&](const VerifyRow& r) {
    EXPECT_EQ(r.verdict, Verdict::ok) << text(r) << " nmse " << r.nmse << " max " << r.max_error;
    if (r.op != "matmul") return;
    products++;
    EXPECT_TRUE(r.kernel.ends_with(".file")) << text(r);
  });
  EXPECT_GT(products, 500);
  EXPECT_EQ(report.counts[0].fail, 0);
}

TEST(Verify, NoticesEveryFault) {
  OnCpu cpu;
  VerifyOptions options;
  options.mutate = true;
  options.every = 7;  // `fewbit verify --mutate` does all
  const VerifyReport report = verify(*cpu.device, cpu.table(Path::fast), options,
                                     [](const VerifyRow& r) { EXPECT_EQ(r.verdict, Verdict::ok) << text(r) << " nmse " << r.nmse; });
  EXPECT_GE(report.counts.size(), 9u);  // eight classes and the sum
  for (const VerifyCount& c : report.counts) {
    EXPECT_EQ(c.fail, 0) << c.name;
    EXPECT_GT(c.ok, 5) << c.name;
  }
}

TEST(Verify, SelfTestPassesAndNamesABrokenKernel) {
  OnCpu cpu;
  const Kernels& good = cpu.table(Path::fast);
  const Status s = self_test(*cpu.device, good);
  EXPECT_TRUE(s.ok()) << (s.ok() ? "" : s.error().what);
  Kernels broken = good;
  broken.matmul = [](Ctx& ctx, std::span<const Kernels::Product> products) {  // loses the sign of one result
    cpu::matmul(ctx, products);
    products[0].y[0] = -products[0].y[0];
  };
  const Status t = self_test(*cpu.device, broken);
  ASSERT_FALSE(t.ok());
  EXPECT_NE(t.error().what.find("is broken on this machine"), std::string::npos) << t.error().what;
}

}  // namespace
}  // namespace fewbit::kernel
