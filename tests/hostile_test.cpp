// Broken files against the whole program: one line on stderr that names the file, exit 1; never a signal, never a second line.
// The first part are files that the reader refuses (gguf/hostile_cases.h).  The second part is well-formed: models whose metadata or
// tensors do not fit the graph; the program may run those that still make sense, but must survive and answer in one line.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>

#include "gguf/hostile_cases.h"

namespace fewbit::gguf {

namespace {

namespace fs = std::filesystem;

struct Outcome {
  int code = -1;  // 128 and more: killed by a signal
  std::string out, err;
};

struct Folder {
  fs::path path = fs::path(testing::TempDir()) / ("fewbit_hostile_" + std::to_string(getpid()));
  Folder() { fs::create_directories(path); }
  ~Folder() { fs::remove_all(path); }
};

std::string slurp(const fs::path& p) {
  std::ifstream in(p, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

Outcome call(const Folder& folder, const std::string& args) {
  const std::string out = (folder.path / "out").string(), err = (folder.path / "err").string();
  const int status = std::system((std::string(FEWBIT_BINARY) + " " + args + " </dev/null >" + out + " 2>" + err).c_str());
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return {code, slurp(out), slurp(err)};
}

void expect_refused(const Outcome& o, const std::string& what, const std::string& names = "", int code = 1) {
  EXPECT_EQ(o.code, code) << what << ": " << o.err;
  EXPECT_EQ(std::count(o.err.begin(), o.err.end(), '\n'), 1) << what << ": " << o.err;
  EXPECT_EQ(o.out, "") << what;
  EXPECT_NE(o.err.find(names), o.err.npos) << what << ": '" << names << "' in " << o.err;
}
// Run or refused, but alive.  2: the tokens asked for are not in a vocabulary that became smaller.
void expect_alive(const Outcome& o, const std::string& what) {
  if (o.code != 0) expect_refused(o, what, "", o.code == 2 ? 2 : 1);
}

// A model that can be changed and written again.
struct Model {
  std::vector<KeyValue> metadata;
  std::vector<TensorInfo> infos;
  std::vector<std::vector<u8>> data;

  explicit Model(const std::string& name) {
    auto f = File::open(std::string(FEWBIT_SOURCE_DIR) + "/models/" + name);
    EXPECT_TRUE(f.ok()) << f.error().what;
    if (!f.ok()) return;
    metadata = f->metadata();
    for (const Tensor& t : f->tensors()) {
      infos.push_back({t.name, t.type, {t.dims.begin(), t.dims.begin() + t.n_dims}});
      data.emplace_back(t.data.begin(), t.data.end());
    }
  }
  size_t tensor(std::string_view name) const {
    for (size_t i = 0; i < infos.size(); i++) {
      if (infos[i].name == name) return i;
    }
    ADD_FAILURE() << "no tensor " << name;
    return 0;
  }
  Value& value(std::string_view key) {
    for (KeyValue& kv : metadata) {
      if (kv.key == key) return kv.value;
    }
    metadata.push_back({std::string(key), Value::of(u32(0))});
    return metadata.back().value;
  }
  void erase_key(std::string_view key) {
    std::erase_if(metadata, [&](const KeyValue& kv) { return kv.key == key; });
  }
  void erase_tensor(std::string_view name) {
    const size_t i = tensor(name);
    infos.erase(infos.begin() + i64(i));
    data.erase(data.begin() + i64(i));
  }
  std::string write(const Folder& folder) const {
    const std::string path = (folder.path / "m.gguf").string();
    auto w = Writer::create(path, metadata, infos);
    EXPECT_TRUE(w.ok()) << w.error().what;
    if (!w.ok()) return path;
    for (const auto& d : data) EXPECT_TRUE(w->write(d).ok());
    EXPECT_TRUE(w->finish().ok());
    return path;
  }
  Outcome run(const Folder& folder) const { return call(folder, "eval --tokens 1,2,3 --greedy 1 --device cpu -t 1 -m " + write(folder)); }
};

}  // namespace

TEST(HostileFiles, EveryOneIsRefusedInOneLine) {
  Folder folder;
  size_t n = 0;
  for (const hostile::Case& c : hostile::cases()) {
    const std::string path = (folder.path / (c.name + ".gguf")).string();
    std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(c.bytes.data()), i64(c.bytes.size()));
    const Outcome o = call(folder, "inspect --check " + std::string(c.options.q2_0_legacy ? "--q2-0-legacy " : "") + path);
    expect_refused(o, c.name, c.name + ".gguf: byte ");
    fs::remove(path);
    n++;
  }
  EXPECT_GE(n, 80u);
}

TEST(HostileModels, TheUnchangedOnesRun) {
  Folder folder;
  EXPECT_EQ(Model("mini-dense.pq2_0.gguf").run(folder).code, 0);
  EXPECT_EQ(Model("mini-hybrid.pq2_0.gguf").run(folder).code, 0);
}

TEST(HostileModels, MissingTensorsAreNamed) {
  Folder folder;
  for (const char* file : {"mini-dense.pq2_0.gguf", "mini-hybrid.pq2_0.gguf"}) {
    const Model whole(file);
    for (const TensorInfo& t : whole.infos) {
      if (t.name.starts_with("blk.") && !t.name.starts_with("blk.0.") && !t.name.starts_with("blk.3.")) continue;
      Model m = whole;
      m.erase_tensor(t.name);
      expect_refused(m.run(folder), t.name, t.name);
    }
  }
}

TEST(HostileModels, TensorsOfAnotherShapeOrTypeAreNamed) {
  Folder folder;
  for (const char* file : {"mini-hybrid.pq2_0.gguf"}) {
    const Model whole(file);
    for (const TensorInfo& t : whole.infos) {
      if (t.name.starts_with("blk.") && !t.name.starts_with("blk.0.") && !t.name.starts_with("blk.3.")) continue;
      {  // one row more, or one element
        Model m = whole;
        const size_t i = m.tensor(t.name);
        const bool matrix = t.dims.size() > 1;
        m.infos[i].dims.back() += 1;
        m.data[i].resize(m.data[i].size() + (matrix ? m.data[i].size() / size_t(t.dims.back()) : 4));
        const Outcome o = m.run(folder);
        if (t.name == "token_embd.weight") continue;  // the vocabulary's length may come from here
        expect_refused(o, t.name + " one more", t.name);
      }
      {  // plain bytes instead of weights
        Model m = whole;
        const size_t i = m.tensor(t.name);
        m.infos[i].type = Type::I8;
        i64 n = 1;
        for (i64 d : t.dims) n *= d;
        m.data[i].assign(size_t(n), 1);
        expect_refused(m.run(folder), t.name + " as I8", t.name);
      }
    }
  }
}

// Any key of the metadata taken away, of another type, or a number that it should not be (model/mutation_test.cpp goes further).
TEST(HostileModels, AnyMetadata) {
  Folder folder;
  const Model whole("mini-hybrid.pq2_0.gguf");
  size_t refused = 0, all = 0;
  for (const KeyValue& kv : whole.metadata) {
    if (kv.key.starts_with("general.") && kv.key != "general.architecture") continue;
    std::vector<std::optional<Value>> values{std::nullopt, Value::of(std::string("\xff\n"))};
    if (kv.value.as_int()) {
      values.insert(values.end(), {Value::of(u32(0)), Value::of(u32(3)), Value::of(~u64(0))});
    } else if (kv.value.as_float()) {
      values.insert(values.end(), {Value::of(0.0f), Value::of(1e30f)});
    }
    for (const std::optional<Value>& v : values) {
      Model m = whole;
      v ? void(m.value(kv.key) = *v) : m.erase_key(kv.key);
      const Outcome o = m.run(folder);
      expect_alive(o, kv.key + (v ? " = " + v->type_text() : " absent"));
      refused += o.code != 0;
      all++;
    }
  }
  EXPECT_GT(refused * 2, all);  // most of these make no sense
}

// Rotated weights with metadata that is not understood: never run (hadamard.md section 8).
TEST(HostileModels, RotationThatIsNotUnderstoodIsRefused) {
  Folder folder;
  const Model whole("mini-hybrid.pq2_0.gguf");
  auto refuse = [&](const std::string& what, const std::function<void(Model&)>& change) {
    Model m = whole;
    change(m);
    expect_refused(m.run(folder), what);
  };
  const std::string p = "prism.hadamard.";
  for (const char* k : {"version", "block_size", "transform", "axis", "sign_mode", "weight_names", "sign_widths", "sign_values"}) {
    refuse(std::string(k) + " absent", [&](Model& m) { m.erase_key(p + k); });
    refuse(std::string(k) + " of another type", [&](Model& m) { m.value(p + k) = Value::of(0.5f); });
  }
  auto set = [&](const char* k, Value v) { refuse(std::string(k) + " changed", [&](Model& m) { m.value(p + k) = std::move(v); }); };
  set("version", Value::of(u32(2)));
  set("version", Value::of(u32(3)));
  set("block_size", Value::of(u32(0)));
  set("block_size", Value::of(u32(96)));
  set("block_size", Value::of(u32(1024)));
  set("block_size", Value::of(u32(0x80000000)));
  set("transform", Value::of(std::string("normalized-sequency-walsh-hadamard")));
  set("axis", Value::of(std::string("output")));
  set("sign_mode", Value::of(std::string("random")));
  set("weight_names", Value::of(std::vector<std::string>{}));
  set("weight_names", Value::of(std::vector<std::string>{"blk.0.no_such.weight"}));
  set("weight_names", Value::of(std::vector<std::string>{"blk.0.attn_norm.weight"}));
  set("weight_names", Value::of(std::vector<std::string>{"blk.0.ffn_up.weight", "blk.0.ffn_up.weight"}));
  set("sign_widths", Value::of_i32s({512, 768}));
  set("sign_widths", Value::of_i32s({512, 768, 0}));
  set("sign_widths", Value::of_i32s({512, 768, -1536}));
  set("sign_widths", Value::of_i32s({512, 768, 1537}));
  set("sign_widths", Value::of_i32s({512, 512, 1792}));
  set("sign_values", Value::of_i32s({1, -1}));
  set("sign_values", Value::of_i32s(std::vector<i64>(2816, 2)));
  set("inverse_weight_names", Value::of(std::vector<std::string>{"output.weight"}));
  set("inverse_weight_names", Value::of(std::vector<std::string>{"token_embd.weight", "token_embd.weight"}));
  set("gdn_v_grouped", Value::of(u32(1)));
  set("tied_output", Value::of(true));
}

}  // namespace fewbit::gguf
