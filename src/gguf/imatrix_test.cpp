#include "gguf/imatrix.h"

#include <cmath>

#include "gguf/hostile.h"
#include "gguf/test_files.h"

namespace fewbit::gguf {

using hostile::Bytes;

static const f32 nan_value = std::nanf("");

// Three entries of the importance matrix of mini-moe, as llama.cpp wrote them.
TEST(Imatrix, OldForm) {
  auto m = Imatrix::read(FEWBIT_SOURCE_DIR "/tests/data/imatrix.dat");
  ASSERT_TRUE(m.ok()) << m.error().what;
  EXPECT_EQ(m->entries.size(), 3u);
  EXPECT_EQ(m->chunks, 40);
  EXPECT_EQ(m->datasets, std::vector<std::string>{"text"});
  EXPECT_TRUE(m->notes.empty());
  const auto& q = m->entries.at("blk.0.attn_q.weight");
  EXPECT_EQ(q.n_in, 512);
  const std::vector<f32> w = q.importance(0);
  EXPECT_EQ(w[0], 0.5729681849479675f);  // calls is 1 in this file
  EXPECT_EQ(w[1], 0.45114725828170776f);
  auto& down = m->entries.at("blk.0.ffn_down_exps.weight");
  EXPECT_EQ(down.n_in, 2048);
  ASSERT_TRUE(m->split("blk.0.ffn_down_exps.weight", 256).ok());
  EXPECT_EQ(down.n_matrices, 8);
  EXPECT_EQ(down.unused(), 0);
  EXPECT_EQ(down.importance(0)[0], 0.006780016701668501f);
  EXPECT_EQ(down.importance(8), std::vector<f32>());
  EXPECT_FALSE(m->split("blk.0.ffn_down_exps.weight", 100).ok());
  EXPECT_TRUE(m->split("no.such.weight", 100).ok());
}

TEST(Imatrix, WholeFileRoundTrip) {
  const std::string folder = models_folder();
  if (folder.empty()) GTEST_SKIP() << "no models";
  auto m = Imatrix::read(folder + "/mini-moe.imatrix.dat");
  auto f = File::open(folder + "/mini-moe.f16.gguf");
  ASSERT_TRUE(m.ok() && f.ok());
  EXPECT_EQ(m->entries.size(), 43u);
  for (auto& [name, e] : m->entries) {  // every entry is of a weight of the model, and splits as its experts
    const Tensor* t = f->tensor(name);
    ASSERT_TRUE(t) << name;
    ASSERT_TRUE(m->split(name, t->dims[0]).ok()) << name;
    EXPECT_EQ(e.n_in, t->dims[0]);
    EXPECT_EQ(e.n_matrices, t->dims[2]) << name;
  }
  TempFolder out;
  ASSERT_TRUE(m->write(out.file("m.gguf")).ok());
  auto again = Imatrix::read(out.file("m.gguf"));
  ASSERT_TRUE(again.ok()) << again.error().what;
  EXPECT_EQ(again->chunks, 40);
  EXPECT_EQ(again->datasets, m->datasets);
  ASSERT_EQ(again->entries.size(), m->entries.size());
  for (const auto& [name, e] : m->entries) {
    const auto& a = again->entries.at(name);
    EXPECT_EQ(a.sums, e.sums);
    EXPECT_EQ(a.counts, e.counts);
    EXPECT_EQ(a.n_in, e.n_in);
  }
}

static std::vector<u8> dat(const std::vector<std::pair<std::string, std::vector<f32>>>& entries, i32 calls) {
  Bytes b;
  b.u32_(entries.size());
  for (const auto& [name, x] : entries) {
    b.u32_(name.size()).raw(name).num(calls).u32_(x.size());
    for (f32 v : x) b.f32_(v);
  }
  return b.u32_(2).u32_(1).raw("d").b;
}

TEST(Imatrix, NoNumbersAndUnusedExperts) {
  const std::vector<f32> x{1, nan_value, 3, 8, nan_value, nan_value, nan_value, nan_value, 0, 0, 0, 0, 2, 4, -1, INFINITY};
  auto m = Imatrix::parse(dat({{"w", x}}, 2), "m.dat");
  ASSERT_TRUE(m.ok()) << m.error().what;
  ASSERT_TRUE(m->split("w", 4).ok());
  const auto& e = m->entries.at("w");
  EXPECT_EQ(e.n_matrices, 4);
  EXPECT_EQ(e.unused(), 2);
  EXPECT_EQ(e.importance(0), (std::vector<f32>{0.5f, 2, 1.5f, 4}));  // the mean of 1, 3, 8 in the gap
  EXPECT_EQ(e.importance(1), std::vector<f32>());
  EXPECT_EQ(e.importance(2), std::vector<f32>());
  EXPECT_EQ(e.importance(3), (std::vector<f32>{1, 2, 1.5f, 1.5f}));
  EXPECT_EQ(m->notes,
            std::vector<std::string>{"w: 3 values are no numbers, the mean of the others stands for them; 2 of 4 matrices have no data"});
  TempFolder folder;
  ASSERT_TRUE(m->write(folder.file("m.gguf")).ok());
  auto again = Imatrix::read(folder.file("m.gguf"));
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->entries.at("w").counts, (std::vector<f64>{2, 0, 0, 2}));
  EXPECT_EQ(again->entries.at("w").importance(3), e.importance(3));
}

