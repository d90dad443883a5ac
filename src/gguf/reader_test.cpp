#include <unistd.h>

#include <cmath>

#include "gguf/hostile_cases.h"
#include "gguf/test_files.h"

namespace fewbit::gguf {

using hostile::Bytes;
using hostile::Maker;

// The worked example of gguf.md section 2, byte for byte.
TEST(Reader, TheWorkedExample) {
  Maker m;
  m.string_key("general.architecture", "llama").u32_key("general.alignment", 32).tensor("w", {128, 2}, 41, 0);
  m.data = 36;
  std::vector<u8> bytes = m.bytes();
  ASSERT_EQ(bytes.size(), 196u);
  for (size_t padding : {0, 28}) {
    bytes.resize(196 + padding);
    auto f = File::parse(bytes, "example");
    ASSERT_TRUE(f.ok()) << f.error().what;
    EXPECT_EQ(f->version(), 3);
    const Tensor* t = f->tensor("w");
    ASSERT_TRUE(t);
    EXPECT_EQ(t->type, Type::Q1_0);
    EXPECT_EQ(t->offset, 160u);
    EXPECT_EQ(t->data.size(), 36u);
    EXPECT_EQ(t->shape(), "128 x 2");
    EXPECT_EQ(t->rows(), 2);
  }
  bytes[4] = 2;  // version 2: the same bytes
  auto f = File::parse(bytes, "example");
  ASSERT_TRUE(f.ok());
  EXPECT_EQ(f->version(), 2);
  EXPECT_EQ(f->tensor("v"), nullptr);
}

TEST(Reader, GettersNameTheKey) {
  Maker m;
  m.u32_key("n", 7).key("i", 5, Bytes().u32_(u32(-3))).key("big", 10, Bytes().u64_(~u64(0))).f32_key("x", 0.5f).string_key("s", "text");
  m.key("b", 7, Bytes().raw("\1")).array_key("a", 4, 1, Bytes().u32_(7)).f32_key("inf", INFINITY);
  const std::vector<u8> bytes = m.bytes();
  auto f = File::parse(bytes, "m.gguf");
  ASSERT_TRUE(f.ok());
  EXPECT_EQ(f->get_int("n", {}).value(), 7);
  EXPECT_EQ(f->get_int("absent", 5).value(), 5);
  EXPECT_EQ(f->get_int("i", {}, -10, 10).value(), -3);
  EXPECT_EQ(f->get_float("x", {}).value(), 0.5);
  EXPECT_EQ(f->get_bool("b", {}).value(), true);
  EXPECT_EQ(f->get_string("s", {}).value(), "text");
  EXPECT_EQ(f->get_string("absent", "none").value(), "none");
  auto error = [](const auto& r) { return r.ok() ? "no error" : r.error().what; };
  EXPECT_EQ(error(f->get_int("absent", {})), "m.gguf: key 'absent' is missing");
  EXPECT_EQ(error(f->get_int("n", {}, 8, 9)), "m.gguf: key 'n' is 7, expected 8 to 9");
  EXPECT_EQ(error(f->get_int("i", {})), "m.gguf: key 'i' is -3, expected 0 to 1099511627776");
  EXPECT_EQ(error(f->get_int("big", {})), "m.gguf: key 'big' is 18446744073709551615, expected 0 to 1099511627776");
  EXPECT_EQ(error(f->get_int("s", 1)), "m.gguf: key 's' is of type string, expected an integer");
  EXPECT_EQ(error(f->get_int("b", 1)), "m.gguf: key 'b' is of type bool, expected an integer");
  EXPECT_EQ(error(f->get_int("a", 1)), "m.gguf: key 'a' is of type array of u32, expected an integer");
  EXPECT_EQ(error(f->get_float("n", 1)), "m.gguf: key 'n' is of type u32, expected a float");
  EXPECT_EQ(error(f->get_float("inf", 1)), "m.gguf: key 'inf' is not finite");
  EXPECT_EQ(error(f->get_bool("n", true)), "m.gguf: key 'n' is of type u32, expected a bool");
  EXPECT_EQ(error(f->get_string("n", "")), "m.gguf: key 'n' is of type u32, expected a string");
  EXPECT_EQ(f->find("a")->as_int(), std::nullopt);
  EXPECT_EQ(f->find("n")->as_ints(), std::nullopt);
  EXPECT_EQ(f->find("a")->as_strings(), nullptr);
  EXPECT_EQ(f->find("a")->as_floats(), std::nullopt);
}

TEST(Reader, EarlyQ2_0OnRequest) {
  // b is too short for the layouts to differ behind the padding; with c both are told apart.
  Maker m;
  m.tensor("a", {2048}, 42, 0).tensor("b", {64, 2}, 42, 544).tensor("c", {8}, 0, 608);
  m.data = 640;
  const std::vector<u8> bytes = m.bytes();
  auto refused = File::parse(bytes, "early.gguf");
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().what.find("groups of 128"), std::string::npos) << refused.error().what;
  auto f = File::parse(bytes, "early.gguf", {.q2_0_legacy = true});
  ASSERT_TRUE(f.ok()) << f.error().what;
  EXPECT_EQ(f->tensor("a")->type, Type::PQ2_0);
  EXPECT_EQ(f->tensor("a")->data.size(), 544u);
  EXPECT_EQ(f->tensor("b")->type, Type::Q2_0);  // rows of 64 cannot be in groups of 128
  EXPECT_EQ(f->tensor("b")->data.size(), 36u);
}

