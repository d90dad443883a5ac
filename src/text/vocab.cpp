#include "text/vocab.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <initializer_list>
#include <limits>
#include <utility>

#include "base/log.h"
#include "text/utf8.h"

namespace fewbit::text {
namespace {

constexpr std::string_view prefix = "tokenizer.ggml.";

// Key in the file (without prefix and "_token_id") -> our name.  Old names stand before the new ones, which win.
constexpr std::pair<const char*, const char*> id_keys[] = {
    {"bos", "bos"},         {"eos", "eos"},         {"unknown", "unk"},     {"padding", "pad"},     {"eot", "eot"},
    {"eom", "eom"},         {"prefix", "fim_pre"},  {"suffix", "fim_suf"},  {"middle", "fim_mid"},  {"fim_pre", "fim_pre"},
    {"fim_suf", "fim_suf"}, {"fim_mid", "fim_mid"}, {"fim_pad", "fim_pad"}, {"fim_rep", "fim_rep"}, {"fim_sep", "fim_sep"},
};

std::string full(std::string_view key) { return std::string(prefix) + std::string(key); }

Error wrong_kind(const gguf::File& file, std::string_view key, const char* wanted) {
  return {Code::bad_file, fmt::format("{}: {}{} is not {}", file.path(), prefix, key, wanted)};
}

Result<std::vector<std::string>> get_strings(const gguf::File& file, std::string_view key) {
  const gguf::Value* v = file.find(full(key));
  if (!v) return std::vector<std::string>{};
  const std::vector<std::string>* strings = v->as_strings();
  if (!strings) return wrong_kind(file, key, "an array of strings");
  return *strings;
}

Result<std::optional<bool>> get_flag(const gguf::File& file, std::string_view key) {
  const gguf::Value* v = file.find(full(key));
  if (!v) return std::optional<bool>{};
  std::optional<bool> b = v->as_bool();
  if (!b) return wrong_kind(file, key, "a boolean");
  return b;
}

}  // namespace

Result<VocabKeys> read_vocab_keys(const gguf::File& file) {
  VocabKeys k;
  FEWBIT_TRY(k.model, file.get_string(full("model"), std::nullopt));
  if (file.find(full("pre"))) { FEWBIT_TRY(k.pre, file.get_string(full("pre"), std::nullopt)); }
  FEWBIT_TRY(k.tokens, get_strings(file, "tokens"));
  FEWBIT_TRY(k.merges, get_strings(file, "merges"));
  if (const gguf::Value* v = file.find(full("token_type"))) {
    auto ints = v->as_ints();
    if (!ints) return wrong_kind(file, "token_type", "an array of integers");
    k.types = std::move(*ints);
  }
  if (const gguf::Value* v = file.find(full("scores"))) {
    auto floats = v->as_floats();
    if (!floats) return wrong_kind(file, "scores", "an array of floats");
    k.scores = std::move(*floats);
  }
  for (auto [key, name] : id_keys) {
    std::string id_key = std::string(key) + "_token_id";
    const gguf::Value* v = file.find(full(id_key));
    if (!v) continue;
    std::optional<i64> id = v->as_int();
    if (!id) return wrong_kind(file, id_key, "an integer");
    if (*id < 0 || *id >= i64(k.tokens.size())) {
      log::warn("{}: {}{} = {} ignored: the vocabulary has {} tokens", file.path(), prefix, id_key, *id, k.tokens.size());
      continue;
    }
    k.ids[name] = *id;
  }
  FEWBIT_TRY(k.add_bos, get_flag(file, "add_bos_token"));
  FEWBIT_TRY(k.add_eos, get_flag(file, "add_eos_token"));
  FEWBIT_TRY(k.add_space_prefix, get_flag(file, "add_space_prefix"));
  return k;
}

Result<Vocab> Vocab::build(VocabKeys k, bool default_add_bos) {
  Vocab v;
  if (k.model != "gpt2" && k.model != "llama")
    return Error{Code::unsupported,
                 fmt::format("tokenizer.ggml.model '{}' is not supported; known: gpt2, llama", to_valid_utf8(k.model.substr(0, 64)))};
  v.spm = k.model == "llama";
  size_t n = k.tokens.size();
  if (n == 0) return Error{Code::bad_file, "tokenizer.ggml.tokens is missing or empty"};
  if (n > size_t(std::numeric_limits<Token>::max()))
    return Error{Code::bad_file, fmt::format("tokenizer.ggml.tokens has {} tokens, more than ids can name", n)};
  if (!k.types.empty() && k.types.size() != n)
    return Error{Code::bad_file, fmt::format("tokenizer.ggml.token_type has {} entries for {} tokens", k.types.size(), n)};
  if (!k.scores.empty() && k.scores.size() != n)
    return Error{Code::bad_file, fmt::format("tokenizer.ggml.scores has {} entries for {} tokens", k.scores.size(), n)};
  if (!v.spm && k.merges.empty()) return Error{Code::bad_file, "tokenizer.ggml.merges is missing: byte-level BPE needs it"};

  v.model = std::move(k.model);
  v.pre = k.pre.value_or("");
  v.texts = std::move(k.tokens);
  v.merges = std::move(k.merges);
  v.scores = std::move(k.scores);
  for (f32& s : v.scores) {
    if (std::isnan(s)) s = -std::numeric_limits<f32>::infinity();  // an order needs comparable scores
  }
  v.types.assign(n, TokenType::normal);
  for (size_t i = 0; i < k.types.size(); i++) {
    if (k.types[i] >= 1 && k.types[i] <= 6) v.types[i] = TokenType(k.types[i]);
  }
  v.slots_.resize(std::bit_ceil(2 * n));
  for (size_t i = 0; i < n; i++) {
    if (v.texts[i].empty()) continue;
    u64 hash = std::hash<std::string_view>{}(v.texts[i]);
    v.slots_[v.slot_of(v.texts[i], hash)] = {u32(hash >> 32), Token(i)};
  }
  v.find_special(k);
  v.find_end_of_generation();
  v.add_bos = k.add_bos.value_or(v.spm || default_add_bos) && v.bos >= 0;
  v.add_eos = k.add_eos.value_or(false) && v.eos >= 0;
  v.add_space_prefix = v.spm && k.add_space_prefix.value_or(true);
  return v;
}

size_t Vocab::slot_of(std::string_view text, u64 hash) const {
  size_t i = hash & (slots_.size() - 1);
  while (slots_[i].id >= 0 && (slots_[i].tag != u32(hash >> 32) || texts[size_t(slots_[i].id)] != text)) i = (i + 1) & (slots_.size() - 1);
  return i;
}

Token Vocab::find(std::string_view text) const { return slots_[slot_of(text, std::hash<std::string_view>{}(text))].id; }

void Vocab::find_special(const VocabKeys& keys) {
  // By key, else by default, else by text; a token found by text is a control token whatever its declared type.
  auto set = [&](Token& id, const char* name, Token fallback, std::initializer_list<std::string_view> by_text) {
    if (auto it = keys.ids.find(name); it != keys.ids.end() && it->second >= 0 && it->second < size()) {
      id = Token(it->second);
      return;
    }
    if (fallback >= 0 && fallback < size()) {
      id = fallback;
      return;
    }
    for (std::string_view text : by_text) {
      if (Token t = find(text); t >= 0) {
        id = t;
        types[size_t(t)] = TokenType::control;
        return;
      }
    }
  };
  set(bos, "bos", spm ? 1 : -1, {});
  set(eos, "eos", spm ? 2 : -1, {});
  set(unk, "unk", spm ? 0 : -1, {});
  set(pad, "pad", -1, {});
  set(eot, "eot", -1,
      {"<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>", "<|end_of_text|>", "<EOT>", "_<EOT>", "[EOT]"});
  set(eom, "eom", -1, {"<|eom_id|>"});
  set(fim_pre, "fim_pre", -1, {"<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>"});
  set(fim_suf, "fim_suf", -1, {"<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>"});
  set(fim_mid, "fim_mid", -1, {"<|fim_middle|>", "<fim-middle>", "<fim_middle>"});
  set(fim_pad, "fim_pad", -1, {"<|fim_pad|>", "<fim-pad>", "<fim_pad>"});
  set(fim_rep, "fim_rep", -1, {"<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<reponame>"});
  set(fim_sep, "fim_sep", -1, {"<|file_sep|>"});
}

void Vocab::find_end_of_generation() {
  std::vector<Token>& eog = end_of_generation;
  for (std::string_view text :
       {"<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>", "<end_of_turn>", "<|endoftext|>", "</s>",
        "<|eom_id|>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]", "<|end_of_text|>", "<end_of_utterance>", "<eos>"}) {
    if (Token t = find(text); t >= 0) {
      eog.push_back(t);
      types[size_t(t)] = TokenType::control;
    }
  }
  for (Token t : {eos, eot, eom, fim_pad, fim_rep, fim_sep}) {
    if (t >= 0) eog.push_back(t);
  }
  std::sort(eog.begin(), eog.end());
  eog.erase(std::unique(eog.begin(), eog.end()), eog.end());
  // Where a reply has its own closing tokens, <|end|> only closes a part of it.
  auto in_set = [&](std::string_view text) {
    Token t = find(text);
    return t >= 0 && std::binary_search(eog.begin(), eog.end(), t);
  };
  if (in_set("<|end|>") && ((in_set("<|return|>") && in_set("<|call|>")) || (in_set("<|calls|>") && in_set("<|flush|>"))))
    eog.erase(std::find(eog.begin(), eog.end(), find("<|end|>")));
}

int byte_of_text(std::string_view text) {
  if (text.size() != 6 || text.substr(0, 3) != "<0x" || text[5] != '>') return -1;
  int value = 0;
  for (char c : text.substr(3, 2)) {
    int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    if (digit < 0) return -1;
    value = value * 16 + digit;
  }
  return value;
}

}  // namespace fewbit::text
