#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "text/test_vocab.h"
#include "text/tokenizer_state.h"
#include "text/utf8.h"

namespace fewbit::text {
namespace {

std::vector<Token> bytes_of(std::string_view s) {  // tiny_bpe: token b is byte b
  std::vector<Token> out;
  for (char c : s) out.push_back(u8(c));
  return out;
}

std::string run(const Tokenizer& t, const std::vector<Token>& tokens, std::vector<std::string> stops, bool* stopped = nullptr) {
  Stream s(t, std::move(stops));
  std::string out;
  auto show = [&](const std::string& text) {
    EXPECT_TRUE(is_valid_utf8(text));
    out += text;
  };
  for (Token token : tokens) show(s.push(token));
  show(s.finish());
  if (stopped) *stopped = s.stopped();
  return out;
}

TEST(Utf8, ReplacesMaximalParts) {
  const std::string r(replacement_character);
  EXPECT_EQ(to_valid_utf8("aé€😀"), "aé€😀");
  EXPECT_EQ(to_valid_utf8("\xFF"), r);
  EXPECT_EQ(to_valid_utf8("\x80\x80"), r + r);
  EXPECT_EQ(to_valid_utf8("\xC0\x80"), r + r);  // overlong
  EXPECT_EQ(to_valid_utf8("\xE2\x82"), r);      // cut at the end
  EXPECT_EQ(to_valid_utf8("\xE2\x82"
                          "A"),
            r + "A");                                           // cut in the middle
  EXPECT_EQ(to_valid_utf8("\xED\xA0\x80"), r + r + r);          // surrogate
  EXPECT_EQ(to_valid_utf8("\xF4\x90\x80\x80"), r + r + r + r);  // above U+10FFFF
  EXPECT_EQ(to_valid_utf8("\xF0\x9F\x98\xF0\x9F\x98\x80"), r + "😀");
  EXPECT_EQ(to_valid_utf8("\xE0\x9F\xBF"), r + r + r);
  EXPECT_EQ(to_valid_utf8("\xF4\x8F\xBF\xBF"), "\xF4\x8F\xBF\xBF");
  EXPECT_EQ(to_valid_utf8(std::string("\0x", 2)), std::string("\0x", 2));
}

TEST(Utf8, PiecesGiveTheSameAsTheWhole) {
  std::mt19937 rng(1);
  const std::string alphabet = "ab\x80\xBF\xC2\xC3\xE0\xE2\x82\xAC\xED\xA0\xF0\x9F\x98\x90\xF4\x8F\xFF";
  for (int i = 0; i < 20000; i++) {
    std::string text, out, pending;
    for (u32 n = rng() % 12; n > 0; n--) text += alphabet[rng() % alphabet.size()];
    for (size_t at = 0; at < text.size();) {
      size_t n = 1 + rng() % 3;
      pending += text.substr(at, n);
      at += n;
      pending.erase(0, append_valid(pending, out, false));
      ASSERT_LE(pending.size(), 3u);
      ASSERT_TRUE(is_valid_utf8(out));
    }
    append_valid(pending, out, true);
    ASSERT_EQ(out, to_valid_utf8(text));
  }
}

TEST(Stream, NeverHalfACharacter) {
  auto t = make_tokenizer(tiny_bpe());
  ASSERT_TRUE(t.ok());
  Stream s(*t);
  EXPECT_EQ(s.push(0xF0), "");
  EXPECT_EQ(s.push(0x9F), "");
  EXPECT_EQ(s.push(0x98), "");
  EXPECT_EQ(s.push(0x80), "😀");
  EXPECT_EQ(s.push(0xE2), "");
  EXPECT_EQ(s.push('a'), "\uFFFDa");  // it can no longer become a character
  EXPECT_EQ(s.push(0xC3), "");
  EXPECT_EQ(s.finish(), "\uFFFD");
  EXPECT_EQ(s.finish(), "");
}

TEST(Stream, HoldsBackStopStrings) {
  auto t = make_tokenizer(tiny_bpe());
  ASSERT_TRUE(t.ok());
  Stream s(*t, {"</s>", "abcd"});
  EXPECT_EQ(s.push('x'), "x");
  EXPECT_EQ(s.push('<'), "");
  EXPECT_EQ(s.push('/'), "");
  EXPECT_EQ(s.push('<'), "</");  // the first two cannot be the beginning any more
  EXPECT_EQ(s.push('/'), "");
  EXPECT_EQ(s.push('q'), "</q");
  EXPECT_EQ(s.push('a'), "");
  EXPECT_EQ(s.push('b'), "");
  EXPECT_FALSE(s.stopped());
  EXPECT_EQ(s.push(t->encode("cd")[0]), "");  // one token, "cd"
  EXPECT_TRUE(s.stopped());
  EXPECT_EQ(s.push('z'), "");
  EXPECT_EQ(s.finish(), "");

  Stream held(*t, {"</s>"});
  EXPECT_EQ(held.push('a'), "a");
  EXPECT_EQ(held.push('<'), "");
  EXPECT_EQ(held.push('/'), "");
  EXPECT_EQ(held.finish(), "</");  // generation ended: it was no stop string
  EXPECT_FALSE(held.stopped());
}

TEST(Stream, StopStringInsideAToken) {
  auto t = make_tokenizer(tiny_bpe());
  ASSERT_TRUE(t.ok());
  std::vector<Token> abcd = t->encode("abcd");
  ASSERT_EQ(abcd.size(), 1u);
  bool stopped = false;
  EXPECT_EQ(run(*t, abcd, {"c"}, &stopped), "ab");
  EXPECT_TRUE(stopped);
  EXPECT_EQ(run(*t, abcd, {"c", "bc"}), "a");                        // both end at c: the longest
  EXPECT_EQ(run(*t, abcd, {"abcd", "c"}), "ab");                     // c is complete first
  EXPECT_EQ(run(*t, bytes_of("aabaaabaaac"), {"aabaaac"}), "aaba");  // its border is not the longest one that fits
  EXPECT_EQ(run(*t, abcd, {"", "x"}, &stopped), "abcd");
  EXPECT_FALSE(stopped);
}

TEST(Stream, ControlTokens) {
  auto t = make_tokenizer(tiny_bpe());
  ASSERT_TRUE(t.ok());
  std::vector<Token> ids = t->encode("<|im_start|>a<think>");
  EXPECT_EQ(run(*t, ids, {}), "a<think>");
  Stream s(*t, {}, true);
  std::string out;
  for (Token id : ids) out += s.push(id);
  EXPECT_EQ(out + s.finish(), "<|im_start|>a<think>");
}

// Against a search in the whole text, for random texts over a small alphabet and any cut into tokens.
TEST(Stream, StopsWhereASearchSays) {
  auto t = make_tokenizer(tiny_bpe());
  ASSERT_TRUE(t.ok());
  std::mt19937 rng(2);
  for (int i = 0; i < 20000; i++) {
    u32 letters = i % 2 ? 2 : 6;  // two letters: long stop strings that overlap themselves
    auto word = [&](u32 longest) {
      std::string s;
      for (u32 n = 1 + rng() % longest; n > 0; n--) s += "abcdé"[rng() % letters];
      return s;
    };
    std::string text = word(40);
    std::vector<std::string> stops{to_valid_utf8(word(8)), to_valid_utf8(word(4))};
    std::string shown = to_valid_utf8(text);
    size_t best_end = std::string::npos, cut = shown.size();
    for (const std::string& s : stops) {
      size_t at = shown.find(s);
      if (at == std::string::npos) continue;
      size_t end = at + s.size();
      if (end < best_end || (end == best_end && at < cut)) best_end = end, cut = at;
    }
    ASSERT_EQ(run(*t, bytes_of(text), stops), shown.substr(0, cut)) << text << " | " << stops[0] << " | " << stops[1];
    ASSERT_EQ(run(*t, t->encode(shown), stops), shown.substr(0, cut));
  }
}

}  // namespace
}  // namespace fewbit::text