TEST(Imatrix, Merge) {
  auto a = Imatrix::parse(dat({{"v", {2, 4}}, {"w", {1, 1}}}, 2), "a.dat"),
       b = Imatrix::parse(dat({{"w", {3, 5}}, {"x", {1}}}, 6), "b.dat");
  ASSERT_TRUE(a.ok() && b.ok());
  ASSERT_TRUE(a->merge(*b).ok());
  EXPECT_EQ(a->entries.size(), 3u);
  EXPECT_EQ(a->entries.at("w").importance(0), (std::vector<f32>{0.5f, 0.75f}));
  EXPECT_EQ(a->entries.at("v").importance(0), (std::vector<f32>{1, 2}));
  EXPECT_EQ(a->chunks, 4);
  EXPECT_EQ(a->datasets.size(), 1u);
  auto other = Imatrix::parse(dat({{"w", {1, 2, 3}}}, 1), "c.dat");
  Status s = a->merge(*other);
  ASSERT_FALSE(s.ok());
  EXPECT_NE(s.error().what.find("'w' is 2 x 1 here and 3 x 1 there"), std::string::npos) << s.error().what;
}

// An old file of one call and six chunks beside two chunks of 512 rows (and of 100 for an expert): six times 512 and 100 / 2 rows.
TEST(Imatrix, MergesCallsAndRows) {
  auto old = Imatrix::parse(dat({{"w", {3, 5}}}, 1), "old.dat");
  ASSERT_TRUE(old.ok() && !old->rows_known);
  old->chunks = 6;
  Imatrix rows;
  rows.chunks = 2;
  rows.entries["w"] = {2, 1, {1024, 2048}, {1024}};
  for (bool other_way : {false, true}) {
    Imatrix sum = other_way ? *old : rows;
    ASSERT_TRUE(sum.merge(other_way ? rows : *old).ok());
    EXPECT_EQ(sum.entries.at("w").counts, std::vector<f64>{4096});
    EXPECT_EQ(sum.entries.at("w").importance(0), (std::vector<f32>{2.5f, 4.25f}));
    EXPECT_EQ(sum.chunks, 8);
  }
}

TEST(Imatrix, BrokenFiles) {
  auto error = [](const std::vector<u8>& b) {
    auto m = Imatrix::parse(b, "m");
    return m.ok() ? std::string("read") : m.error().what;
  };
  auto has = [&](const std::vector<u8>& b, const char* part) { EXPECT_NE(error(b).find(part), std::string::npos) << error(b); };
  has({}, "needs 4 bytes");
  has(Bytes().u32_(0).b, "not an importance matrix");
  has(Bytes().u32_(0xffffffff).zeros(100).b, "not an importance matrix");
  has(Bytes().u32_(1000).zeros(100).b, "not an importance matrix");
  has(Bytes().u32_(1).u32_(0).zeros(40).b, "name of entry 0 of 1: 0 bytes");
  has(Bytes().u32_(1).u32_(0x7fffffff).zeros(40).b, "2147483647 bytes");
  has(Bytes().u32_(1).u32_(1).raw("w").u32_(1).u32_(0xffffffff).zeros(40).b, "has -1 numbers");
  has(Bytes().u32_(1).u32_(1).raw("w").u32_(1).u32_(0x40000000).zeros(40).b, "has 1073741824 numbers");
  has(dat({{"w", {1}}, {"w", {1}}}, 1), "'w' appears twice");
  const std::vector<u8> good = dat({{"v", {2, 4}}, {"w", {1, 1}}}, 2);
  size_t read = 0;
  for (size_t n = 0; n < good.size(); n++) read += error(std::vector<u8>(good.begin(), good.begin() + i64(n))) == "read";
  EXPECT_EQ(read, 2u);  // without the data set, and without the chunks
  // GGUF form
  using hostile::Maker;
  auto gguf = [&](auto change) {
    Maker m;
    change(m);
    return m.bytes();
  };
  has(gguf([](Maker& m) { m.string_key("general.type", "model"); }), "not 'imatrix'");
  has(gguf([](Maker& m) { m.tensor("w.in_sum2", {4}, 0, 0).data = 16; }), "has no counts");
  has(gguf([](Maker& m) { m.tensor("w.counts", {1, 4}, 0, 0).data = 16; }), "has no sums");
  has(gguf([](Maker& m) { m.tensor("w.in_sum2", {4, 2}, 0, 0).tensor("w.counts", {1, 3}, 0, 32).data = 64; }), "one count for each row");
  has(gguf([](Maker& m) { m.tensor("w.in_sum2", {4}, 1, 0).tensor("w.counts", {1}, 0, 32).data = 64; }), "is not F32");
  has(gguf([](Maker& m) { m.u32_key("imatrix.chunk_size", 512).tensor("w.in_sum2", {4}, 0, 0).data = 15; }), "the data section has 15");
}

}  // namespace fewbit::gguf
