#include "gguf/recipe.h"

#include <charconv>

namespace fewbit::gguf {
namespace {

// Numbers of general.file_type.  Those of formats without a number of their own are 1 ("mostly F16"): a hint that nobody relies on.
constexpr Recipe recipes[] = {
    {"F32", Type::F32, 0},        {"F16", Type::F16, 1},          {"BF16", Type::BF16, 32},      {"Q4_0", Type::Q4_0, 2},
    {"Q4_1", Type::Q4_1, 3},      {"Q5_0", Type::Q5_0, 8},        {"Q5_1", Type::Q5_1, 9},       {"Q8_0", Type::Q8_0, 7},
    {"Q2_K", Type::Q2_K, 10},     {"Q2_K_S", Type::Q2_K, 21},     {"Q3_K_S", Type::Q3_K, 11},    {"Q3_K_M", Type::Q3_K, 12},
    {"Q3_K_L", Type::Q3_K, 13},   {"Q3_K", Type::Q3_K, 12},       {"Q4_K_S", Type::Q4_K, 14},    {"Q4_K_M", Type::Q4_K, 15},
    {"Q4_K", Type::Q4_K, 15},     {"Q5_K_S", Type::Q5_K, 16},     {"Q5_K_M", Type::Q5_K, 17},    {"Q5_K", Type::Q5_K, 17},
    {"Q6_K", Type::Q6_K, 18},     {"IQ1_S", Type::IQ1_S, 24},     {"IQ1_M", Type::IQ1_M, 31},    {"IQ2_XXS", Type::IQ2_XXS, 19},
    {"IQ2_XS", Type::IQ2_XS, 20}, {"IQ2_S", Type::IQ2_XS, 28},    {"IQ2_M", Type::IQ2_S, 29},    {"IQ3_XXS", Type::IQ3_XXS, 23},
    {"IQ3_XS", Type::IQ3_S, 22},  {"IQ3_S", Type::IQ3_S, 26},     {"IQ3_M", Type::IQ3_S, 27},    {"IQ4_NL", Type::IQ4_NL, 25},
    {"IQ4_XS", Type::IQ4_XS, 30}, {"TQ1_0", Type::TQ1_0, 36},     {"TQ2_0", Type::TQ2_0, 37},    {"I2_S", Type::I2_S, 40},
    {"MXFP4", Type::MXFP4, 38},   {"MXFP4_MOE", Type::MXFP4, 38}, {"NVFP4", Type::NVFP4, 39},    {"Q1_0", Type::Q1_0, 40},
    {"Q2_0", Type::Q2_0, 41},     {"PQ2_0", Type::PQ2_0, 141},    {"PTQ1_0", Type::PTQ1_0, 143},
};

bool named(const Recipe& r, std::string_view n) { return r.name == n; }
template <class... Names>
bool any(const Recipe& r, Names... names) {
  return (named(r, names) || ...);
}

// Layers where rounding hurts most: the first and last eighth, and every third between.
bool delicate(int i, int n) { return i < n / 8 || i >= 7 * n / 8 || (i - n / 8) % 3 == 2; }

Type head_type(const Recipe& r) {
  if (is_ternary_type(r.base)) return Type::Q6_K;
  if (any(r, "IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ2_M", "IQ3_XXS")) return Type::Q5_K;
  if (any(r, "MXFP4", "MXFP4_MOE", "NVFP4", "Q8_0")) return Type::Q8_0;
  return Type::Q6_K;
}

Type embedding_type(const Recipe& r) {
  if (any(r, "IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS")) return Type::Q2_K;
  if (any(r, "IQ2_S", "IQ2_M", "IQ3_XXS")) return Type::IQ3_S;
  if (any(r, "MXFP4", "MXFP4_MOE", "NVFP4")) return Type::Q8_0;
  if (is_ternary_type(r.base)) return Type::Q4_K;
  return r.base;
}

// Below 3 bits attention V, and in small expert models K and the output, are lifted far above the base.
Type two_bit_type(const Recipe& r, const RoleContext& c) {
  const bool upper = any(r, "IQ2_S", "IQ2_M");
  const Type step = upper ? Type::IQ3_S : Type::Q2_K;
  switch (c.role) {
    case Role::attn_v:
      return c.heads_per_kv >= 4 || c.experts >= 4 ? Type::Q4_K : step;
    case Role::attn_k:
      return c.experts == 8 ? Type::Q4_K : r.base;
    case Role::ffn_down:
      return c.index < c.count / 8 ? step : r.base;
    case Role::attn_output:
      if (c.experts == 8) return Type::Q5_K;
      if (any(r, "IQ1_S", "IQ1_M")) return Type::IQ2_XXS;
      return upper ? Type::IQ3_S : r.base;
    default:
      return r.base;
  }
}

Type value_type(const Recipe& r, const RoleContext& c) {
  if (c.experts == 8) return Type::Q8_0;
  const bool shared = c.heads_per_kv >= 4;  // each row serves several heads
  if (named(r, "Q2_K")) return shared ? Type::Q4_K : Type::Q3_K;
  if (any(r, "Q2_K_S", "IQ3_XS", "IQ3_S")) return shared ? Type::Q4_K : r.base;
  if (named(r, "IQ3_XXS")) return shared ? Type::Q4_K : c.importance ? r.base : Type::IQ3_S;
  if (named(r, "IQ3_M")) return Type::Q4_K;
  if (any(r, "Q3_K_M", "Q3_K")) return c.index < 2 ? Type::Q5_K : Type::Q4_K;
  if (named(r, "Q3_K_L")) return Type::Q5_K;
  if (any(r, "IQ4_NL", "IQ4_XS")) return shared ? Type::Q5_K : r.base;
  if (any(r, "Q4_K_M", "Q4_K", "Q5_K_M", "Q5_K")) return delicate(c.index, c.count) ? Type::Q6_K : r.base;
  if (named(r, "Q4_K_S")) return c.index < 4 ? Type::Q5_K : r.base;
  return r.base;
}

Type down_type(const Recipe& r, const RoleContext& c) {
  const bool first = c.index < c.count / 8;
  if (named(r, "Q2_K")) return Type::Q3_K;
  if (named(r, "Q2_K_S")) return first ? Type::Q4_K : r.base;
  if (named(r, "IQ3_XXS") && !c.importance) return first ? Type::Q4_K : Type::Q3_K;
  if (any(r, "Q3_K_M", "Q3_K")) return c.index < c.count / 16 ? Type::Q5_K : Type::Q4_K;
  if (named(r, "IQ3_M")) return first || (c.experts == 8 && delicate(c.index, c.count)) ? Type::Q4_K : r.base;
  if (named(r, "Q3_K_L")) return Type::Q5_K;
  if (any(r, "Q4_K_M", "Q4_K", "Q5_K_M", "Q5_K")) return delicate(c.index, c.count) ? Type::Q6_K : r.base;
  if (any(r, "IQ4_NL", "IQ4_XS")) return first && !c.importance ? Type::Q5_K : r.base;
  if (named(r, "Q4_K_S")) return first ? Type::Q5_K : r.base;
  if (named(r, "Q4_0")) return first && c.importance ? Type::Q4_1 : r.base;
  if (named(r, "Q5_0")) return first && c.importance ? Type::Q5_1 : r.base;
  return r.base;
}

Type output_type(const Recipe& r, const RoleContext& c) {
  if (c.experts == 8) {
    const bool small =
        any(r, "Q2_K", "IQ3_XXS", "IQ3_XS", "IQ3_S", "IQ3_M", "Q3_K_S", "Q3_K_M", "Q3_K", "Q4_K_S", "Q4_K_M", "Q4_K", "IQ4_NL", "IQ4_XS");
    return small ? Type::Q5_K : r.base;
  }
  if (named(r, "Q2_K")) return Type::Q3_K;
  if (named(r, "IQ3_XXS")) return Type::IQ3_S;
  if (any(r, "Q3_K_M", "Q3_K", "IQ3_M")) return Type::Q4_K;
  if (named(r, "Q3_K_L")) return Type::Q5_K;
  return r.base;
}

}  // namespace

const Recipe* find_recipe(std::string_view name) {
  for (const Recipe& r : recipes)
    if (name == r.name) return &r;
  return nullptr;
}

std::string recipe_names() {
  std::string out;
  for (const Recipe& r : recipes) out += (out.empty() ? "" : " ") + std::string(r.name);
  return out;
}

int layer_of(std::string_view name) {
  int n = -1;
  if (!name.starts_with("blk.")) return -1;
  const char* end = name.data() + name.size();
  auto [at, error] = std::from_chars(name.data() + 4, end, n);
  return error == std::errc() && at != end && *at == '.' ? n : -1;
}

Role role_of(std::string_view name) {
  if (name == "token_embd.weight") return Role::embedding;
  if (name == "output.weight") return Role::head;
  if (layer_of(name) < 0) return Role::other;
  const std::string_view tail = name.substr(name.find('.', 4) + 1);
  constexpr std::pair<std::string_view, Role> kinds[] = {
      {"attn_qkv", Role::attn_qkv}, {"attn_q", Role::attn_q},           {"attn_k", Role::attn_k},
      {"attn_v", Role::attn_v},     {"attn_output", Role::attn_output}, {"ssm_out", Role::attn_output},
      {"ffn_gate", Role::ffn_gate}, {"ffn_up", Role::ffn_up},           {"ffn_down", Role::ffn_down},
  };
  for (const auto& [start, role] : kinds)
    if (tail.starts_with(start)) return role;
  return Role::other;
}

bool is_quantizable(std::string_view name, int n_dims, i64 rows) {
  if (n_dims < 2 || rows < 2 || !name.ends_with(".weight")) return false;
  for (std::string_view part : {"norm", "ffn_gate_inp", "ssm_conv1d", "ssm_alpha", "ssm_beta", "ssm_ba", "rope_freqs", "position"})
    if (name.find(part) != name.npos) return false;
  return true;
}

Type mixed_type(const Recipe& r, const RoleContext& c) {
  if (any(r, "F32", "F16", "BF16")) return r.base;
  if (c.role == Role::head) return head_type(r);
  if (c.role == Role::embedding) return embedding_type(r);
  if (named(r, "MXFP4_MOE")) return c.is_expert ? r.base : Type::Q8_0;
  if (any(r, "IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ2_M")) return two_bit_type(r, c);
  if (is_ternary_type(r.base)) return r.base;
  switch (c.role) {
    case Role::attn_v:
      return value_type(r, c);
    case Role::attn_k:
      if (c.experts == 8) return Type::Q8_0;
      [[fallthrough]];
    case Role::attn_q:
      return named(r, "IQ3_XS") ? Type::IQ3_XXS : named(r, "IQ3_XXS") ? Type::IQ2_S : r.base;
    case Role::attn_qkv:
      if (any(r, "Q3_K_M", "Q3_K", "Q3_K_L", "IQ3_M")) return Type::Q4_K;
      return any(r, "Q4_K_M", "Q4_K") ? Type::Q5_K : any(r, "Q5_K_M", "Q5_K") ? Type::Q6_K : r.base;
    case Role::attn_output:
      return output_type(r, c);
    case Role::ffn_down:
      return down_type(r, c);
    case Role::ffn_gate:
    case Role::ffn_up:
      return named(r, "IQ3_XS") && c.index >= c.count / 8 && c.index < 7 * c.count / 8 ? Type::IQ3_XXS : r.base;
    default:
      return r.base;
  }
}

Type dividing_type(Type wanted, i64 n0) {
  auto divides = [&](Type t) { return n0 % format_info(t).block == 0; };
  for (int i = 0; i < 4 && !divides(wanted); i++) {
    switch (wanted) {
      case Type::Q4_K:
        wanted = Type::Q5_0;
        break;
      case Type::Q5_K:
        wanted = Type::Q5_1;
        break;
      case Type::Q6_K:
        wanted = Type::Q8_0;
        break;
      case Type::TQ1_0:
      case Type::TQ2_0:
        wanted = Type::PQ2_0;
        break;
      case Type::PQ2_0:
      case Type::PTQ1_0:
      case Type::Q1_0:
        wanted = Type::Q2_0;
        break;
      case Type::Q2_0:
      case Type::I2_S:
        wanted = Type::Q4_0;
        break;
      default:
        wanted = format_info(wanted).block == 256 ? Type::IQ4_NL : Type::F16;
    }
  }
  return wanted;
}

bool is_ternary_type(Type t) {
  switch (t) {
    case Type::TQ1_0:
    case Type::TQ2_0:
    case Type::I2_S:
    case Type::Q1_0:
    case Type::Q2_0:
    case Type::PQ2_0:
    case Type::PTQ1_0:
      return true;
    default:
      return false;
  }
}

}  // namespace fewbit::gguf
