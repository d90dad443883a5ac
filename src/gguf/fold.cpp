#include "gguf/fold.h"

#include <algorithm>
#include <cmath>

#include "gguf/cursor.h"

namespace fewbit::gguf {
namespace {

constexpr std::string_view kinds[] = {"attn_q",         "attn_k",        "attn_v",           "attn_qkv",       "attn_gate",
                                      "attn_output",    "ffn_gate",      "ffn_up",           "ffn_down",       "ffn_gate_exps",
                                      "ffn_up_exps",    "ffn_down_exps", "ffn_gate_up_exps", "ffn_gate_shexp", "ffn_up_shexp",
                                      "ffn_down_shexp", "ssm_out"};
constexpr std::string_view architectures[] = {"llama", "qwen3", "qwen3moe", "qwen35", "qwen35moe", "qwen3next"};

// SplitMix64 (Steele, Lea, Flood 2014): any seed is good, including neighbours.
u64 next_random(u64& state) {
  u64 z = state += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

}  // namespace

bool may_rotate(std::string_view name) {
  if (name == "output.weight") return true;
  constexpr std::string_view tail = ".weight";
  if (!name.starts_with("blk.") || !name.ends_with(tail)) return false;
  name.remove_suffix(tail.size());
  const size_t dot = name.find('.', 4);
  if (dot == name.npos || dot == 4) return false;
  if (!std::all_of(name.begin() + 4, name.begin() + i64(dot), [](char c) { return c >= '0' && c <= '9'; })) return false;
  return std::find(std::begin(kinds), std::end(kinds), name.substr(dot + 1)) != std::end(kinds);
}

Result<FoldPlan> plan_fold(const File& file, const FoldOptions& o) {
  auto fail = [&](std::string what) { return Error{Code::invalid_argument, fmt::format("{}: {}", file.path(), what)}; };
  if (o.block < 2 || o.block > 1 << 20 || (o.block & (o.block - 1)))
    return fail(fmt::format("rotation in blocks of {}: must be a power of two from 2 to {}", o.block, 1 << 20));
  for (const KeyValue& kv : file.metadata())
    if (kv.key.starts_with("prism.hadamard.")) return fail("is rotated already (prism.hadamard.*), and ternary rows cannot be turned back");
  FEWBIT_TRY(std::string arch, file.get_string("general.architecture", std::nullopt));
  if (std::find(std::begin(architectures), std::end(architectures), arch) == std::end(architectures))
    return fail(fmt::format("rotated weights are not defined for architecture '{}'", printable(arch)));

  FoldPlan plan;
  const bool head = file.tensor("output.weight") != nullptr;
  const Tensor* embedding = file.tensor("token_embd.weight");
  std::vector<i64> widths;  // in the order in which they occur
  auto take = [&](const Tensor& t) {
    if (t.dims[0] % o.block != 0) {
      plan.left.push_back(t.name);
      return false;
    }
    if (std::find(widths.begin(), widths.end(), t.dims[0]) == widths.end()) widths.push_back(t.dims[0]);
    return true;
  };
  if (embedding) plan.embedding = take(*embedding);
  for (const Tensor& t : file.tensors())
    if (may_rotate(t.name) && take(t)) plan.names.push_back(t.name);
  if (plan.names.empty()) return fail(fmt::format("rotation in blocks of {} divides the rows of no weight", o.block));
  const bool tied = plan.embedding && !head;

  auto key = [&](const char* k, Value v) { plan.keys.push_back({std::string("prism.hadamard.") + k, std::move(v)}); };
  key("version", Value::of(u32(tied ? 2 : 1)));
  key("block_size", Value::of(u32(o.block)));
  key("transform", Value::of(std::string("normalized-sylvester-walsh-hadamard")));
  key("axis", Value::of(std::string("input-last-dimension")));
  key("sign_mode", Value::of(std::string(o.signs ? "explicit" : "identity")));
  key("weight_names", Value::of(plan.names));
  if (o.signs) {
    u64 state = o.seed;
    std::vector<i64> values;
    for (i64 w : widths) {
      std::vector<f32>& s = plan.signs[w];
      for (i64 i = 0; i < w; i++) s.push_back(next_random(state) >> 63 ? -1.0f : 1.0f);
      values.insert(values.end(), s.begin(), s.end());
    }
    key("sign_widths", Value::of_i32s(widths));
    key("sign_values", Value::of_i32s(std::move(values)));
  }
  if (plan.embedding) key("inverse_weight_names", Value::of(std::vector<std::string>{"token_embd.weight"}));
  if (tied) key("tied_output", Value::of(true));
  return plan;
}

void fold_row(std::span<f32> row, std::span<const f32> signs, int block, std::span<f64> work) {
  const size_t n = row.size(), b = size_t(block);
  for (size_t i = 0; i < n; i++) work[i] = signs.empty() ? f64(row[i]) : f64(row[i]) * f64(signs[i]);
  const f64 scale = 1 / std::sqrt(f64(block));
  for (size_t at = 0; at < n; at += b) {
    for (size_t h = 1; h < b; h *= 2) {
      for (size_t j = 0; j < b; j += 2 * h) {
        for (size_t k = j; k < j + h; k++) {
          const f64 x = work[at + k], y = work[at + k + h];
          work[at + k] = x + y;
          work[at + k + h] = x - y;
        }
      }
    }
  }
  for (size_t i = 0; i < n; i++) row[i] = f32(work[i] * scale);
}

void fold_importance(std::span<f32> importance, int block) {
  for (size_t at = 0; at < importance.size(); at += size_t(block)) {
    f64 sum = 0;
    for (size_t i = 0; i < size_t(block); i++) sum += f64(importance[at + i]);
    std::fill_n(importance.begin() + i64(at), block, f32(sum / block));
  }
}

}  // namespace fewbit::gguf
