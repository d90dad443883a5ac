#include "model/pass.h"

#include <cmath>
#include <vector>

#include "base/bits.h"
#include "base/check.h"

namespace fewbit::model {

using kernel::Act;

Act& Input::find(const Linear& w) {
  for (int i = 0; i < count_; i++)
    if (acts_[i].layout == w.w_.act && rotations_[i] == w.rotation_) return acts_[i];
  FEWBIT_CHECK(false, "'%s' multiplies an input that was not prepared for it", w.name().c_str());
  return acts_[0];
}

// 0 * x is 0 for every finite x: a sum that the compiler can spread over lanes.
bool all_finite(std::span<const f32> x) {
  f32 lanes[16] = {};
  size_t i = 0;
  for (; i + 16 <= x.size(); i += 16)
    for (size_t k = 0; k < 16; k++) lanes[k] += 0.0f * x[i + k];
  for (; i < x.size(); i++) lanes[0] += 0.0f * x[i];
  f32 sum = 0;
  for (f32 l : lanes) sum += l;
  return sum == 0;
}

void* Pass::bytes(u64 n) {
  u64 at = used_;
  used_ = u64(round_up(i64(used_ + n), 256));
  peak_ = std::max(peak_, used_);
  if (measure_) return reinterpret_cast<void*>(uintptr_t(4096 + at));  // never read; not null, so that offsets from it are defined
  FEWBIT_CHECK(used_ <= arena_.size(), "arena of %llu bytes is too small for %llu", static_cast<unsigned long long>(arena_.size()),
               static_cast<unsigned long long>(used_));
  return arena_.data() + at;
}

void Pass::embed(const Linear& table, f32* x) {
  if (measure_) return;
  ctx_.k->embed(ctx_, table.w_, batch.token, batch.cols, table.rotation_, x);
}

Input Pass::input(const f32* x, int n, int cols, const f32* norm, std::initializer_list<const Linear*> weights) {
  Input in;
  in.n_ = n;
  in.cols_ = cols;
  in.source_ = x;
  in.ld_ = n;
  in.norm_ = norm;
  kernel::Kernels::ActOut outs[Input::max_acts];
  for (const Linear* w : weights) {
    if (!*w) continue;
    FEWBIT_CHECK(w->n_in() == n, "'%s' reads %d numbers, the input has %d", w->name().c_str(), w->n_in(), n);
    bool known = false;
    for (int i = 0; i < in.count_; i++) known |= in.acts_[i].layout == w->w_.act && in.rotations_[i] == w->rotation_;
    if (known) continue;
    FEWBIT_CHECK(in.count_ < Input::max_acts);
    in.acts_[in.count_] = Act{w->w_.act, n, cols, bytes(ctx_.k->act_bytes(w->w_.act, n, cols))};
    // Loading may find that a weight planned for f16 takes f32: of several, one may and others not.
    if (measure_ && w->w_.act == kernel::ActLayout::f16) bytes(ctx_.k->act_bytes(kernel::ActLayout::f32, n, cols));
    in.rotations_[in.count_] = w->rotation_;
    in.count_++;
  }
  if (measure_) return in;
  for (int i = 0; i < in.count_; i++) outs[i] = {&in.acts_[i], in.rotations_[i]};
  ctx_.k->norm(ctx_, x, n, n, cols, norm, config_.eps, nullptr, {outs, size_t(in.count_)});
  return in;
}

// What the weight's columns meet, rotation included, brought to the host; `ids`: expert of each column (per_entry) or k experts of each.
void Pass::tap_input(Input& in, const Linear& w, const i32* ids, bool per_entry) {
  if (!tapped() || measure_) return;
  int n = in.n_, cols = in.cols_, k = config_.experts.used;
  // Not from the arena: that was measured without taps, and a full batch leaves no room in it.
  auto room = ctx_.device->allocate(ctx_.k->act_bytes(kernel::ActLayout::f32, n, cols));
  FEWBIT_CHECK(room.ok(), "no memory for the inputs of '%s'", w.name().c_str());
  Act act{kernel::ActLayout::f32, n, cols, room->data()};
  kernel::Kernels::ActOut out{&act, w.rotation_};
  ctx_.k->norm(ctx_, in.source_, in.ld_, n, cols, in.norm_, config_.eps, nullptr, {&out, 1});
  std::vector<f32> x(size_t(n) * size_t(cols));
  ctx_.device->download(x.data(), act.data, x.size() * sizeof(f32));
  if (!ids) return (*tap)(w.name(), -1, x.data(), n, cols);
  int entries = per_entry ? cols : cols * k;
  std::vector<i32> chosen(static_cast<size_t>(entries));
  ctx_.device->download(chosen.data(), ids, chosen.size() * sizeof(i32));
  for (int e = 0; e < entries; e++) (*tap)(w.name(), chosen[size_t(e)], x.data() + size_t(per_entry ? e : e / k) * size_t(n), n, 1);
}

void Pass::multiply(Input& in, std::initializer_list<Out> outs) {
  kernel::Kernels::Product products[8];
  size_t count = 0;
  for (const Out& o : outs) {
    if (!*o.w) continue;
    FEWBIT_CHECK(count < std::size(products) && o.w->n_experts() == 1);
    tap_input(in, *o.w, nullptr, false);
    products[count++] = {&o.w->w_, &in.find(*o.w), o.y, o.ldy, o.add};
  }
  if (!measure_) ctx_.k->matmul(ctx_, {products, count});
}

void Pass::glu(Input& in, const Linear& gate, const Linear& up, kernel::Glu kind, f32* h) {
  Act& a = in.find(gate);
  Act& b = in.find(up);
  tap_input(in, gate, nullptr, false);
  tap_input(in, up, nullptr, false);
  if (&a == &b) {
    if (!measure_) ctx_.k->glu(ctx_, gate.w_, up.w_, a, kind, h);
    return;
  }
  // The two want different activations or transforms: two products, then the elementwise rest.
  Scope scope(*this);
  i64 n = gate.n_out(), total = n * in.cols();
  f32* g = floats(total);
  f32* u = floats(total);
  if (measure_) return;
  kernel::Kernels::Product both[2] = {{&gate.w_, &a, g, n, false}, {&up.w_, &b, u, n, false}};
  ctx_.k->matmul(ctx_, {both, 2});
  ctx_.k->act_mul(ctx_, g, u, kind, total, h);
}

void Pass::attention(int layer, kernel::AttentionArgs a) {
  if (measure_) return;
  a.head_dim = config_.head_dim;
  a.eps = config_.eps;
  a.scale = config_.attention_scale;
  a.n_rot = config_.rope.n_rot;
  a.neox = config_.rope.neox;
  a.rope = rope;
  a.cache = states[size_t(layer)].cache;
  ctx_.k->attention(ctx_, batch, a);
}

void Pass::delta_net(int layer, kernel::DeltaNetArgs a) {
  if (measure_) return;
  const DeltaConfig& d = config_.delta;
  a.k_heads = d.k_heads;
  a.v_heads = d.v_heads;
  a.dim = d.dim;
  a.conv = d.conv;
  a.eps = config_.eps;
  a.conv_state = states[size_t(layer)].conv_state;
  a.state = states[size_t(layer)].state;
  ctx_.k->delta_net(ctx_, batch, a);
}

void Pass::route(const f32* logits, i32* ids, f32* weights) {
  if (measure_) return;
  const ExpertConfig& e = config_.experts;
  ctx_.k->route(ctx_, logits, e.count, e.used, batch.cols, e.scale, ids, weights);
}

void Pass::moe_glu(Input& in, const Linear& gate, const Linear& up, const i32* ids, f32* h) {
  tap_input(in, gate, ids, false);
  tap_input(in, up, ids, false);
  Act& a = in.find(gate);
  FEWBIT_CHECK(&a == &in.find(up));
  if (!measure_) ctx_.k->moe_glu(ctx_, gate.w_, up.w_, a, ids, config_.experts.used, kernel::Glu::silu, h);
}

void Pass::moe_down(Input& in, const Linear& down, const i32* ids, const f32* weights, f32* x) {
  tap_input(in, down, ids, true);
  if (!measure_) ctx_.k->moe_down(ctx_, down.w_, in.find(down), ids, weights, config_.experts.used, x);
}

void Pass::add_gated(f32* x, const f32* y, const f32* gate, int n) {
  if (!measure_) ctx_.k->add_gated(ctx_, x, y, gate, n, batch.cols);
}

void Pass::gather(const f32* from, const i32* index, int count, int n, f32* to) {
  if (!measure_) ctx_.k->gather(ctx_, from, index, count, n, to);
}

void Pass::layer_done(int layer, const f32* x) {
  if (measure_) return;
  int n = config_.n_embd;
  if (non_finite_layer && *non_finite_layer < 0 && !all_finite({x, size_t(n) * size_t(batch.cols)})) *non_finite_layer = layer;
  if (!trace || !*trace) return;
  std::vector<f32> host(size_t(n) * size_t(batch.cols));
  ctx_.device->download(host.data(), x, host.size() * sizeof(f32));
  (*trace)(layer, host.data(), n, batch.cols);
}

}  // namespace fewbit::model
