// quantize and imatrix as programs: what is left behind when they are stopped, pieces, resuming.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "base/json.h"
#include "gguf/imatrix.h"

namespace fs = std::filesystem;
using fewbit::Json;

namespace {

const std::string models = std::string(FEWBIT_SOURCE_DIR) + "/models/";
const std::string dense = models + "mini-dense.pq2_0.gguf", hybrid = models + "mini-hybrid.pq2_0.gguf";

std::string slurp(const fs::path& p) {
  std::ifstream in(p, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// A folder that goes away with the test.
struct Folder {
  fs::path at = fs::path(testing::TempDir()) /
                ("fewbit_" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()) + "_" + std::to_string(getpid()));
  Folder() { fs::create_directories(at); }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(at, ignored);
  }
  std::string file(const std::string& name) const { return (at / name).string(); }
  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const auto& e : fs::directory_iterator(at)) out.push_back(e.path().filename().string());
    std::sort(out.begin(), out.end());
    return out;
  }
};

struct Outcome {
  int code = -1;
  std::string out, err;
};
// before: shell commands in front.
Outcome call(const Folder& f, const std::string& args, const std::string& before = "") {
  const fs::path logs = f.at.string() + ".logs";
  fs::create_directories(logs);
  const std::string cmd =
      before + FEWBIT_BINARY + " " + args + " > " + (logs / "out").string() + " 2> " + (logs / "err").string() + " < /dev/null";
  const int status = std::system(("sh -c \"" + cmd + "\"").c_str());
  Outcome r{WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), slurp(logs / "out"), slurp(logs / "err")};
  fs::remove_all(logs);
  return r;
}

// Starts a quantisation that takes several seconds and sends it a signal in the middle.  The status of waitpid; err: its stderr.
int interrupted(const Folder& f, const std::string& out, int signal_no, std::string& err) {
  const std::string log = f.at.string() + ".err";
  const pid_t child = fork();
  if (child == 0) {
    if (!std::freopen("/dev/null", "w", stdout) || !std::freopen(log.c_str(), "w", stderr)) _exit(99);
    execl(FEWBIT_BINARY, FEWBIT_BINARY, "quantize", "--allow-requantize", "--pure", "-t", "1", hybrid.c_str(), out.c_str(), "IQ3_S",
          static_cast<char*>(nullptr));
    _exit(98);
  }
  // Its output file is open (named or not) once the plan is made: then it is in the middle.
  const fs::path descriptors = "/proc/" + std::to_string(child) + "/fd";
  bool writing = false;
  for (int i = 0; i < 3000 && !writing; i++) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    std::error_code ignored;
    for (const auto& e : fs::directory_iterator(descriptors, ignored)) {
      std::error_code gone;
      const std::string to = fs::read_symlink(e.path(), gone).string();
      writing |= to.starts_with(f.at.string() + "/");
    }
  }
  EXPECT_TRUE(writing);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  kill(child, signal_no);
  int status = 0;
  waitpid(child, &status, 0);
  err = slurp(log);
  fs::remove(log);
  return status;
}

TEST(QuantizeProgram, KilledInTheMiddleLeavesTheOldFile) {
  Folder f;
  std::ofstream(f.file("model.gguf")) << "old";
  std::string err;
  const int status = interrupted(f, f.file("model.gguf"), SIGKILL, err);
  ASSERT_TRUE(WIFSIGNALED(status)) << "it was finished before the signal: " << err;
  EXPECT_EQ(slurp(f.file("model.gguf")), "old");
#ifdef O_TMPFILE
  EXPECT_EQ(f.names(), std::vector<std::string>{"model.gguf"});
#endif
}

TEST(QuantizeProgram, CtrlCLeavesNothingAndSaysSo) {
  Folder f;
  std::ofstream(f.file("model.gguf")) << "old";
  std::string err;
  const int status = interrupted(f, f.file("model.gguf"), SIGINT, err);
  ASSERT_TRUE(WIFEXITED(status)) << status;
  EXPECT_NE(WEXITSTATUS(status), 0);
  EXPECT_EQ(std::count(err.begin(), err.end(), '\n'), 1) << err;
  EXPECT_NE(err.find("nothing was written"), std::string::npos) << err;
  EXPECT_EQ(slurp(f.file("model.gguf")), "old");
  EXPECT_EQ(f.names(), std::vector<std::string>{"model.gguf"});
}

