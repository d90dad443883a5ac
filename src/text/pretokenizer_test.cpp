#include "text/pretokenizer.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace fewbit::text {
namespace {

using Pieces = std::vector<std::string>;

Pieces split(const char* name, std::string_view text) {
  auto pre = PreTokenizer::create(name);
  EXPECT_TRUE(pre.ok()) << name;
  std::vector<std::string_view> views;
  pre->split(text, views);
  return Pieces(views.begin(), views.end());
}

// The table of tokenizer.md section 10, row by row: gpt-2, smollm, qwen2, qwen35, llama-bpe.
TEST(PreTokenizer, SpecSentence) {
  const char* text = "Hello  world!  It's 2024, we'LL see\n\n  x=1;\r\n";
  Pieces head{"Hello", " ", " world", "!", " ", " It", "'s"};
  auto with = [&](const Pieces& tail) {
    Pieces all = head;
    all.insert(all.end(), tail.begin(), tail.end());
    return all;
  };
  EXPECT_EQ(split("gpt-2", text), with({" 2024", ",", " we", "'", "LL", " see", "\n\n ", " x", "=", "1", ";", "\r\n"}));
  EXPECT_EQ(split("smollm", text), with({" ", "2", "0", "2", "4", ",", " we", "'", "LL", " see", "\n\n ", " x", "=", "1", ";", "\r\n"}));
  Pieces qwen = with({" ", "2", "0", "2", "4", ",", " we", "'LL", " see", "\n\n", " ", " x", "=", "1", ";\r\n"});
  EXPECT_EQ(split("qwen2", text), qwen);
  EXPECT_EQ(split("qwen35", text), qwen);
  EXPECT_EQ(split("llama-bpe", text), with({" ", "202", "4", ",", " we", "'LL", " see", "\n\n", " ", " x", "=", "1", ";\r\n"}));
}

TEST(PreTokenizer, SpecWhite) {
  const char* text = "  \t\n  end   ";
  EXPECT_EQ(split("gpt-2", text), (Pieces{"  \t\n ", " end", "   "}));
  EXPECT_EQ(split("smollm", text), (Pieces{"  \t\n ", " end", "   "}));
  for (const char* name : {"qwen2", "qwen35", "llama-bpe"}) EXPECT_EQ(split(name, text), (Pieces{"  \t\n", " ", " end", "   "})) << name;
}

TEST(PreTokenizer, SpecCode) {
  const char* text = "if(a>=10){b+=\"é\";}\n\tret 'S 've";
  EXPECT_EQ(split("gpt-2", text),
            (Pieces{"if", "(", "a", ">=", "10", "){", "b", "+=\"", "é", "\";}", "\n", "\t", "ret", " '", "S", " '", "ve"}));
  EXPECT_EQ(split("smollm", text),
            (Pieces{"if", "(", "a", ">=", "1", "0", "){", "b", "+=\"", "é", "\";}", "\n", "\t", "ret", " '", "S", " '", "ve"}));
  Pieces qwen{"if", "(a", ">=", "1", "0", "){", "b", "+=\"", "é", "\";}\n", "\tret", " '", "S", " '", "ve"};
  EXPECT_EQ(split("qwen2", text), qwen);
  EXPECT_EQ(split("qwen35", text), qwen);
  qwen[3] = "10";
  qwen.erase(qwen.begin() + 4);
  EXPECT_EQ(split("llama-bpe", text), qwen);
}

TEST(PreTokenizer, SpecMarks) {
  const char* text = "a\u0301\u0302b हिन्दी";
  for (const char* name : {"gpt-2", "smollm"})
    EXPECT_EQ(split(name, text), (Pieces{"a", "\u0301\u0302", "b", " ह", "ि", "न", "्", "द", "ी"})) << name;
  for (const char* name : {"qwen2", "llama-bpe"})
    EXPECT_EQ(split(name, text), (Pieces{"a", "\u0301\u0302", "b", " ह", "िन", "्द", "ी"})) << name;
  EXPECT_EQ(split("qwen35", text), (Pieces{"a\u0301\u0302b", " हिन्दी"}));
}

TEST(PreTokenizer, Default) {
  // Punctuation and $+<=>^~| first, then gpt-2, then numbers, then three ASCII digits; gaps are pieces.
  EXPECT_EQ(split("default", "It's $12345, x<=y `q` 1２34"),
            (Pieces{"It", "'", "s", " ", "$", "123", "45", ",", " x", "<=", "y", " `", "q", "`", " ", "1２34"}));
  EXPECT_EQ(split("", "a 1234567"), (Pieces{"a", " ", "123", "456", "7"}));
}

TEST(PreTokenizer, WhiteSpaceClass) {
  // U+180E is not white space, U+0085, U+00A0, U+2028 and U+3000 are.
  EXPECT_EQ(split("gpt-2", "a\u180E!"), (Pieces{"a", "\u180E!"}));
  EXPECT_EQ(split("gpt-2", "a\u0085\u00A0\u2028\u3000"), (Pieces{"a", "\u0085\u00A0\u2028\u3000"}));
  EXPECT_EQ(split("qwen2", "\u00A0\u00A0b"), (Pieces{"\u00A0", "\u00A0b"}));      // any one character may lead letters ...
  EXPECT_EQ(split("gpt-2", "\u00A0\u00A0b"), (Pieces{"\u00A0", "\u00A0", "b"}));  // ... but here only U+0020
  EXPECT_EQ(split("llama-bpe", "12345 Ⅷ½²"), (Pieces{"123", "45", " ", "Ⅷ½²"}));  // Nl and No count as numbers
  // The long s is not an s: no contraction, but an apostrophe may lead letters.
  EXPECT_EQ(split("qwen2", "a'ſx"), (Pieces{"a", "'ſx"}));
}

TEST(PreTokenizer, Names) {
  for (const char* name : {"phi-2", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva", "deepseek-r1-qwen", "megrez",
                           "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "lfm2", "default", ""})
    EXPECT_TRUE(PreTokenizer::create(name).ok()) << name;
  for (const char* name : {"llama-bpe", "llama3", "pixtral"}) {
    EXPECT_TRUE(PreTokenizer::create(name)->ignore_merges());
    EXPECT_TRUE(PreTokenizer::create(name)->default_add_bos());
  }
  EXPECT_FALSE(PreTokenizer::create("qwen35")->ignore_merges());
  EXPECT_FALSE(PreTokenizer::create("gpt-2")->default_add_bos());
  for (const char* name : {"tekken", "gpt", "gpt-2 phi-2", " ", "qwen2\n"}) {
    auto r = PreTokenizer::create(name);
    ASSERT_FALSE(r.ok()) << name;
    EXPECT_EQ(r.error().code, Code::unsupported);
    EXPECT_NE(r.error().what.find(name), std::string::npos);
  }
}

}  // namespace
}  // namespace fewbit::text
