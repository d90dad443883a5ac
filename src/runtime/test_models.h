// Models that tests run, and what outside programs say about them.
#pragma once
#include <gtest/gtest.h>
#include <zlib.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/json.h"
#include "runtime/engine.h"

namespace fewbit::runtime {

inline Json read_json(const std::string& path) {
  std::ifstream in(path);
  EXPECT_TRUE(in.good()) << path;
  return Json::parse(in);
}

// tests/data/oracles/NAME.f16.gguf.gz, unpacked once per run of the program.
inline std::string oracle_model(const std::string& name) {
  namespace fs = std::filesystem;
  fs::path to =
      fs::path(testing::TempDir()) / ("fewbit_oracle_" + fs::path(name).filename().string() + "_" + std::to_string(getpid()) + ".gguf");
  if (fs::exists(to)) return to.string();
  std::string from = FEWBIT_SOURCE_DIR "/tests/data/oracles/" + name + ".f16.gguf.gz";
  gzFile in = gzopen(from.c_str(), "rb");
  EXPECT_TRUE(in) << from;
  std::ofstream out(to, std::ios::binary);
  std::vector<char> buffer(1 << 20);
  for (int n; in && (n = gzread(in, buffer.data(), unsigned(buffer.size()))) > 0;) out.write(buffer.data(), n);
  if (in) { EXPECT_EQ(gzclose(in), Z_OK) << from; }
  static struct Remove {
    std::vector<fs::path> paths;
    ~Remove() {
      std::error_code ignored;
      for (const fs::path& p : paths) fs::remove(p, ignored);
    }
  } remove;
  remove.paths.push_back(to);
  return to.string();
}
inline Json oracle_expected(const std::string& name) {
  return read_json(FEWBIT_SOURCE_DIR "/tests/data/oracles/" + name + ".expected.json");
}

// The larger models: "" where they are not (the caller skips), a failure under CI.
inline std::string shared_model(const std::string& file) {
  std::string path = FEWBIT_SOURCE_DIR "/../shared/models/" + file;
  if (std::filesystem::exists(path)) return path;
  const char* ci = std::getenv("CI");
  if (ci && std::string(ci) == "true") ADD_FAILURE() << path << " is missing";
  return "";
}
inline std::string own_model(const std::string& file) { return FEWBIT_SOURCE_DIR "/models/" + file; }

inline EngineOptions exact_options(const std::string& model) {
  EngineOptions o;
  o.model = model;
  o.device = "cpu";
  o.path = kernel::Path::exact;
  o.n_ctx = 640;
  return o;
}

inline std::unique_ptr<Engine> load(const EngineOptions& o) {
  auto e = Engine::load(o);
  EXPECT_TRUE(e.ok()) << e.error().what;
  return e.ok() ? std::move(*e) : nullptr;
}

// Logits of every position, fed `piece` tokens at a time (0: all at once).
inline std::vector<f32> logits_of(Engine& e, const std::vector<Token>& tokens, int piece = 0) {
  std::vector<f32> all;
  auto seq = e.new_sequence();
  EXPECT_TRUE(seq.ok());
  if (piece == 0) piece = int(tokens.size());
  for (size_t at = 0; at < tokens.size(); at += size_t(piece)) {
    size_t n = std::min(tokens.size() - at, size_t(piece));
    StepItem item{*seq, {tokens.begin() + i64(at), tokens.begin() + i64(at + n)}, {}};
    for (size_t i = 0; i < n; i++) item.want.push_back(int(i));
    auto l = e.step({&item, 1});
    EXPECT_TRUE(l.ok()) << l.error().what;
    all.insert(all.end(), l->begin(), l->end());
  }
  e.free_sequence(*seq);
  return all;
}

// n tokens after the prompt, one at a time through the cache.
inline std::vector<Token> greedy(Engine& e, const std::vector<Token>& prompt, int n) {
  std::vector<Token> out;
  auto seq = e.new_sequence();
  EXPECT_TRUE(seq.ok());
  StepItem item{*seq, prompt, {int(prompt.size()) - 1}};
  for (int i = 0; i < n; i++) {
    auto t = e.step_argmax({&item, 1});
    EXPECT_TRUE(t.ok()) << t.error().what;
    out.push_back((*t)[0]);
    item = {*seq, {out.back()}, {0}};
  }
  e.free_sequence(*seq);
  return out;
}

struct Difference {
  f64 logits = 0, lse = 0;
  int argmax_wrong = 0;
  f64 worst() const { return std::max(logits, lse); }
};

// Largest difference from a stored sequence: logits where they are stored, log-sum-exp everywhere, argmax where its margin exceeds 2 tol.
inline Difference compare(const Json& want, const std::vector<f32>& got, f64 tol) {
  Difference d;
  size_t n = want.at("tokens").size(), v = got.size() / n;
  EXPECT_EQ(got.size(), n * v);
  auto worse = [](f64 a, f64 b) { return std::isnan(b) || b > a ? b : a; };
  for (const auto& [pos, ref] : want.at("logits").items()) {
    EXPECT_EQ(ref.size(), v);
    for (size_t i = 0; i < v; i++) d.logits = worse(d.logits, std::abs(f64(got[size_t(std::stoi(pos)) * v + i]) - ref[i].get<f64>()));
  }
  for (size_t p = 0; p < n; p++) {
    const f32* row = got.data() + p * v;
    size_t best = size_t(std::max_element(row, row + v) - row);
    f64 sum = 0;
    for (size_t i = 0; i < v; i++) sum += std::exp(f64(row[i]) - row[best]);
    d.lse = worse(d.lse, std::abs(std::log(sum) + row[best] - want.at("lse")[p].get<f64>()));
    if (best != want.at("argmax")[p].get<size_t>() && want.at("margin")[p].get<f64>() > 2 * tol) d.argmax_wrong++;
  }
  return d;
}

}  // namespace fewbit::runtime
