#include "kernel/ab.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <fstream>
#include <random>

#include "base/clock.h"

namespace fewbit::kernel {
namespace {

// A machine as shared ones are: its clock wanders by several per cent from one moment to the next, and now and then a run is held up.
struct Machine {
  std::mt19937_64 rng{7};
  f64 clock = 1;
  f64 time(f64 work) {
    clock = std::clamp(clock * (1 + 0.01 * std::normal_distribution<f64>()(rng)), 0.8, 1.25);
    const f64 held_up = rng() % 20 == 0 ? 1.0 + f64(rng() % 100) / 100 : 1.0;
    return work * clock * held_up;
  }
};
class Simulated : public Contestant {
 public:
  Simulated(Machine& m, f64 seconds, u32 bits) : m_(m), seconds_(seconds), bits_(bits) {}
  f64 run(int times) override { return m_.time(seconds_ * times); }
  std::vector<u32> bits() override { return {bits_}; }

 private:
  Machine& m_;
  f64 seconds_;
  u32 bits_;
};

TEST(Ab, FindsTwoPerCentOnAWanderingClockAndNothingWhereNothingIs) {
  int found = 0, false_alarms = 0;
  const int trials = 12;
  for (int i = 0; i < trials; i++) {
    Machine m;
    m.rng.seed(u64(i));
    Simulated a(m, 1e-3, 1), same(m, 1e-3, 1), slow(m, 1.02e-3, 2);
    AbOptions o;
    o.seed = u64(i);
    const AbResult none = compare(a, same, o), some = compare(a, slow, o);
    false_alarms += none.verdict != AbResult::no_difference;
    found += some.verdict == AbResult::a_faster;
    EXPECT_TRUE(none.same_bits);
    EXPECT_FALSE(some.same_bits);
    EXPECT_NEAR(some.ratio.median, 1.02, 0.01);
    EXPECT_EQ(compare(slow, a, o).verdict == AbResult::a_faster, false);
  }
  EXPECT_GE(found, trials - 1);
  EXPECT_LE(false_alarms, 1);
}

TEST(Ab, ARatioBelowTheFloorIsNoDifference) {
  std::vector<Round> rounds;
  for (int i = 0; i < 31; i++) rounds.push_back({1, 1.008 + 0.0001 * (i % 3), 1, 1 + 0.0001 * (i % 3)});
  EXPECT_EQ(judge_rounds(rounds, 1).verdict, AbResult::a_faster);
  EXPECT_EQ(judge_rounds(rounds, 1, 0.01).verdict, AbResult::no_difference);
  EXPECT_EQ(judge_rounds(rounds, 1, 0.005).verdict, AbResult::a_faster);
}

// A control off to one side says as much about the other: A against itself was called 3 % faster, so 2 % slower is nothing.
TEST(Ab, TheControlCountsInBothDirections) {
  std::vector<Round> rounds;
  for (int i = 0; i < 31; i++) rounds.push_back({1, 1.02 + 0.0001 * (i % 3), 1, 0.97 + 0.0001 * (i % 3)});
  EXPECT_EQ(judge_rounds(rounds, 1).verdict, AbResult::no_difference);
  for (Round& r : rounds) r.control_b = 0.99;
  EXPECT_EQ(judge_rounds(rounds, 1).verdict, AbResult::a_faster);
}

// Disturbances that last for some rounds are few, however many rounds they fill, and may miss the control.
TEST(Ab, DisturbancesOfSomeRoundsAreNoDifference) {
  int verdicts = 0;
  for (u64 seed = 0; seed < 40; seed++) {
    std::mt19937_64 rng(seed);
    std::normal_distribution<f64> noise(0, 0.01);
    std::vector<Round> rounds;
    f64 b = 0;
    for (int i = 0; i < 101; i++) {
      if (i % 8 == 0) b = noise(rng);
      rounds.push_back({1, 1 + b + 0.1 * noise(rng), 1, 1 + 0.1 * noise(rng)});
    }
    verdicts += judge_rounds(rounds, seed).verdict != AbResult::no_difference;
  }
  EXPECT_LE(verdicts, 8);  // rounds drawn one by one: 17
}

TEST(Ab, ARatioInsideTheControlsIntervalIsNoDifference) {
  std::vector<Round> rounds;
  for (int i = 0; i < 31; i++) {
    const f64 wild = i % 2 ? 1.2 : 0.95;  // A against itself: nothing below 20 % can be told
    rounds.push_back({1, 1.05 + 0.001 * (i % 3), 1, wild});
  }
  EXPECT_EQ(judge_rounds(rounds, 1).verdict, AbResult::no_difference);
  for (Round& r : rounds) r.control_b = 1;
  EXPECT_EQ(judge_rounds(rounds, 1).verdict, AbResult::a_faster);
}

TEST(Ab, KernelsOfThisMachineGiveTheSameBitsAndAPlantedLossIsFound) {
  auto device = std::move(open_device("cpu", {.threads = 1}).value());
  AbShape shape;
  shape.rows = 512;
  shape.n = 1024;
  shape.cold = false;
  AbOptions o;
  o.seconds = 2e-4;
  const std::vector<std::string> names = kernel_names(shape.type);
  ASSERT_FALSE(names.empty());
  for (const char* op : {"matmul", "moe_glu", "moe_down"}) {
    shape.op = op;
    shape.experts = shape.op == "matmul" ? 0 : 3;
    for (int cols : {1, 4}) {
      shape.cols = cols;
      auto a = std::move(cpu_contestant(*device, names.front(), shape).value());
      a->run(1);
      for (const std::string& name : names) {
        for (int panel : {0, 3}) {
          shape.panel = panel;
          auto b = std::move(cpu_contestant(*device, name, shape).value());
          b->run(1);
          EXPECT_EQ(a->bits(), b->bits()) << op << " " << name << " " << cols << " columns, panels of " << panel;
        }
        shape.panel = 0;
      }
    }
  }
  EXPECT_FALSE(cpu_contestant(*device, "nonsense", shape).ok());
  shape.op = "matmul";
  shape.experts = 0;
  bool found = false;
  for (int attempt = 0; attempt < 5 && !found; attempt++) {  // a quarter; the machine may be busy
    auto a = std::move(cpu_contestant(*device, names.back(), shape).value());
    shape.planted = 0.25;
    auto b = std::move(cpu_contestant(*device, names.back(), shape).value());
    shape.planted = 0;
    found = compare(*a, *b, o).verdict == AbResult::a_faster;
  }
  EXPECT_TRUE(found);
}

u64 resident_pages() {
  std::ifstream in("/proc/self/statm");
  u64 all = 0, resident = 0;
  in >> all >> resident;
  return resident;
}

// Cold contestants with the same bytes share them, and a matrix of a few hundred bytes has its hundred thousand copies soon.
TEST(Ab, ContestantsOfOneLayoutShareTheirWeights) {
  auto device = std::move(open_device("cpu", {.threads = 1}).value());
  AbShape shape;
  shape.rows = 16;
  shape.n = 128;
  const std::vector<std::string> names = kernel_names(shape.type);
  const f64 start = now_s();
  const u64 before = resident_pages();
  auto a = std::move(cpu_contestant(*device, names.front(), shape).value());
  const u64 one = resident_pages() - before;
  auto b = std::move(cpu_contestant(*device, names.front(), shape).value());
  EXPECT_LT(resident_pages() - before, one + one / 10 + 100);
  EXPECT_LT(now_s() - start, 10);
  a->run(3);
  b->run(3);
  EXPECT_EQ(a->bits(), b->bits());
  if (names.front() != names.back()) {  // another layout: bytes of its own
    auto c = std::move(cpu_contestant(*device, names.back(), shape).value());
    EXPECT_EQ(a->bits(), c->bits());
  }
}

TEST(Ab, AFormatIsTheLastWordOfAKernelsName) {
  EXPECT_EQ(named_format("auto.b2.g128.PQ2_0", Type::Q1_0), Type::PQ2_0);
  EXPECT_EQ(named_format("IQ2_XS", Type::Q1_0), Type::IQ2_XS);
  EXPECT_EQ(named_format("matvec", Type::Q1_0), Type::Q1_0);
  EXPECT_EQ(named_format("auto.PQ2_0.wide", Type::Q1_0), Type::Q1_0);
  EXPECT_EQ(named_format("", Type::Q1_0), Type::Q1_0);
}

TEST(Ab, PlantedRowsAreWithinAFifthOfTheShare) {
  AbShape shape;
  for (const auto& [rows, share, want] :
       {std::tuple(2048, 0.02, 48), std::tuple(2048, 0.25, 512), std::tuple(16, 1.0, 16), std::tuple(17, 1.0, 16), std::tuple(24, 1.0, 24),
        std::tuple(3, 0.02, 0), std::tuple(32, 0.1, 0), std::tuple(64, 0.32, 0), std::tuple(64, 0.3, 16), std::tuple(2048, 0.001, 0)}) {
    shape.rows = rows;
    shape.planted = share;
    const auto r = planted_rows(shape);
    EXPECT_EQ(r.ok() ? r.value() : 0, want) << rows << " rows, " << share;
  }
}

// A contestant that ends, or says stop, in the middle of a round: the rounds before it are counted, nothing is judged.
TEST(Ab, AStopInARoundGivesNoVerdict) {
  struct Stops : Contestant {
    std::atomic<bool>* flag;
    int left;
    bool ends, gone = false;
    Stops(std::atomic<bool>* f, int n, bool e) : flag(f), left(n), ends(e) {}
    f64 run(int) override {
      if (--left > 0) return 1e-3;
      if (ends)
        gone = true;
      else
        *flag = true;
      return 0;
    }
    std::vector<u32> bits() override { return {1}; }
    bool lost() const override { return gone; }
  };
  for (bool ends : {false, true}) {
    std::atomic<bool> flag{false};
    Stops a(&flag, 1000, false), b(&flag, 2 + 2 * 3 + 1, ends);  // the fourth round's first run of B
    AbOptions o;
    o.cancel = &flag;
    const AbResult r = compare(a, b, o);
    EXPECT_EQ(r.rounds, 3);
    EXPECT_EQ(r.verdict, AbResult::no_difference);
    EXPECT_EQ(1000 - a.left, 2 + 6 * 3 + 1);  // and A is asked no more
  }
}

TEST(Ab, MoreThanTheMemoryIsSaidWithItsNumbers) {
  auto device = std::move(open_device("cpu", {.threads = 1}).value());
  AbShape shape;
  shape.rows = shape.n = i64(1) << 24;
  const auto r = cpu_contestant(*device, "scalar", shape);
  ASSERT_FALSE(r.ok());
  EXPECT_EQ(r.error().code, Code::out_of_memory);
  EXPECT_NE(r.error().what.find("PQ2_0 16777216x16777216"), std::string::npos) << r.error().what;
  EXPECT_NE(r.error().what.find(" MiB are free"), std::string::npos) << r.error().what;
}

}  // namespace
}  // namespace fewbit::kernel