TEST(QuantizeProgram, NoRoomIsOneLine) {
  Folder f;
  // A limit on the size of files stands for the full disk.
  const Outcome r =
      call(f, "quantize --allow-requantize " + dense + " " + f.file("model.gguf") + " Q8_0", "trap '' XFSZ; ulimit -f 1000; ");
  EXPECT_EQ(r.code, 1) << r.out;
  EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << r.err;
  EXPECT_NE(r.err.find("model.gguf: cannot "), std::string::npos) << r.err;  // reserve, or write
  EXPECT_EQ(f.names(), std::vector<std::string>{});
}

TEST(QuantizeProgram, PiecesComputeTheSame) {
  Folder f;
  for (const std::string& split : {std::string(), std::string(" --split-max-size 1M")})
    ASSERT_EQ(call(f, "quantize " + dense + " " + f.file(split.empty() ? "whole.gguf" : "piece.gguf") + " PTQ1_0" + split).code, 0);
  int pieces = 0;
  for (const std::string& n : f.names()) pieces += n.starts_with("piece-0");
  EXPECT_GE(pieces, 4);
  const std::vector<std::string> all = f.names();
  std::string first;
  for (const std::string& n : f.names())
    if (n.starts_with("piece-00001")) first = f.file(n);
  // No piece of a model is replaced while it is read.
  for (const std::string& onto : {f.file(all[2]) + " Q8_0", f.file("piece.gguf") + " PTQ1_0 --split-max-size 1M"}) {
    const Outcome r = call(f, "quantize --allow-requantize " + first + " " + onto);
    EXPECT_EQ(r.code, 1) << onto;
    EXPECT_NE(r.err.find("would replace an input"), std::string::npos) << r.err;
    EXPECT_EQ(f.names(), all);
  }
  const std::string eval = " --tokens 1,2,3 --greedy 4 --exact --json";
  const Outcome a = call(f, "eval -m " + f.file("whole.gguf") + eval), b = call(f, "eval -m " + first + eval);
  ASSERT_EQ(a.code, 0) << a.err;
  ASSERT_EQ(b.code, 0) << b.err;
  EXPECT_EQ(Json::parse(a.out)["greedy"], Json::parse(b.out)["greedy"]);
  // Lossless: the original computes the same.
  EXPECT_EQ(Json::parse(call(f, "eval -m " + dense + eval).out)["greedy"], Json::parse(a.out)["greedy"]);
}

// The numbers of a float32 .npy.
std::vector<float> numbers(const std::string& npy) {
  const std::string bytes = slurp(npy);
  if (bytes.size() < 10) return {};
  const size_t head = 10 + size_t(static_cast<unsigned char>(bytes[8])) + 256 * size_t(static_cast<unsigned char>(bytes[9]));
  std::vector<float> out((bytes.size() - head) / 4);
  std::memcpy(out.data(), bytes.data() + head, out.size() * 4);
  return out;
}

TEST(QuantizeProgram, RotatedModelsComputeTheSame) {  // dense, untied; experts; DeltaNet
  Folder f;
  for (const std::string name : {"llama", "qwen3moe", "qwen35"}) {
    const std::string plain = f.file(name + ".gguf"), turned = f.file(name + ".rotated.gguf");
    const std::string packed = std::string(FEWBIT_SOURCE_DIR) + "/tests/data/oracles/" + name + ".f16.gguf.gz";
    ASSERT_EQ(std::system(("gzip -dc " + packed + " > " + plain).c_str()), 0);
    const Outcome q = call(f, "quantize " + plain + " " + turned + " F32 --hadamard 32");
    ASSERT_EQ(q.code, 0) << q.err;
    const std::string eval = " --tokens 1,2,3,4,5,6,7,8,9 --exact --device cpu --logits ";
    ASSERT_EQ(call(f, "eval -m " + plain + eval + f.file("a.npy")).code, 0);
    ASSERT_EQ(call(f, "eval -m " + turned + eval + f.file("b.npy")).code, 0);
    const std::vector<float> a = numbers(f.file("a.npy")), b = numbers(f.file("b.npy"));
    ASSERT_EQ(a.size(), b.size());
    ASSERT_GT(a.size(), 1000u);
    float largest = 0, apart = 0;
    for (size_t i = 0; i < a.size(); i++) largest = std::max(largest, std::abs(a[i])), apart = std::max(apart, std::abs(a[i] - b[i]));
    EXPECT_GT(apart, 0) << name;  // not the same file
    EXPECT_LT(apart, 1e-5 * largest) << name;
  }
}

