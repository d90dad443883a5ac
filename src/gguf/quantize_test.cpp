#include "gguf/quantize.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>

#include "format/refit.h"

namespace fewbit::gguf {
namespace {

namespace fs = std::filesystem;

std::string temp(const std::string& name) {
  return (fs::path(testing::TempDir()) / ("fewbit_quantize_" + std::to_string(::getpid()) + "_" + name)).string();
}

std::string bytes_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

QuantizeOptions options(const char* type, bool pure = false, bool allow = false) {
  QuantizeOptions o;
  o.type = type;
  o.pure = pure;
  o.allow_requantize = allow;
  return o;
}

// A small expert model.  ternary: every matrix is {-d, 0, d} for each 128 inputs.
File model(bool ternary = false, i64 width = 256, size_t nan_at = SIZE_MAX, bool one_is_zero = false) {
  std::vector<TensorInfo> infos{
      {"token_embd.weight", Type::F32, {width, 64}},        {"output_norm.weight", Type::F32, {width}},
      {"blk.0.attn_q.weight", Type::F32, {width, 96}},      {"blk.0.attn_v.weight", Type::F32, {width, 32}},
      {"blk.0.ffn_gate_inp.weight", Type::F32, {width, 4}}, {"blk.0.ffn_down_exps.weight", Type::F32, {width, 48, 4}}};
  std::vector<KeyValue> keys{{"general.architecture", Value::of(std::string("qwen3moe"))}, {"qwen3moe.expert_count", Value::of(u32(4))}};
  auto file = File::assemble("test", keys, infos, [&](const std::vector<std::span<u8>>& tensors) {
    std::mt19937 random(7);
    for (std::span<u8> t : tensors) {
      f32* x = reinterpret_cast<f32*>(t.data());
      for (size_t i = 0; i < t.size() / 4; i++) {
        const f32 scale = 0.25f + f32(i / 128 % 5) * 0.125f;
        if (t.size() == tensors.back().size() && i == nan_at) {
          x[i] = NAN;
          continue;
        }
        x[i] = one_is_zero && t.data() == tensors[2].data() ? 0
               : ternary                                    ? scale * f32(int(random() % 3) - 1)
                                                            : f32(int(random() % 2001) - 1000) / 1000.0f;
      }
    }
  });
  EXPECT_TRUE(file.ok());
  // Into a real file: the pages of an assembled one are gone after the first reading.
  const std::string path = temp("model");
  auto w = Writer::create(path, keys, infos);
  EXPECT_TRUE(w.ok());
  for (const Tensor& t : file->tensors()) EXPECT_TRUE(w->write(t.data).ok());
  EXPECT_TRUE(w->finish().ok());
  auto real = File::open(path);
  EXPECT_TRUE(real.ok());
  fs::remove(path);
  return std::move(*real);
}

Imatrix importance(const File& f) {
  Imatrix m;
  for (const Tensor& t : f.tensors()) {
    if (t.n_dims < 2) continue;
    Imatrix::Entry e{t.dims[0], t.dims[2], {}, std::vector<f64>(size_t(t.dims[2]), 10.0)};
    for (i64 i = 0; i < t.dims[0] * t.dims[2]; i++) e.sums.push_back(f64(1 + i % 17));
    m.entries.emplace(t.name, std::move(e));
  }
  return m;
}

std::string error_of(const File& f, const QuantizeOptions& o) {
  ThreadPool pool(1, false);
  auto p = plan_quantize(f, o, pool);
  return p.ok() ? "" : p.error().what;
}

std::vector<TensorReport> run(const File& f, const QuantizeOptions& o, const std::string& path, int threads = 2) {
  ThreadPool pool(threads, false);
  auto plan = plan_quantize(f, o, pool);
  EXPECT_TRUE(plan.ok()) << plan.error().what;
  if (!plan.ok()) return {};
  auto r = quantize(f, *plan, o, path, pool);
  EXPECT_TRUE(r.ok()) << r.error().what;
  return r.ok() ? *r : std::vector<TensorReport>();
}

TEST(Quantize, BytesDoNotDependOnThreads) {
  File f = model();
  Imatrix m = importance(f);
  for (const char* type : {"Q4_K_M", "IQ2_XS", "Q2_0"}) {
    QuantizeOptions o = options(type);
    o.imatrix = &m;
    const std::string a = temp("a"), b = temp("b");
    run(f, o, a, 1);
    for (int threads : {2, 3}) {
      run(f, o, b, threads);
      EXPECT_TRUE(bytes_of(a) == bytes_of(b)) << type << " " << threads;
    }
    auto back = File::open(a, {.check_data = true});
    ASSERT_TRUE(back.ok()) << back.error().what;
    EXPECT_EQ(back->tensor("blk.0.ffn_gate_inp.weight")->type, Type::F32);  // a router stays
    EXPECT_EQ(*back->get_int("general.quantization_version", 0), 2);
    EXPECT_EQ(*back->get_int("general.file_type", 0), i64(find_recipe(type)->file_type));
    fs::remove(a), fs::remove(b);
  }
}

TEST(Quantize, RowsAreWhatTheEncoderWrites) {
  File f = model();
  Imatrix m = importance(f);
  QuantizeOptions o = options("IQ3_XXS", true);
  o.imatrix = &m;
  const std::string path = temp("rows");
  auto reports = run(f, o, path);
  auto back = File::open(path);
  ASSERT_TRUE(back.ok());
  const Tensor &from = *f.tensor("blk.0.ffn_down_exps.weight"), &to = *back->tensor(from.name);
  const std::span<const f32> x{reinterpret_cast<const f32*>(from.data.data()), size_t(from.elements())};
  for (i64 r = 0; r < from.rows(); r++) {  // each expert with its own importance
    std::vector<u8> want(row_bytes(to.type, 256));
    ASSERT_TRUE(encode_row(to.type, x.subspan(size_t(r * 256), 256), m.entries.find(from.name)->second.importance(r / 48), want).ok());
    ASSERT_TRUE(std::equal(want.begin(), want.end(), to.data.begin() + r * i64(want.size()))) << r;
  }
  for (const TensorReport& r : reports)
    EXPECT_TRUE(r.to != Type::IQ3_XXS || (r.relative_rmse > 0.02 && r.relative_rmse < 0.4)) << r.name << r.relative_rmse;
  fs::remove(path);
}

TEST(Quantize, ScalesOfIQ2_XSAreRefitted) {
  File f = model();
  Imatrix m = importance(f);
  QuantizeOptions o = options("IQ2_XS", true);
  o.imatrix = &m;
  const std::string path = temp("refit");
  run(f, o, path);
  auto back = File::open(path);
  ASSERT_TRUE(back.ok());
  const Tensor &from = *f.tensor("blk.0.attn_q.weight"), &to = *back->tensor(from.name);
  const std::span<const f32> x{reinterpret_cast<const f32*>(from.data.data()), 256};
  const auto q = m.entries.find(from.name)->second.importance(0);
  std::vector<u8> want(row_bytes(to.type, 256));
  ASSERT_TRUE(encode_row(to.type, x, q, want).ok());
  EXPECT_FALSE(std::equal(want.begin(), want.end(), to.data.begin()));
  refit_scales(to.type, x, q, want);
  EXPECT_TRUE(std::equal(want.begin(), want.end(), to.data.begin()));
  fs::remove(path);
}

TEST(Quantize, TernaryIsKeptAsItIs) {
  File f = model(true);
  for (const char* type : {"PQ2_0", "PTQ1_0", "Q2_0", "TQ2_0"}) {  // TQ2_0 has one scale for 256: PQ2_0 stands for it
    const std::string path = temp("ternary");
    auto reports = run(f, options(type), path);
    auto back = File::open(path);
    ASSERT_TRUE(back.ok());
    for (const TensorReport& r : reports) EXPECT_TRUE(r.exact) << type << " " << r.name;
    for (const Tensor& t : back->tensors()) {
      std::vector<f32> x(size_t(t.elements())), y(x.size());
      decode_tensor(t.type, t.data, x);
      decode_tensor(Type::F32, f.tensor(t.name)->data, y);
      EXPECT_TRUE(x == y) << type << " " << t.name;
      if (t.name == "token_embd.weight") { EXPECT_EQ(t.type, std::string(type) == "TQ2_0" ? Type::PQ2_0 : find_recipe(type)->base); }
    }
    // From one ternary form to another and back: nothing changes, and nothing needs to be allowed.
    const std::string second = temp("second"), third = temp("third");
    run(*back, options("PTQ1_0"), second);
    auto middle = File::open(second);
    ASSERT_TRUE(middle.ok());
    for (const TensorReport& r : run(*middle, options("PQ2_0"), third)) EXPECT_TRUE(r.exact) << r.name;
    fs::remove(path), fs::remove(second), fs::remove(third);
  }
  EXPECT_NE(error_of(f, options("IQ4_XS")).find("PQ2_0 holds them"), std::string::npos);
  EXPECT_NE(error_of(f, options("TQ2_0", true)).find("token_embd.weight"), std::string::npos);
  EXPECT_EQ(error_of(f, options("IQ4_XS", false, true)), "");
}

TEST(Quantize, ZerosAreHeldByAnyType) {
  File f = model(false, 256, SIZE_MAX, true);
  ThreadPool pool(1, false);
  for (const char* type : {"Q4_K", "Q4_0", "MXFP4"}) {
    auto plan = plan_quantize(f, options(type), pool);
    ASSERT_TRUE(plan.ok()) << plan.error().what;
    EXPECT_TRUE(plan->tensors[2].exact);
    EXPECT_FALSE(plan->tensors[3].exact);
  }
}

TEST(Quantize, RefusalsAndFallbacks) {
  File f = model();
  EXPECT_NE(error_of(f, options("IQ2_XS")).find("'blk.0.attn_q.weight': IQ2_XS needs an importance matrix"), std::string::npos);
  EXPECT_NE(error_of(f, options("Q9")).find("unknown type 'Q9'"), std::string::npos);
  QuantizeOptions broken = options("Q4_K"), slow = broken, lifted = options("Q4_K");
  broken.tensor_types = {{"(", Type::Q8_0}};
  slow.tensor_types = {{"^([a-z0-9._]+)+[A-Z]", Type::Q8_0}};
  lifted.tensor_types = {{"attn_v", Type::Q8_0}};
  EXPECT_NE(error_of(f, broken).find("regular expression"), std::string::npos);
  EXPECT_NE(error_of(f, slow).find("match limit"), std::string::npos);
  const std::string path = temp("low");
  run(f, options("Q4_K_S"), path);
  auto low = File::open(path);
  ASSERT_TRUE(low.ok());
  EXPECT_NE(error_of(*low, options("Q2_K")).find("rounded again"), std::string::npos);
  fs::remove(path);
  ThreadPool pool(1, false);
  File odd = model(false, 96);
  auto plan = plan_quantize(odd, lifted, pool);
  ASSERT_TRUE(plan.ok()) << plan.error().what;
  EXPECT_EQ(plan->tensors[2].to, Type::Q5_0);
  EXPECT_TRUE(plan->notes.empty());
  lifted.tensor_types.push_back({"attn_x", Type::Q8_0});
  auto noted = plan_quantize(odd, lifted, pool);
  ASSERT_TRUE(noted.ok() && noted->notes.size() == 1);
  EXPECT_NE(noted->notes[0].find("'attn_x=Q8_0' names no tensor"), std::string::npos);
  EXPECT_NE(plan->tensors[2].note.find("rows of 96 are not a multiple of 256"), std::string::npos);
  EXPECT_EQ(plan->tensors[3].to, Type::Q8_0);
  EXPECT_EQ(dividing_type(Type::PTQ1_0, 192), Type::Q2_0);
  EXPECT_EQ(dividing_type(Type::IQ2_XS, 100), Type::F16);
}

TEST(Quantize, PureNamesTheTypeItself) {
  File f = model();
  Imatrix m = importance(f);
  ThreadPool pool(1, false);
  for (bool pure : {false, true}) {
    QuantizeOptions o = options("IQ2_S", pure);
    o.imatrix = &m;
    auto plan = plan_quantize(f, o, pool);
    ASSERT_TRUE(plan.ok()) << plan.error().what;
    EXPECT_EQ(plan->tensors[2].to, pure ? Type::IQ2_S : Type::IQ2_XS);  // attn_q: as a mix, IQ2_S is mostly IQ2_XS
  }
}

// It would be written, and no model would load it.
TEST(Quantize, NoExpertsInATypeWithOneScalePerTensor) {
  File f = model();
  ThreadPool pool(1, false);
  auto plan = plan_quantize(f, options("I2_S", true, true), pool);
  ASSERT_FALSE(plan.ok());
  EXPECT_NE(plan.error().what.find("cannot hold 4 experts"), std::string::npos) << plan.error().what;
}

TEST(Quantize, UnusedExpertsAndEmptyColumns) {
  File f = model();
  Imatrix m = importance(f);
  Imatrix::Entry& e = m.entries.find("blk.0.ffn_down_exps.weight")->second;
  e.counts[1] = 0;
  for (i64 i = 0; i < 64; i++) e.sums[size_t(i)] = 0;
  e.sums[600] = NAN;
  QuantizeOptions o = options("IQ2_XXS");
  o.imatrix = &m;
  const std::string path = temp("unused");
  for (const TensorReport& r : run(f, o, path)) {
    if (r.name != "blk.0.ffn_down_exps.weight") continue;
    EXPECT_EQ(r.without_data, 1);
    EXPECT_EQ(r.zero_columns, 64);
    EXPECT_LT(r.relative_rmse, 0.6);
  }
  EXPECT_TRUE(File::open(path, {.check_data = true}).ok());
  fs::remove(path);
}

TEST(Quantize, FoldedRowsMeetFoldedInputs) {
  File f = model();
  QuantizeOptions o = options("F32");
  o.fold = FoldOptions{64, true, 3};
  const std::string path = temp("fold");
  run(f, o, path);
  auto back = File::open(path);
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(*back->get_int("prism.hadamard.version", 0), 2);  // the head is the embedding
  const auto signs = back->find("prism.hadamard.sign_values")->as_ints();
  ASSERT_TRUE(signs && signs->size() == 256);
  std::vector<f32> s(signs->begin(), signs->end()), input(256);
  for (size_t i = 0; i < 256; i++) input[i] = f32(std::sin(f64(i)));
  std::vector<f64> work(256);
  std::vector<f32> turned = input;
  fold_row(turned, s, 64, work);  // Had(s o x), the same steps as for a row
  for (const char* name : {"blk.0.attn_q.weight", "blk.0.ffn_down_exps.weight"}) {
    const f32 *w = reinterpret_cast<const f32*>(f.tensor(name)->data.data()),
              *v = reinterpret_cast<const f32*>(back->tensor(name)->data.data());
    for (i64 r = 0; r < f.tensor(name)->rows(); r++) {
      f64 a = 0, b = 0;
      for (i64 i = 0; i < 256; i++) {
        a += f64(w[r * 256 + i]) * f64(input[size_t(i)]);
        b += f64(v[r * 256 + i]) * f64(turned[size_t(i)]);
      }
      EXPECT_NEAR(a, b, 1e-4) << name << r;
    }
  }
  EXPECT_NE(error_of(*back, o).find("is rotated already"), std::string::npos);
  fs::remove(path);
}

TEST(Fold, GoldenNumbers) {  // hadamard.md section 10
  std::vector<f32> x{1, 2, 3, 4, 5, 6, 7, 8}, signs{1, -1, 1, 1, -1, -1, 1, -1};
  std::vector<f64> work(8);
  fold_row(x, signs, 8, work);
  const f32 want[] = {-2.121320f, 6.363961f, -6.363961f, -3.535534f, 6.363961f, -4.949747f, 0.707107f, 6.363961f};
  for (int i = 0; i < 8; i++) EXPECT_NEAR(x[size_t(i)], want[i], 1e-5);
}

TEST(Quantize, FailureLeavesTheOldFile) {
  const std::string path = temp("old");
  std::ofstream(path) << "old";
  File f = model(false, 256, 500);
  ThreadPool pool(2, false);
  QuantizeOptions o = options("Q4_K");
  auto plan = plan_quantize(f, o, pool);
  ASSERT_TRUE(plan.ok());
  auto r = quantize(f, *plan, o, path, pool);
  ASSERT_FALSE(r.ok());
  EXPECT_NE(r.error().what.find("tensor 'blk.0.ffn_down_exps.weight': row 1:"), std::string::npos) << r.error().what;
  EXPECT_EQ(bytes_of(path), "old");
  int left = 0;
  for (const auto& e : fs::directory_iterator(testing::TempDir())) left += e.path().string().starts_with(path) && e.path() != path;
  EXPECT_EQ(left, 0);
  fs::remove(path);
}

}  // namespace
}  // namespace fewbit::gguf
