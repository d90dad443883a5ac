#include <sys/resource.h>

#include <csignal>
#include <random>

#include "gguf/serialize.h"
#include "gguf/test_files.h"

namespace fewbit::gguf {

static std::vector<u8> read_file(const std::string& path) {
  auto m = Mapping::open(path, Mapping::Mode::read);
  EXPECT_TRUE(m.ok()) << m.error().what;
  return m.ok() ? std::vector<u8>(m->bytes().begin(), m->bytes().end()) : std::vector<u8>();
}
static std::vector<Writer::TensorInfo> infos_of(const File& f) {
  std::vector<Writer::TensorInfo> infos;
  for (const Tensor& t : f.tensors()) infos.push_back({t.name, t.type, {t.dims.begin(), t.dims.begin() + t.n_dims}});
  return infos;
}
static void expect_same(const File& a, const File& b) {
  ASSERT_EQ(a.tensors().size(), b.tensors().size());
  for (size_t i = 0; i < a.tensors().size(); i++) {
    const Tensor &x = a.tensors()[i], &y = b.tensors()[i];
    EXPECT_EQ(x.name, y.name);
    EXPECT_EQ(x.type, y.type);
    EXPECT_EQ(x.dims, y.dims);
    EXPECT_TRUE(std::equal(x.data.begin(), x.data.end(), y.data.begin(), y.data.end())) << x.name;
  }
  for (const KeyValue& kv : a.metadata()) {
    const Value* v = b.find(kv.key);
    ASSERT_TRUE(v) << kv.key;
    EXPECT_EQ(v->type, kv.value.type);
    EXPECT_TRUE(v->v == kv.value.v) << kv.key;
  }
}

// Every file we have, written again, is the same file byte for byte (their padding and order are the reference writer's).
TEST(Writer, RoundTripOfEveryModel) {
  const std::string folder = models_folder();
  if (folder.empty()) GTEST_SKIP() << "no models";
  TempFolder out;
  std::mt19937 random(1);
  int files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().extension() != ".gguf") continue;
    auto f = File::open(entry.path().string());
    ASSERT_TRUE(f.ok()) << f.error().what;
    const std::string path = out.file("copy.gguf");
    auto w = Writer::create(path, f->metadata(), infos_of(*f));
    ASSERT_TRUE(w.ok()) << w.error().what;
    for (const Tensor& t : f->tensors()) {
      for (size_t at = 0; at < t.data.size();) {  // in pieces of any size
        const size_t n = std::min<size_t>(t.data.size() - at, 1 + random() % (random() % 4 ? 3000 : 3000000));
        ASSERT_TRUE(w->write(t.data.subspan(at, n)).ok());
        at += n;
      }
    }
    Status s = w->finish();
    ASSERT_TRUE(s.ok()) << s.error().what;
    EXPECT_TRUE(read_file(path) == read_file(entry.path().string())) << entry.path();
    EXPECT_EQ(w->file_bytes(), std::filesystem::file_size(path));
    files++;
  }
  EXPECT_GE(files, 9);
  EXPECT_EQ(out.count(), 1u);
}

static std::vector<KeyValue> every_value() {
  auto all = [](ValueType t, auto scalar, auto list) {
    const std::string name = value_type_name(t);
    return std::vector<KeyValue>{{name, {t, {}, scalar}}, {name + ".list", {ValueType::array, t, list}}};
  };
  std::vector<KeyValue> out;
  for (auto& part : {all(ValueType::u8, u64(255), std::vector<u64>{0, 255}), all(ValueType::i8, i64(-128), std::vector<i64>{-128, 127}),
                     all(ValueType::u16, u64(65535), std::vector<u64>{65535}), all(ValueType::i16, i64(-32768), std::vector<i64>{-32768}),
                     all(ValueType::u32, u64(0xffffffff), std::vector<u64>{1, 2}), all(ValueType::i32, i64(-5), std::vector<i64>{-5}),
                     all(ValueType::u64, ~u64(0), std::vector<u64>{~u64(0)}), all(ValueType::i64, INT64_MIN, std::vector<i64>{INT64_MIN}),
                     all(ValueType::f32, 0.5, std::vector<f64>{0.25, -1}), all(ValueType::f64, 0.1, std::vector<f64>{0.1}),
                     all(ValueType::boolean, true, std::vector<bool>{true, false}),
                     all(ValueType::string, std::string("a\0b", 3), std::vector<std::string>{"", "\xff\n"})}) {
    out.insert(out.end(), part.begin(), part.end());
  }
  return out;
}

