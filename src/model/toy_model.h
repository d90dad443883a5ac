// Tiny models of every architecture with random weights, for tests: all of their metadata and tensors, open to changes before they are
// loaded.
#pragma once
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "base/bits.h"
#include "gguf/gguf.h"
#include "gguf/serialize.h"

namespace fewbit::model {

struct ToyTensor {
  std::string name;
  std::vector<i64> dims;  // fastest first
  std::vector<f32> values;
  Type type = Type::F32;
};

struct Toy {
  std::vector<gguf::KeyValue> metadata;
  std::vector<ToyTensor> tensors;
  u64 state = 1;

  f32 normal() {  // sum of uniforms: near enough
    f32 s = 0;
    for (int i = 0; i < 4; i++) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      s += f32(state >> 40) * 0x1p-24f - 0.5f;
    }
    return s;
  }
  void set(const std::string& key, gguf::Value v) {
    for (auto& kv : metadata)
      if (kv.key == key) {
        kv.value = std::move(v);
        return;
      }
    metadata.push_back({key, std::move(v)});
  }
  void erase(const std::string& key) {
    std::erase_if(metadata, [&](const auto& kv) { return kv.key == key; });
  }
  ToyTensor& tensor(const std::string& name) {
    for (auto& t : tensors)
      if (t.name == name) return t;
    FEWBIT_CHECK(false, "no tensor %s", name.c_str());
    return tensors[0];
  }
  void drop(const std::string& name) {
    std::erase_if(tensors, [&](const auto& t) { return t.name == name; });
  }
  void add(std::string name, std::vector<i64> dims, f32 mean = 0, f32 deviation = -1) {
    i64 n = 1;
    for (i64 d : dims) n *= d;
    if (deviation < 0) deviation = 1 / std::sqrt(f32(dims[0]));
    std::vector<f32> v(static_cast<size_t>(n));
    for (f32& x : v) x = mean + deviation * normal();
    tensors.push_back({std::move(name), std::move(dims), std::move(v)});
  }

  std::vector<u8> bytes() const {
    std::vector<gguf::Writer::TensorInfo> infos;
    for (const auto& t : tensors) infos.push_back({t.name, t.type, t.dims});
    auto layout = gguf::serialize(metadata, infos, 0);
    FEWBIT_CHECK(layout.ok(), "%s", layout.error().what.c_str());
    std::vector<u8> out(layout->file_bytes);
    std::memcpy(out.data(), layout->head.data(), layout->head.size());
    for (size_t i = 0; i < tensors.size(); i++) {
      std::span<u8> to(out.data() + layout->head.size() + layout->offsets[i], layout->sizes[i]);
      Status s = encode_tensor(tensors[i].type, tensors[i].values, tensors[i].dims[0], {}, to);
      FEWBIT_CHECK(s.ok(), "%s", s.error().what.c_str());
    }
    return out;
  }
};

