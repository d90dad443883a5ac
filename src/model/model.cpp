#include "model/model.h"

#include <algorithm>

namespace fewbit::model {

static std::unique_ptr<Model> make(std::string_view architecture) {
  struct {
    const char* name;
    std::unique_ptr<Model> (*make)();
  } const list[] = {
      {"llama", make_llama},         {"qwen2", make_llama},         {"qwen3", make_qwen3},         {"qwen3moe", make_qwen3moe},
      {"qwen35", make_qwen35},       {"qwen35moe", make_qwen35moe}, {"qwen3next", make_qwen3next}, {"bitnet", make_bitnet},
      {"bitnet-b1.58", make_bitnet}, {"bitnet-25", make_bitnet},
  };
  for (const auto& a : list)
    if (architecture == a.name) return a.make();
  FEWBIT_CHECK(false, "no graph for an architecture that Config accepts");
  return nullptr;
}

Result<std::unique_ptr<Model>> Model::load(const gguf::File& file, kernel::Ctx& ctx, const LoadOptions& options) {
  FEWBIT_TRY(Config config, Config::read(file));
  FEWBIT_TRY(std::optional<Hadamard> hadamard, Hadamard::read(file, config));
  if (options.act_int8 && !config.arch->bitnet)
    return Error{Code::invalid_argument, "the int8 activation mode belongs to the bitnet architectures; this is " + config.architecture};
  std::unique_ptr<Model> m = make(config.architecture);
  m->config_ = std::move(config);
  Builder b(file, m->config_, std::move(hadamard), ctx, options, m->storage_);
  b.place_embedding(m->embedding_, m->head_);
  m->output_norm_ = b.floats("output_norm.weight", {m->config_.n_embd});
  m->rope_ = b.rope_table();
  for (int i = 0; i < m->config_.n_layers && b.ok(); i++) m->read_layer(b, i);
  FEWBIT_OK(b.finish());
  if (options.progress) options.progress(1);
  return m;
}

bool StateSpec::any_recurrent() const {
  return std::any_of(layers.begin(), layers.end(), [](const Layer& l) { return l.recurrent(); });
}

u64 StateSpec::recurrent_bytes() const {
  u64 n = 0;
  for (const Layer& l : layers) n += u64(l.conv_floats + l.state_floats) * sizeof(f32);
  return n;
}

StateSpec Model::state() const {
  StateSpec s;
  const DeltaConfig& d = config_.delta;
  for (const LayerConfig& l : config_.layers) {
    StateSpec::Layer out;
    if (l.recurrent) {
      out.conv_floats = i64(d.conv - 1) * d.channels();
      out.state_floats = i64(d.v_heads) * d.dim * d.dim;
    } else {
      out.n_kv_heads = l.n_kv_heads;
      out.head_dim = config_.head_dim;
    }
    s.layers.push_back(out);
  }
  return s;
}

// The embedding is the head, too.
bool Model::tied() const {
  return std::none_of(storage_.weights.begin(), storage_.weights.end(), [](const auto& w) { return w.name == "output.weight"; });
}

u64 Model::bytes_per_token() const {
  u64 n = state().recurrent_bytes();
  for (const kernel::Weight& w : storage_.weights) {
    if (w.name == "token_embd.weight" && !tied()) {
      n += w.bytes / u64(w.rows);
    } else {
      n += w.experts > 1 ? w.bytes / u64(w.experts) * u64(config_.experts.used) : w.bytes;
    }
  }
  return n;
}

u64 Model::macs_per_token() const {
  u64 n = 0;
  for (const kernel::Weight& w : storage_.weights) {
    if (w.name == "token_embd.weight" && !tied()) continue;
    n += u64(w.rows * w.cols) * u64(w.experts > 1 ? config_.experts.used : 1);
  }
  return n;
}

int Model::max_width() const {
  i64 n = config_.n_embd;
  for (const kernel::Weight& w : storage_.weights) {
    const bool words = w.name == "token_embd.weight" || w.name == "output.weight";
    n = std::max({n, w.cols, words ? 0 : w.rows});
  }
  return int(n);
}

u64 Model::arena_bytes(kernel::Ctx& ctx, int cols, int wanted) const {
  Pass p(ctx, config_, {}, true);
  p.batch.cols = cols;
  f32* x = trunk(p);
  head(p, x, nullptr, wanted, nullptr);
  static const i32 any = 0;
  head(p, x, &any, wanted, nullptr);
  return p.peak();
}

f32* Model::trunk(Pass& p) const {
  f32* x = p.floats(i64(p.cols()) * config_.n_embd);
  p.embed(embedding_, x);
  for (int i = 0; i < config_.n_layers && !p.cancelled(); i++) {
    run_layer(p, i, x);
    p.layer_done(i, x);
  }
  return x;
}

void Model::head(Pass& p, const f32* x, const i32* index, int count, f32* logits) const {
  Pass::Scope scope(p);
  int d = config_.n_embd;
  const f32* wanted = x;
  if (index) {
    f32* h = p.floats(i64(count) * d);
    p.gather(x, index, count, d, h);
    wanted = h;
  }
  Input in = p.input(wanted, d, count, output_norm_, {&head_});
  p.multiply(in, {{&head_, logits, config_.n_vocab}});
}

}  // namespace fewbit::model
