#include <algorithm>
#include <map>
#include <mutex>

#include "base/bits.h"
#include "base/regex.h"
#include "gguf/cursor.h"
#include "gguf/quantize.h"

namespace fewbit::gguf {
namespace {

// Formats whose weights were trained as such, from the longest group to the shortest: what one holds, the shorter ones hold too.
constexpr Type ternary_types[] = {Type::TQ2_0, Type::PQ2_0, Type::Q2_0, Type::Q1_0};

bool plain_float(Type t) { return t == Type::F32 || t == Type::F16 || t == Type::BF16; }
// Types that follow any weights closely enough that nobody minds another rounding.
bool fine(Type t) { return format_info(t).bits_per_weight() >= 8; }

// One scale for a whole tensor, in I2_S: every value is 0 or +-s.
bool is_exact_in_i2s(const Tensor& t, ThreadPool& pool) {
  if (t.elements() % 128 != 0) return false;
  std::atomic<u32> scale{0};
  std::atomic<bool> good{true};
  pool.for_range(t.rows(), std::max<i64>(1, 65536 / t.dims[0]), [&](i64 begin, i64 end, int) {
    std::vector<f32> x(static_cast<size_t>(t.dims[0]));
    for (i64 r = begin; r < end && good; r++) {
      decode_tensor_row(t.type, t.data, r, t.dims[0], x);
      for (f32 v : x) {
        if (v == 0) continue;
        const u32 bits = std::bit_cast<u32>(std::abs(v));
        u32 seen = 0;
        // 1e-6: below it the encoder writes a zero (formats.md 4.34).
        if ((!scale.compare_exchange_strong(seen, bits) && seen != bits) || !(std::abs(v) >= 1e-6f)) good = false;
      }
    }
  });
  return good;
}

struct Planner {
  const File& file;
  const QuantizeOptions& o;
  ThreadPool& pool;
  const Recipe& recipe;
  struct Rule {
    Regex pattern;
    Type type;
    bool used = false;
  };
  std::vector<Rule> rules = {};                  // one per o.tensor_types
  std::map<Role, std::vector<int>> layers = {};  // that have the role, ascending
  i64 experts = 0;
  int heads_per_kv = 1;
  bool head = false;
  FoldPlan fold = {};
  QuantizePlan plan = {};

  Error fail(const Tensor& t, std::string what) const {
    return {Code::invalid_argument, fmt::format("tensor '{}': {}", printable(t.name), what)};
  }

  Status prepare() {
    for (const auto& [text, type] : o.tensor_types) {
      FEWBIT_TRY(Regex pattern, Regex::parse(text));
      rules.push_back({std::move(pattern), type});
    }
    for (const Tensor& t : file.tensors()) {
      if (const int l = layer_of(t.name); l >= 0) layers[role_of(t.name)].push_back(l);
    }
    for (auto& [role, list] : layers) {
      std::sort(list.begin(), list.end());
      list.erase(std::unique(list.begin(), list.end()), list.end());
    }
    head = file.tensor("output.weight") != nullptr;
    FEWBIT_TRY(std::string arch, file.get_string("general.architecture", std::string()));
    FEWBIT_TRY(experts, file.get_int(arch + ".expert_count", 0));
    // Some files have these per layer: then the mixes that depend on them are the ordinary ones.
    auto heads = file.get_int(arch + ".attention.head_count", 1, 1, 1 << 20);
    auto kv = file.get_int(arch + ".attention.head_count_kv", 1, 1, 1 << 20);
    if (heads.ok() && kv.ok()) heads_per_kv = int(*heads / *kv);
    if (o.fold) {
      FEWBIT_TRY(fold, plan_fold(file, *o.fold));
      plan.signs = fold.signs;
      for (const std::string& name : fold.left)
        plan.notes.push_back(fmt::format("'{}' is not rotated: blocks of {} do not divide its rows", printable(name), o.fold->block));
      if (o.imatrix)
        plan.notes.push_back(
            "rotated inputs: the importance of a column is the mean of its block (better: an importance matrix of the rotated F16 model)");
    }
    if (o.imatrix) {
      i64 unknown = 0;
      for (const auto& [name, entry] : o.imatrix->entries) unknown += file.tensor(name) == nullptr;
      if (unknown == i64(o.imatrix->entries.size()))
        return Error{Code::invalid_argument,
                     fmt::format("{}: none of its {} entries is a tensor of {}", o.imatrix_path, unknown, file.path())};
      if (unknown > 0)
        plan.notes.push_back(
            fmt::format("importance matrix: {} of {} entries are no tensors of this model", unknown, o.imatrix->entries.size()));
      plan.notes.insert(plan.notes.end(), o.imatrix->notes.begin(), o.imatrix->notes.end());
    }
    return {};
  }

