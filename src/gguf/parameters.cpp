// Check 10 of gguf.md section 3: hyper-parameters that become sizes, divisors or lengths of fixed arrays, and the tokeniser's arrays.
// Only what is present is judged, and only grossly: which keys a graph needs, and in which exact range, its own loader knows.
#include <cmath>

#include "gguf/reader.h"

namespace fewbit::gguf {

namespace {

struct Range {
  const char* key;  // behind "ARCH."
  i64 lo, hi;
  bool per_layer = false;  // may be an array with one number per layer, which may then be 0
};
constexpr i64 max_layers = 1024, max_width = i64(1) << 22, max_heads = 65536;
constexpr Range ranges[] = {
    {"block_count", 1, max_layers},
    {"nextn_predict_layers", 0, max_layers},
    {"context_length", 1, (i64(1) << 31) - 1},
    {"embedding_length", 1, max_width},
    {"vocab_size", 1, i64(1) << 26},
    {"feed_forward_length", 0, max_width, true},
    {"attention.head_count", 1, max_heads, true},
    {"attention.head_count_kv", 1, max_heads, true},
    {"attention.key_length", 1, 65536},
    {"attention.value_length", 1, 65536},
    {"rope.dimension_count", 1, 65536, true},
    {"rope.scaling.original_context_length", 1, (i64(1) << 31) - 1},
    {"expert_count", 0, 65536},
    {"expert_used_count", 0, 65536, true},
    {"expert_feed_forward_length", 0, max_width, true},
    {"expert_shared_feed_forward_length", 0, max_width},
    {"ssm.conv_kernel", 1, 1024},
    {"ssm.state_size", 1, 65536},
    {"ssm.group_count", 0, 65536},
    {"ssm.time_step_rank", 1, 65536},
    {"ssm.inner_size", 1, max_width},
    {"full_attention_interval", 1, max_layers},
};
constexpr const char* floats[] = {"attention.layer_norm_rms_epsilon",
                                  "attention.scale",
                                  "rope.freq_base",
                                  "rope.scaling.factor",
                                  "rope.scale_linear",
                                  "rope.scaling.attn_factor",
                                  "rope.scaling.yarn_ext_factor",
                                  "rope.scaling.yarn_attn_factor",
                                  "rope.scaling.yarn_beta_fast",
                                  "rope.scaling.yarn_beta_slow",
                                  "expert_weights_scale"};

struct Checker {
  const File& file;
  const Reader& reader;

  template <class... A>
  Error fail(std::string_view key, fmt::format_string<A...> f, A&&... a) const {
    return reader.c.fail(reader.key_at(key), "key '{}' {}", printable(key), fmt::format(f, std::forward<A>(a)...));
  }

  Status range(const std::string& arch, const Range& r, i64 layers) const {
    const std::string key = arch + "." + r.key;
    const Value* v = file.find(key);
    if (!v) return {};
    if (v->is_array() && r.per_layer) {
      auto all = v->as_ints();
      if (!all) return fail(key, "is of type {}, expected integers", v->type_text());
      if (layers > 0 && i64(all->size()) != layers) return fail(key, "has {} numbers for {} layers", all->size(), layers);
      for (i64 x : *all) {
        if (x < 0 || x > r.hi) return fail(key, "holds {}, expected 0 to {}", x, r.hi);
      }
      return {};
    }
    auto got = file.get_int(key, {}, r.lo, r.hi);
    if (got.ok()) return {};
    if (auto x = v->as_int()) return fail(key, "is {}, expected {} to {}", *x, r.lo, r.hi);
    return fail(key, "({}) is not an integer of {} to {}", v->type_text(), r.lo, r.hi);
  }

  i64 scalar(const std::string& key) const {  // 0: absent, or an array
    const Value* v = file.find(key);
    auto x = v && !v->is_array() ? v->as_int() : std::nullopt;
    return x.value_or(0);
  }