TEST(Reader, BitNetFilesKeepTheirIds) {
  Maker m;
  m.u32_key("general.file_type", 40).tensor("a", {128, 3}, 36, 0).tensor("b", {128}, 41, 128);
  m.data = 128 + 18;
  std::vector<u8> bytes = m.bytes();
  auto f = File::parse(bytes, "bitnet.gguf");
  ASSERT_TRUE(f.ok()) << f.error().what;
  EXPECT_EQ(f->tensor("a")->data.size(), 128u * 3 / 4 + 32);
  // id 39 is MXFP4 without I2_S beside it
  Maker fp4;
  fp4.u32_key("general.file_type", 40).tensor("a", {32}, 39, 0);
  fp4.data = 17;
  EXPECT_TRUE(File::parse(fp4.bytes(), "fp4.gguf").ok());
}

TEST(Reader, CopiesSurviveTheFile) {
  TempFolder folder;
  const std::string path = folder.file("m.gguf");
  put_file(path, hostile::valid().bytes());
  auto f = File::open(path, {.copy = true});
  ASSERT_TRUE(f.ok()) << f.error().what;
  ASSERT_EQ(::truncate(path.c_str(), 0), 0);
  EXPECT_EQ(f->tensor("a")->data[1], 1);
  EXPECT_EQ(f->tensor("e")->data.back(), 769 % 7);
}

TEST(Reader, MissingFile) {
  auto f = File::open("/nonexistent/m.gguf");
  ASSERT_FALSE(f.ok());
  EXPECT_EQ(f.error().code, Code::not_found);
}

// Pieces "m-0000i-of-0000n.gguf" of one tensor each.
struct Pieces {
  TempFolder folder;
  int n;
  std::vector<Maker> makers;

  explicit Pieces(int pieces) : n(pieces), makers(size_t(pieces)) {
    for (int i = 0; i < n; i++) {
      Maker& m = makers[size_t(i)];
      if (i == 0) m.string_key("general.architecture", "llama");
      m.key("split.no", 2, Bytes().u16_(u64(i)))
          .key("split.count", 2, Bytes().u16_(u64(n)))
          .key("split.tensors.count", 5, Bytes().u32_(u64(n)));
      m.tensor("t" + std::to_string(i), {8}, 0, 0);
      m.data = 32;
    }
  }
  // Replaces the last of the three split keys written at `at`.
  Maker& set(int piece, size_t at, const Bytes& key) {
    Maker& m = makers[size_t(piece)];
    m.keys[at + (piece == 0)] = key;
    return m;
  }
  std::string path(int i) const { return folder.file(piece_path("m", i, n)); }
  void write() const {
    for (int i = 0; i < n; i++) put_file(path(i), makers[size_t(i)].bytes());
  }
  std::string error(int open = 0) const {
    write();
    auto f = File::open(path(open));
    return f.ok() ? "read" : f.error().what;
  }
};
#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

TEST(Split, PiecesAreJoined) {
  Pieces p(3);
  p.write();
  auto f = File::open(p.path(0));
  ASSERT_TRUE(f.ok()) << f.error().what;
  EXPECT_EQ(f->pieces(), 3);
  ASSERT_EQ(f->tensors().size(), 3u);
  EXPECT_EQ(f->tensor("t2")->piece, 2);
  EXPECT_EQ(f->tensor("t2")->data[3], 3);
  u64 sum = 0;
  for (int i = 0; i < 3; i++) sum += std::filesystem::file_size(p.path(i));
  EXPECT_EQ(f->file_bytes(), sum);
  f->drop(*f->tensor("t2"));
}

TEST(Split, FirstPieceWithoutTensors) {
  Pieces p(2);
  p.makers[0].tensors.clear();
  p.makers[0].data = 0;
  p.set(0, 2, Bytes().str("split.tensors.count").u32_(5).u32_(1));
  EXPECT_EQ(p.error(), "read");
}