  RoleContext context(const Tensor& t) const {
    RoleContext c;
    c.role = role_of(t.name);
    if (c.role == Role::embedding && !head) c.role = Role::head;  // one table for both
    if (auto it = layers.find(c.role); it != layers.end()) {
      c.count = int(it->second.size());
      c.index = int(std::lower_bound(it->second.begin(), it->second.end(), layer_of(t.name)) - it->second.begin());
    }
    c.heads_per_kv = heads_per_kv;
    c.experts = experts;
    c.is_expert = t.dims[2] > 1;
    c.importance = o.imatrix != nullptr;
    return c;
  }

  // The first ternary type that holds the tensor; nothing if none does.
  std::optional<Type> ternary(const Tensor& t) const {
    for (Type type : ternary_types)
      if (is_exact_in(t, type, pool)) return type;
    if (is_exact_in(t, Type::I2_S, pool)) return Type::I2_S;
    return std::nullopt;
  }

  Status choose(const Tensor& t, TensorPlan& p) {
    const bool rotated = p.folded || p.embedding;
    bool asked = o.pure;  // by name: not to be replaced silently
    Type want = mixed_type(recipe, context(t));
    if (o.pure) {  // IQ2_S names a mix of IQ2_XS, and a type: with --pure it is the type
      const FormatInfo* same = find_format(recipe.name);
      want = same ? same->type : recipe.base;
    }
    for (Rule& rule : rules) {
      FEWBIT_TRY(const bool found, rule.pattern.search(t.name));
      if (!found) continue;
      want = rule.type;
      asked = rule.used = true;
      break;
    }
    if (const Type fits = dividing_type(want, t.dims[0]); fits != want) {
      p.note = fmt::format("{} instead of {}: rows of {} are not a multiple of {}", type_name(fits), type_name(want), t.dims[0],
                           format_info(want).block);
      want = fits;
    }
    if (want == Type::I2_S && t.dims[2] * t.dims[3] > 1)
      return fail(t, fmt::format("I2_S has one scale for a whole tensor and cannot hold {} experts", t.dims[2] * t.dims[3]));
    if (want == Type::I2_S && t.elements() % 128 != 0)
      return fail(t, fmt::format("I2_S needs a multiple of 128 elements, it has {}", t.elements()));
    p.to = want;
    if (want == t.type && !rotated) {
      p.copy = p.exact = true;
      return {};
    }
    if (rotated && fine(want) && fine(t.type)) return {};
    if (rotated) {
      if (!fine(t.type) || ternary(t)) {
        if (!o.allow_requantize)
          return fail(t,
                      fmt::format("{} weights that are already rounded cannot be rotated without loss (--allow-requantize to do it anyway)",
                                  type_name(t.type)));
        p.note += p.note.empty() ? "rounded before" : "; rounded before";
      }
      return {};
    }
    if (plain_float(want) || (fine(want) && fine(t.type))) return {};
    if (is_ternary_type(recipe.base) && !asked) {
      // The mix gives the embedding and the head more bits; weights that the base type holds as they are need none.
      std::vector<Type> tries{recipe.base, Type::PQ2_0, Type::Q2_0};
      for (Type type : tries) {
        if (!is_exact_in(t, type, pool)) continue;
        if (type != recipe.base)
          p.note = fmt::format("{} instead of {}, which would lose its {} scales per group", type_name(type), type_name(recipe.base),
                               format_info(type).block);
        p.to = type;
        p.exact = true;
        return {};
      }
    } else if (is_ternary_type(want) && is_exact_in(t, want, pool)) {
      p.exact = true;
      return {};
    }
    if (o.allow_requantize) {
      if (!fine(t.type)) p.note += std::string(p.note.empty() ? "" : "; ") + "rounded before";
      return {};
    }
    if (auto exact = ternary(t)) {
      if (is_exact_in(t, want, pool)) {  // all zeros, say
        p.exact = true;
        return {};
      }
      return fail(
          t, fmt::format(
                 "its values are exactly ternary and {} would change them: {} holds them as they are (--allow-requantize to round them)",
                 type_name(want), type_name(*exact)));
    }
    if (!fine(t.type))
      return fail(t, fmt::format("is {} and would be rounded again to {}: quantise the original model, or give --allow-requantize",
                                 type_name(t.type), type_name(want)));
    return {};
  }

  Status check_importance(const Tensor& t, TensorPlan& p) {
    const Imatrix::Entry* e = nullptr;
    if (o.imatrix) {
      if (auto it = o.imatrix->entries.find(t.name); it != o.imatrix->entries.end()) e = &it->second;
    }
    const i64 matrices = t.dims[2] * t.dims[3];
    if (e && (e->n_in != t.dims[0] || (e->n_matrices != matrices && e->n_matrices != 1)))
      return fail(t, fmt::format("the importance matrix has {} x {} numbers for it, its shape is {}", e->n_in, e->n_matrices, t.shape()));
    if (!format_info(p.to).needs_importance || (e && e->unused() < e->n_matrices)) return {};
    const std::string why = !o.imatrix ? "none was given (--imatrix FILE)"
                            : !e       ? fmt::format("{} has no entry for it", o.imatrix_path)
                                       : fmt::format("{} has no data for it", o.imatrix_path);
    return fail(t,
                fmt::format("{} needs an importance matrix, {}; or another type: --tensor-type '^{}$=Q2_K'", type_name(p.to), why, t.name));
  }

