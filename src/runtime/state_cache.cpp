#include "runtime/state_cache.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/bits.h"
#include "base/check.h"

namespace fewbit::runtime {

static u64 page_bytes(const model::StateSpec::Layer& l, Type type) {
  return row_bytes(type, l.head_dim) * u64(StateCache::page_tokens) * u64(l.n_kv_heads);
}

static int pages_for(int n_ctx) { return int(div_up(n_ctx, StateCache::page_tokens)); }

Status StateCache::check(const model::StateSpec& spec, const StateOptions& o) {
  for (auto [type, option] : {std::pair{o.k_type, "-ctk"}, std::pair{o.v_type, "-ctv"}}) {
    if (type != Type::F32 && type != Type::F16 && type != Type::Q8_0 && type != Type::Q4_0)
      return Error{Code::invalid_argument, fmt::format("{} {}: keys and values can be f32, f16, q8_0 or q4_0", option, type_name(type))};
    for (const auto& l : spec.layers)
      if (!l.recurrent() && l.head_dim % format_info(type).block)
        return Error{Code::invalid_argument, fmt::format("{} {}: heads of {} are not whole blocks of {}", option, type_name(type),
                                                         l.head_dim, format_info(type).block)};
  }
  return {};
}

u64 StateCache::kv_bytes(const model::StateSpec& spec, const StateOptions& o) {
  u64 n = 0;
  for (const auto& l : spec.layers)
    if (!l.recurrent()) n += (page_bytes(l, o.k_type) + page_bytes(l, o.v_type)) * u64(pages_for(o.n_ctx)) * u64(o.n_seqs);
  return n;
}

u64 StateCache::recurrent_bytes(const model::StateSpec& spec, const StateOptions& o) {
  return spec.recurrent_bytes() * u64(o.n_seqs) * u64(1 + o.checkpoints);
}

StateCache::StateCache(Device& device, const model::StateSpec& spec, const StateOptions& options)
    : device_(device), spec_(spec), options_(options), max_pages_(pages_for(options.n_ctx)) {
  if (spec.any_recurrent()) {
    n_slots_ = options.n_seqs * (1 + options.checkpoints);
    checkpoints_.resize(size_t(options.n_seqs) * size_t(options.checkpoints));
  }
  int n_pages = max_pages_ * options.n_seqs;
  users_.resize(size_t(n_pages));
  for (int p = n_pages; p-- > 0;) free_pages_.push_back(p);
  seqs_.resize(size_t(options.n_seqs));
  for (Sequence& s : seqs_) s.pages.reserve(size_t(max_pages_));
}

Status StateCache::allocate() {
  u64 n_pages = users_.size();
  auto get = [&](u64 bytes, auto*& to) -> Status {
    FEWBIT_TRY(Buffer b, device_.allocate(bytes));
    // Touched now: memory that the plan promised must not fail to appear later.
    if (device_.kind() == DeviceKind::cpu) device_.zero(b.data(), bytes);
    to = static_cast<std::remove_reference_t<decltype(to)>>(b.data());
    buffers_.push_back(std::move(b));
    return {};
  };
  for (const auto& l : spec_.layers) {
    model::LayerState s;
    if (l.recurrent()) {
      FEWBIT_OK(get(u64(l.conv_floats) * u64(n_slots_) * sizeof(f32), s.conv_state));
      FEWBIT_OK(get(u64(l.state_floats) * u64(n_slots_) * sizeof(f32), s.state));
    } else {
      s.cache.k_type = options_.k_type;
      s.cache.v_type = options_.v_type;
      s.cache.page_tokens = page_tokens;
      FEWBIT_OK(get(page_bytes(l, options_.k_type) * n_pages, s.cache.k));
      FEWBIT_OK(get(page_bytes(l, options_.v_type) * n_pages, s.cache.v));
    }
    layers_.push_back(s);
  }
  return {};
}

i32 StateCache::take_page() {
  FEWBIT_CHECK(!free_pages_.empty());  // every sequence can hold max_pages of its own
  i32 p = free_pages_.back();
  free_pages_.pop_back();
  users_[size_t(p)] = 1;
  return p;
}

void StateCache::drop_page(i32 page) {
  if (--users_[size_t(page)] == 0) free_pages_.push_back(page);
}

void StateCache::copy_page(i32 to, i32 from) {
  for (size_t i = 0; i < layers_.size(); i++) {
    const auto& l = spec_.layers[i];
    if (l.recurrent()) continue;
    u64 k = page_bytes(l, options_.k_type), v = page_bytes(l, options_.v_type);
    u8 *kp = static_cast<u8*>(layers_[i].cache.k), *vp = static_cast<u8*>(layers_[i].cache.v);
    device_.copy(kp + u64(to) * k, kp + u64(from) * k, k);
    device_.copy(vp + u64(to) * v, vp + u64(from) * v, v);
  }
}

void StateCache::copy_slot(int to, int from) {
  for (size_t i = 0; i < layers_.size(); i++) {
    const auto& l = spec_.layers[i];
    if (!l.recurrent()) continue;
    device_.copy(layers_[i].conv_state + to * l.conv_floats, layers_[i].conv_state + from * l.conv_floats,
                 u64(l.conv_floats) * sizeof(f32));
    device_.copy(layers_[i].state + to * l.state_floats, layers_[i].state + from * l.state_floats, u64(l.state_floats) * sizeof(f32));
  }
}

void StateCache::zero_slot(int slot) {
  for (size_t i = 0; i < layers_.size(); i++) {
    const auto& l = spec_.layers[i];
    if (!l.recurrent()) continue;
    device_.zero(layers_[i].conv_state + slot * l.conv_floats, u64(l.conv_floats) * sizeof(f32));
    device_.zero(layers_[i].state + slot * l.state_floats, u64(l.state_floats) * sizeof(f32));
  }
}

Result<int> StateCache::add() {
  for (size_t i = 0; i < seqs_.size(); i++) {
    if (seqs_[i].used) continue;
    seqs_[i].used = true;
    seqs_[i].length = 0;
    if (recurrent()) zero_slot(int(i));
    return int(i);
  }
  return Error{Code::invalid_argument, fmt::format("all {} sequences are in use", seqs_.size())};
}

void StateCache::remove(int seq) {
  Sequence& s = seqs_[size_t(seq)];
  for (i32 p : s.pages) drop_page(p);
  s.pages.clear();
  s.used = false;
  for (Checkpoint& c : checkpoints_)
    if (c.seq == seq) c.seq = -1;
}

void StateCache::reserve(int seq, int n) {
  Sequence& s = seqs_[size_t(seq)];
  FEWBIT_CHECK(s.length + n <= options_.n_ctx);
  size_t writes_from = size_t(s.length / page_tokens);
  if (n > 0 && writes_from < s.pages.size() && users_[size_t(s.pages[writes_from])] > 1) {
    i32 own = take_page();
    copy_page(own, s.pages[writes_from]);
    drop_page(s.pages[writes_from]);
    s.pages[writes_from] = own;
  }
  while (int(s.pages.size()) * page_tokens < s.length + n) s.pages.push_back(take_page());
}

int StateCache::truncate(int seq, int n) {
  Sequence& s = seqs_[size_t(seq)];
  n = std::max(n, 0);
  if (n >= s.length) return s.length;
  if (recurrent()) {
    int best = -1;
    for (size_t i = 0; i < checkpoints_.size(); i++) {
      Checkpoint& c = checkpoints_[i];
      if (c.seq != seq) continue;
      if (c.length > n) {
        c.seq = -1;
      } else if (best < 0 || c.length > checkpoints_[size_t(best)].length) {
        best = int(i);
      }
    }
    n = best < 0 ? 0 : checkpoints_[size_t(best)].length;
    if (best < 0) {
      zero_slot(seq);
    } else {
      copy_slot(seq, options_.n_seqs + best);
    }
  }
  s.length = n;
  while (int(s.pages.size()) > pages_for(n)) {
    drop_page(s.pages.back());
    s.pages.pop_back();
  }
  return n;
}

Status StateCache::checkpoint(int seq) {
  if (!recurrent()) return {};
  int at = length(seq);
  if (checkpoints_.empty()) return Error{Code::invalid_argument, "no memory was set aside for checkpoints"};
  // A free place, or the oldest of this sequence, or the oldest of all.
  size_t pick = 0;
  auto rank = [&](const Checkpoint& c) { return c.seq < 0 ? 0 : c.seq == seq ? 1 : 2; };
  for (size_t i = 0; i < checkpoints_.size(); i++) {
    const Checkpoint &c = checkpoints_[i], &p = checkpoints_[pick];
    if (c.seq == seq && c.length == at) return {};
    if (std::pair(rank(c), c.age) < std::pair(rank(p), p.age)) pick = i;
  }
  copy_slot(options_.n_seqs + int(pick), seq);
  checkpoints_[pick] = {seq, at, ++clock_};
  return {};
}

Result<int> StateCache::fork(int seq) {
  FEWBIT_TRY(int to, add());
  Sequence &a = seqs_[size_t(seq)], &b = seqs_[size_t(to)];
  b.length = a.length;
  b.pages.assign(a.pages.begin(), a.pages.end());
  for (i32 p : b.pages) users_[size_t(p)]++;
  if (recurrent()) copy_slot(to, seq);
  return to;
}

}  // namespace fewbit::runtime