TEST(Split, WhatDoesNotFitIsRefusedByName) {
  const auto u16_key = [](const char* k, u64 v) { return Bytes().str(k).u32_(2).u16_(v); };
  {
    Pieces p(3);
    p.write();
    std::filesystem::remove(p.path(1));
    auto f = File::open(p.path(0));
    ASSERT_FALSE(f.ok());
    EXPECT_HAS(f.error().what, "piece 2 of 3");
    EXPECT_HAS(f.error().what, "m-00002-of-00003.gguf");
  }
  EXPECT_HAS(Pieces(3).error(1), "open the first one");
  {
    Pieces p(2);
    p.write();
    std::filesystem::rename(p.path(0), p.folder.file("other.gguf"));
    auto f = File::open(p.folder.file("other.gguf"));
    ASSERT_FALSE(f.ok());
    EXPECT_HAS(f.error().what, "does not end in '-00001-of-00002.gguf'");
    const std::vector<u8> bytes = p.makers[0].bytes();
    EXPECT_FALSE(File::parse(bytes, "memory").ok());
  }
  auto changed = [](int piece, size_t at, const Bytes& key) {
    Pieces p(3);
    p.set(piece, at, key);
    return p.error();
  };
  EXPECT_HAS(changed(2, 0, u16_key("split.no", 1)), "split.no is 1, expected 2");
  EXPECT_HAS(changed(2, 0, u16_key("split.no", 7)), "split.no is 7, split.count is 3");
  EXPECT_HAS(changed(2, 0, u16_key("unrelated", 2)), "split.no is missing");
  EXPECT_HAS(changed(0, 0, u16_key("unrelated", 2)), "split.no is missing");
  EXPECT_HAS(changed(2, 0, Bytes().str("split.no").u32_(4).u32_(2)), "'split.no' is of type u32, expected u16");
  EXPECT_HAS(changed(1, 1, u16_key("split.count", 4)), "split.count is 4, in the first piece 3");
  EXPECT_HAS(changed(1, 1, u16_key("unrelated", 4)), "split.count is 1, in the first piece 3");
  EXPECT_HAS(changed(0, 1, Bytes().str("split.count").u32_(4).u32_(3)), "'split.count' is of type u32, expected u16");
  EXPECT_HAS(changed(0, 1, Bytes().str("split.count").u32_(8).str("3")), "'split.count' is of type string, expected u16");
  EXPECT_HAS(changed(0, 1, u16_key("split.count", 65535)), "split.count is 65535, at most 1024");
  EXPECT_HAS(changed(0, 1, u16_key("split.count", 2)), "does not end in '-00001-of-00002.gguf'");
  EXPECT_HAS(changed(0, 2, Bytes().str("split.tensors.count").u32_(5).u32_(4)), "split.tensors.count is 4, the 3 pieces have 3");
  EXPECT_HAS(changed(0, 2, Bytes().str("split.tensors.count").u32_(5).u32_(u32(-1))), "split.tensors.count is negative");
  EXPECT_HAS(changed(0, 2, Bytes().str("split.tensors.count").u32_(4).u32_(3)), "is of type u32, expected i32");
  EXPECT_HAS(changed(0, 2, u16_key("unrelated", 4)), "split.tensors.count is missing");
  {
    Pieces p(3);
    p.makers[2].tensors.clear();
    p.makers[2].tensor("t0", {8}, 0, 0);
    EXPECT_HAS(p.error(), "tensor 't0' appears twice, first in piece 1");
  }
  {
    Pieces p(2);  // a name from a file never becomes a path
    p.makers[0].string_key("split.path", "/etc/passwd");
    EXPECT_EQ(p.error(), "read");
  }
  {
    Pieces p(2);
    p.makers[1].data = 31;
    EXPECT_HAS(p.error(), "m-00002-of-00002.gguf: byte");
  }
  {
    Pieces p(2);  // BitNet's I2_S in one piece, its TL2 in the other
    p.makers[0].u32_key("general.file_type", 40).tensors.clear();
    p.makers[0].tensor("t0", {128}, 36, 0).data = 64;
    p.makers[1].tensors.clear();
    p.makers[1].tensor("t1", {32}, 39, 0);
    EXPECT_HAS(p.error(), "is TL2");
  }
}

TEST(Reader, PublishedFiles) {
  const std::string folder = models_folder();
  if (folder.empty()) GTEST_SKIP() << "no models";
  struct Known {
    const char* name;
    size_t keys, tensors;
  };
  for (const Known& k : {Known{"mini-dense.pq2_0.gguf", 31, 57},
                         {"mini-hybrid.pq2_0.gguf", 49, 109},
                         {"mini-hybrid.ptq1_0.gguf", 49, 109},
                         {"mini-moe.f16.gguf", 34, 74},
                         {"mini-moe.iq2_xs.gguf", 38, 74},
                         {"mini-moe.iq3_xxs.gguf", 38, 74},
                         {"vocab/gpt-2.gguf", 16, 0},
                         {"vocab/qwen2.gguf", 20, 0},
                         {"vocab/llama-spm.gguf", 22, 0}}) {
    auto f = File::open(folder + "/" + k.name, {.check_data = true});
    ASSERT_TRUE(f.ok()) << f.error().what;
    EXPECT_EQ(f->metadata().size(), k.keys) << k.name;
    EXPECT_EQ(f->tensors().size(), k.tensors) << k.name;
  }
}

}  // namespace fewbit::gguf