// d 64, head 32, vocabulary 96, 4 blocks; DeltaNet 2 K heads, 6 V heads of 16; 4 experts of 48, 2 used: no two widths that could be
// confused.
inline Toy toy_model(const std::string& arch, u64 seed = 1) {
  Toy t;
  t.state = seed;
  auto u = [](u32 v) { return gguf::Value::of(v); };
  auto key = [&](const char* k) { return arch + "." + k; };
  bool delta = arch.starts_with("qwen35") || arch == "qwen3next";
  bool moe = arch == "qwen3moe" || arch == "qwen35moe" || arch == "qwen3next", bitnet = arch.starts_with("bitnet");
  bool head_norms = arch.starts_with("qwen3"), tied = arch == "qwen3" || bitnet;
  i64 d = 64, hd = 32, nq = 4, nkv = 2, ff = 160, vocab = 96, layers = 4;
  i64 hk = 2, hv = 6, dim = 16, taps = 4, channels = (2 * hk + hv) * dim, experts = 4, eff = 48, sff = 80;
  t.set("general.architecture", gguf::Value::of(arch));
  t.set(key("block_count"), u(u32(layers)));
  t.set(key("context_length"), u(512));
  t.set(key("embedding_length"), u(u32(d)));
  t.set(key("vocab_size"), u(u32(vocab)));
  t.set(key("attention.head_count"), u(u32(nq)));
  t.set(key("attention.head_count_kv"), u(u32(nkv)));
  t.set(key("attention.key_length"), u(u32(hd)));
  t.set(key("attention.value_length"), u(u32(hd)));
  t.set(key("attention.layer_norm_rms_epsilon"), gguf::Value::of(1e-6f));
  t.set(key("rope.freq_base"), gguf::Value::of(10000.0f));
  if (moe) {
    t.set(key("expert_count"), u(u32(experts)));
    t.set(key("expert_used_count"), u(2));
    t.set(key("expert_feed_forward_length"), u(u32(eff)));
    if (delta) t.set(key("expert_shared_feed_forward_length"), u(u32(sff)));
  } else {
    t.set(key("feed_forward_length"), u(u32(ff)));
  }
  if (delta) {
    t.set(key("rope.dimension_count"), u(u32(hd / 4)));
    if (arch != "qwen3next") t.set(key("rope.dimension_sections"), gguf::Value::of_i32s({2, 1, 1, 0}));
    t.set(key("ssm.conv_kernel"), u(u32(taps)));
    t.set(key("ssm.state_size"), u(u32(dim)));
    t.set(key("ssm.group_count"), u(u32(hk)));
    t.set(key("ssm.time_step_rank"), u(u32(hv)));
    t.set(key("ssm.inner_size"), u(u32(hv * dim)));
    t.set(key("full_attention_interval"), u(4));
  }
  t.add("token_embd.weight", {d, vocab}, 0, 1);
  t.add("output_norm.weight", {d}, 1, 0.1f);
  if (!tied) t.add("output.weight", {d, vocab});
  for (i64 i = 0; i < layers; i++) {
    auto name = [&](const char* s) { return "blk." + std::to_string(i) + "." + s; };
    t.add(name("attn_norm.weight"), {d}, 1, 0.1f);
    if (delta && (i + 1) % 4) {
      t.add(name("attn_qkv.weight"), {d, channels});
      t.add(name("attn_gate.weight"), {d, hv * dim});
      t.add(name("ssm_conv1d.weight"), {taps, channels});
      if (arch == "qwen3next") {
        t.add(name("ssm_ba.weight"), {d, 2 * hv});
      } else {
        t.add(name("ssm_beta.weight"), {d, hv});
        t.add(name("ssm_alpha.weight"), {d, hv});
      }
      t.add(name("ssm_dt.bias"), {hv}, 0, 1);
      t.add(name("ssm_a"), {hv}, -1, 0.3f);
      t.add(name("ssm_norm.weight"), {dim}, 1, 0.1f);
      t.add(name("ssm_out.weight"), {hv * dim, d});
    } else {
      t.add(name("attn_q.weight"), {d, nq * hd * (delta ? 2 : 1)});
      t.add(name("attn_k.weight"), {d, nkv * hd});
      t.add(name("attn_v.weight"), {d, nkv * hd});
      if (arch == "qwen2") {
        t.add(name("attn_q.bias"), {nq * hd}, 0, 1);
        t.add(name("attn_k.bias"), {nkv * hd}, 0, 1);
        t.add(name("attn_v.bias"), {nkv * hd}, 0, 1);
      }
      if (head_norms) {
        t.add(name("attn_q_norm.weight"), {hd}, 1, 0.1f);
        t.add(name("attn_k_norm.weight"), {hd}, 1, 0.1f);
      }
      if (bitnet) t.add(name("attn_sub_norm.weight"), {nq * hd}, 1, 0.1f);
      t.add(name("attn_output.weight"), {nq * hd, d});
    }
    t.add(name(delta ? "post_attention_norm.weight" : "ffn_norm.weight"), {d}, 1, 0.1f);
    if (moe) {
      t.add(name("ffn_gate_inp.weight"), {d, experts}, 0, 0.5f);
      t.add(name("ffn_gate_exps.weight"), {d, eff, experts});
      t.add(name("ffn_up_exps.weight"), {d, eff, experts});
      t.add(name("ffn_down_exps.weight"), {eff, d, experts});
      if (delta) {
        t.add(name("ffn_gate_inp_shexp.weight"), {d});
        t.add(name("ffn_gate_shexp.weight"), {d, sff});
        t.add(name("ffn_up_shexp.weight"), {d, sff});
        t.add(name("ffn_down_shexp.weight"), {sff, d});
      }
    } else {
      t.add(name("ffn_gate.weight"), {d, ff});
      t.add(name("ffn_up.weight"), {d, ff});
      if (bitnet) t.add(name("ffn_sub_norm.weight"), {ff}, 1, 0.1f);
      t.add(name("ffn_down.weight"), {ff, d});
    }
  }
  return t;
}

inline const char* const toy_architectures[] = {"llama",     "qwen2",     "qwen3",  "qwen3moe",     "qwen35",
                                                "qwen35moe", "qwen3next", "bitnet", "bitnet-b1.58", "bitnet-25"};

}  // namespace fewbit::model
