// Vocabularies as files say them, damaged ones too.
#include "text/vocab.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "base/log.h"
#include "text/test_vocab.h"
#include "text/tokenizer.h"

namespace fewbit::text {
namespace {

using V = gguf::Value;
using Metadata = std::vector<gguf::KeyValue>;

Metadata metadata_of(const VocabKeys& k) {
  Metadata m{{"general.architecture", V::of(std::string("llama"))},
             {"tokenizer.ggml.model", V::of(k.model)},
             {"tokenizer.ggml.tokens", V::of(k.tokens)},
             {"tokenizer.ggml.token_type", V::of_i32s(k.types)}};
  if (k.pre) m.push_back({"tokenizer.ggml.pre", V::of(*k.pre)});
  if (!k.merges.empty()) m.push_back({"tokenizer.ggml.merges", V::of(k.merges)});
  if (!k.scores.empty()) m.push_back({"tokenizer.ggml.scores", V::of_f32s({k.scores.begin(), k.scores.end()})});
  return m;
}

void set(Metadata& m, const std::string& key, V value) {
  std::erase_if(m, [&](auto& kv) { return kv.key == key; });
  m.push_back({key, std::move(value)});
}

class VocabFile : public testing::Test {
 protected:
  void SetUp() override {
    path_ = (std::filesystem::temp_directory_path() / ("fewbit-vocab-" + std::to_string(std::random_device{}()))).string();
    log::set_level(log::Level::off);  // warnings are expected here
  }
  void TearDown() override {
    std::filesystem::remove(path_);
    log::set_level(log::Level::warn);
  }
  Result<Tokenizer> load(const Metadata& m, std::string_view pre_override = "") {
    auto w = gguf::Writer::create(path_, m, {});
    EXPECT_TRUE(w.ok()) << (w.ok() ? "" : w.error().what);
    EXPECT_TRUE(w->finish().ok());
    auto file = gguf::File::open(path_);
    if (!file.ok()) return file.error();  // the container's reader checks the types of many keys already
    return Tokenizer::load(*file, pre_override);
  }
  // The one line of the refusal; it names the file.
  std::string refusal(const Metadata& m) {
    auto t = load(m);
    if (t.ok()) return "accepted";
    EXPECT_NE(t.error().what.find(path_), std::string::npos) << t.error().what;
    EXPECT_EQ(t.error().what.find('\n'), std::string::npos);
    return t.error().what;
  }
  std::string path_;
};

TEST_F(VocabFile, ReadsWhatTheKeysSay) {
  Metadata m = metadata_of(tiny_bpe("llama-bpe"));
  set(m, "tokenizer.ggml.bos_token_id", V::of(u32(266)));
  set(m, "tokenizer.ggml.eos_token_id", V::of(u32(267)));
  set(m, "tokenizer.ggml.add_eos_token", V::of(true));
  auto t = load(m);
  ASSERT_TRUE(t.ok()) << t.error().what;
  EXPECT_EQ(t->model(), "gpt2");
  EXPECT_EQ(t->pre(), "llama-bpe");
  EXPECT_EQ(t->bos(), 266);
  EXPECT_TRUE(t->add_bos());
  EXPECT_EQ(t->encode("a", {.add_special = true}), (std::vector<Token>{266, 'a', 267}));
  set(m, "tokenizer.ggml.add_bos_token", V::of(false));
  EXPECT_FALSE(load(m)->add_bos());
}

TEST_F(VocabFile, OldNamesOfFillInTheMiddle) {
  VocabKeys k = tiny_bpe();
  Metadata m = metadata_of(k);
  set(m, "tokenizer.ggml.prefix_token_id", V::of(u32(1)));
  set(m, "tokenizer.ggml.suffix_token_id", V::of(u32(2)));
  set(m, "tokenizer.ggml.fim_suf_token_id", V::of(u32(3)));  // the new name wins
  auto w = gguf::Writer::create(path_, m, {});
  ASSERT_TRUE(w.ok() && w->finish().ok());
  auto keys = read_vocab_keys(*gguf::File::open(path_));
  ASSERT_TRUE(keys.ok());
  EXPECT_EQ(keys->ids["fim_pre"], 1);
  EXPECT_EQ(keys->ids["fim_suf"], 3);
}

TEST_F(VocabFile, SpecialIdsOutOfRangeAreIgnored) {
  Metadata m = metadata_of(tiny_spm());
  set(m, "tokenizer.ggml.bos_token_id", V::of(u32(100000)));
  set(m, "tokenizer.ggml.eos_token_id", V::of(i32(-1)));
  auto t = load(m);
  ASSERT_TRUE(t.ok()) << t.error().what;
  EXPECT_EQ(t->bos(), 1);  // what SPM has without the key
  EXPECT_EQ(t->eos(), 2);
}

TEST_F(VocabFile, Refusals) {
  using Change = std::function<void(Metadata&)>;
  const std::pair<Change, const char*> cases[] = {
      {[](Metadata& m) { std::erase_if(m, [](auto& kv) { return kv.key == "tokenizer.ggml.model"; }); }, "tokenizer.ggml.model"},
      {[](Metadata& m) { set(m, "tokenizer.ggml.model", V::of(std::string("t5"))); }, "'t5'"},
      {[](Metadata& m) { set(m, "tokenizer.ggml.model", V::of(u32(1))); }, "tokenizer.ggml.model"},
      {[](Metadata& m) { set(m, "tokenizer.ggml.pre", V::of(std::string("unheard-of"))); }, "'unheard-of'"},
      {[](Metadata& m) {
         set(m, "tokenizer.ggml.tokens", V::of_i32s({1, 2}));
       },
       "tokenizer.ggml.tokens"},
      {[](Metadata& m) { std::erase_if(m, [](auto& kv) { return kv.key == "tokenizer.ggml.tokens"; }); }, "tokens"},
      {[](Metadata& m) { set(m, "tokenizer.ggml.merges", V::of(u32(4))); }, "tokenizer.ggml.merges"},
      {[](Metadata& m) { std::erase_if(m, [](auto& kv) { return kv.key == "tokenizer.ggml.merges"; }); }, "merges is missing"},
      {[](Metadata& m) {
         set(m, "tokenizer.ggml.token_type", V::of_i32s({1, 1, 1}));
       },
       "token_type"},
      {[](Metadata& m) { set(m, "tokenizer.ggml.token_type", V::of_f32s({1})); }, "token_type"},
      {[](Metadata& m) { set(m, "tokenizer.ggml.scores", V::of_f32s({1})); }, "scores"},
      {[](Metadata& m) { set(m, "tokenizer.ggml.scores", V::of(std::string("high"))); }, "scores"},
      {[](Metadata& m) { set(m, "tokenizer.ggml.eos_token_id", V::of(std::string("</s>"))); }, "eos_token_id"},
      {[](Metadata& m) { set(m, "tokenizer.ggml.add_bos_token", V::of(std::string("yes"))); }, "add_bos_token"},
  };
  ASSERT_EQ(refusal(metadata_of(tiny_bpe())), "accepted");
  for (const auto& [change, wanted] : cases) {
    Metadata m = metadata_of(tiny_bpe());
    change(m);
    EXPECT_NE(refusal(m).find(wanted), std::string::npos) << refusal(m) << " should say " << wanted;
  }
  Metadata m = metadata_of(tiny_bpe("unheard-of"));
  EXPECT_TRUE(load(m, "qwen2").ok());
}

TEST_F(VocabFile, AnyBytesAsTexts) {
  // Texts that are no UTF-8, are empty, or look like more than they are.
  VocabKeys k = tiny_bpe();
  for (const std::string& s :
       {std::string("\xFF\xFE"), std::string(), std::string("\0a", 2), std::string("\xC3"), std::string(100000, 'q'), std::string("ab")}) {
    k.tokens.push_back(s);
    k.types.push_back(i64(k.tokens.size() % 6 + 1));
  }
  k.merges.insert(k.merges.end(), {"", " ", "  ", "x", "x ", " x", "\xFF \xFE", "a  b"});
  auto t = load(metadata_of(k));
  ASSERT_TRUE(t.ok()) << t.error().what;
  for (Token i = 0; i < t->vocab_size(); i++) t->piece(i, true);
  EXPECT_EQ(t->decode(t->encode("hello \xFF\xFE world", {.parse_special = false}), true), "hello \uFFFD\uFFFD world");
}

}  // namespace
}  // namespace fewbit::text