  Status add(const Tensor& t) {
    TensorPlan p;
    p.from = &t;
    p.to = t.type;
    p.folded = std::find(fold.names.begin(), fold.names.end(), t.name) != fold.names.end();
    p.embedding = fold.embedding && t.name == "token_embd.weight";
    if (is_quantizable(t.name, t.n_dims, t.rows()) && format_info(t.type).weights) {
      FEWBIT_OK(choose(t, p));
      FEWBIT_OK(check_importance(t, p));
    } else {
      p.copy = p.exact = true;
    }
    p.bytes = *tensor_bytes(p.to, u64(t.dims[0]), u64(t.rows()));
    plan.bytes_before += t.data.size();
    plan.bytes_after += p.bytes;
    plan.tensors.push_back(std::move(p));
    return {};
  }

  void metadata() {
    constexpr std::string_view ours[] = {"general.file_type", "general.quantization_version", "split.", "quantize.imatrix."};
    for (const KeyValue& kv : file.metadata()) {
      if (std::none_of(std::begin(ours), std::end(ours), [&](std::string_view k) { return kv.key.starts_with(k); }))
        plan.metadata.push_back(kv);
    }
    plan.metadata.push_back({"general.file_type", Value::of(recipe.file_type)});
    plan.metadata.push_back({"general.quantization_version", Value::of(u32(2))});
    plan.metadata.insert(plan.metadata.end(), fold.keys.begin(), fold.keys.end());
    if (!o.imatrix) return;
    const std::string name = o.imatrix_path.substr(o.imatrix_path.find_last_of('/') + 1);
    plan.metadata.push_back({"quantize.imatrix.file", Value::of(name)});
    if (!o.imatrix->datasets.empty()) plan.metadata.push_back({"quantize.imatrix.dataset", Value::of(o.imatrix->datasets[0])});
    plan.metadata.push_back({"quantize.imatrix.entries_count", Value::of(u32(o.imatrix->entries.size()))});
    plan.metadata.push_back({"quantize.imatrix.chunks_count", Value::of(u32(std::clamp<i64>(o.imatrix->chunks, 0, 0xffffffff)))});
  }
};

}  // namespace

bool is_exact_in(const Tensor& t, Type type, ThreadPool& pool) {
  if (!format_info(type).has_encoder || t.dims[0] % format_info(type).block != 0) return false;
  if (type == Type::I2_S) return is_exact_in_i2s(t, pool);
  std::atomic<bool> good{true};
  const size_t n = size_t(t.dims[0]);
  auto try_rows = [&](i64 begin, i64 end, int) {
    std::vector<f32> x(n), y(n);
    std::vector<u8> blocks(row_bytes(type, t.dims[0]));
    for (i64 r = begin; r < end && good; r++) {
      decode_tensor_row(t.type, t.data, r, t.dims[0], x);
      if (!encode_row(type, x, {}, blocks).ok()) {
        good = false;
        return;
      }
      decode_row(type, blocks, y);
      if (x != y) good = false;
    }
  };
  try_rows(0, std::min<i64>(t.rows(), 4), 0);  // nearly always the answer
  if (good) pool.for_range(t.rows(), std::max<i64>(1, 65536 / t.dims[0]), try_rows);
  return good;
}

Status fit_imatrix(Imatrix& imatrix, const File& file) {
  for (const Tensor& t : file.tensors()) FEWBIT_OK(imatrix.split(t.name, t.dims[0]));
  return {};
}

Result<QuantizePlan> plan_quantize(const File& file, const QuantizeOptions& o, ThreadPool& pool) {
  const Recipe* recipe = find_recipe(o.type);
  if (!recipe) return Error{Code::invalid_argument, fmt::format("unknown type '{}'; known: {}", o.type, recipe_names())};
  for (const auto& [text, type] : o.tensor_types) {
    if (!format_info(type).has_encoder || !format_info(type).weights || type == Type::Q2_0_LEGACY128)
      return Error{Code::invalid_argument, fmt::format("{}={}: this type cannot be written", text, type_name(type))};
  }
  Planner p{file, o, pool, *recipe};
  FEWBIT_OK(p.prepare());
  for (const Tensor& t : file.tensors()) FEWBIT_OK(p.add(t));
  for (size_t i = 0; i < p.rules.size(); i++) {
    if (!p.rules[i].used)
      p.plan.notes.push_back(fmt::format("'{}={}' names no tensor that is quantised", o.tensor_types[i].first, type_name(p.rules[i].type)));
  }
  p.metadata();
  return std::move(p.plan);
}

}  // namespace fewbit::gguf
