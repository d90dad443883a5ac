// Folds a plain model into rotated form, for tests: every weight that the contract allows is stored as W diag(s) H, the embedding as H(s
// row), so that a loader that keeps the contract computes the same logits (hadamard.md section 4).
#pragma once
#include <algorithm>
#include <set>
#include <string>

#include "model/toy_model.h"

namespace fewbit::model {

struct Fold {
  int block = 64;
  bool signs = true;
  bool grouped = false;  // columns of ssm_out in training order; with k_heads, v_heads of the model
  int k_heads = 0, v_heads = 0;
  u64 seed = 1;
};

inline Toy toy_from(const gguf::File& file) {
  Toy t;
  t.metadata = file.metadata();
  for (const gguf::Tensor& x : file.tensors()) {
    ToyTensor y{x.name, {x.dims.begin(), x.dims.begin() + std::max(1, x.n_dims)}, std::vector<f32>(size_t(x.elements())), x.type};
    decode_tensor(x.type, x.data, y.values);
    t.tensors.push_back(std::move(y));
  }
  return t;
}

inline void walsh_hadamard(std::vector<f64>& x, int block) {
  for (size_t at = 0; at < x.size(); at += size_t(block))
    for (int h = 1; h < block; h *= 2)
      for (int j = 0; j < block; j++)
        if (!(j & h)) {
          f64 a = x[at + size_t(j)], b = x[at + size_t(j + h)];
          x[at + size_t(j)] = a + b;
          x[at + size_t(j + h)] = a - b;
        }
  for (f64& v : x) v /= std::sqrt(f64(block));
}

inline bool foldable(const std::string& name) {
  static const std::set<std::string> kinds = {"attn_q",         "attn_k",        "attn_v",           "attn_qkv",       "attn_gate",
                                              "attn_output",    "ffn_gate",      "ffn_up",           "ffn_down",       "ffn_gate_exps",
                                              "ffn_up_exps",    "ffn_down_exps", "ffn_gate_up_exps", "ffn_gate_shexp", "ffn_up_shexp",
                                              "ffn_down_shexp", "ssm_out"};
  if (name == "output.weight") return true;
  if (!name.starts_with("blk.") || !name.ends_with(".weight")) return false;
  size_t dot = name.find('.', 4);
  return kinds.count(name.substr(dot + 1, name.size() - dot - 8)) > 0;
}

inline Toy fold(Toy t, const Fold& f) {
  std::map<i64, std::vector<f64>> signs;
  u64 state = f.seed;
  auto signs_of = [&](i64 n) -> const std::vector<f64>& {
    auto& s = signs[n];
    while (i64(s.size()) < n) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      s.push_back(f.signs && (state >> 40 & 1) ? -1 : 1);
    }
    return s;
  };
  bool head = std::any_of(t.tensors.begin(), t.tensors.end(), [](const auto& x) { return x.name == "output.weight"; });
  std::vector<std::string> names;
  for (ToyTensor& x : t.tensors) {
    bool listed = foldable(x.name);
    if (!listed && x.name != "token_embd.weight") continue;
    if (listed) names.push_back(x.name);
    i64 n = x.dims[0];
    FEWBIT_CHECK(n % f.block == 0, "%s", x.name.c_str());
    const std::vector<f64>& s = signs_of(n);
    bool move = f.grouped && x.name.ends_with("ssm_out.weight");
    i64 rep = move ? f.v_heads / f.k_heads : 0, width = move ? n / f.v_heads : 0;
    for (size_t at = 0; at < x.values.size(); at += size_t(n)) {
      std::vector<f64> row(x.values.begin() + i64(at), x.values.begin() + i64(at) + n);
      if (move) {  // columns from tiled (r * Hk + g) to grouped (g * rep + r)
        std::vector<f64> old = row;
        for (i64 g = 0; g < f.k_heads; g++)
          for (i64 r = 0; r < rep; r++) std::copy_n(old.begin() + (r * f.k_heads + g) * width, width, row.begin() + (g * rep + r) * width);
      }
      for (i64 i = 0; i < n; i++) row[size_t(i)] *= s[size_t(i)];
      walsh_hadamard(row, f.block);
      std::copy(row.begin(), row.end(), x.values.begin() + i64(at));
    }
    x.type = Type::F32;
  }
  using gguf::Value;
  auto key = [](const char* k) { return std::string("prism.hadamard.") + k; };
  t.set(key("version"), Value::of(u32(head ? 1 : 2)));
  if (!head) t.set(key("tied_output"), Value::of(true));
  t.set(key("block_size"), Value::of(u32(f.block)));
  t.set(key("transform"), Value::of(std::string("normalized-sylvester-walsh-hadamard")));
  t.set(key("axis"), Value::of(std::string("input-last-dimension")));
  t.set(key("sign_mode"), Value::of(std::string(f.signs ? "explicit" : "identity")));
  t.set(key("weight_names"), Value::of(names));
  t.set(key("inverse_weight_names"), Value::of(std::vector<std::string>{"token_embd.weight"}));
  if (f.grouped) t.set(key("gdn_v_grouped"), Value::of(true));
  if (f.signs) {
    std::vector<i64> widths, values;
    for (const auto& [w, s] : signs) {
      widths.push_back(w);
      for (f64 x : s) values.push_back(i64(x));
    }
    t.set(key("sign_widths"), Value::of_i32s(widths));
    t.set(key("sign_values"), Value::of_i32s(values));
  }
  return t;
}

}  // namespace fewbit::model
