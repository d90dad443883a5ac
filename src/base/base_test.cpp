#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/bits.h"
#include "base/half.h"
#include "base/mapping.h"
#include "base/mat.h"
#include "base/regex.h"
#include "base/result.h"
#include "base/thread_pool.h"

namespace fewbit {

TEST(Half, EveryPatternSurvivesARoundTrip) {
  for (u32 h = 0; h < 65536; h++) {
    f32 f = half_to_f32(u16(h));
    if (std::isnan(f)) {
      EXPECT_EQ(f32_to_half(f), (h & 0x8000) | 0x7e00);
    } else {
      ASSERT_EQ(f32_to_half(f), h);
    }
  }
}

TEST(Half, RoundsToNearestEven) {
  EXPECT_EQ(f32_to_half(65519.99f), 0x7bff);
  EXPECT_EQ(f32_to_half(65520.0f), 0x7c00);
  EXPECT_EQ(f32_to_half(1.0f + 0x1p-11f), 0x3c00);      // tie, even
  EXPECT_EQ(f32_to_half(1.0f + 3 * 0x1p-11f), 0x3c02);  // tie, up to even
  EXPECT_EQ(f32_to_half(0x1p-25f), 0x0000);             // tie at half the smallest subnormal
  EXPECT_EQ(f32_to_half(0x1.8p-25f), 0x0001);
  EXPECT_EQ(f32_to_half(-0.0f), 0x8000);
  EXPECT_EQ(f32_to_bf16(1.0f + 0x1p-8f), 0x3f80);
  EXPECT_EQ(f32_to_bf16(1.0f + 3 * 0x1p-8f), 0x3f82);
}

static Result<int> fails() { return Error{Code::bad_file, "no"}; }
static Result<int> passes_on() {
  FEWBIT_TRY(int x, fails());
  return x + 1;
}

TEST(Result, TryReturnsTheError) {
  auto r = passes_on();
  ASSERT_FALSE(r.ok());
  EXPECT_EQ(r.error().what, "no");
}

TEST(ThreadPool, EveryThreadRunsOnceAndRangesAreCovered) {
  for (int n : {1, 2, 5}) {
    ThreadPool pool(n);
    for (int rep = 0; rep < 200; rep++) {
      std::vector<int> calls(size_t(n), 0);
      pool.run([&](int t, int of) {
        EXPECT_EQ(of, n);
        calls[size_t(t)]++;
      });
      for (int c : calls) EXPECT_EQ(c, 1);
    }
    std::vector<std::atomic<int>> seen(1001);
    pool.for_range(1001, 7, [&](i64 b, i64 e, int) {
      for (i64 i = b; i < e; i++) seen[size_t(i)]++;
    });
    for (auto& s : seen) ASSERT_EQ(s.load(), 1);
  }
}

TEST(Mapping, ReadsAFileBothWaysAndNamesAMissingOne) {
  std::string path = testing::TempDir() + "fewbit_mapping";
  FILE* f = std::fopen(path.c_str(), "wb");
  std::fputs("hello", f);
  std::fclose(f);
  for (auto mode : {Mapping::Mode::map, Mapping::Mode::read}) {
    auto m = Mapping::open(path, mode);
    ASSERT_TRUE(m.ok());
    EXPECT_EQ(m->bytes().size(), 5u);
    EXPECT_EQ(m->bytes()[4], 'o');
  }
  auto none = Mapping::open(path + "-not-there");
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().code, Code::not_found);
}

TEST(Bits, CheckedArithmetic) {
  EXPECT_FALSE(checked_mul(u64(1) << 40, u64(1) << 40));
  EXPECT_EQ(*checked_mul(3, 5), 15u);
  EXPECT_FALSE(checked_add(~u64(0), 1));
  EXPECT_EQ(round_up(33, 32), 64);
}

TEST(Regex, SearchesAnywhereAndStopsInTime) {
  auto r = Regex::parse("attn_[qk]\\.");
  ASSERT_TRUE(r.ok());
  EXPECT_TRUE(r->search("blk.0.attn_q.weight").value());
  EXPECT_FALSE(r->search("blk.0.attn_v.weight").value());
  EXPECT_EQ(Regex::parse("(").error().what, "'(' is not a regular expression: missing closing parenthesis at character 1");
  EXPECT_FALSE(Regex::parse(std::string(1001, 'a')).ok());
  EXPECT_FALSE(Regex::parse(std::string(900, '(')).ok());
  auto slow = Regex::parse("^(a+)+[A-Z]");
  ASSERT_TRUE(slow.ok());
  const auto found = slow->search(std::string(60, 'a'));
  ASSERT_FALSE(found.ok());
  EXPECT_NE(found.error().what.find("match limit"), std::string::npos);
}

}  // namespace fewbit
