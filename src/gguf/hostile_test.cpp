// Every broken file is refused in one line that names the file and the byte; none of them makes us crash (run this under the sanitizers).
#include <gtest/gtest.h>

#include <set>

#include "gguf/hostile_cases.h"

namespace fewbit::gguf {

TEST(Hostile, TheFileThatTheyAreMadeFromIsRead) {
  const std::vector<u8> bytes = hostile::valid().bytes();
  for (OpenOptions o : {OpenOptions{}, OpenOptions{.q2_0_legacy = true}}) {
    auto f = File::parse(bytes, "valid.gguf", o);
    ASSERT_TRUE(f.ok()) << f.error().what;
    EXPECT_EQ(f->tensors().size(), 5u);
    EXPECT_EQ(f->find("t.u8")->as_int(), 255);
    EXPECT_EQ(f->find("t.i8")->as_int(), -1);
    EXPECT_EQ(f->find("t.u16")->as_int(), 65535);
    EXPECT_EQ(f->find("t.i16")->as_int(), -1);
    EXPECT_EQ(f->find("t.i32")->as_int(), -1);
    EXPECT_EQ(f->find("t.i64")->as_int(), -1);
    EXPECT_EQ(f->find("t.u64")->as_int(), std::nullopt);  // 2^64 - 1
    EXPECT_EQ(f->find("t.f64")->as_float(), 0.1);
    EXPECT_EQ(f->find("t.bool")->as_bool(), true);
    EXPECT_EQ(f->find("t.bools")->as_ints(), (std::vector<i64>{0, 1, 1}));
    EXPECT_EQ(f->find("t.i16s")->as_ints(), (std::vector<i64>{1, -1}));
    EXPECT_EQ(f->find("t.u64s")->as_ints(), std::nullopt);
    EXPECT_EQ(f->find("t.empty")->as_ints(), std::vector<i64>{});
    EXPECT_EQ(*f->find("tokenizer.ggml.tokens")->as_strings(), (std::vector<std::string>{"a", "", "\xff"}));
    EXPECT_EQ(f->find("tokenizer.ggml.scores")->as_floats(), (std::vector<f32>{0, -1, -2}));
  }
}

TEST(Hostile, EveryFileIsRefusedInOneLineThatNamesFileAndByte) {
  const std::vector<hostile::Case> cases = hostile::cases();
  EXPECT_GE(cases.size(), 80u);
  std::set<std::string> names;
  for (const hostile::Case& c : cases) {
    EXPECT_TRUE(names.insert(c.name).second) << c.name;
    auto f = File::parse(c.bytes, "hostile.gguf", c.options);
    if (f.ok()) {
      ADD_FAILURE() << c.name << ": was read, expected '" << c.expect << "'";
      continue;
    }
    const std::string& what = f.error().what;
    EXPECT_NE(what.find(c.expect), what.npos) << c.name << ": '" << what << "' lacks '" << c.expect << "'";
    EXPECT_EQ(what.rfind("hostile.gguf: byte ", 0), 0u) << c.name << ": " << what;
    EXPECT_EQ(what.find('\n'), what.npos) << c.name << ": " << what;
    EXPECT_LT(what.size(), 400u) << c.name << ": " << what;
    for (char ch : what) EXPECT_TRUE(ch >= 0x20 && ch < 0x7f) << c.name;
  }
}

TEST(Hostile, TruncatedAtEveryByte) {
  std::vector<u8> bytes = hostile::valid().bytes();
  for (size_t n = 0; n < bytes.size(); n++) {
    std::vector<u8> cut(bytes.begin(), bytes.begin() + i64(n));  // a fresh block of n bytes: the sanitizer sees any read beyond
    EXPECT_FALSE(File::parse(cut, "cut.gguf").ok()) << n << " of " << bytes.size();
  }
}

// Any single byte, set to each of some nasty values: read or refused, never a crash, and what is read lies inside the file.
TEST(Hostile, AnyByteChanged) {
  const std::vector<u8> bytes = hostile::valid().bytes();
  size_t refused = 0;
  for (size_t i = 0; i < bytes.size() - 770; i++) {
    for (u8 v : {u8(0), u8(1), u8(0x7f), u8(0x80), u8(0xff), u8(bytes[i] ^ 1), u8(bytes[i] ^ 0x40)}) {
      std::vector<u8> changed = bytes;
      changed[i] = v;
      auto f = File::parse(changed, "changed.gguf");
      if (!f.ok()) {
        refused++;
        continue;
      }
      for (const Tensor& t : f->tensors()) {
        ASSERT_GE(t.data.data(), changed.data());
        ASSERT_LE(t.data.data() + t.data.size(), changed.data() + changed.size());
      }
    }
  }
  EXPECT_GT(refused, bytes.size());
}

// The caps that only a larger file can reach: more tensors, keys, elements than any real file has.
TEST(Hostile, CapsOfLargeFiles) {
  auto what = [](const std::vector<u8>& b) {
    auto f = File::parse(b, "large.gguf");
    return f.ok() ? std::string("read") : f.error().what;
  };
  hostile::Bytes many;
  many.raw("GGUF").u32_(3).u64_((1 << 20) + 1).u64_(0).zeros(25 * ((1 << 20) + 1));
  EXPECT_NE(what(many.b).find("tensor count 1048577, at most 1048576"), std::string::npos) << what(many.b);
  hostile::Bytes long_array;
  long_array.raw("GGUF").u32_(3).u64_(0).u64_(1).str("x").u32_(9).u32_(0).u64_((1 << 26) + 1).zeros((1 << 26) + 1);
  EXPECT_NE(what(long_array.b).find("array of 67108865 elements, at most"), std::string::npos) << what(long_array.b);
  hostile::Bytes long_string;
  long_string.raw("GGUF").u32_(3).u64_(0).u64_(1).str("x").u32_(8).u64_((1 << 26) + 1).zeros((1 << 26) + 1);
  EXPECT_NE(what(long_string.b).find("string of 67108865 bytes, at most"), std::string::npos) << what(long_string.b);
}

}  // namespace fewbit::gguf