TEST(Writer, EveryValueEveryTypeAndAlignment) {
  TempFolder folder;
  for (u64 alignment : {u64(0), u64(8), u64(64), u64(65536)}) {
    std::vector<Writer::TensorInfo> infos{{"scalar", Type::F32, {}}};
    for (const FormatInfo& f : all_formats()) {
      if (u32(f.type) <= 0xffff) infos.push_back({f.name, f.type, {f.type == Type::I2_S ? 128 : f.block, 3}});
    }
    infos.push_back({"4d", Type::I8, {1, 2, 3, 5}});
    const std::string path = folder.file("all.gguf");
    auto w = Writer::create(path, every_value(), infos, alignment);
    ASSERT_TRUE(w.ok()) << w.error().what;
    u8 fill = 1;
    for (const auto& t : infos) {
      const u64 rows = t.dims.size() == 2 ? 3 : t.dims.empty() ? 1 : 30;
      const std::vector<u8> bytes(*tensor_bytes(t.type, t.dims.empty() ? 1 : u64(t.dims[0]), rows), fill++);
      ASSERT_TRUE(w->write(bytes).ok());
    }
    ASSERT_TRUE(w->finish().ok());
    auto f = File::open(path);
    ASSERT_TRUE(f.ok()) << f.error().what;
    EXPECT_EQ(f->alignment(), alignment ? alignment : 32);
    ASSERT_EQ(f->tensors().size(), infos.size());
    for (size_t i = 0; i < infos.size(); i++) {
      const Tensor& t = f->tensors()[i];
      EXPECT_EQ(t.type, infos[i].type);
      EXPECT_EQ(t.offset % f->alignment(), 0u);
      for (u8 b : t.data) ASSERT_EQ(b, u8(i + 1));
    }
    EXPECT_EQ(f->tensor("I2_S")->data.size(), 3u * 128 / 4 + 32);
    for (const KeyValue& kv : every_value()) EXPECT_TRUE(f->find(kv.key)->v == kv.value.v) << kv.key;
    // and again, with the alignment from the metadata
    auto again = serialize(f->metadata(), infos_of(*f), 0);
    ASSERT_TRUE(again.ok()) << again.error().what;
    EXPECT_EQ(again->file_bytes, f->file_bytes());
  }
}

TEST(Writer, RefusesWhatTheReaderWould) {
  TempFolder folder;
  auto error = [&](const std::vector<KeyValue>& keys, const std::vector<Writer::TensorInfo>& tensors, u64 alignment = 0) {
    auto w = Writer::create(folder.file("no.gguf"), keys, tensors, alignment);
    return w.ok() ? "written" : w.error().what;
  };
  auto has = [](const std::string& text, const std::string& part) { EXPECT_NE(text.find(part), text.npos) << text; };
  const Value one = Value::of(u32(1));
  has(error({{"", one}}, {}), "key of 0 bytes");
  has(error({{"a\n", one}}, {}), "not printable");
  has(error({{"a", one}, {"a", one}}, {}), "appears twice");
  has(error({{"a", {ValueType::u8, {}, u64(256)}}}, {}), "does not fit its type u8");
  has(error({{"a", {ValueType::i8, {}, i64(-129)}}}, {}), "does not fit its type i8");
  has(error({{"a", {ValueType::string, {}, u64(1)}}}, {}), "does not fit its type string");
  has(error({{"a", {ValueType::u32, {}, std::vector<u64>{1}}}}, {}), "does not fit its type u32");
  has(error({{"a", {ValueType::array, ValueType::u16, std::vector<u64>{65536}}}}, {}), "does not fit its type array of u16");
  has(error({}, {{"", Type::F32, {1}}}), "name of 0 bytes");
  has(error({}, {{std::string(64, 'n'), Type::F32, {1}}}), "name of 64 bytes");
  has(error({}, {{"t", Type::F32, {1}}, {"t", Type::F32, {1}}}), "appears twice");
  has(error({}, {{"t", Type::F32, {1, 1, 1, 1, 1}}}), "5 dimensions");
  has(error({}, {{"t", Type::F32, {0}}}), "dimension 0 is 0");
  has(error({}, {{"t", Type::F32, {i64(1) << 40, i64(1) << 40}}}), "dimension 1");
  has(error({}, {{"t", Type::Q8_0, {33}}}), "rows of 33 do not fit Q8_0's block of 32");
  has(error({}, {{"t", Type::Q2_0_LEGACY128, {128}}}), "cannot be written");
  has(error({}, {{"t", Type(5), {128}}}), "type 5 cannot be written");
  has(error({}, {}, 7), "alignment 7");
  has(error({{"general.alignment", Value::of(u32(64))}}, {}, 32), "not the alignment 32");
  EXPECT_EQ(folder.count(), 0u);
}

