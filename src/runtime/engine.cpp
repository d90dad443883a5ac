#include "runtime/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/bits.h"
#include "base/log.h"
#include "runtime/plan.h"
#include "runtime/replay.h"

namespace fewbit::runtime {
namespace {

// What `bench` calls the model: "qwen3 1.7B PQ2_0", by the type of most of its bytes.
std::string describe(const model::Model& m, i64 parameters) {
  std::map<Type, u64> bytes;
  for (const kernel::Weight& w : m.weights()) bytes[w.type] += w.bytes;
  auto most = std::max_element(bytes.begin(), bytes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  std::string size =
      parameters >= 1'000'000'000 ? fmt::format("{:.1f}B", f64(parameters) / 1e9) : fmt::format("{:.0f}M", f64(parameters) / 1e6);
  return fmt::format("{} {} {}", m.config().architecture, size, type_name(most->first));
}

class EngineImpl final : public Engine {
 public:
  explicit EngineImpl(Prepared p) : p_(std::move(p)), cache_(*p_.device, p_.state, p_.state_options), replay_(*p_.device) {}
  Status load();

  const EngineOptions& options() const override { return p_.options; }
  const ModelInfo& info() const override { return info_; }
  const MemoryPlan& memory() const override { return p_.plan; }
  const gguf::File& file() const override { return p_.file; }
  const text::Tokenizer* tokenizer() const override { return p_.tokenizer ? &*p_.tokenizer : nullptr; }
  const std::string& tokenizer_problem() const override { return p_.tokenizer_problem; }
  Device& device() override { return *p_.device; }
  std::span<const kernel::Weight> weights() const override { return model_->weights(); }

  Result<SequenceId> new_sequence() override {
    FEWBIT_TRY(int seq, cache_.add());
    return SequenceId{seq};
  }
  void free_sequence(SequenceId s) override {
    if (cache_.exists(s.index)) cache_.remove(s.index);
  }
  int length(SequenceId s) const override { return cache_.exists(s.index) ? cache_.length(s.index) : 0; }
  Result<int> truncate(SequenceId s, int n) override {
    FEWBIT_OK(known(s));
    return cache_.truncate(s.index, n);
  }
  Status checkpoint(SequenceId s) override {
    FEWBIT_OK(known(s));
    return cache_.checkpoint(s.index);
  }
  Result<SequenceId> fork(SequenceId s) override {
    FEWBIT_OK(known(s));
    FEWBIT_TRY(int to, cache_.fork(s.index));
    return SequenceId{to};
  }

  Result<std::span<const f32>> step(std::span<const StepItem> items) override;
  Result<std::span<const Token>> step_argmax(std::span<const StepItem> items) override;

  Status finite() const override {
    if (non_finite_.empty()) return {};
    return Error{Code::bad_file, fmt::format("{}: {} of some token is not finite: the weights may be broken (fewbit inspect --check looks)",
                                             p_.file.path(), non_finite_)};
  }
  void record_launches(std::vector<kernel::Launch>* to) override { ctx_.launches = to; }
  void tap_inputs(InputTap tap) override { tap_ = std::move(tap); }
  void trace_layers(LayerTrace trace) override { trace_ = std::move(trace); }

 private:
  Status known(SequenceId s) const {
    if (cache_.exists(s.index)) return {};
    return Error{Code::invalid_argument, fmt::format("there is no sequence {}", s.index)};
  }
  int vocab() const { return model_->config().n_vocab; }
  Status check(std::span<const StepItem> items) const;
  // All items in passes; `wanted` logits go to `logits` (host) or, with `ids`, their argmax there.
  Status run(std::span<const StepItem> items, f32* logits, Token* ids);
  int fill(std::span<const StepItem> items, size_t& item, int& at);
  void pass(int wanted, f32* logits, Token* ids);
  void note_non_finite(std::span<const f32> logits);
  void note_non_finite_on_device();

  Prepared p_;
  ModelInfo info_;
  kernel::Ctx ctx_;
  std::unique_ptr<model::Model> model_;
  StateCache cache_;
  Replay replay_;
  Buffer arena_, scratch_, ints_, logits_, ids_;
  model::InputTap tap_;
  model::LayerTrace trace_;
  int non_finite_layer_ = -1;
  std::string non_finite_;

  // The arrays of kernel::Batch, one after another in one allocation, filled here and uploaded as one.
  struct Arrays {
    i64 token, pos, seq, first, slot, index, pages, size;
  } at_{};
  std::vector<i32> host_ints_;
  kernel::Batch batch_;
  std::vector<f32> host_logits_;
  std::vector<Token> host_ids_;
  std::vector<int> lengths_;  // of the step's sequences before it
};

Status EngineImpl::load() {
  const EngineOptions& o = p_.options;
  ctx_.device = p_.device.get();
  ctx_.k = p_.kernels;
  ctx_.pool = p_.device->pool();
  ctx_.stream = p_.device->stream();
  auto get = [&](u64 bytes, Buffer& to) -> Status {
    FEWBIT_TRY(to, p_.device->allocate(std::max<u64>(bytes, 256)));
    if (p_.device->kind() == DeviceKind::cpu) p_.device->zero(to.data(), to.bytes());
    return {};
  };
  if (!o.synthetic.empty()) {
    p_.file = gguf::File();  // its vocabulary is large: not two of them
    FEWBIT_TRY(p_.file, open_file(o, true));
  }
  if (o.cancel && *o.cancel) return Error{Code::cancelled, "cancelled while loading"};
  FEWBIT_OK(get(p_.scratch_bytes, scratch_));
  ctx_.scratch = scratch_.data();
  ctx_.scratch_bytes = scratch_.bytes();
  FEWBIT_TRY(model_, model::Model::load(p_.file, ctx_, load_options(o, false)));
  FEWBIT_OK(cache_.allocate());
  FEWBIT_OK(get(p_.arena_bytes, arena_));
  FEWBIT_OK(get(u64(o.logits) * u64(vocab()) * sizeof(f32), logits_));
  FEWBIT_OK(get(u64(o.ubatch) * sizeof(i32), ids_));

  i64 cols = o.ubatch, seqs = o.n_seqs, used = 0;
  auto take = [&](i64 n) { return std::exchange(used, used + round_up(n, 64)); };
  at_ = {take(cols), take(cols), take(cols), take(seqs + 1), take(seqs), take(cols), take(seqs * cache_.max_pages()), 0};
  at_.size = used;
  host_ints_.resize(size_t(used));
  FEWBIT_OK(get(u64(used) * sizeof(i32), ints_));
  i32* base = ints_.as<i32>();
  batch_.token = base + at_.token;
  batch_.pos = base + at_.pos;
  batch_.seq = base + at_.seq;
  batch_.first = base + at_.first;
  batch_.slot = base + at_.slot;
  batch_.page_table = base + at_.pages;
  batch_.max_pages = cache_.max_pages();
  if (p_.device->kind() != DeviceKind::cpu) host_logits_.resize(size_t(o.logits) * size_t(vocab()));
  host_ids_.reserve(size_t(o.ubatch));
  lengths_.reserve(size_t(o.n_seqs));

  const model::Config& c = model_->config();
  for (const gguf::Tensor& t : p_.file.tensors()) info_.parameters += t.elements();
  info_.architecture = c.architecture;
  info_.name = c.name;
  info_.type = describe(*model_, info_.parameters);
  info_.file_bytes = p_.file.file_bytes();
  info_.bytes_per_token = model_->bytes_per_token();
  info_.macs_per_token = model_->macs_per_token();
  info_.vocab = c.n_vocab;
  info_.hidden = c.n_embd;
  info_.layers = c.n_layers;
  info_.n_ctx_train = c.n_ctx_train;
  p_.device->synchronize();
  return {};
}

Status EngineImpl::check(std::span<const StepItem> items) const {
  for (size_t i = 0; i < items.size(); i++) {
    const StepItem& it = items[i];
    FEWBIT_OK(known(it.seq));
    for (size_t j = 0; j < i; j++)
      if (items[j].seq.index == it.seq.index)
        return Error{Code::invalid_argument, fmt::format("sequence {} occurs twice in a step", it.seq.index)};
    i64 n = cache_.length(it.seq.index) + i64(it.tokens.size());
    if (n > p_.options.n_ctx)
      return Error{Code::invalid_argument, fmt::format("{} tokens do not fit the context of {} (-c)", n, p_.options.n_ctx)};
    for (Token t : it.tokens)
      if (t < 0 || t >= vocab()) return Error{Code::invalid_argument, fmt::format("token {} is not in the vocabulary of {}", t, vocab())};
    for (size_t w = 0; w < it.want.size(); w++)
      if (it.want[w] < 0 || it.want[w] >= int(it.tokens.size()) || (w > 0 && it.want[w] <= it.want[w - 1]))
        return Error{Code::invalid_argument,
                     fmt::format("wanted column {} of {}: must lie in the step and ascend", it.want[w], it.tokens.size())};
  }
  return {};
}

// Takes up to ubatch columns from where (item, at) stands, into the host arrays; returns how many of them are wanted.
int EngineImpl::fill(std::span<const StepItem> items, size_t& item, int& at) {
  i32* h = host_ints_.data();
  int wanted = 0, max_pos = 0;
  batch_.cols = batch_.seqs = batch_.max_seq_cols = 0;
  for (; item < items.size() && batch_.cols < p_.options.ubatch; item++, at = 0) {
    const StepItem& it = items[item];
    int left = int(it.tokens.size()) - at, n = std::min(left, p_.options.ubatch - batch_.cols), seq = it.seq.index;
    if (n == 0) continue;
    int start = cache_.length(seq), s = batch_.seqs++;
    for (int i = 0; i < n; i++) {
      int c = batch_.cols + i;
      h[at_.token + c] = it.tokens[size_t(at + i)];
      h[at_.pos + c] = start + i;
      h[at_.seq + c] = s;
    }
    for (int w : it.want)
      if (w >= at && w < at + n) h[at_.index + wanted++] = batch_.cols + w - at;
    h[at_.first + s] = batch_.cols;
    h[at_.slot + s] = cache_.slot(seq);
    std::span<const i32> pages = cache_.pages(seq);
    std::copy(pages.begin(), pages.end(), h + at_.pages + i64(s) * batch_.max_pages);
    batch_.cols += n;
    batch_.max_seq_cols = std::max(batch_.max_seq_cols, n);
    max_pos = std::max(max_pos, start + n - 1);
    cache_.advance(seq, n);
    if (n < left) {
      at += n;
      break;
    }
  }
  h[at_.first + batch_.seqs] = batch_.cols;
  batch_.max_pos = position_bucket(max_pos, p_.options.n_ctx);
  return wanted;
}

void EngineImpl::pass(int wanted, f32* logits, Token* ids) {
  const i32* h = host_ints_.data();
  i32* base = ints_.as<i32>();
  p_.device->upload(base, h, u64(at_.pages + i64(batch_.seqs) * batch_.max_pages) * sizeof(i32));
  bool host_memory = p_.device->kind() == DeviceKind::cpu, in_order = true;
  for (int w = 0; w < wanted; w++) in_order &= h[at_.index + w] == w;
  const i32* index = in_order ? nullptr : base + at_.index;
  int capacity = p_.options.logits;

  model::Pass pass(ctx_, model_->config(), {arena_.as<u8>(), size_t(arena_.bytes())}, false);
  pass.batch = batch_;
  pass.states = cache_.layers();
  pass.rope = model_->rope();
  pass.tap = tap_ ? &tap_ : nullptr;
  pass.trace = trace_ ? &trace_ : nullptr;
  pass.non_finite_layer = host_memory ? &non_finite_layer_ : nullptr;
  // A few columns are done before anybody notices; what is recorded for a GPU must be whole.
  pass.cancel = host_memory && batch_.cols > 16 ? p_.options.cancel : nullptr;

  auto head = [&](const f32* x, int from, int count, f32* to) {
    const i32* some = index ? index + from : nullptr;
    model_->head(pass, some ? x : x + i64(from) * model_->config().n_embd, some, count, to);
    if (host_memory) note_non_finite({to, size_t(count) * size_t(vocab())});
    if (ids) ctx_.k->argmax(ctx_, to, vocab(), count, ids_.as<i32>() + from);
  };
  bool direct = host_memory && !ids && logits;  // CPU: logits are written where the caller reads them
  bool plain = !ctx_.launches && !tap_ && !trace_ && wanted <= capacity && !host_memory;
  if (plain) {
    StepShape shape{batch_.cols, batch_.seqs, batch_.max_seq_cols, batch_.max_pos, wanted, in_order, ids != nullptr};
    replay_.run(shape, [&] {
      model::Pass::Scope scope(pass);
      f32* x = model_->trunk(pass);
      if (wanted) head(x, 0, wanted, logits_.as<f32>());
    });
    if (wanted && !ids) p_.device->download(logits, logits_.data(), u64(wanted) * u64(vocab()) * sizeof(f32));
  } else {
    f32* x = model_->trunk(pass);
    if (pass.cancelled()) return;
    for (int from = 0; from < wanted; from += capacity) {
      int n = std::min(capacity, wanted - from);
      f32* to = direct ? logits + i64(from) * vocab() : logits_.as<f32>();
      head(x, from, n, to);
      if (!ids && !direct) p_.device->download(logits + i64(from) * vocab(), to, u64(n) * u64(vocab()) * sizeof(f32));
    }
  }
  if (wanted && ids) p_.device->download(ids, ids_.data(), u64(wanted) * sizeof(i32));
  if (host_memory || !wanted) return;
  bool finite = true;
  for (int i = 0; ids && i < wanted; i++)  // in every pass: the caller's next step takes them
    if (ids[i] < 0) ids[i] = 0, finite = false;
  if (!non_finite_.empty()) return;
  if (!ids) finite = model::all_finite({logits, size_t(wanted) * size_t(vocab())});
  if (!finite) note_non_finite_on_device();
}

// The pass once more, looking at each layer's output.  It writes the same keys and values again, but recurrent states go on twice: done
// only where no other sequence than the spoilt one can suffer.
void EngineImpl::note_non_finite_on_device() {
  if (!ctx_.launches && !(cache_.recurrent() && p_.options.n_seqs > 1)) {
    const model::LayerTrace look = [&](int layer, const f32* x, int n, int cols) {
      if (non_finite_layer_ < 0 && !model::all_finite({x, size_t(n) * size_t(cols)})) non_finite_layer_ = layer;
    };
    model::Pass pass(ctx_, model_->config(), {arena_.as<u8>(), size_t(arena_.bytes())}, false);
    pass.batch = batch_;
    pass.states = cache_.layers();
    pass.rope = model_->rope();
    pass.trace = &look;
    model_->trunk(pass);
  }
  note_non_finite({});
  if (non_finite_.empty()) non_finite_ = "the row of logits";
}

// Once, at the first of them.
void EngineImpl::note_non_finite(std::span<const f32> logits) {
  if (!non_finite_.empty()) return;
  if (non_finite_layer_ >= 0) {
    non_finite_ = fmt::format("the output of layer {}", non_finite_layer_);
  } else if (!model::all_finite(logits)) {
    non_finite_ = "the row of logits";
  }
}

Status EngineImpl::run(std::span<const StepItem> items, f32* logits, Token* ids) {
  auto cancelled = [&] { return p_.options.cancel && *p_.options.cancel; };
  if (cancelled()) return Error{Code::cancelled, "cancelled"};
  std::vector<int>& before = lengths_;
  before.clear();
  for (const StepItem& it : items) {
    before.push_back(cache_.length(it.seq.index));
    cache_.reserve(it.seq.index, int(it.tokens.size()));
  }
  size_t item = 0;
  int at = 0;
  while (item < items.size()) {
    int wanted = fill(items, item, at);
    if (batch_.cols == 0) break;
    pass(wanted, logits, ids);
    if (cancelled() && (item < items.size() || batch_.cols > 16)) {
      for (size_t i = 0; i < items.size(); i++) cache_.truncate(items[i].seq.index, before[i]);
      return Error{Code::cancelled, "cancelled"};
    }
    if (logits) logits += i64(wanted) * vocab();
    if (ids) ids += wanted;
  }
  note_non_finite({});
  return {};
}

Result<std::span<const f32>> EngineImpl::step(std::span<const StepItem> items) {
  FEWBIT_OK(check(items));
  size_t wanted = 0;
  for (const StepItem& it : items) wanted += it.want.size();
  // On a CPU the planned buffer is where the caller reads; a larger wish gets memory of its own.
  size_t n = wanted * size_t(vocab());
  bool planned = p_.device->kind() == DeviceKind::cpu && wanted <= size_t(p_.options.logits);
  if (!planned && host_logits_.size() < n) host_logits_.resize(n);
  f32* to = planned ? logits_.as<f32>() : host_logits_.data();
  FEWBIT_OK(run(items, to, nullptr));
  return std::span<const f32>(to, n);
}

Result<std::span<const Token>> EngineImpl::step_argmax(std::span<const StepItem> items) {
  FEWBIT_OK(check(items));
  size_t wanted = 0;
  for (const StepItem& it : items) wanted += it.want.size();
  if (host_ids_.size() < wanted) host_ids_.resize(wanted);
  FEWBIT_OK(run(items, nullptr, host_ids_.data()));
  return std::span<const Token>(host_ids_.data(), wanted);
}

}  // namespace

Result<MemoryPlan> Engine::plan(const EngineOptions& options) {
  FEWBIT_TRY(Prepared p, prepare(options));
  return p.plan;
}

Result<std::unique_ptr<Engine>> Engine::load(const EngineOptions& options) {
  FEWBIT_TRY(Prepared p, prepare(options));
  return load(std::move(p));
}

Result<std::unique_ptr<Engine>> Engine::load(Prepared p) {
  auto engine = std::make_unique<EngineImpl>(std::move(p));
  FEWBIT_OK(engine->load());
  return std::unique_ptr<Engine>(std::move(engine));
}

}  // namespace fewbit::runtime
