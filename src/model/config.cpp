#include "model/config.h"

#include <fmt/format.h>

#include <cmath>

namespace fewbit::model {
namespace {

// models.md sections 4 to 11.
constexpr ArchitectureTraits architectures[] = {
    {.name = "llama", .neox = false, .rotation_verified = true, .may_have_experts = true, .full_head_rotation = true},
    {.name = "qwen2"},
    {.name = "qwen3", .rotation_verified = true},
    {.name = "qwen3moe", .rotation_verified = true, .experts = true},
    {.name = "qwen35", .rotation_verified = true, .delta = true, .multi_axis = true},
    {.name = "qwen35moe", .rotation_verified = true, .experts = true, .shared_expert = true, .delta = true, .multi_axis = true},
    {.name = "qwen3next", .rotation_verified = true, .experts = true, .shared_expert = true, .delta = true},
    {.name = "bitnet", .bitnet = true},
    {.name = "bitnet-b1.58", .bitnet = true, .relu2 = true},
    {.name = "bitnet-25", .bitnet = true, .relu2 = true},
};

// Upper bounds that no real model reaches; products of any two of them fit an i64, and of those used together an int.
constexpr i64 max_layers = 1024, max_width = 1 << 18, max_heads = 4096, max_head_dim = 1024, max_vocab = 1 << 23, max_experts = 4096,
              max_used = 64, max_context = 1 << 26, max_taps = 16;

Error bad(std::string what) { return {Code::bad_file, std::move(what)}; }

// Reads keys below "{architecture}."; the first error stays.
class Reader {
 public:
  Reader(const gguf::File& file, std::string prefix) : file_(file), prefix_(std::move(prefix)) {}
  Status status() const { return failed_ ? Status(error_) : Status(); }
  bool ok() const { return !failed_; }
  void fail(std::string what) {
    if (!failed_) error_ = bad(std::move(what));
    failed_ = true;
  }
  std::string key(std::string_view k) const { return prefix_ + "." + std::string(k); }
  bool has(std::string_view k) const { return file_.find(key(k)) != nullptr; }

  i64 integer(std::string_view k, std::optional<i64> absent, i64 lo, i64 hi) { return take(file_.get_int(key(k), absent, lo, hi), i64(0)); }
  f64 number(std::string_view k, std::optional<f64> absent, f64 lo, f64 hi) {
    f64 v = take(file_.get_float(key(k), absent), 0.0);
    if (ok() && !(v >= lo && v <= hi)) fail(fmt::format("{} is {}, allowed {} to {}", key(k), v, lo, hi));
    return v;
  }
  bool boolean(std::string_view k, bool absent) { return take(file_.get_bool(key(k), absent), absent); }
  std::string string(std::string_view k, std::string absent) { return take(file_.get_string(key(k), absent), absent); }

  // One number, or one per block of the file.
  std::vector<i64> per_layer(std::string_view k, std::optional<i64> absent, i64 blocks, i64 lo, i64 hi) {
    const gguf::Value* v = file_.find(key(k));
    if (!v || !v->is_array()) return std::vector<i64>(size_t(blocks), integer(k, absent, lo, hi));
    auto numbers = v->as_ints();
    if (!numbers || i64(numbers->size()) < blocks) {
      fail(fmt::format("{}: wants one integer or {} of them (one per block), has {}", key(k), blocks,
                       numbers ? fmt::format("{}", numbers->size()) : "another type"));
      return std::vector<i64>(size_t(blocks), lo);
    }
    numbers->resize(size_t(blocks));
    for (size_t i = 0; i < numbers->size(); i++)
      if ((*numbers)[i] < lo || (*numbers)[i] > hi) fail(fmt::format("{}[{}] is {}, allowed {} to {}", key(k), i, (*numbers)[i], lo, hi));
    return *numbers;
  }