TEST(Writer, NothingIsLeftUnlessFinished) {
  TempFolder folder;
  const std::string path = folder.file("m.gguf");
  const std::vector<Writer::TensorInfo> infos{{"a", Type::F32, {8}}, {"b", Type::F32, {8}}};
  const std::vector<u8> bytes(32, 7);
  {
    auto w = Writer::create(path, {}, infos);
    ASSERT_TRUE(w.ok());
    EXPECT_TRUE(w->write(bytes).ok());
    EXPECT_FALSE(w->finish().ok());  // b is missing
    EXPECT_EQ(w->write(std::vector<u8>(33)).error().what, path + ": tensor 'b' takes 32 bytes, 1 more were given");
  }
  EXPECT_EQ(folder.count(), 0u);
  put_file(path, {1, 2, 3});  // an older file stays whole until the end
  {
    auto w = Writer::create(path, {}, infos);
    EXPECT_TRUE(w->write(bytes).ok());
    EXPECT_EQ(read_file(path).size(), 3u);
    EXPECT_TRUE(w->write(bytes).ok());
    EXPECT_FALSE(w->write(bytes).ok());
    EXPECT_TRUE(w->finish().ok());
  }
  EXPECT_EQ(folder.count(), 1u);
  EXPECT_TRUE(File::open(path).ok());
  EXPECT_FALSE(Writer::create(folder.file("none/m.gguf"), {}, infos).ok());
}

// A limit on the size of files stands for a full disk.
TEST(Writer, FullDiskLeavesNothing) {
  TempFolder folder;
  const std::string path = folder.file("m.gguf");
  rlimit old{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const std::vector<Writer::TensorInfo> infos{{"a", Type::I8, {4 << 20}}};
  rlimit small = old;
  small.rlim_cur = 1 << 20;
  Status late;
  {
    auto w = Writer::create(path, {}, infos);
    ASSERT_TRUE(w.ok());
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
    late = w->write(std::vector<u8>(4 << 20));
    EXPECT_FALSE(w->finish().ok());
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old), 0);
  }
  std::signal(SIGXFSZ, handler);
  ASSERT_FALSE(late.ok());
  EXPECT_NE(late.error().what.find("m.gguf: cannot write: File too large"), std::string::npos) << late.error().what;
  EXPECT_EQ(folder.count(), 0u);
}

TEST(Writer, SplitSetsAreReadBack) {
  TempFolder folder;
  const std::vector<KeyValue> keys{{"general.architecture", Value::of(std::string("llama"))}, {"general.alignment", Value::of(u32(64))}};
  std::vector<Writer::TensorInfo> infos;
  for (int i = 0; i < 10; i++) infos.push_back({"t" + std::to_string(i), Type::I8, {100 + i}});
  infos.insert(infos.begin() + 4, {"large", Type::I8, {5000}});
  auto w = SplitWriter::create(folder.file("m"), keys, infos, 400);  // 3 x 128 bytes per piece
  ASSERT_TRUE(w.ok()) << w.error().what;
  EXPECT_EQ(w->pieces(), 5);  // 3, 1, large, 3, 3
  for (size_t i = 0; i < infos.size(); i++) ASSERT_TRUE(w->write(std::vector<u8>(size_t(infos[i].dims[0]), u8(i))).ok());
  EXPECT_EQ(std::filesystem::exists(folder.file("m-00001-of-00005.gguf")), false);
  Status s = w->finish();
  ASSERT_TRUE(s.ok()) << s.error().what;
  EXPECT_EQ(folder.count(), 5u);
  auto f = File::open(folder.file("m-00001-of-00005.gguf"));
  ASSERT_TRUE(f.ok()) << f.error().what;
  EXPECT_EQ(f->pieces(), 5);
  ASSERT_EQ(f->tensors().size(), infos.size());
  for (size_t i = 0; i < infos.size(); i++) {
    EXPECT_EQ(f->tensors()[i].name, infos[i].name);
    for (u8 b : f->tensors()[i].data) ASSERT_EQ(b, u8(i));
  }
  EXPECT_EQ(f->tensor("large")->piece, 2);
  // joined again into one file
  const std::string whole = folder.file("whole.gguf");
  std::vector<KeyValue> plain;
  for (const KeyValue& kv : f->metadata()) {
    if (!kv.key.starts_with("split.")) plain.push_back(kv);
  }
  auto one = Writer::create(whole, plain, infos_of(*f));
  ASSERT_TRUE(one.ok());
  for (const Tensor& t : f->tensors()) ASSERT_TRUE(one->write(t.data).ok());
  ASSERT_TRUE(one->finish().ok());
  auto g = File::open(whole);
  ASSERT_TRUE(g.ok());
  expect_same(*g, *f);
}

}  // namespace fewbit::gguf