  Status shape(const std::string& arch) const {
    const i64 layers = scalar(arch + ".block_count");
    for (const Range& r : ranges) FEWBIT_OK(range(arch, r, layers));
    for (const char* f : floats) {
      const std::string key = arch + "." + f;
      const Value* v = file.find(key);
      if (!v) continue;
      auto x = v->as_float();
      if (!x) return fail(key, "is of type {}, expected a float", v->type_text());
      if (!std::isfinite(*x) || *x < -1e30 || *x > 1e30) return fail(key, "is {}, out of range", *x);
    }
    if (const Value* v = file.find(arch + ".rope.freq_base"); v && !(*v->as_float() > 0)) {
      return fail(arch + ".rope.freq_base", "is {}, expected more than 0", *v->as_float());
    }
    if (const Value* v = file.find(arch + ".attention.layer_norm_rms_epsilon"); v && !(*v->as_float() >= 0 && *v->as_float() <= 1)) {
      return fail(arch + ".attention.layer_norm_rms_epsilon", "is {}, expected 0 to 1", *v->as_float());
    }
    const std::string sections = arch + ".rope.dimension_sections";
    if (const Value* v = file.find(sections)) {
      auto all = v->as_ints();
      if (!all || all->size() > 4) return fail(sections, "({}) is not a list of at most 4 integers", v->type_text());
      for (i64 x : *all) {
        if (x < 0 || x > 32768) return fail(sections, "holds {}, expected 0 to 32768", x);
      }
    }
    if (layers > 0 && scalar(arch + ".nextn_predict_layers") >= layers) {
      return fail(arch + ".nextn_predict_layers", "is {}, of {} layers", scalar(arch + ".nextn_predict_layers"), layers);
    }
    if (i64 used = scalar(arch + ".expert_used_count"); used > scalar(arch + ".expert_count")) {
      return fail(arch + ".expert_used_count", "is {}, of {} experts", used, scalar(arch + ".expert_count"));
    }
    const i64 heads = scalar(arch + ".attention.head_count"), kv = scalar(arch + ".attention.head_count_kv");
    const i64 width = scalar(arch + ".embedding_length");
    if (heads > 0 && width > 0 && width % heads != 0 && !file.find(arch + ".attention.key_length")) {
      return fail(arch + ".attention.head_count", "is {}, which does not divide the embedding length {}, and there is no key_length", heads,
                  width);
    }
    if (heads > 0 && kv > 0 && heads % kv != 0)
      return fail(arch + ".attention.head_count_kv", "is {}, which does not divide {} heads", kv, heads);
    return {};
  }

  Status vocabulary() const {
    auto list = [&](const char* key, ValueType element) -> Result<i64> {  // length; -1: absent
      const Value* v = file.find(key);
      if (!v) return i64(-1);
      if (!v->is_array() || v->element != element) {
        return fail(key, "is of type {}, expected array of {}", v->type_text(), value_type_name(element));
      }
      return i64(std::visit(
          [](const auto& x) -> size_t {
            if constexpr (requires { x.size(); }) return x.size();
            return 0;
          },
          v->v));
    };
    FEWBIT_TRY(i64 tokens, list("tokenizer.ggml.tokens", ValueType::string));
    FEWBIT_TRY(i64 scores, list("tokenizer.ggml.scores", ValueType::f32));
    FEWBIT_TRY(i64 types, list("tokenizer.ggml.token_type", ValueType::i32));
    FEWBIT_TRY([[maybe_unused]] i64 merges, list("tokenizer.ggml.merges", ValueType::string));
    for (auto [key, n] : {std::pair("tokenizer.ggml.scores", scores), {"tokenizer.ggml.token_type", types}}) {
      if (n >= 0 && tokens < 0) return fail(key, "has {} elements, but tokenizer.ggml.tokens is missing", n);
      if (n >= 0 && n != tokens) return fail(key, "has {} elements for {} tokens", n, tokens);
    }
    // Special ids out of range are ignored with a warning where they are used (tokenizer.md section 1); here only their kind counts.
    for (const KeyValue& kv : file.metadata()) {
      if (!kv.key.starts_with("tokenizer.ggml.") || !kv.key.ends_with("_token_id")) continue;
      if (kv.value.is_array() || (!std::holds_alternative<u64>(kv.value.v) && !std::holds_alternative<i64>(kv.value.v))) {
        return fail(kv.key, "is of type {}, expected an integer", kv.value.type_text());
      }
    }
    return {};
  }
};

}  // namespace

Status check_parameters(const File& file, const Reader& reader) {
  const Checker check{file, reader};
  if (const Value* v = file.find("general.architecture")) {
    const std::string* arch = v->as_string();
    if (!arch) return check.fail("general.architecture", "is of type {}, expected string", v->type_text());
    if (arch->empty() || arch->size() > 64) return check.fail("general.architecture", "is a name of {} bytes", arch->size());
    FEWBIT_OK(check.shape(*arch));
  }
  return check.vocabulary();
}

}  // namespace fewbit::gguf
