// A small made-up vocabulary for tests and fuzzing: every byte, some merges, special tokens of every kind.
#pragma once
#include <initializer_list>
#include <string>

#include "text/bpe.h"
#include "text/vocab.h"

namespace fewbit::text {

inline VocabKeys tiny_bpe(const std::string& pre = "qwen2") {
  VocabKeys k;
  k.model = "gpt2";
  k.pre = pre;
  auto add = [&](const std::string& text, TokenType type = TokenType::normal) {
    k.tokens.push_back(text);
    k.types.push_back(i64(type));
  };
  for (const std::string& c : byte_alphabet()) add(c);  // ids 0..255 are the bytes
  for (auto [l, r] : std::initializer_list<std::pair<const char*, const char*>>{
           {"a", "b"}, {"c", "d"}, {"ab", "cd"}, {"Ġ", "a"}, {"e", "e"}, {"ee", "ee"}, {"1", "2"}, {"12", "3"}, {"Ã", "©"}, {"Ġ", "Ġ"}}) {
    k.merges.push_back(std::string(l) + " " + r);
    add(std::string(l) + r);
  }
  add("<|im_start|>", TokenType::control);
  add("<|im_end|>", TokenType::control);
  add("<think>", TokenType::user_defined);
  add("<|endoftext|>", TokenType::control);
  add("<unk>", TokenType::unknown);
  add("padding", TokenType::unused);
  k.ids["eos"] = i64(k.tokens.size()) - 5;
  return k;
}

inline VocabKeys tiny_spm() {
  VocabKeys k;
  k.model = "llama";
  auto add = [&](const std::string& text, TokenType type = TokenType::normal, f32 score = 0) {
    k.tokens.push_back(text);
    k.types.push_back(i64(type));
    k.scores.push_back(score);
  };
  add("<unk>", TokenType::unknown);
  add("<s>", TokenType::control);
  add("</s>", TokenType::control);
  for (int b = 0; b < 256; b++) {
    constexpr char hex[] = "0123456789ABCDEF";
    add(std::string("<0x") + hex[b >> 4] + hex[b & 15] + ">", TokenType::byte);
  }
  f32 score = 0;
  for (const char* t : {"▁a", "ab", "▁ab", "cd", "abcd", "▁▁", "é", "▁", "a", "b", "c", "d", "e"}) add(t, TokenType::normal, score--);
  add("<mark>", TokenType::user_defined);
  return k;
}

}  // namespace fewbit::text