 private:
  template <class R, class T>
  T take(R&& r, T otherwise) {
    if (r.ok()) return *r;
    if (!failed_) error_ = r.error();
    failed_ = true;
    return otherwise;
  }
  const gguf::File& file_;
  std::string prefix_;
  Error error_;
  bool failed_ = false;
};

void read_rope(Reader& r, Config& c) {
  RopeConfig& o = c.rope;
  o.neox = c.arch->neox;
  o.n_rot = int(r.integer("rope.dimension_count", c.head_dim, 2, c.head_dim > 1 ? c.head_dim : 2));
  o.base = r.number("rope.freq_base", 10000.0, 1.0 + 1e-6, 1e30);
  std::string type = r.string("rope.scaling.type", "linear");
  o.factor = r.number("rope.scaling.factor", r.has("rope.scale_linear") ? r.number("rope.scale_linear", 1.0, 0, 1e6) : 1.0, 0, 1e6);
  if (o.factor == 0 || type == "none") o.factor = 1;
  o.ext = r.number("rope.scaling.yarn_ext_factor", type == "yarn" ? 1.0 : 0.0, -1, 1e3);
  if (o.ext < 0) o.ext = type == "yarn" ? 1 : 0;
  o.attn_factor = r.number("rope.scaling.attn_factor", 1.0, 0, 1e6) * r.number("rope.scaling.yarn_attn_factor", 1.0, 0, 1e6);
  o.beta_fast = r.number("rope.scaling.yarn_beta_fast", 32.0, 1e-6, 1e9);
  o.beta_slow = r.number("rope.scaling.yarn_beta_slow", 1.0, 1e-6, 1e9);
  o.original_context = f64(r.integer("rope.scaling.original_context_length", c.n_ctx_train, 1, max_context));
  if (!r.ok()) return;
  if (type != "linear" && type != "yarn" && type != "none")
    return r.fail(fmt::format("{} is '{}'; fewbit knows none, linear and yarn", r.key("rope.scaling.type"), type));
  if (o.factor < 1e-3) return r.fail(fmt::format("{} is {}, allowed 0 or 0.001 and more", r.key("rope.scaling.factor"), o.factor));
  if (o.n_rot % 2) return r.fail(fmt::format("{} is {}, must be even", r.key("rope.dimension_count"), o.n_rot));
  if (c.arch->full_head_rotation && o.n_rot != c.head_dim)
    return r.fail(fmt::format("{} is {}, but architecture {} rotates whole heads of {}", r.key("rope.dimension_count"), o.n_rot,
                              c.architecture, c.head_dim));
}

void read_sections(Reader& r, const gguf::File& file, Config& c) {
  if (!c.arch->multi_axis || !r.ok()) return;
  std::string key = r.key("rope.dimension_sections");
  const gguf::Value* v = file.find(key);
  if (!v) return r.fail(fmt::format("key '{}' is missing", key));
  auto s = v->is_array() ? v->as_ints() : std::nullopt;
  if (!s || s->size() != 4) return r.fail(fmt::format("{}: wants an array of 4 integers", key));
  for (size_t i = 0; i < 4; i++) {
    if ((*s)[i] < 0 || (*s)[i] > max_head_dim) return r.fail(fmt::format("{}[{}] is {}, allowed 0 to {}", key, i, (*s)[i], max_head_dim));
    c.rope.sections[i] = (*s)[i];
  }
  c.rope.multi_axis = true;
}

void read_experts(Reader& r, Config& c, i64 n_ff) {
  if (!c.arch->experts && !c.arch->may_have_experts) return;
  ExpertConfig& e = c.experts;
  e.count = int(r.integer("expert_count", c.arch->experts ? std::nullopt : std::optional<i64>(0), c.arch->experts ? 1 : 0, max_experts));
  if (!r.ok() || e.count == 0) return;
  e.used = int(r.integer("expert_used_count", std::nullopt, 1, std::min<i64>(max_used, e.count)));
  if (!r.ok()) return;
  // llama keeps the width of an expert in feed_forward_length itself (models.md 4.1)
  i64 width = c.arch->experts ? n_ff / e.used : n_ff;
  e.n_ff = int(r.integer("expert_feed_forward_length", width, 1, max_width));
  if (r.ok() && e.n_ff == 0) r.fail(fmt::format("key '{}' is missing", r.key("expert_feed_forward_length")));
  if (c.arch->shared_expert) { e.n_ff_shared = int(r.integer("expert_shared_feed_forward_length", n_ff ? n_ff : e.n_ff, 1, max_width)); }
  f64 scale = r.number("expert_weights_scale", 0.0, -1e6, 1e6);
  e.scale = scale == 0 ? 1.0f : f32(scale);
}

void read_delta(Reader& r, const gguf::File& file, Config& c) {
  if (!c.arch->delta) return;
  DeltaConfig& d = c.delta;
  d.conv = int(r.integer("ssm.conv_kernel", std::nullopt, 2, max_taps));
  d.dim = int(r.integer("ssm.state_size", std::nullopt, 1, max_head_dim));
  d.k_heads = int(r.integer("ssm.group_count", std::nullopt, 1, max_heads));
  d.v_heads = int(r.integer("ssm.time_step_rank", std::nullopt, 1, max_heads));
  i64 inner = r.integer("ssm.inner_size", std::nullopt, 1, max_heads * max_head_dim);
  if (!r.ok()) return;
  if (d.v_heads % d.k_heads)
    return r.fail(fmt::format("{}: {} V heads cannot share {} K heads evenly", r.key("ssm.time_step_rank"), d.v_heads, d.k_heads));
  if (inner != i64(d.v_heads) * d.dim)
    return r.fail(
        fmt::format("{} is {}, but {} V heads of {} make {}", r.key("ssm.inner_size"), inner, d.v_heads, d.dim, i64(d.v_heads) * d.dim));
  i64 interval = r.integer("full_attention_interval", 4, 1, max_layers);
  for (size_t i = 0; i < c.layers.size(); i++) c.layers[i].recurrent = (i64(i) + 1) % interval != 0;

  std::string key = r.key("attention.recurrent_layers");
  const gguf::Value* v = file.find(key);
  if (!v) return;
  auto list = v->is_array() ? v->as_ints() : std::nullopt;
  if (!list) return r.fail(fmt::format("{}: wants an array of booleans or integers", key));
  // One flag per block, or the numbers of the recurrent blocks.
  bool flags = list->size() >= c.layers.size() && std::all_of(list->begin(), list->end(), [](i64 x) { return x == 0 || x == 1; });
  if (!flags)
    for (LayerConfig& l : c.layers) l.recurrent = false;
  for (size_t i = 0; i < list->size(); i++) {
    i64 x = (*list)[i];
    if (flags) {
      if (i < c.layers.size()) c.layers[i].recurrent = x != 0;
    } else if (x < 0 || x >= i64(c.layers.size())) {
      return r.fail(fmt::format("{}[{}] is {}, the model has {} layers", key, i, x, c.layers.size()));
    } else {
      c.layers[size_t(x)].recurrent = true;
    }
  }
}

void read_heads(Reader& r, Config& c, i64 blocks) {
  std::vector<i64> q = r.per_layer("attention.head_count", std::nullopt, blocks, 0, max_heads);
  if (!r.ok()) return;
  i64 first = 0;
  for (i64 n : q)
    if (n && !first) first = n;
  std::vector<i64> kv = r.has("attention.head_count_kv") ? r.per_layer("attention.head_count_kv", std::nullopt, blocks, 0, max_heads) : q;
  for (size_t i = 0; i < c.layers.size() && r.ok(); i++) {
    LayerConfig& l = c.layers[i];
    l.n_heads = int(q[i]);
    l.n_kv_heads = int(kv[i]);
    if (l.recurrent) continue;
    if (l.n_heads == 0 || l.n_kv_heads == 0)
      return r.fail(fmt::format("{} of layer {}: {} query and {} KV heads; both must be at least 1", r.key("attention.head_count"), i,
                                l.n_heads, l.n_kv_heads));
    if (l.n_heads % l.n_kv_heads)
      return r.fail(fmt::format("{} of layer {}: {} query heads cannot share {} KV heads evenly", r.key("attention.head_count"), i,
                                l.n_heads, l.n_kv_heads));
  }
  if (!r.ok()) return;
  if (!first) return r.fail(fmt::format("{} is 0", r.key("attention.head_count")));
  bool given = r.has("attention.key_length");
  c.head_dim = int(r.integer("attention.key_length", c.n_embd / first, 1, max_head_dim));
  i64 value = r.integer("attention.value_length", given ? c.head_dim : c.n_embd / first, 1, max_head_dim);
  if (!r.ok()) return;
  if (!given && c.n_embd % first)
    return r.fail(
        fmt::format("{} is {}, which does not divide {} = {}", r.key("attention.head_count"), first, r.key("embedding_length"), c.n_embd));
  if (value != c.head_dim)
    return r.fail(fmt::format("{} is {}, {} is {}: heads of two widths are not supported", r.key("attention.value_length"), value,
                              r.key("attention.key_length"), c.head_dim));
  if (c.head_dim % 2) return r.fail(fmt::format("{} is {}, must be even", r.key("attention.key_length"), c.head_dim));
}

void read_vocab(Reader& r, const gguf::File& file, Config& c) {
  i64 tokens = 0;
  if (const gguf::Value* v = file.find("tokenizer.ggml.tokens"))
    if (const auto* s = v->as_strings()) tokens = i64(s->size());
  const gguf::Tensor* table = file.tensor("token_embd.weight");
  i64 absent = tokens ? tokens : table ? table->dims[1] : 0;
  if (!tokens && !table && !r.has("vocab_size"))
    return r.fail("there is no vocabulary: tokenizer.ggml.tokens and token_embd.weight are missing");
  c.n_vocab = int(r.integer("vocab_size", absent, 0, max_vocab));
  if (r.ok() && (c.n_vocab < 1 || c.n_vocab > max_vocab))
    r.fail(fmt::format("vocabulary of {} tokens, allowed 1 to {}", c.n_vocab, max_vocab));
}

}  // namespace

const ArchitectureTraits* find_architecture(std::string_view name) {
  for (const ArchitectureTraits& a : architectures)
    if (name == a.name) return &a;
  return nullptr;
}

std::string architecture_names() {
  std::string all;
  for (const ArchitectureTraits& a : architectures) all += (all.empty() ? "" : ", ") + std::string(a.name);
  return all;
}

Result<Config> Config::read(const gguf::File& file) {
  Config c;
  FEWBIT_TRY(c.architecture, file.get_string("general.architecture", std::nullopt));
  c.arch = find_architecture(c.architecture);
  if (!c.arch)
    return Error{Code::unsupported,
                 fmt::format("architecture '{}' is not supported; fewbit knows {}", c.architecture, architecture_names())};
  if (const gguf::Value* v = file.find("general.name"))
    if (const std::string* s = v->as_string()) c.name = *s;

  Reader r(file, c.architecture);
  i64 blocks = r.integer("block_count", std::nullopt, 1, max_layers);
  c.n_mtp = int(r.integer("nextn_predict_layers", 0, 0, max_layers));
  c.n_ctx_train = int(r.integer("context_length", std::nullopt, 1, max_context));
  c.n_embd = int(r.integer("embedding_length", std::nullopt, 1, max_width));
  c.eps = f32(r.number("attention.layer_norm_rms_epsilon", std::nullopt, 0, 1));
  FEWBIT_OK(r.status());
  if (c.n_mtp >= blocks) return bad(fmt::format("{} is {}, the file has {} blocks", r.key("nextn_predict_layers"), c.n_mtp, blocks));
  c.n_layers = int(blocks) - c.n_mtp;
  c.layers.resize(size_t(c.n_layers));

  if (!r.boolean("attention.causal", true))
    return Error{Code::unsupported,
                 fmt::format("{} is false: models without causal attention are not supported", r.key("attention.causal"))};
  read_delta(r, file, c);
  read_heads(r, c, blocks);
  FEWBIT_OK(r.status());
  c.attention_scale = f32(r.number("attention.scale", 0.0, 0, 1e6));
  if (c.attention_scale == 0) c.attention_scale = f32(1 / std::sqrt(f64(c.head_dim)));

  // Models of experts only may leave the dense width out.
  bool dense = !c.arch->experts;
  std::vector<i64> ff = r.per_layer("feed_forward_length", dense ? std::nullopt : std::optional<i64>(0), blocks, dense ? 1 : 0, max_width);
  FEWBIT_OK(r.status());
  for (size_t i = 0; i < c.layers.size(); i++) c.layers[i].n_ff = int(ff[i]);
  read_experts(r, c, ff[0]);
  read_rope(r, c);
  read_sections(r, file, c);
  read_vocab(r, file, c);

  if (c.arch->bitnet) {
    std::string act = r.string("hidden_activation", c.arch->relu2 ? "relu2" : "silu");
    bool relu2 = act == "relu2" || act == "relu_sqr" || act == "relu^2" || act == "squared_relu";
    if (r.ok() && !relu2 && act != "silu" && act != "swish")
      r.fail(fmt::format("{} is '{}'; fewbit knows silu and relu2", r.key("hidden_activation"), act));
    c.activation = relu2 || c.arch->relu2 ? kernel::Glu::relu2 : kernel::Glu::silu;
  }
  FEWBIT_OK(r.status());
  return c;
}

}  // namespace fewbit::model