TEST(QuantizeProgram, RefusalsAreOneLine) {
  Folder f;
  const struct {
    std::string args, names;
    int code;
  } cases[] = {
      {dense + " x.gguf Q4_K", "--allow-requantize", 1},
      {dense + " x.gguf Q99", "Q99", 2},
      {dense + " x.gguf PQ2_0 --tensor-type attn=Q99", "Q99", 2},
      {dense + " x.gguf PQ2_0 --tensor-type attn", "REGEX=TYPE", 2},
      {dense + " x.gguf PQ2_0 --split-max-size 1Q", "1Q", 2},
      {dense + " x.gguf PQ2_0 --hadamard 3", "power of two", 1},
      {dense + " x.gguf PQ2_0 --imatrix /no/such", "/no/such", 1},
      {dense + " /no/such/folder/x.gguf PQ2_0", "/no/such/folder/x.gguf", 1},
      {hybrid + " x.gguf F16 --hadamard 64", "rotated already", 1},
  };
  for (const auto& c : cases) {
    const Outcome r = call(f, "quantize " + c.args);
    EXPECT_EQ(r.code, c.code) << c.args << "\n" << r.err;
    EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << c.args << "\n" << r.err;
    EXPECT_NE(r.err.find(c.names), std::string::npos) << c.args << "\n" << r.err;
  }
  EXPECT_FALSE(fs::exists("x.gguf"));
}

TEST(ImatrixProgram, ResumesAndMerges) {
  Folder f;
  const std::string common = "imatrix -m " + dense + " -f " + FEWBIT_SOURCE_DIR + "/tests/data/mini.ppl.txt -c 64 -t 1 ";
  const std::string whole = f.file("whole.gguf"), part = f.file("part.gguf"), twice = f.file("twice.gguf");
  ASSERT_EQ(call(f, common + "--chunks 4 -o " + whole).code, 0);
  ASSERT_EQ(call(f, common + "--chunks 2 -o " + part).code, 0);
  ASSERT_EQ(call(f, "imatrix --in-file " + part + " --in-file " + part + " -o " + twice).code, 0);
  ASSERT_EQ(call(f, common + "--chunks 4 --resume -o " + part).code, 0);
  auto a = fewbit::gguf::Imatrix::read(whole), b = fewbit::gguf::Imatrix::read(part), c = fewbit::gguf::Imatrix::read(twice);
  ASSERT_TRUE(a.ok() && b.ok() && c.ok());
  EXPECT_EQ(a->chunks, 4);
  EXPECT_EQ(b->chunks, 4);
  EXPECT_EQ(c->chunks, 4);
  ASSERT_GE(a->entries.size(), 35u);  // 5 layers of 7 matrices
  int other = 0;
  for (const auto& [name, e] : a->entries) {
    const auto& r = b->entries.at(name);
    const auto& t = c->entries.at(name);
    EXPECT_EQ(e.counts, r.counts) << name;
    EXPECT_EQ(e.counts[0], 4 * 64) << name;
    EXPECT_EQ(t.counts[0], 4 * 64) << name;
    for (size_t i = 0; i < e.sums.size(); i++) {
      ASSERT_NEAR(e.sums[i], r.sums[i], 1e-5 * e.sums[i]) << name << i;
      other += std::abs(e.sums[i] - t.sums[i]) > 1e-3 * e.sums[i];  // the first half twice is not the whole
    }
  }
  EXPECT_GT(other, 0);
  const Outcome wrong = call(f, "imatrix -m " + dense + " -f " + FEWBIT_SOURCE_DIR + "/tests/data/mini.ppl.txt -c 32 --resume -o " + part);
  EXPECT_EQ(wrong.code, 1);
  EXPECT_NE(wrong.err.find("chunks of 64 tokens"), std::string::npos) << wrong.err;
  const Outcome merged = call(f, common + "--resume -o " + twice),
                model = call(f, "imatrix -m " + dense + " --in-file " + part + " -o x.gguf");
  EXPECT_EQ(merged.code, 1);
  EXPECT_NE(merged.err.find("was merged"), std::string::npos) << merged.err;
  EXPECT_EQ(model.code, 2);
  EXPECT_NE(model.err.find("-m goes with -f"), std::string::npos) << model.err;
  for (const std::string& other :
       {hybrid + " -f " + FEWBIT_SOURCE_DIR + "/tests/data/mini.ppl.txt", dense + " -f " + FEWBIT_SOURCE_DIR + "/docs/cli.md"}) {
    const Outcome r = call(f, "imatrix -m " + other + " -c 64 -t 1 --chunks 6 --resume -o " + part);
    EXPECT_EQ(r.code, 1) << other;
    EXPECT_NE(r.err.find("another text or model"), std::string::npos) << r.err;
  }
}

}  // namespace
