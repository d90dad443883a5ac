// The metadata and tensors of the known shapes (models.md), with a vocabulary of the real size.
#include <cmath>

#include "gguf/cursor.h"
#include "gguf/synth_shape.h"

namespace fewbit::gguf {

namespace {

struct Shape {
  const char *name, *arch;
  i64 n_layers, n_embd, n_heads, n_kv_heads, head_dim, n_ff, n_vocab;
  bool tied;
  f32 rope_base, epsilon;
  i64 context;
  i64 n_experts = 0, n_used = 0, n_expert_ff = 0, n_shared_ff = 0;
  i64 rope_dims = 0;                      // 0: head_dim
  i64 k_heads = 0, v_heads = 0, dim = 0;  // DeltaNet; every 4th layer is attention
  i64 rotation = 0;                       // block size of the Hadamard rotation
};

constexpr f32 base1 = 1e5f, base3 = 1e6f, base35 = 1e7f;
constexpr Shape shapes[] = {
    {"smollm2-135m", "llama", 30, 576, 9, 3, 64, 1536, 49152, true, base1, 1e-5f, 8192},
    {"qwen3-0.6b", "qwen3", 28, 1024, 16, 8, 128, 3072, 151936, true, base3, 1e-6f, 40960},
    {"qwen3-1.7b", "qwen3", 28, 2048, 16, 8, 128, 6144, 151936, true, base3, 1e-6f, 40960},
    {"qwen3-8b", "qwen3", 36, 4096, 32, 8, 128, 12288, 151936, false, base3, 1e-6f, 40960},
    {"qwen3-30b-a3b", "qwen3moe", 48, 2048, 32, 4, 128, 6144, 151936, false, base3, 1e-6f, 40960, 128, 8, 768},
    {"bonsai-27b", "qwen35", 64, 5120, 24, 4, 256, 17408, 248320, false, base35, 1e-6f, 262144, 0, 0, 0, 0, 64, 16, 48, 128},
    // the second generation: the same, rotated
    {"bonsai-2-27b", "qwen35", 64, 5120, 24, 4, 256, 17408, 248320, false, base35, 1e-6f, 262144, 0, 0, 0, 0, 64, 16, 48, 128, 1024},
    {"qwen35-35b-a3b", "qwen35moe", 40, 2048, 16, 2, 256, 0, 248320, false, base35, 1e-6f, 262144, 256, 8, 512, 512, 64, 16, 32, 128},
};

// Tokens of a byte-level BPE: the 256 bytes, then all words over a to z in order of length, each the word without its last letter
// plus that letter, then three control tokens.
void add_vocabulary(std::vector<KeyValue>& out, const Shape& s) {
  std::vector<std::string> tokens, merges;
  auto utf8 = [](int c) { return c < 0x80 ? std::string(1, char(c)) : std::string{char(0xc0 | c >> 6), char(0x80 | (c & 63))}; };
  int moved = 0;
  for (int b = 0; b < 256; b++) {
    const bool itself = (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
    tokens.push_back(utf8(itself ? b : 0x100 + moved++));
  }
  const i64 n_words = s.n_vocab - 256 - 3;
  std::vector<std::string> shorter;
  for (char c = 'a'; c <= 'z'; c++) shorter.emplace_back(1, c);
  for (i64 n = 0; n < n_words;) {
    std::vector<std::string> longer;
    for (const std::string& w : shorter) {
      for (char c = 'a'; c <= 'z' && n < n_words; c++, n++) {
        longer.push_back(w + c);
        merges.push_back(w + ' ' + c);
      }
    }
    tokens.insert(tokens.end(), longer.begin(), longer.end());
    shorter = std::move(longer);
  }
  std::vector<i64> types(tokens.size(), 1);
  for (const char* control : {"<|endoftext|>", "<|im_start|>", "<|im_end|>"}) {
    tokens.emplace_back(control);
    types.push_back(3);
  }
  const bool smollm = std::string_view(s.arch) == "llama";
  const char* pre = smollm ? "smollm" : s.dim ? "qwen35" : "qwen2";
  const u32 end_of_text = u32(s.n_vocab - 3);
  out.push_back({"tokenizer.ggml.model", Value::of(std::string("gpt2"))});
  out.push_back({"tokenizer.ggml.pre", Value::of(std::string(pre))});
  out.push_back({"tokenizer.ggml.tokens", Value::of(std::move(tokens))});
  out.push_back({"tokenizer.ggml.token_type", Value::of_i32s(std::move(types))});
  out.push_back({"tokenizer.ggml.merges", Value::of(std::move(merges))});
  out.push_back({"tokenizer.ggml.bos_token_id", Value::of(end_of_text)});
  out.push_back({"tokenizer.ggml.eos_token_id", Value::of(end_of_text + 2)});
  out.push_back({"tokenizer.ggml.padding_token_id", Value::of(end_of_text)});
  out.push_back({"tokenizer.ggml.add_bos_token", Value::of(false)});
  out.push_back({"tokenizer.chat_template",
                 Value::of(std::string("{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
                                       "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"))});
}

struct Planner {
  const Shape& s;
  const SynthOptions& options;
  i64 n_layers;
  Plan out;

  bool attention(i64 layer) const { return s.dim == 0 || (layer + 1) % 4 == 0; }
  bool moe() const { return s.n_experts > 0; }

  void metadata() {
    auto& m = out.metadata;
    const std::string a = std::string(s.arch) + ".";
    auto text = [&](const char* key, std::string v) { m.push_back({key, Value::of(std::move(v))}); };
    auto number = [&](const std::string& key, i64 v) { m.push_back({key, Value::of(u32(v))}); };
    auto real = [&](const std::string& key, f32 v) { m.push_back({key, Value::of(v)}); };
    text("general.architecture", s.arch);
    text("general.type", "model");
    text("general.name", fmt::format("{} with random weights", s.name));
    text("general.quantized_by", "fewbit synth");
    number("general.file_type", options.type == Type::F32                                  ? 0
                                : options.type == Type::PQ2_0                              ? 141
                                : options.type == Type::PTQ1_0                             ? 143
                                : options.type == Type::Q1_0 || options.type == Type::I2_S ? 40
                                                                                           : 1);
    number("general.quantization_version", 2);
    number(a + "vocab_size", s.n_vocab);
    number(a + "context_length", s.context);
    number(a + "embedding_length", s.n_embd);
    number(a + "block_count", n_layers);
    if (s.n_ff) number(a + "feed_forward_length", s.n_ff);
    number(a + "attention.head_count", s.n_heads);
    number(a + "attention.head_count_kv", s.n_kv_heads);
    number(a + "attention.key_length", s.head_dim);
    number(a + "attention.value_length", s.head_dim);
    real(a + "attention.layer_norm_rms_epsilon", s.epsilon);
    real(a + "rope.freq_base", s.rope_base);
    number(a + "rope.dimension_count", s.rope_dims ? s.rope_dims : s.head_dim);
    if (moe()) {
      number(a + "expert_count", s.n_experts);
      number(a + "expert_used_count", s.n_used);
      number(a + "expert_feed_forward_length", s.n_expert_ff);
      if (s.n_shared_ff) number(a + "expert_shared_feed_forward_length", s.n_shared_ff);
    }
    if (s.dim) {
      m.push_back({a + "rope.dimension_sections", Value::of_i32s({11, 11, 10, 0})});
      number(a + "ssm.conv_kernel", 4);
      number(a + "ssm.state_size", s.dim);
      number(a + "ssm.group_count", s.k_heads);
      number(a + "ssm.time_step_rank", s.v_heads);
      number(a + "ssm.inner_size", s.v_heads * s.dim);
      number(a + "full_attention_interval", 4);
    }
    add_vocabulary(m, s);
    if (s.rotation) rotation();
  }

  // Every matrix but alpha and beta takes a rotated input; signs from the seed.
  void rotation() {
    auto key = [&](const char* k, Value v) { out.metadata.push_back({std::string("prism.hadamard.") + k, std::move(v)}); };
    std::vector<std::string> names;
    std::vector<i64> widths, signs;
    for (const Planned& p : out.tensors) {
      const std::string& n = p.info.name;
      if (p.info.dims.size() < 2 || p.filling != Filling::weights || n == "token_embd.weight" || n.find("ssm_alpha") != n.npos ||
          n.find("ssm_beta") != n.npos || n.find("ssm_conv1d") != n.npos) {
        continue;
      }
      names.push_back(n);
    }
    for (i64 w : {s.n_embd, s.v_heads * s.dim, s.n_ff}) {
      widths.push_back(w);
      std::vector<u8> random(size_t(w) * 4);
      fill_random(Type::F32, random, 1, options.seed + u64(w));
      for (i64 i = 0; i < w; i++) signs.push_back(random[size_t(4 * i)] & 1 ? 1 : -1);
    }
    key("version", Value::of(u32(1)));
    key("block_size", Value::of(u32(s.rotation)));
    key("transform", Value::of(std::string("normalized-sylvester-walsh-hadamard")));
    key("axis", Value::of(std::string("input-last-dimension")));
    key("sign_mode", Value::of(std::string("explicit")));
    key("weight_names", Value::of(std::move(names)));
    key("sign_widths", Value::of_i32s(std::move(widths)));
    key("sign_values", Value::of_i32s(std::move(signs)));
    key("inverse_weight_names", Value::of(std::vector<std::string>{"token_embd.weight"}));
    key("gdn_v_grouped", Value::of(true));
  }

  Type type_for(i64 n_in, bool row_lookup) const {
    Type t = options.type;
    if (t == Type::I2_S && row_lookup) return Type::F16;  // as BitNet: its embedding stays in floats
    if (n_in % format_info(t).block == 0) return t;
    return n_in % format_info(Type::Q8_0).block == 0 ? Type::Q8_0 : Type::F16;
  }
  void add(std::string name, Type type, std::vector<i64> dims, Filling filling, f64 deviation) {
    out.tensors.push_back({{std::move(name), type, std::move(dims)}, filling, deviation});
  }
  void matrix(const std::string& name, std::vector<i64> dims, bool row_lookup = false) {
    const i64 n_in = dims[0];
    add(name, type_for(n_in, row_lookup), std::move(dims), Filling::weights, 1 / std::sqrt(f64(n_in)));
  }
  void small(const std::string& name, Type type, std::vector<i64> dims) {  // matrices that are never quantised
    const f64 deviation = 1 / std::sqrt(f64(dims[0]));
    add(name, type, std::move(dims), Filling::weights, deviation);
  }
  void norm(const std::string& name, i64 n) { add(name, Type::F32, {n}, Filling::norm, 0.1); }

  void tensors() {
    matrix("token_embd.weight", {s.n_embd, s.n_vocab}, true);
    norm("output_norm.weight", s.n_embd);
    if (!s.tied) matrix("output.weight", {s.n_embd, s.n_vocab}, true);
    for (i64 l = 0; l < n_layers; l++) {
      const std::string b = fmt::format("blk.{}.", l);
      norm(b + "attn_norm.weight", s.n_embd);
      if (attention(l)) {
        const i64 q = s.n_heads * s.head_dim, kv = s.n_kv_heads * s.head_dim;
        matrix(b + "attn_q.weight", {s.n_embd, s.dim ? 2 * q : q});  // with its gate
        matrix(b + "attn_k.weight", {s.n_embd, kv});
        matrix(b + "attn_v.weight", {s.n_embd, kv});
        matrix(b + "attn_output.weight", {q, s.n_embd});
        if (std::string_view(s.arch) != "llama") {
          norm(b + "attn_q_norm.weight", s.head_dim);
          norm(b + "attn_k_norm.weight", s.head_dim);
        }
      } else {
        const i64 inner = s.v_heads * s.dim, channels = 2 * s.k_heads * s.dim + inner;
        matrix(b + "attn_qkv.weight", {s.n_embd, channels});
        matrix(b + "attn_gate.weight", {s.n_embd, inner});
        small(b + "ssm_conv1d.weight", Type::F32, {4, channels});
        small(b + "ssm_beta.weight", Type::BF16, {s.n_embd, s.v_heads});
        small(b + "ssm_alpha.weight", Type::BF16, {s.n_embd, s.v_heads});
        add(b + "ssm_dt.bias", Type::F32, {s.v_heads}, Filling::step_bias, 1);
        add(b + "ssm_a", Type::F32, {s.v_heads}, Filling::decay, 1);
        norm(b + "ssm_norm.weight", s.dim);
        matrix(b + "ssm_out.weight", {inner, s.n_embd});
      }
      norm(b + (s.dim ? "post_attention_norm.weight" : "ffn_norm.weight"), s.n_embd);
      if (!moe()) {
        matrix(b + "ffn_gate.weight", {s.n_embd, s.n_ff});
        matrix(b + "ffn_up.weight", {s.n_embd, s.n_ff});
        matrix(b + "ffn_down.weight", {s.n_ff, s.n_embd});
        continue;
      }
      small(b + "ffn_gate_inp.weight", Type::F32, {s.n_embd, s.n_experts});
      matrix(b + "ffn_gate_exps.weight", {s.n_embd, s.n_expert_ff, s.n_experts});
      matrix(b + "ffn_up_exps.weight", {s.n_embd, s.n_expert_ff, s.n_experts});
      matrix(b + "ffn_down_exps.weight", {s.n_expert_ff, s.n_embd, s.n_experts});
      if (s.n_shared_ff) {
        small(b + "ffn_gate_inp_shexp.weight", Type::F32, {s.n_embd});
        matrix(b + "ffn_gate_shexp.weight", {s.n_embd, s.n_shared_ff});
        matrix(b + "ffn_up_shexp.weight", {s.n_embd, s.n_shared_ff});
        matrix(b + "ffn_down_shexp.weight", {s.n_shared_ff, s.n_embd});
      }
    }
  }
};

std::string list_of(const std::vector<std::string>& names) { return fmt::format("{}", fmt::join(names, ", ")); }
std::vector<std::string> weight_types() {
  std::vector<std::string> names;
  for (const FormatInfo& f : all_formats()) {
    if (f.weights && u32(f.type) <= 0xffff) names.push_back(f.name);
  }
  return names;
}

}  // namespace

std::vector<std::string> synth_shapes() {
  std::vector<std::string> names;
  for (const Shape& s : shapes) names.push_back(s.name);
  return names;
}

Result<SynthOptions> parse_synthetic(std::string_view text) {
  const size_t colon = text.find(':');
  SynthOptions o;
  o.shape = std::string(text.substr(0, colon));
  std::string type(colon == text.npos ? "" : text.substr(colon + 1));
  for (char& c : type) c = char(c >= 'a' && c <= 'z' ? c - 32 : c);
  const FormatInfo* f = find_format(type);
  if (!f || !f->weights || u32(f->type) > 0xffff) {
    return Error{Code::invalid_argument,
                 fmt::format("'{}': expected SHAPE:TYPE with a type of {}", printable(text), list_of(weight_types()))};
  }
  o.type = f->type;
  for (const Shape& s : shapes) {
    if (o.shape == s.name) return o;
  }
  return Error{Code::invalid_argument, fmt::format("shape '{}' is not one of {}", printable(o.shape), list_of(synth_shapes()))};
}

Result<Plan> plan_synthetic(const SynthOptions& options) {
  const FormatInfo* f = find_format(options.type);
  if (!f || !f->weights || u32(options.type) > 0xffff) {
    return Error{Code::invalid_argument, fmt::format("type {} is not one of {}", f ? f->name : "?", list_of(weight_types()))};
  }
  if (options.n_layers < 0 || options.n_layers > 1024) {
    return Error{Code::invalid_argument, fmt::format("{} layers, expected 1 to 1024", options.n_layers)};
  }
  for (const Shape& s : shapes) {
    if (options.shape != s.name) continue;
    Planner p{s, options, options.n_layers ? options.n_layers : s.n_layers, {}};
    p.tensors();
    p.metadata();
    return std::move(p.out);
  }
  return Error{Code::invalid_argument, fmt::format("shape '{}' is not one of {}", printable(options.shape), list_of(synth_shapes()))};
}

}  // namespace fewbit::gguf
