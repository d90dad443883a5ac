#include "runtime/plan.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <fstream>
#include <functional>

#include "base/log.h"
#include "gguf/synth.h"
#include "kernel/ceiling.h"
#include "kernel/verify.h"

namespace fewbit::runtime {
namespace {

constexpr u64 driver_bytes = 128 << 20;  // more than was seen taken beside the allocations of a 27B model; kernels load when first used

std::string size_text(u64 bytes) {
  if (bytes >= u64(10) << 30) return fmt::format("{:.1f} GiB", f64(bytes) / (1 << 30));
  if (bytes >= u64(1) << 30) return fmt::format("{:.2f} GiB", f64(bytes) / (1 << 30));
  return fmt::format("{:.1f} MiB", f64(bytes) / (1 << 20));
}

// What the process holds already: program, libraries, vocabulary.
u64 resident_bytes() {
  std::ifstream in("/proc/self/statm");
  u64 total = 0, resident = 0;
  in >> total >> resident;
  return resident * u64(sysconf(_SC_PAGESIZE));
}

Status check_options(const EngineOptions& o) {
  auto range = [](const char* name, i64 v, i64 lo, i64 hi) -> Status {
    if (v >= lo && v <= hi) return {};
    return Error{Code::invalid_argument, fmt::format("{} is {}, allowed {} to {}", name, v, lo, hi)};
  };
  FEWBIT_OK(range("context (-c)", o.n_ctx, 0, 1 << 26));
  FEWBIT_OK(range("sequences (-np)", o.n_seqs, 1, 4096));
  FEWBIT_OK(range("ubatch (-ub)", o.ubatch, 1, 1 << 16));
  FEWBIT_OK(range("checkpoints", o.checkpoints, 0, 64));
  FEWBIT_OK(range("logits", o.logits, 0, 1 << 16));
  if (o.model.empty() == o.synthetic.empty())
    return Error{Code::invalid_argument, "one of a model file and a synthetic shape must be given"};
  return {};
}

// The largest context that fits beside everything else, in whole pages; 0 if none does.
i64 context_that_fits(const Prepared& p, StateOptions o, u64 rope_row) {
  u64 fixed = p.plan.steady() - p.plan.kv - rope_row * u64(p.options.n_ctx);
  if (fixed >= p.plan.available) return 0;
  o.n_ctx = StateCache::page_tokens;
  u64 page = StateCache::kv_bytes(p.state, o) + rope_row * u64(StateCache::page_tokens);
  return page ? i64((p.plan.available - fixed) / page) * StateCache::page_tokens : 0;
}

Error too_large(const Prepared& p, u64 rope_row) {
  std::string text = fmt::format("not enough memory: {}", p.plan.text());
  std::string would;
  if (i64 n = context_that_fits(p, p.state_options, rope_row); n > 0) would = fmt::format("-c {}", std::min<i64>(n, p.options.n_ctx));
  for (Type t : {Type::Q8_0, Type::Q4_0}) {
    StateOptions o = p.state_options;
    o.k_type = o.v_type = t;
    if (row_bytes(Type::F32, 32) == 0 || !StateCache::check(p.state, o).ok()) continue;
    if (StateCache::kv_bytes(p.state, o) >= p.plan.kv) continue;
    const char* name = t == Type::Q8_0 ? "q8_0" : "q4_0";
    if (i64 n = context_that_fits(p, o, rope_row); n > 0)
      would += fmt::format("{}-c {} -ctk {} -ctv {}", would.empty() ? "" : ", or ", std::min<i64>(n, p.options.n_ctx), name, name);
  }
  if (would.empty()) {
    const bool cpu = p.device->kind() == DeviceKind::cpu, weights = p.plan.weights_mapped + p.plan.weights_packed > p.plan.available;
    would =
        fmt::format("no context: {} {}", weights ? "the weights alone are too large for" : "the weights leave too little for the rest on",
                    cpu ? "this machine" : p.device->id() + " (--device cpu is left)");
  }
  return {Code::out_of_memory, fmt::format("{}; would fit: {}", text, would)};
}

// The fewest groups of weights in their densest form with which the plan fits; all of them if it never does.
Status fit_weights(Prepared& p, kernel::Ctx& ctx, const std::function<void(const model::Footprint&)>& count_weights) {
  auto fits = [&](int groups) -> Result<bool> {
    p.options.dense_groups = groups;
    FEWBIT_TRY(std::unique_ptr<model::Model> dry, model::Model::load(p.file, ctx, load_options(p.options, true)));
    count_weights(dry->footprint());
    return p.plan.total() <= p.plan.available;
  };
  int low = p.options.dense_groups, high = p.plan.groups;  // low does not fit
  FEWBIT_TRY(bool possible, fits(high));
  if (!possible) return {};
  while (high - low > 1) {
    const int middle = low + (high - low) / 2;
    FEWBIT_TRY(bool enough, fits(middle));
    (enough ? high : low) = middle;
  }
  FEWBIT_TRY(possible, fits(high));
  FEWBIT_CHECK(possible, "%d groups", high);
  return {};
}

}  // namespace

std::string MemoryPlan::text() const {
  std::string t =
      fmt::format("{} of {} free: weights {}", size_text(total()), size_text(available), size_text(weights_mapped + weights_packed));
  if (weights_packed && weights_mapped) t += fmt::format(" ({} packed)", size_text(weights_packed));
  if (dense_groups) t += fmt::format(", {} of {} groups in their densest form", dense_groups, groups);
  t += fmt::format(", KV {}", size_text(kv));
  if (state) t += fmt::format(", state {}", size_text(state));
  t += fmt::format(", scratch {}, other {}", size_text(scratch), size_text(other));
  if (loading > steady()) t += fmt::format("; {} while loading", size_text(loading));
  if (probe) t += fmt::format("; before that {} to measure the bandwidth", size_text(probe));
  return t;
}

Result<gguf::File> open_file(const EngineOptions& o, bool fill) {
  if (o.synthetic.empty()) return gguf::File::open(o.model, {.q2_0_legacy = o.q2_0_legacy});
  FEWBIT_TRY(gguf::SynthOptions s, gguf::parse_synthetic(o.synthetic));
  s.n_layers = o.layers;
  s.seed = o.seed;
  s.n_threads = o.threads;
  s.fill = fill;
  s.cancel = o.cancel;
  return gguf::synthesize(s);
}

model::LoadOptions load_options(const EngineOptions& o, bool dry) {
  model::LoadOptions l;
  l.place.repack = o.repack;
  l.act_int8 = o.act_int8;
  l.positions = o.n_ctx;
  l.in_memory = !o.synthetic.empty();
  l.dry = dry;
  l.dense_groups = o.dense_groups;
  l.omit = model::omissions_from_environment();
  l.cancel = o.cancel;
  if (!dry) l.progress = o.progress;
  return l;
}

std::string device_for(const std::string& device, bool exact) { return exact && device == "auto" ? "cpu" : device; }

Status check_kernel_limits(const model::Config& c, DeviceKind device) {
  bool attention = false, delta = false;
  for (const auto& l : c.layers) (l.recurrent ? delta : attention) = true;
  if (attention && c.head_dim % 16)
    return Error{Code::unsupported, fmt::format("attention heads of {} numbers: only multiples of 16 are supported", c.head_dim)};
  if (delta && c.delta.dim % 16)
    return Error{Code::unsupported, fmt::format("DeltaNet heads of {} numbers: only multiples of 16 are supported", c.delta.dim)};
  if (device == DeviceKind::cpu) return {};
  if (attention && c.head_dim > 256)
    return Error{Code::unsupported, fmt::format("attention heads of {} numbers: a GPU takes at most 256 (--device cpu)", c.head_dim)};
  if (delta && (!std::has_single_bit(unsigned(c.delta.dim)) || c.delta.dim > 128))
    return Error{Code::unsupported, fmt::format("DeltaNet heads of {} numbers: a GPU takes 16, 32, 64 or 128 (--device cpu)", c.delta.dim)};
  if (delta && c.delta.conv > 8)
    return Error{Code::unsupported, fmt::format("a convolution over {} tokens: a GPU takes at most 8 (--device cpu)", c.delta.conv)};
  return {};
}

// Whether a device has kernels for every type in the file.
static bool runs_all_types(const gguf::File& file, const kernel::Kernels& kernels) {
  return std::all_of(file.tensors().begin(), file.tensors().end(), [&](const gguf::Tensor& t) {
    kernel::HostTensor h;
    h.type = t.type, h.cols = 512, h.rows = 16;
    return t.n_dims < 2 || kernels.describe(h, {}).ok();
  });
}

Result<Prepared> prepare(const EngineOptions& options) {
  FEWBIT_OK(check_options(options));
  Prepared p;
  p.options = options;
  EngineOptions& o = p.options;
  FEWBIT_TRY(p.device, open_device(device_for(o.device, o.act_int8 || o.path == kernel::Path::exact), {.threads = o.threads}));
  FEWBIT_TRY(p.file, open_file(o, false));
  FEWBIT_TRY(model::Config config, model::Config::read(p.file));
  FEWBIT_OK(check_kernel_limits(config, DeviceKind::cpu));
  if (p.device->kind() != DeviceKind::cpu) {
    const bool automatic = o.device == "auto";
    Status fits = check_kernel_limits(config, p.device->kind());
    if (automatic && fits.ok()) {
      FEWBIT_TRY(const kernel::Kernels* there, kernel::kernels_for(*p.device, o.path));
      if (!runs_all_types(p.file, *there))
        fits = Error{Code::unsupported, fmt::format("{} has no kernel for a type of this model", p.device->id())};
    }
    if (!fits.ok() && !automatic) return fits.error();
    if (!fits.ok()) {
      log::warn("{}: it runs on the CPU", fits.error().what);
      FEWBIT_TRY(p.device, open_device("cpu", {.threads = o.threads}));
    }
  }

  if (o.act_int8) o.path = kernel::Path::exact;  // a reference mode: one rounding, everything else exact
  if (o.path == kernel::Path::exact) o.k_type = o.v_type = Type::F32;

  if (!p.file.find("tokenizer.ggml.model")) {
    p.tokenizer_problem = "the file has no vocabulary (tokenizer.ggml.model)";
  } else if (auto t = text::Tokenizer::load(p.file, o.tokenizer_pre); t.ok()) {
    p.tokenizer = std::move(*t);
  } else {
    p.tokenizer_problem = t.error().what;
  }

  p.n_vocab = config.n_vocab;
  p.n_ctx_train = config.n_ctx_train;
  i64 need = 0;
  if (o.positions) { FEWBIT_TRY(need, o.positions(p)); }
  if (need > (o.n_ctx ? o.n_ctx : config.n_ctx_train)) {
    std::string why = o.n_ctx ? fmt::format("the context (-c) has {}", o.n_ctx)
                              : fmt::format("the model was trained for {} (-c {} goes beyond)", config.n_ctx_train, need);
    return Error{Code::invalid_argument, fmt::format("{} positions are needed, {}", need, why)};
  }
  if (o.n_ctx == 0) o.n_ctx = need ? int(need) : std::min(4096, config.n_ctx_train);
  if (o.n_ctx > config.n_ctx_train) log::warn("a context of {} positions: the model was trained for {}", o.n_ctx, config.n_ctx_train);
  o.ubatch = int(std::min<i64>(o.ubatch, i64(o.n_ctx) * o.n_seqs));
  if (p.device->kind() != DeviceKind::cpu)  // more at once gains nothing there, and a grid has at most 65535 columns of experts
    o.ubatch = std::min({o.ubatch, 8192, 65535 / std::max(1, config.experts.used)});
  if (o.logits == 0) o.logits = std::max(o.n_seqs, 16);
  o.logits = std::max(o.logits, int(std::min(o.logits_bytes / (u64(config.n_vocab) * sizeof(f32)), u64(o.ubatch))));
  FEWBIT_TRY(p.kernels, kernel::tested_kernels_for(*p.device, o.path));

  kernel::Ctx ctx;
  ctx.device = p.device.get();
  ctx.k = p.kernels;
  ctx.pool = p.device->pool();
  ctx.stream = p.device->stream();
  FEWBIT_TRY(std::unique_ptr<model::Model> dry, model::Model::load(p.file, ctx, load_options(o, true)));
  p.state = dry->state();
  p.state_options = {o.n_seqs, o.n_ctx, o.checkpoints, o.k_type, o.v_type};
  FEWBIT_OK(StateCache::check(p.state, p.state_options));

  int heads = 1;
  for (const auto& l : config.layers) heads = std::max(heads, l.n_heads);
  p.arena_bytes = dry->arena_bytes(ctx, o.ubatch, std::min(o.ubatch, o.logits));
  const bool cpu = p.device->kind() == DeviceKind::cpu;
  p.scratch_bytes = p.kernels->scratch_bytes(o.ubatch, config.experts.used, dry->max_width(), heads, config.head_dim, o.n_ctx);

  MemoryPlan& m = p.plan;
  u64 resident = cpu ? resident_bytes() : 0;
  if (o.probe) m.probe = resident + kernel::ceiling_bytes(*p.device);
  m.kv = StateCache::kv_bytes(p.state, p.state_options);
  m.state = StateCache::recurrent_bytes(p.state, p.state_options);
  m.scratch = p.arena_bytes + p.scratch_bytes;
  m.available = p.device->memory_free() + resident;
  // What the driver takes as kernels are loaded and graphs recorded.
  const u64 driver = cpu ? 0 : driver_bytes;
  auto count_weights = [&](const model::Footprint& f) {
    m.loading = resident + driver + p.scratch_bytes + f.peak;
    m.weights_mapped = f.mapped;
    m.weights_packed = f.packed;
    m.other = resident + driver + f.other + u64(o.logits) * u64(config.n_vocab) * sizeof(f32);
    m.dense_groups = o.dense_groups;
    m.groups = f.groups;
  };
  count_weights(dry->footprint());
  if (m.total() > m.available && !cpu) FEWBIT_OK(fit_weights(p, ctx, count_weights));
  if (m.total() > m.available) return too_large(p, u64(config.rope.n_rot) * sizeof(f32));
  return p;
}

}  // namespace fewbit::runtime
