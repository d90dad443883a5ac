#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/log.h"
#include "text/test_vocab.h"
#include "text/tokenizer_state.h"
#include "text/utf8.h"

namespace fewbit::text {
namespace {

using Ids = std::vector<Token>;
#if defined(FEWBIT_SANITIZED) || !defined(NDEBUG)
constexpr bool slow_build = true;
#else
constexpr bool slow_build = false;
#endif

// Warnings are right where a test makes a bad file, but passing tests are silent.
struct Quiet {
  Quiet() { log::set_level(log::Level::off); }
  ~Quiet() { log::set_level(log::Level::warn); }
};

Tokenizer make(VocabKeys keys) {
  auto t = make_tokenizer(std::move(keys));
  EXPECT_TRUE(t.ok()) << (t.ok() ? "" : t.error().what);
  return std::move(t).value();
}
Token id(const Tokenizer& t, std::string_view text) {
  for (Token i = 0; i < t.vocab_size(); i++)
    if (t.token_text(i) == text) return i;
  return -1;
}

TEST(Bpe, MergesByRankLeftmostFirst) {
  Tokenizer t = make(tiny_bpe());
  EXPECT_EQ(t.encode("abcd"), Ids{id(t, "abcd")});
  EXPECT_EQ(t.encode("abc"), (Ids{id(t, "ab"), 'c'}));
  EXPECT_EQ(t.encode("eee"), (Ids{id(t, "ee"), 'e'}));
  EXPECT_EQ(t.encode("eeeee"), (Ids{id(t, "eeee"), 'e'}));
  EXPECT_EQ(t.encode(" ab"), (Ids{' ', id(t, "ab")}));  // "a b" ranks before "Ġ a"
  EXPECT_EQ(t.encode(" ac"), (Ids{id(t, "Ġa"), 'c'}));
  EXPECT_EQ(t.encode("é"), Ids{id(t, "Ã©")});
  EXPECT_EQ(t.encode("123"), (Ids{'1', '2', '3'}));  // never across pre-tokens
  EXPECT_EQ(t.encode(""), Ids{});
}

TEST(Bpe, IgnoreMergesTakesWholeWords) {
  VocabKeys k = tiny_bpe("llama-bpe");
  k.merges = {"b c"};  // would spoil "abc"
  k.tokens.push_back("bc");
  k.types.push_back(1);
  k.tokens.push_back("abc");
  k.types.push_back(1);
  Tokenizer t = make(k);
  EXPECT_EQ(t.encode("abc"), Ids{id(t, "abc")});
  EXPECT_EQ(t.encode("abc abc"), (Ids{id(t, "abc"), ' ', 'a', id(t, "bc")}));
  k.pre = "qwen2";
  EXPECT_EQ(make(k).encode("abc"), (Ids{'a', id(t, "bc")}));
}

TEST(Bpe, SymbolsThatAreNoTokens) {
  Quiet quiet;
  VocabKeys k = tiny_bpe();
  k.merges = {"x y", "xy z", "broken", "x y"};  // xy and xyz are no tokens: byte by byte
  k.tokens['w'] = "something else";             // and no token for the byte w: nothing
  Tokenizer t = make(k);
  EXPECT_EQ(t.encode("xyzwx"), (Ids{'x', 'y', 'z', 'x'}));
}

TEST(Bpe, DuplicateTextsLaterIdWins) {
  VocabKeys k = tiny_bpe();
  Token later = Token(k.tokens.size());
  k.tokens.push_back("abcd");
  k.types.push_back(1);
  EXPECT_EQ(make(k).encode("abcd"), Ids{later});
}

TEST(Special, ParsedOrPlain) {
  Tokenizer t = make(tiny_bpe());
  Token start = id(t, "<|im_start|>"), think = id(t, "<think>");
  EXPECT_EQ(t.encode("<|im_start|>ab<think>"), (Ids{start, id(t, "ab"), think}));
  EncodeOptions plain{.parse_special = false};
  Ids ids = t.encode("<|im_start|>ab<think>", plain);
  EXPECT_EQ(ids.back(), think);  // user-defined: always
  EXPECT_EQ(ids[0], '<');
  EXPECT_EQ(t.encode("<unk>"), Ids{id(t, "<unk>")});
  EXPECT_EQ(t.encode("<unk>", plain)[0], '<');
  EXPECT_EQ(t.encode("padding").size(), 7u);  // unused: not recognised
}

TEST(Special, LongestFirstEvenIfItStandsLater) {
  VocabKeys k = tiny_bpe();
  Token closing = Token(k.tokens.size()) + 3;  // "]" as a special token, not the byte
  for (const char* s : {"[A", "[AB]", "AB]C]", "]", "[["}) {
    k.tokens.push_back(s);
    k.types.push_back(i64(TokenType::control));
  }
  Tokenizer t = make(k);
  EXPECT_EQ(t.encode("[AB]"), Ids{id(t, "[AB]")});
  EXPECT_EQ(t.encode("[AB]C]"), (Ids{'[', id(t, "AB]C]")}));  // 5 bytes win over 4, though they begin later
  EXPECT_EQ(t.encode("[A]"), (Ids{id(t, "[A"), closing}));
  EXPECT_EQ(t.encode("[[["), (Ids{id(t, "[["), '['}));
}

TEST(Special, OnlyAtCharacterBorders) {
  VocabKeys k = tiny_bpe();
  Ids plain = make(k).encode("aéa");
  for (const char* half : {"\xC3", "\xA9", "a\xC3",
                           "\xA9"
                           "a"}) {  // what is inside é
    k.tokens.push_back(half);
    k.types.push_back(i64(TokenType::user_defined));
  }
  EXPECT_EQ(make(k).encode("aéa"), plain);
}

// The rule as the specification words it: for each token, longest first, cut each raw fragment at each occurrence.
TEST(Special, SameAsFragmentByFragment) {
  std::mt19937 rng(3);
  for (int round = 0; round < 300; round++) {
    VocabKeys k = tiny_bpe();
    std::vector<std::string> specials;
    for (int i = 0; i < 6; i++) {
      std::string s;
      for (u32 n = 1 + rng() % 4; n > 0; n--) s += "xyz"[rng() % 3];
      if (std::find(specials.begin(), specials.end(), s) != specials.end()) continue;
      specials.push_back(s);
      k.tokens.push_back(s);
      k.types.push_back(i64(TokenType::control));
    }
    std::stable_sort(specials.begin(), specials.end(), [](auto& a, auto& b) { return a.size() > b.size(); });
    Vocab v = std::move(Vocab::build(k, false)).value();
    SpecialTokens special(v);
    for (int i = 0; i < 20; i++) {
      std::string text;
      for (u32 n = rng() % 16; n > 0; n--) text += "xyz"[rng() % 3];
      std::vector<std::pair<std::string, bool>> want{{text, false}};
      for (const std::string& s : specials) {
        std::vector<std::pair<std::string, bool>> next;
        for (auto& [piece, done] : want) {
          if (done) {
            next.push_back({piece, true});
            continue;
          }
          std::string rest = piece;
          for (size_t at; (at = rest.find(s)) != std::string::npos;) {
            if (at > 0) next.push_back({rest.substr(0, at), false});
            next.push_back({s, true});
            rest.erase(0, at + s.size());
          }
          if (!rest.empty()) next.push_back({rest, false});
        }
        want = next;
      }
      if (text.empty()) want.clear();
      std::vector<std::pair<std::string, bool>> got;
      for (const Fragment& f : special.split(text, true)) got.push_back({std::string(f.text), f.token >= 0});
      ASSERT_EQ(got, want) << text;
    }
  }
}

TEST(Spm, MergesByScore) {
  Tokenizer t = make(tiny_spm());
  // ▁a has the best score, then ab, ▁ab, cd, abcd.
  EXPECT_EQ(t.encode("ab"), (Ids{id(t, "▁ab")}));
  EXPECT_EQ(t.encode("cd"), (Ids{id(t, "▁"), id(t, "cd")}));
  EXPECT_EQ(t.encode("cabcd"), (Ids{id(t, "▁"), id(t, "c"), id(t, "abcd")}));
  EXPECT_EQ(t.encode(" ab"), (Ids{id(t, "▁"), id(t, "▁ab")}));  // the space is added all the same
  EXPECT_EQ(t.encode("é"), (Ids{id(t, "▁"), id(t, "é")}));
  EXPECT_EQ(t.encode("€"), (Ids{id(t, "▁"), id(t, "<0xE2>"), id(t, "<0x82>"), id(t, "<0xAC>")}));
  EXPECT_EQ(t.encode(""), Ids{});
  EXPECT_EQ(t.encode("", {.add_special = true}), Ids{1});
  // After a special token the space is added again.
  EXPECT_EQ(t.encode("a<mark>a"), (Ids{id(t, "▁a"), id(t, "<mark>"), id(t, "▁a")}));
  EXPECT_EQ(t.decode(t.encode(" ab cd€")), " ab cd€");
  VocabKeys k = tiny_spm();
  k.add_space_prefix = false;
  EXPECT_EQ(make(k).encode("ab"), (Ids{id(t, "ab")}));
  EXPECT_EQ(make(k).decode(Ids{id(t, "▁ab")}), " ab");
}

TEST(Spm, WithoutByteTokens) {
  VocabKeys k = tiny_spm();
  for (std::string& s : k.tokens)
    if (byte_of_text(s) >= 0) s = "x" + s;
  Tokenizer t = make(k);
  EXPECT_EQ(t.encode("€"), (Ids{id(t, "▁"), 0, 0, 0}));  // unknown, once per byte
}

TEST(Vocab, SpecialIds) {
  Tokenizer bpe = make(tiny_bpe());
  EXPECT_EQ(bpe.bos(), -1);
  EXPECT_EQ(bpe.eos(), id(bpe, "<|im_end|>"));
  EXPECT_FALSE(bpe.add_bos());
  EXPECT_EQ(Ids(bpe.end_of_generation().begin(), bpe.end_of_generation().end()), (Ids{id(bpe, "<|im_end|>"), id(bpe, "<|endoftext|>")}));
  EXPECT_TRUE(bpe.is_end_of_generation(id(bpe, "<|endoftext|>")));
  EXPECT_FALSE(bpe.is_end_of_generation(id(bpe, "<|im_start|>")));
  EXPECT_FALSE(bpe.is_end_of_generation(-1));

  VocabKeys k = tiny_bpe("llama-bpe");
  EXPECT_FALSE(make(k).add_bos());  // asked for by default, but there is none
  k.ids["bos"] = 256;
  EXPECT_TRUE(make(k).add_bos());
  EXPECT_EQ(make(k).encode("a", {.add_special = true}), (Ids{256, 'a'}));
  k.add_bos = false;
  k.add_eos = true;
  EXPECT_EQ(make(k).encode("a", {.add_special = true}), (Ids{'a', Token(k.ids["eos"])}));
  EXPECT_EQ(make(k).encode("a"), (Ids{'a'}));

  Tokenizer spm = make(tiny_spm());
  EXPECT_EQ(spm.bos(), 1);
  EXPECT_EQ(spm.eos(), 2);
  EXPECT_TRUE(spm.add_bos());
}

TEST(Vocab, EndOfGenerationByText) {
  VocabKeys k = tiny_bpe();
  size_t base = k.tokens.size();
  for (const char* s : {"<|fim_pad|>", "<|repo_name|>", "<|file_sep|>", "<|fim_prefix|>", "<|end|>", "<|return|>", "<EOT>"}) {
    k.tokens.push_back(s);
    k.types.push_back(i64(TokenType::user_defined));
  }
  auto at = [&](size_t i) { return Token(base + i); };
  Tokenizer t = make(k);
  for (size_t i : {0, 1, 2, 4, 5, 6}) EXPECT_TRUE(t.is_end_of_generation(at(i))) << i;
  EXPECT_FALSE(t.is_end_of_generation(at(3)));
  // Found by text: control from now on, so plain text does not make them and they print nothing.
  EXPECT_GT(t.encode("<|fim_prefix|>", {.parse_special = false}).size(), 1u);
  EXPECT_EQ(t.piece(at(3)), "");
  EXPECT_EQ(t.piece(at(3), true), "<|fim_prefix|>");
  // <|end|> ends nothing where <|return|> and <|call|> exist.
  k.tokens.push_back("<|call|>");
  k.types.push_back(i64(TokenType::control));
  EXPECT_FALSE(make(k).is_end_of_generation(at(4)));
  EXPECT_TRUE(make(k).is_end_of_generation(at(7)));
}

TEST(Vocab, Refusals) {
  Quiet quiet;
  auto what = [](VocabKeys k, std::string_view pre = "") {
    auto t = make_tokenizer(std::move(k), pre);
    return t.ok() ? std::string("accepted") : t.error().what;
  };
  VocabKeys k = tiny_bpe();
  k.model = "bert";
  EXPECT_NE(what(k).find("'bert'"), std::string::npos);
  k = tiny_bpe("tekken");
  EXPECT_NE(what(k).find("'tekken'"), std::string::npos);
  EXPECT_EQ(what(k, "qwen2"), "accepted");
  EXPECT_NE(what(k, "nonsense").find("'nonsense'"), std::string::npos);
  k = tiny_bpe();
  k.types.pop_back();
  EXPECT_NE(what(k).find("token_type has 271 entries for 272"), std::string::npos) << what(k);
  k = tiny_bpe();
  k.scores = {1, 2};
  EXPECT_NE(what(k).find("scores has 2 entries"), std::string::npos);
  k = tiny_bpe();
  k.tokens.clear();
  EXPECT_NE(what(k).find("tokens is missing"), std::string::npos);
  k = tiny_bpe();
  k.merges.clear();
  EXPECT_NE(what(k).find("merges is missing"), std::string::npos);
  k = tiny_bpe();
  k.pre.reset();
  EXPECT_EQ(what(k), "accepted");  // default, with a warning
}

TEST(Tokenizer, OddInputs) {
  Tokenizer t = make(tiny_bpe());
  EXPECT_EQ(t.decode(Ids{-1, 5000, 'a'}), "a");
  EXPECT_EQ(t.token_text(-5), "");
  EXPECT_EQ(t.piece(Token(t.vocab_size())), "");
  EXPECT_EQ(t.decode(t.encode("a\xFF")), "a\uFFFD");
  std::string zeros(3, '\0');
  EXPECT_EQ(t.decode(t.encode(zeros)), zeros);
}

std::string random_text(std::mt19937& rng, u32 longest) {
  std::string s;
  for (u32 n = rng() % longest; n > 0; n--) {
    switch (rng() % 8) {
      case 0:
        s += char(rng());
        break;  // any byte
      case 1:
        append_code_point(0x80 + rng() % 0x780, s);
        break;
      case 2:
        append_code_point(0x800 + rng() % 0xD000, s);
        break;
      case 3:
        append_code_point(0x10000 + rng() % 0x100000, s);
        break;
      case 4:
        s += " \n\r\t\u00A0"[rng() % 6];
        break;
      case 5:
        s += "<|im_end|><think>"[rng() % 17];
        break;
      default:
        s += char(0x20 + rng() % 0x5F);
    }
  }
  return s;
}

TEST(Tokenizer, RoundTrip) {
  std::mt19937 rng(4);
  std::vector<Tokenizer> all;
  for (const char* pre : {"gpt-2", "smollm", "qwen2", "qwen35", "llama-bpe", "default"}) all.push_back(make(tiny_bpe(pre)));
  all.push_back(make(tiny_spm()));
  std::string every;
  for (int b = 0; b < 256; b++) every += char(b);
  for (int i = 0; i < 3000; i++) {
    std::string raw = i == 0 ? every : random_text(rng, 60), text = to_valid_utf8(raw);
    for (const Tokenizer& t : all) {
      Ids ids = t.encode(raw, {.parse_special = false});
      ASSERT_EQ(t.decode(ids, true), text) << t.pre();
      Stream s(t, {}, true);
      std::string streamed;
      for (Token id : ids) streamed += s.push(id);
      streamed += s.finish();
      ASSERT_EQ(streamed, t.model() == "llama" && !ids.empty() ? " " + text : text);
    }
  }
}

// The two merge rules as the specification words them, pair by pair over a plain list.
Ids merge_plainly(const VocabKeys& k, std::vector<std::string> symbols) {
  auto find = [&](const std::string& s) { return std::find(k.tokens.rbegin(), k.tokens.rend(), s); };
  bool spm = k.model == "llama";
  for (;;) {
    size_t best = 0;
    f64 best_value = 1e9;
    for (size_t i = 0; i + 1 < symbols.size(); i++) {
      f64 value = 1e9;
      if (spm) {
        auto it = find(symbols[i] + symbols[i + 1]);
        if (it != k.tokens.rend()) value = -k.scores[size_t(k.tokens.rend() - it - 1)];
      } else {
        auto it = std::find(k.merges.begin(), k.merges.end(), symbols[i] + " " + symbols[i + 1]);
        if (it != k.merges.end()) value = f64(it - k.merges.begin());
      }
      if (value < best_value) best = i, best_value = value;
    }
    if (best_value == 1e9) break;
    symbols[best] += symbols[best + 1];
    symbols.erase(symbols.begin() + std::ptrdiff_t(best) + 1);
  }
  Ids out;
  for (const std::string& s : symbols) out.push_back(Token(k.tokens.rend() - find(s) - 1));
  return out;
}

TEST(Tokenizer, MergesAsDefined) {
  std::mt19937 rng(6);
  const std::string letters[] = {"x", "y", "z", "▁"};
  for (int round = 0; round < 200; round++) {
    // Random merges over three letters: many overlaps, ties and dead ends.
    VocabKeys bpe = tiny_bpe(), spm = tiny_spm();
    bpe.merges.clear();
    std::vector<std::string> parts{"x", "y", "z"};
    for (int i = 0; i < 12; i++) {
      std::string l = parts[rng() % parts.size()], r = parts[rng() % parts.size()];
      if (std::find(parts.begin(), parts.end(), l + r) != parts.end()) continue;
      parts.push_back(l + r);
      bpe.merges.push_back(l + " " + r);
      bpe.tokens.push_back(l + r);
      bpe.types.push_back(1);
    }
    for (const char* c : {"x", "y", "z"}) spm.tokens.push_back(c);
    for (int i = 0; i < 16; i++) {
      std::string s;
      for (u32 n = 2 + rng() % 3; n > 0; n--) s += letters[rng() % 4];
      if (round % 2 && s.find("▁", 1) != std::string::npos) continue;  // spaces only in front: texts are cut at them
      if (std::find(spm.tokens.begin(), spm.tokens.end(), s) == spm.tokens.end()) spm.tokens.push_back(s);
    }
    while (spm.types.size() < spm.tokens.size()) {
      spm.types.push_back(1);
      spm.scores.push_back(f32(rng() % 6));  // ties
    }
    Tokenizer b = make(bpe), s = make(spm);
    for (int i = 0; i < 30; i++) {
      std::string word, spaced;
      std::vector<std::string> word_symbols, spaced_symbols{"▁"};
      for (u32 n = 1 + rng() % 14; n > 0; n--) {
        word += "xyz"[rng() % 3];
        word_symbols.push_back(word.substr(word.size() - 1));
        char c = "xyz "[rng() % 4];
        spaced += c;
        spaced_symbols.push_back(c == ' ' ? "▁" : std::string(1, c));
      }
      ASSERT_EQ(b.encode(word), merge_plainly(bpe, word_symbols)) << word;
      ASSERT_EQ(s.encode(spaced), merge_plainly(spm, spaced_symbols)) << spaced;
    }
  }
}

TEST(Tokenizer, CacheChangesNothing) {
  Tokenizer warm = make(tiny_bpe());
  std::mt19937 rng(5);
  for (int i = 0; i < 300; i++) {
    std::string text = random_text(rng, 30);
    Ids first = warm.encode(text);
    ASSERT_EQ(warm.encode(text), first);
    ASSERT_EQ(make(tiny_bpe()).encode(text), first);
  }
}

TEST(Tokenizer, ManyThreads) {
  Tokenizer t = make(tiny_bpe());
  std::vector<std::thread> threads;
  std::vector<int> bad(4);
  for (int n = 0; n < 4; n++) {
    threads.emplace_back([&, n] {
      std::mt19937 rng{u32(n / 2)};
      for (int i = 0; i < 500; i++) {
        std::string text = random_text(rng, 40);
        if (t.decode(t.encode(text, {.parse_special = false}), true) != to_valid_utf8(text)) bad[size_t(n)]++;
      }
    });
  }
  for (auto& th : threads) th.join();
  EXPECT_EQ(bad, std::vector<int>(4));
}

// Texts made to be slow: each must take far less than a second of processor time.  What grows with the square takes minutes.
TEST(Tokenizer, HostileTextsTakeBoundedTime) {
  constexpr size_t n = 100'000;
  std::string specials, alternating;
  for (size_t i = 0; i < n / 10; i++) specials += "<|im_end|>";
  for (size_t i = 0; i < n / 2; i++) alternating += "\n ";
  std::vector<std::string> texts{std::string(n, 'e'),
                                 std::string(n, ' '),
                                 std::string(n, '\n'),
                                 std::string(n, '<'),
                                 std::string(n, '\xFF'),
                                 std::string(n, '1'),
                                 std::string(n, '\''),
                                 specials,
                                 alternating,
                                 std::string(n, '\0'),
                                 std::string(n, ' ') + "x"};
  for (const char* pre : {"gpt-2", "smollm", "qwen2", "qwen35", "llama-bpe", "default", "spm"}) {
    Tokenizer t = make(std::string_view(pre) == "spm" ? tiny_spm() : tiny_bpe(pre));
    for (const std::string& text : texts) {
      std::clock_t begin = std::clock();
      Ids ids = t.encode(text);
      f64 seconds = f64(std::clock() - begin) / CLOCKS_PER_SEC;
      EXPECT_LT(seconds, slow_build ? 10 : 1) << pre << " on " << text.substr(0, 10);
      EXPECT_EQ(t.decode(ids, true), to_valid_utf8(text));
    }
  }
}

}  // namespace
}  // namespace fewbit::text
