// Every format of the list: quantise and decode, refusals, damaged blocks, and the same bytes from every instruction set.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "format/format.h"
#include "format/search/search.h"

namespace fewbit {
namespace {

std::vector<f32> gaussian(size_t n, u32 seed, f32 size = 1) {
  std::mt19937 g(seed);
  std::vector<f32> x(n);
  // Sums of uniform integers: the same numbers with every library, unlike std::normal_distribution.
  for (f32& v : x) {
    f32 s = 0;
    for (int k = 0; k < 12; k++) s += f32(g() >> 8) * 0x1p-24f - 0.5f;
    v = s * size;
  }
  return x;
}
std::vector<f32> importances(size_t n, u32 seed) {
  auto q = gaussian(n, seed);
  for (f32& v : q) v = std::exp(1.5f * v);
  return q;
}
f64 relative_error(const std::vector<f32>& x, const std::vector<f32>& y, const std::vector<f32>* q = nullptr) {
  f64 error = 0, size = 0;
  for (size_t i = 0; i < x.size(); i++) {
    const f64 w = q ? (*q)[i % q->size()] : 1;
    error += w * (f64(x[i]) - y[i]) * (f64(x[i]) - y[i]);
    size += w * f64(x[i]) * x[i];
  }
  return std::sqrt(error / size);
}

// Root mean square error of Gaussian weights, relative to their root mean square, that each format keeps.  Measured, rounded up.
const std::map<std::string, f64> stated_error = {
    {"F32", 0},        {"F16", 0.00022},  {"BF16", 0.0017}, {"Q4_0", 0.087},  {"Q4_1", 0.08},    {"Q5_0", 0.043}, {"Q5_1", 0.038},
    {"Q8_0", 0.0053},  {"Q2_K", 0.31},    {"Q3_K", 0.16},   {"Q4_K", 0.072},  {"Q5_K", 0.037},   {"Q6_K", 0.018}, {"IQ1_S", 0.5},
    {"IQ1_M", 0.6},    {"IQ2_XXS", 0.35}, {"IQ2_XS", 0.31}, {"IQ2_S", 0.27},  {"IQ3_XXS", 0.22}, {"IQ3_S", 0.17}, {"IQ4_NL", 0.077},
    {"IQ4_XS", 0.078}, {"TQ1_0", 0.8},    {"TQ2_0", 0.8},   {"I2_S", 2.9},    {"MXFP4", 0.12},   {"NVFP4", 0.11}, {"Q1_0", 0.61},
    {"Q2_0", 0.73},    {"PQ2_0", 0.77},   {"PTQ1_0", 0.77}, {"Q8_1", 0.0053}, {"Q8_K", 0.0067},
};

TEST(Quantize, ErrorStaysWithinWhatIsStated) {
  const i64 n0 = 2048, rows = 4;
  const auto x = gaussian(size_t(n0 * rows), 1, 0.02f), q = importances(size_t(n0), 2);
  for (const FormatInfo& f : all_formats()) {
    if (!f.has_encoder) continue;
    SCOPED_TRACE(f.name);
    ASSERT_EQ(stated_error.count(f.name), 1u) << "state the error of " << f.name;
    std::vector<u8> packed(*tensor_bytes(f.type, u64(n0), u64(rows)));
    std::vector<f32> y(x.size());
    const std::vector<f32> even(size_t(n0), 1);
    auto s = encode_tensor(f.type, x, n0, f.needs_importance ? even : std::vector<f32>{}, packed);
    ASSERT_TRUE(s.ok()) << s.error().what;
    ASSERT_TRUE(check_blocks(f.type, packed).ok());
    decode_tensor(f.type, packed, y);
    const f64 error = relative_error(x, y);
    EXPECT_LE(error, stated_error.at(f.name));
    EXPECT_GE(error, stated_error.at(f.name) * 0.8) << "better than stated: state it";
    const f64 plain_weighted = relative_error(x, y, &q);
    s = encode_tensor(f.type, x, n0, q, packed);
    ASSERT_TRUE(s.ok()) << s.error().what;
    decode_tensor(f.type, packed, y);
    EXPECT_LE(relative_error(x, y, &q), plain_weighted * 1.0001) << "weights must not make the weighted error larger";
  }
}

TEST(Quantize, ExactTernaryRowsLoseNothing) {
  std::mt19937 g(3);
  std::vector<f32> x(1024);
  for (f32& v : x) v = f32(i32(g() % 3) - 1) * 0.03125f;
  for (Type type : {Type::TQ1_0, Type::TQ2_0, Type::Q2_0, Type::PQ2_0, Type::PTQ1_0, Type::I2_S}) {
    SCOPED_TRACE(type_name(type));
    std::vector<u8> packed(*tensor_bytes(type, x.size(), 1));
    std::vector<f32> y(x.size());
    ASSERT_TRUE(encode_tensor(type, x, i64(x.size()), {}, packed).ok());
    decode_tensor(type, packed, y);
    for (size_t i = 0; i < x.size(); i++) ASSERT_EQ(x[i], y[i]);
  }
}

// Zero, tiny, huge, constant and single-value rows; zero weights: every encoder ends, and what it writes is finite or refused.
TEST(Quantize, DegenerateRows) {
  const size_t n = 512;
  const auto base = gaussian(n, 4);
  for (const FormatInfo& f : all_formats()) {
    if (!f.has_encoder || f.block > int(n)) continue;
    for (f32 size : {0.0f, -0.0f, 1e-45f, 3e-39f, 1e-38f, 1e-30f, 1e-16f, 1e-8f, 1e5f, 1e9f, 1e20f, 3e38f})
      for (int shape = 0; shape < 4; shape++)
        for (int weights = 0; weights < 4; weights++) {
          SCOPED_TRACE(testing::Message() << f.name << " size " << size << " shape " << shape << " weights " << weights);
          std::vector<f32> x(n), q, y(n);
          for (size_t i = 0; i < n; i++)
            x[i] = size * (shape == 0   ? std::max(-1.0f, std::min(1.0f, base[i] / 3))
                           : shape == 1 ? 1.0f
                           : shape == 2 ? f32(i == 77)
                                        : f32(i % 2) - 0.5f);
          if (weights) q.assign(n, weights == 1 ? 0.0f : weights == 2 ? 1e-30f : 1e10f);
          if (!weights && f.needs_importance) continue;
          std::vector<u8> packed(*tensor_bytes(f.type, n, 1));
          auto s = encode_tensor(f.type, x, i64(n), q, packed);
          if (!s.ok()) {
            EXPECT_GE(size, 1e5f) << s.error().what;
            continue;
          }
          ASSERT_TRUE(check_blocks(f.type, packed).ok());
          decode_tensor(f.type, packed, y);
          for (f32 v : y) ASSERT_TRUE(std::isfinite(v));
          for (f32 v : y) ASSERT_TRUE(size != 0 || v == 0);
        }
  }
}

TEST(Quantize, RefusesWhatIsNotFiniteAndSaysWhere) {
  const size_t n = 512;
  const f32 inf = std::numeric_limits<f32>::infinity(), nan = std::numeric_limits<f32>::quiet_NaN();
  for (const FormatInfo& f : all_formats()) {
    if (!f.has_encoder) continue;
    SCOPED_TRACE(f.name);
    std::vector<u8> packed(*tensor_bytes(f.type, n, 2));
    for (f32 bad : {inf, -inf, nan}) {
      auto x = gaussian(2 * n, 5);
      x[n + 300] = bad;
      auto s = encode_tensor(f.type, x, i64(n), std::vector<f32>(n, 1), packed);
      ASSERT_FALSE(s.ok());
      EXPECT_EQ(s.error().code, Code::invalid_argument);
      EXPECT_NE(s.error().what.find(f.name), std::string::npos) << s.error().what;
      const std::string where = f.type == Type::I2_S ? "element 812" : "element 300";
      EXPECT_NE(s.error().what.find(where), std::string::npos) << s.error().what;
      EXPECT_TRUE(f.type == Type::I2_S || s.error().what.find("row 1") != std::string::npos) << s.error().what;
    }
    for (f32 bad : {inf, nan, -1.0f}) {
      std::vector<f32> q(n, 1);
      q[44] = bad;
      auto s = encode_tensor(f.type, gaussian(2 * n, 5), i64(n), q, packed);
      if (f.type == Type::I2_S) continue;  // takes none
      ASSERT_FALSE(s.ok());
      EXPECT_NE(s.error().what.find("importance 44"), std::string::npos) << s.error().what;
    }
    auto s = encode_tensor(f.type, gaussian(2 * n, 5), i64(n), {}, packed);
    EXPECT_EQ(s.ok(), !f.needs_importance);
    EXPECT_TRUE(s.ok() || s.error().what.find("importance matrix") != std::string::npos) << s.error().what;
  }
  std::vector<u8> eight(8);
  EXPECT_EQ(encode_row(Type::F64, std::vector<f32>(1), {}, eight).error().code, Code::unsupported);
  // A scale beyond f16.
  for (Type type : {Type::F16, Type::Q4_0, Type::Q6_K, Type::PQ2_0, Type::IQ3_S}) {
    auto x = gaussian(n, 6, 1e9f);
    std::vector<u8> packed(row_bytes(type, i64(n)));
    auto t = encode_row(type, x, {}, packed);
    ASSERT_FALSE(t.ok()) << type_name(type);
    EXPECT_NE(t.error().what.find("too large"), std::string::npos) << t.error().what;
  }
}

// Random bytes in allocations of exactly the right size: under AddressSanitizer a read outside them ends the test.
TEST(Quantize, DamagedBlocksReadNothingOutside) {
  std::mt19937 g(7);
  for (const FormatInfo& f : all_formats()) {
    SCOPED_TRACE(f.name);
    const size_t tail = f.type == Type::I2_S ? 32 : 0;
    for (int rep = 0; rep < 200; rep++) {
      const size_t bytes = size_t(f.bytes) * (1 + rep % 2) + tail;
      auto packed = std::make_unique<u8[]>(bytes);
      auto out = std::make_unique<f32[]>(size_t(f.block) * size_t(1 + rep % 2));
      for (size_t i = 0; i < bytes; i++) packed[i] = rep == 0 ? 0xff : u8(g() >> 8);
      decode_tensor(f.type, {packed.get(), bytes}, {out.get(), size_t(f.block) * size_t(1 + rep % 2)});
      (void)check_blocks(f.type, {packed.get(), bytes}).ok();
    }
  }
}

TEST(Check, FindsTheBlock) {
  const auto expect_bad = [](Type type, std::vector<std::pair<size_t, u8>> bytes, const char* what) {
    SCOPED_TRACE(type_name(type));
    const FormatInfo& f = format_info(type);
    std::vector<u8> packed(size_t(3 * f.bytes) + (type == Type::I2_S ? 32 : 0), 0);
    EXPECT_TRUE(check_blocks(type, packed).ok());
    for (auto [at, value] : bytes) packed[size_t(f.bytes) + at] = value;
    auto s = check_blocks(type, packed);
    ASSERT_FALSE(s.ok());
    EXPECT_EQ(s.error().code, Code::bad_file);
    EXPECT_NE(s.error().what.find(what), std::string::npos) << s.error().what;
    EXPECT_NE(s.error().what.find("block 1"), std::string::npos) << s.error().what;
  };
  for (Type t : {Type::Q4_0, Type::Q4_1, Type::Q5_0, Type::Q5_1, Type::Q8_0, Type::Q4_K, Type::Q5_K, Type::IQ2_XXS, Type::IQ2_XS,
                 Type::IQ2_S, Type::IQ3_XXS, Type::IQ3_S, Type::IQ1_S, Type::IQ4_NL, Type::IQ4_XS, Type::Q1_0, Type::Q2_0, Type::PQ2_0})
    expect_bad(t, {{1, 0x7c}}, "scale d");
  for (Type t : {Type::Q4_1, Type::Q5_1, Type::Q4_K, Type::Q5_K}) expect_bad(t, {{3, 0xfe}}, "scale m");
  for (Type t : {Type::Q3_K, Type::Q6_K, Type::TQ1_0, Type::TQ2_0, Type::PTQ1_0})
    expect_bad(t, {{size_t(format_info(t).bytes) - 1, 0xfc}}, "scale d");
  expect_bad(Type::Q2_K, {{81, 0x7c}}, "scale d");
  expect_bad(Type::Q2_K, {{83, 0x7e}}, "scale m");
  expect_bad(Type::Q8_K, {{2, 0x80}, {3, 0x7f}}, "scale d");
  expect_bad(Type::IQ1_M, {{53, 0xc0}, {55, 0x70}}, "scale d");  // the top five exponent bits lie in the last nibbles
  expect_bad(Type::MXFP4, {{0, 255}}, "255");
  expect_bad(Type::NVFP4, {{2, 0x80}}, "sign bit");
  expect_bad(Type::I2_S, {{31, 0x0c}}, "code 3");
  expect_bad(Type::F32, {{2, 0x80}, {3, 0xff}}, "not finite");
  expect_bad(Type::F16, {{1, 0x7c}}, "not finite");
  expect_bad(Type::BF16, {{0, 0x80}, {1, 0x7f}}, "not finite");
  expect_bad(Type::F64, {{6, 0xf0}, {7, 0x7f}}, "not finite");
  std::vector<u8> i2(32 + 32, 0);
  i2[34] = 0x80, i2[35] = 0x7f;
  EXPECT_NE(check_blocks(Type::I2_S, i2).error().what.find("scale"), std::string::npos);
  EXPECT_FALSE(check_blocks(Type::I2_S, std::vector<u8>(20)).ok());
  EXPECT_FALSE(check_blocks(Type::PQ2_0, std::vector<u8>(33)).ok());
  EXPECT_TRUE(check_blocks(Type::TQ2_0, std::vector<u8>(66, 0x3f)).ok());  // code 3 is nobody's, but legal
}

TEST(Search, EveryInstructionSetGivesTheSameBytes) {
  if (!searches_avx2()) GTEST_SKIP() << "no AVX2 here";
  std::mt19937 g(9);
  for (int rep = 0; rep < 6; rep++) {
    const i64 n = 256 * (1 + rep);
    auto x = gaussian(size_t(n), u32(10 + rep), 0.02f);
    for (f32& v : x) {
      if (rep == 1) v = v * v * v * 2500;
      if (rep == 2 && g() % 4) v = 0;
      if (rep == 3) v = std::round(v * 100) / 100;
    }
    const auto q = importances(size_t(n), u32(20 + rep));
    const auto same = [&](Type type, auto baseline, auto avx2, bool weighted) {
      std::vector<u8> a(row_bytes(type, n), 1), b(row_bytes(type, n), 2);
      baseline(x.data(), weighted ? q.data() : nullptr, n, a.data());
      avx2(x.data(), weighted ? q.data() : nullptr, n, b.data());
      EXPECT_EQ(a, b) << type_name(type) << " rep " << rep << (weighted ? " weighted" : " plain");
    };
#define FEWBIT_X(F)                                                                 \
  same(Type::F, searches_baseline.F, searches_avx2()->F, true);                     \
  if (!find_format(Type::F)->needs_importance && format_info(Type::F).block == 256) \
    same(Type::F, searches_baseline.F, searches_avx2()->F, false);
    FEWBIT_SEARCHED_FORMATS(FEWBIT_X)
#undef FEWBIT_X
  }
}

}  // namespace
}  // namespace fewbit
