// Toy models with one thing changed at random: what a hostile or broken file may say about its graph.  Every one must be refused in one
// line or load; none may crash.  Used by a test and by the fuzz target.
#pragma once
#include <functional>
#include <memory>

#include "device/device.h"
#include "kernel/kernel.h"
#include "model/fold_model.h"
#include "model/model.h"
#include "model/toy_model.h"

namespace fewbit::model {

// Decisions, from a generator or from a fuzzer's bytes.
class Choices {
 public:
  explicit Choices(u64 seed) : state_(seed) {}
  explicit Choices(std::span<const u8> bytes) : bytes_(bytes), from_bytes_(true) {}
  u32 below(u32 n) { return n ? next() % n : 0; }

 private:
  u32 next() {
    if (from_bytes_) {
      u32 v = 0;
      for (int i = 0; i < 2; i++) v = v << 8 | (at_ < bytes_.size() ? bytes_[at_++] : 0);
      return v;
    }
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return u32(state_ >> 33);
  }
  u64 state_ = 0;
  std::span<const u8> bytes_;
  bool from_bytes_ = false;
  size_t at_ = 0;
};

inline gguf::Value strange_value(Choices& c) {
  using gguf::Value;
  const i64 numbers[] = {0,  1,   2,   3,   5,   7,   15,   16,   31,   32,    33,    63,      64,
                         65, 100, 127, 128, 255, 256, 1023, 1024, 4096, 65535, 65536, 1 << 20, 0x7fffffff};
  const f32 floats[] = {0, -0.0f, 1, -1, 1e-30f, 1e30f, INFINITY, -INFINITY, NAN, 0.5f, 4, 1e6f};
  switch (c.below(10)) {
    case 0:
      return Value::of(i32(-i64(c.below(3)) * 1000 - 1));
    case 1:
      return Value::of(floats[c.below(std::size(floats))]);
    case 2:
      return Value::of(std::string(c.below(2) ? "yarn" : ""));
    case 3:
      return Value::of(bool(c.below(2)));
    case 4:
      return Value::of(u64(1) << (32 + c.below(31)));
    case 5: {
      std::vector<i64> v(c.below(9));
      for (i64& x : v) x = numbers[c.below(std::size(numbers))];
      return Value::of_i32s(v);
    }
    case 6:
      return Value::of(std::vector<std::string>{"token_embd.weight", "output.weight"});
    default:
      return Value::of(u32(numbers[c.below(std::size(numbers))]));
  }
}

inline Toy mutated_toy(Choices& c) {
  std::string arch = toy_architectures[c.below(std::size(toy_architectures))];
  Toy t = toy_model(arch, 1 + c.below(3));
  bool rotatable = arch == "llama" || arch.starts_with("qwen3");
  if (rotatable && c.below(3) == 0) {
    Fold f;
    f.block = 16;
    f.signs = c.below(2);
    f.grouped = arch.starts_with("qwen35") && c.below(2);
    f.k_heads = 2;
    f.v_heads = 6;
    t = fold(std::move(t), f);
  }
  // Keys that the toys leave out, so that they come into play too.
  const char* further[] = {"rope.scaling.type",    "rope.scaling.factor",    "nextn_predict_layers", "attention.scale",
                           "attention.causal",     "rope.dimension_count",   "expert_count",         "expert_used_count",
                           "expert_weights_scale", "hidden_activation",      "rope.freq_base",       "attention.recurrent_layers",
                           "vocab_size",           "full_attention_interval"};
  for (u32 n = 1 + c.below(3); n > 0; n--) {
    switch (c.below(8)) {
      case 0:
        t.metadata.erase(t.metadata.begin() + 1 + c.below(u32(t.metadata.size() - 1)));
        break;
      case 1:
        t.set(arch + "." + further[c.below(std::size(further))], strange_value(c));
        break;
      case 2:
        t.tensors.erase(t.tensors.begin() + c.below(u32(t.tensors.size())));
        break;
      case 3: {  // another shape
        ToyTensor& x = t.tensors[c.below(u32(t.tensors.size()))];
        if (c.below(2)) {
          std::swap(x.dims.front(), x.dims.back());
        } else {
          x.dims[c.below(u32(x.dims.size()))] = 32 * i64(1 + c.below(4));
        }
        i64 total = 1;
        for (i64 d : x.dims) total *= d;
        x.values.resize(size_t(total));
        break;
      }
      case 4: {  // another type
        const Type types[] = {Type::F16, Type::BF16, Type::Q8_0, Type::Q4_0, Type::TQ2_0, Type::PQ2_0};
        ToyTensor& x = t.tensors[c.below(u32(t.tensors.size()))];
        Type y = types[c.below(std::size(types))];
        if (x.dims[0] % format_info(y).block == 0) x.type = y;
        break;
      }
      case 5:
        t.tensors[c.below(u32(t.tensors.size()))].name += "x";
        break;
      default:
        t.metadata[c.below(u32(t.metadata.size()))].value = strange_value(c);
        break;
    }
  }
  return t;
}

// Loads the bytes as a model would be: dry, then for real, then measures a pass.  True if it was a model.
inline bool load_mutated(std::span<const u8> bytes, Device& device, std::string* why = nullptr) {
  auto file = gguf::File::parse(bytes, "mutated");
  auto refuse = [&](const Error& e) {
    if (why) *why = e.what;
    FEWBIT_CHECK(!e.what.empty() && e.what.find('\n') == std::string::npos, "'%s'", e.what.c_str());
    return false;
  };
  if (!file.ok()) return refuse(file.error());
  auto kernels = kernel::kernels_for(device, kernel::Path::exact);
  FEWBIT_CHECK(kernels.ok());
  kernel::Ctx ctx;
  ctx.device = &device;
  ctx.k = *kernels;
  ctx.pool = device.pool();
  LoadOptions o;
  o.positions = 64;
  for (bool dry : {true, false}) {
    o.dry = dry;
    auto m = Model::load(*file, ctx, o);
    if (!m.ok()) return refuse(m.error());
    FEWBIT_CHECK((*m)->arena_bytes(ctx, 8, 2) > 0);
  }
  return true;
}

}  // namespace fewbit::model
