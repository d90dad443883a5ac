#include "model/hadamard.h"

#include <fmt/format.h>

#include <cstdlib>
#include <optional>
#include <sstream>

namespace fewbit::model {
namespace {

constexpr std::string_view prefix = "prism.hadamard.";
constexpr std::string_view keys[] = {
    "version",     "block_size",           "transform",     "axis",       "sign_mode", "weight_names", "sign_widths",
    "sign_values", "inverse_weight_names", "gdn_v_grouped", "tied_output"};
constexpr std::string_view kinds[] = {"attn_q",         "attn_k",        "attn_v",           "attn_qkv",       "attn_gate",
                                      "attn_output",    "ffn_gate",      "ffn_up",           "ffn_down",       "ffn_gate_exps",
                                      "ffn_up_exps",    "ffn_down_exps", "ffn_gate_up_exps", "ffn_gate_shexp", "ffn_up_shexp",
                                      "ffn_down_shexp", "ssm_out"};
constexpr std::string_view embedding_name = "token_embd.weight";

Error bad(std::string what) { return {Code::bad_file, std::string(prefix) + std::move(what)}; }

bool rotatable(std::string_view name) {
  if (name == "output.weight") return true;
  constexpr std::string_view head = "blk.", tail = ".weight";
  if (!name.starts_with(head) || !name.ends_with(tail) || name.size() <= head.size() + tail.size()) return false;
  name = name.substr(head.size(), name.size() - head.size() - tail.size());
  size_t dot = name.find('.');
  if (dot == 0 || dot == name.npos || dot > 6) return false;
  for (char c : name.substr(0, dot))
    if (c < '0' || c > '9') return false;
  for (std::string_view k : kinds)
    if (name.substr(dot + 1) == k) return true;
  return false;
}

Status must_be(const gguf::File& file, std::string_view key, std::string_view want) {
  FEWBIT_TRY(std::string got, file.get_string(std::string(prefix) + std::string(key), std::nullopt));
  if (got != want) return bad(fmt::format("{} is '{}', fewbit knows only '{}'", key, got, want));
  return {};
}

Result<std::vector<std::string>> strings(const gguf::File& file, std::string_view key) {
  const gguf::Value* v = file.find(std::string(prefix) + std::string(key));
  if (!v) return std::vector<std::string>{};
  const auto* s = v->is_array() ? v->as_strings() : nullptr;
  if (!s) return bad(fmt::format("{}: wants an array of strings", key));
  return *s;
}

Result<std::vector<i64>> integers(const gguf::File& file, std::string_view key) {
  const gguf::Value* v = file.find(std::string(prefix) + std::string(key));
  if (!v) return std::vector<i64>{};
  auto s = v->is_array() ? v->as_ints() : std::nullopt;
  if (!s) return bad(fmt::format("{}: wants an array of integers", key));
  return std::move(*s);
}

Status read_signs(const gguf::File& file, Hadamard& h) {
  FEWBIT_TRY(std::string mode, file.get_string("prism.hadamard.sign_mode", std::nullopt));
  FEWBIT_TRY(auto widths, integers(file, "sign_widths"));
  FEWBIT_TRY(auto values, integers(file, "sign_values"));
  if (mode == "identity") {
    if (!widths.empty() || !values.empty()) return bad("sign_mode is 'identity', but there are sign_widths or sign_values");
    return {};
  }
  if (mode != "explicit") return bad(fmt::format("sign_mode is '{}', fewbit knows 'identity' and 'explicit'", mode));
  if (widths.empty()) return bad("sign_widths is missing or empty, sign_mode 'explicit' needs it");
  size_t at = 0;
  for (i64 w : widths) {
    if (w <= 0 || w % h.block) return bad(fmt::format("sign_widths: {} is not a positive multiple of the block size {}", w, h.block));
    if (h.signs.count(w)) return bad(fmt::format("sign_widths: {} occurs twice", w));
    if (u64(w) > values.size() - at)
      return bad(fmt::format("sign_values has {} entries, too few for the widths (width {} starts at {})", values.size(), w, at));
    std::vector<f32> s(static_cast<size_t>(w));
    for (size_t i = 0; i < s.size(); i++) {
      i64 x = values[at + i];
      if (x != 1 && x != -1) return bad(fmt::format("sign_values[{}] is {}, allowed 1 and -1", at + i, x));
      s[i] = f32(x);
    }
    at += s.size();
    h.signs.emplace(w, std::move(s));
  }
  if (at != values.size()) return bad(fmt::format("sign_values has {} entries, the widths add up to {}", values.size(), at));
  return {};
}

// Rules 6 and 7: the width of a tensor's input can be rotated.
Status check_width(const Hadamard& h, const gguf::Tensor& t) {
  if (t.dims[0] % h.block) return bad(fmt::format("block_size: {} does not divide the width {} of '{}'", h.block, t.dims[0], t.name));
  if (!h.signs.empty() && !h.signs.count(t.dims[0]))
    return bad(fmt::format("sign_widths: no signs for the width {} of '{}'", t.dims[0], t.name));
  return {};
}

Status read_names(const gguf::File& file, Hadamard& h) {
  FEWBIT_TRY(auto names, strings(file, "weight_names"));
  if (names.empty()) return bad("weight_names is missing or empty");
  for (const std::string& n : names) {
    const gguf::Tensor* t = file.tensor(n);
    if (!h.names.insert(n).second) return bad(fmt::format("weight_names: '{}' occurs twice", n));
    if (!rotatable(n)) return bad(fmt::format("weight_names: '{}' is not a kind of weight whose input fewbit rotates", n));
    if (!t) return bad(fmt::format("weight_names: there is no tensor '{}' in the file", n));
    FEWBIT_OK(check_width(h, *t));
  }
  FEWBIT_TRY(auto inverse, strings(file, "inverse_weight_names"));
  for (const std::string& n : inverse) {
    if (h.names.count(n)) return bad(fmt::format("inverse_weight_names: '{}' is in weight_names too", n));
    if (n != embedding_name) return bad(fmt::format("inverse_weight_names: '{}' (only '{}' has a meaning)", n, embedding_name));
    if (h.embedding) return bad(fmt::format("inverse_weight_names: '{}' occurs twice", n));
    const gguf::Tensor* t = file.tensor(n);
    if (!t) return bad(fmt::format("inverse_weight_names: there is no tensor '{}' in the file", n));
    FEWBIT_OK(check_width(h, *t));
    h.embedding = true;
  }
  return {};
}

}  // namespace

Omissions omissions_from_environment() {
  Omissions o;
  const char* text = std::getenv("FEWBIT_TEST_OMIT");
  std::istringstream in(text ? text : "");
  for (std::string word; std::getline(in, word, ',');) {
    if (word == "signs") o.signs = true;
    if (word == "transform") o.transform = true;
    if (word == "permutation") o.permutation = true;
    if (word == "inverse") o.inverse = true;
    if (word == "force") o.force = true;
    if (word.starts_with("plain=")) o.plain = word.substr(6);
  }
  return o;
}

Result<std::optional<Hadamard>> Hadamard::read(const gguf::File& file, const Config& config) {
  bool any = false;
  for (const gguf::KeyValue& kv : file.metadata()) {
    if (!kv.key.starts_with(prefix)) continue;
    any = true;
    std::string_view k = std::string_view(kv.key).substr(prefix.size());
    bool known = false;
    for (std::string_view x : keys) known |= k == x;
    if (!known) return bad(fmt::format("{}: unknown key; running the file without understanding it would give wrong output", k));
  }
  if (!any) return std::optional<Hadamard>();
  if (!file.find("prism.hadamard.version")) return bad("version is missing although other prism.hadamard keys are there");

  Hadamard h;
  FEWBIT_TRY(i64 version, file.get_int("prism.hadamard.version", std::nullopt, 0, i64(1) << 32));
  if (version != 1 && version != 2) return bad(fmt::format("version is {}, fewbit knows 1 and 2", version));
  FEWBIT_TRY(h.tied, file.get_bool("prism.hadamard.tied_output", false));
  if (h.tied != (version == 2)) return bad(fmt::format("tied_output is {} in version {}", h.tied, version));
  if (!config.arch->rotation_verified)
    return Error{Code::unsupported,
                 fmt::format("{}*: rotated weights are not verified for architecture '{}'", prefix, config.architecture)};
  FEWBIT_TRY(i64 block, file.get_int("prism.hadamard.block_size", std::nullopt, 0, i64(1) << 32));
  if (block < 1 || block > 1 << 20 || (block & (block - 1)))
    return bad(fmt::format("block_size is {}, must be a power of two up to {}", block, 1 << 20));
  h.block = int(block);
  FEWBIT_OK(must_be(file, "transform", "normalized-sylvester-walsh-hadamard"));
  FEWBIT_OK(must_be(file, "axis", "input-last-dimension"));
  FEWBIT_OK(read_signs(file, h));
  FEWBIT_OK(read_names(file, h));

  FEWBIT_TRY(h.v_grouped, file.get_bool("prism.hadamard.gdn_v_grouped", false));
  if (h.v_grouped && !config.arch->delta)
    return bad(fmt::format("gdn_v_grouped is set, but architecture '{}' has no DeltaNet heads", config.architecture));
  bool head = file.tensor("output.weight") != nullptr;
  if (h.tied && !h.embedding) return bad("tied_output is set, but 'token_embd.weight' is not in inverse_weight_names");
  if (h.tied && head) return bad("tied_output is set, but the file has an 'output.weight'");
  if (!h.tied && h.embedding && !head)
    return bad("inverse_weight_names: a rotated embedding without 'output.weight' needs version 2 (tied_output)");
  return std::optional<Hadamard>(std::move(h));
}

}  // namespace fewbit::model
