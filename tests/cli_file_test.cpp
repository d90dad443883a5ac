// Files as users have them: split in pieces, incomplete, mixed up, without a vocabulary.
#include "base/json.h"
#include "cli_call.h"
#include "gguf/gguf.h"

using fewbit::Json;
using namespace fewbit;
using namespace fewbit::cli_test;

namespace {

std::vector<std::string> pieces_in(const Folder& f, const std::string& prefix) {
  std::vector<std::string> found;
  for (const auto& e : fs::directory_iterator(f.path))
    if (e.path().filename().string().starts_with(prefix)) found.push_back(e.path().string());
  std::sort(found.begin(), found.end());
  return found;
}

// The file again, without the keys that `drop` names.
std::string without(const Folder& folder, const std::string& name, const std::function<bool(const std::string&)>& drop) {
  auto file = gguf::File::open(dense);
  EXPECT_TRUE(file.ok());
  std::vector<gguf::KeyValue> keys;
  for (const auto& kv : file->metadata())
    if (!drop(kv.key)) keys.push_back(kv);
  std::vector<gguf::TensorInfo> infos;
  for (const auto& t : file->tensors()) infos.push_back({t.name, t.type, {t.dims.begin(), t.dims.begin() + t.n_dims}});
  auto w = gguf::Writer::create(folder.file(name), keys, infos);
  EXPECT_TRUE(w.ok());
  for (const auto& t : file->tensors()) EXPECT_TRUE(w->write(t.data).ok());
  EXPECT_TRUE(w->finish().ok());
  return folder.file(name);
}

}  // namespace

TEST(Files, SplitModelsRunAndBrokenSetsAreRefused) {
  Folder folder;
  ASSERT_EQ(call("quantize " + dense + " " + folder.file("m.gguf") + " PQ2_0 --split-max-size 1M").code, 0);
  std::vector<std::string> pieces = pieces_in(folder, "m-0000");
  ASSERT_GT(pieces.size(), 3u);
  const std::string text = "run --temp 0 -n 8 -p 'The fox' -m ";
  Outcome whole = call(text + dense), split = call(text + pieces[0]);
  ASSERT_EQ(split.code, 0) << split.err;
  EXPECT_EQ(split.out, whole.out);
  Json a = Json::parse(call("inspect --json " + dense).out), b = Json::parse(call("inspect --json " + pieces[0]).out);
  EXPECT_EQ(a["tensors"].size(), b["tensors"].size());
  EXPECT_EQ(a["bits_per_weight"], b["bits_per_weight"]);

  auto refused = [&](const std::string& path, const std::string& says) {
    for (const char* command : {"inspect ", "eval --tokens 1 -m "}) {
      Outcome r = call(command + path);
      EXPECT_EQ(r.code, 1) << path;
      EXPECT_EQ(lines(r.err), 1) << r.err;
      EXPECT_NE(r.err.find(says), std::string::npos) << says << "\n" << r.err;
    }
  };
  refused(pieces[1], "00001-of-");  // opened in the middle: the message names the first piece
  const std::string aside = folder.file("aside");
  fs::rename(pieces[2], aside);
  refused(pieces[0], pieces[2]);  // missing
  fs::rename(pieces[1], pieces[2]);
  fs::rename(aside, pieces[1]);
  refused(pieces[0], "split.no");  // swapped
  fs::rename(pieces[1], aside);
  fs::rename(pieces[2], pieces[1]);
  fs::rename(aside, pieces[2]);
  EXPECT_EQ(call("inspect " + pieces[0]).code, 0);  // right again
  fs::resize_file(pieces[2], fs::file_size(pieces[2]) / 2);
  refused(pieces[0], pieces[2]);  // cut short
  fs::rename(pieces[0], folder.file("renamed.gguf"));
  refused(folder.file("renamed.gguf"), "00001-of-");
}

TEST(Files, WithoutVocabularyAreRefusedInOneLine) {
  Folder folder;
  const std::string none = without(folder, "none.gguf", [](const std::string& k) { return k == "tokenizer.ggml.tokens"; });
  const std::string all = without(folder, "all.gguf", [](const std::string& k) { return k.starts_with("tokenizer."); });
  for (const std::string& file : {none, all}) {
    for (const char* command : {"run -p x -m ", "tokenize x -m ", "chat -m "}) {
      Outcome r = call(command + file);
      EXPECT_EQ(r.code, 1) << command << file;
      EXPECT_EQ(lines(r.err), 1) << r.err;
      EXPECT_EQ(r.err.find("-1"), std::string::npos) << r.err;
      EXPECT_NE(r.err.find("tokenizer.ggml."), std::string::npos) << r.err;
    }
  }
  EXPECT_EQ(call("eval --tokens 1 -m " + all).code, 0);  // numbers need no vocabulary
}

// A warning about a file that is then refused would only hide the reason.
TEST(Files, RefusedOnesSayOneLineOnly) {
  Folder folder;
  // tokenizer.ggml.pre missing is a warning; the missing merges are the error.
  const std::string file =
      without(folder, "m.gguf", [](const std::string& k) { return k == "tokenizer.ggml.pre" || k == "tokenizer.ggml.merges"; });
  for (const char* command : {"run -p x -m ", "tokenize x -m ", "eval -p x -m "}) {
    Outcome r = call(command + file);
    EXPECT_EQ(r.code, 1) << command;
    EXPECT_EQ(lines(r.err), 1) << r.err;
  }
  const std::string odd = without(folder, "odd.gguf", [](const std::string& k) { return k == "tokenizer.ggml.pre"; });
  Outcome warned = call("tokenize x -m " + odd);
  EXPECT_EQ(warned.code, 0);
  EXPECT_EQ(lines(warned.err), 1) << warned.err;
}
