// One side of a comparison: a table with its context, inputs uploaded to its device, outputs between guards.
#pragma once
#include <cmath>
#include <cstring>
#include <deque>
#include <random>
#include <span>
#include <stdexcept>
#include <vector>

#include "base/bits.h"
#include "kernel/kernel.h"

namespace fewbit::kernel {

// The device has no room for a case; what() names the numbers.
struct NoMemory : std::runtime_error {
  using runtime_error::runtime_error;
};

// An output on the device with `guard` poisoned bytes before and behind it.
struct Output {
  static constexpr u64 guard = 256;
  void* memory = nullptr;
  u64 bytes = 0;
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(static_cast<u8*>(memory) + guard);
  }
};

class Side {
 public:
  Side(Device& device, const Kernels& k) : k(k), device_(device) {
    ctx.device = &device;
    ctx.k = &k;
    ctx.pool = device.pool();
    ctx.stream = device.stream();
  }
  const Kernels& k;
  Ctx ctx;
  PlaceOptions placing;

  // Everything that was allocated for a case is given back.
  void reset() {
    if (used_) device_.zero(block_.data(), used_);
    used_ = 0;
    buffers_.clear();
  }

  // Zeroed.  Small ones share a block that lasts: asking a device for memory takes longer than many a case.
  void* room(u64 bytes) {
    if (bytes == 0) bytes = 1;
    if (!block_.data()) block_ = allocate(block_bytes);
    if (used_ + bytes <= block_bytes) {
      void* p = block_.as<u8>() + used_;
      used_ = u64(round_up(i64(used_ + bytes), 256));
      return p;
    }
    buffers_.push_back(allocate(bytes));
    return buffers_.back().data();
  }
  template <class T>
  T* upload(std::span<const T> v) {
    void* p = room(v.size_bytes());
    if (!v.empty()) device_.upload(p, v.data(), v.size_bytes());
    return static_cast<T*>(p);
  }
  template <class T>
  T* upload(const std::vector<T>& v) {
    return upload(std::span<const T>(v));
  }
  // Room for bytes; `init` (that many bytes) or a pattern of NaN is there at first.
  Output output(u64 bytes, const void* init = nullptr) {
    Output o{room(bytes + 2 * Output::guard), bytes};
    std::vector<u8> host(bytes + 2 * Output::guard, 0xff);
    if (init) std::memcpy(host.data() + Output::guard, init, bytes);
    device_.upload(o.memory, host.data(), host.size());
    return o;
  }
  // False: a guard was touched.
  template <class T>
  bool read(const Output& o, std::vector<T>& to) {
    std::vector<u8> host(o.bytes + 2 * Output::guard);
    device_.download(host.data(), o.memory, host.size());
    to.resize(o.bytes / sizeof(T));
    std::memcpy(to.data(), host.data() + Output::guard, o.bytes);
    for (u64 i = 0; i < Output::guard; i++)
      if (host[i] != 0xff || host[host.size() - 1 - i] != 0xff) return false;
    return true;
  }
  Act act(ActLayout layout, int n, int cols) {
    Act a;
    a.layout = layout;
    a.n = n;
    a.cols = cols;
    a.data = room(k.act_bytes(layout, n, cols));
    return a;
  }
  // The columns of x (cols, n) as the activation that `layout` says.
  Act act_of(ActLayout layout, std::span<const f32> x, int n, int cols) {
    Act a = act(layout, n, cols);
    const Kernels::ActOut out{&a, nullptr};
    k.norm(ctx, upload(x), n, n, cols, nullptr, 0, nullptr, {&out, 1});
    return a;
  }
  void scratch(int cols, int n, int heads = 1, int head_dim = 64, int context = 256, int experts_used = 0) {
    ctx.scratch_bytes = k.scratch_bytes(cols, experts_used, n, heads, head_dim, context);
    ctx.scratch = room(ctx.scratch_bytes);
  }
  Result<std::vector<Weight>> place(std::span<const HostTensor> t, GroupUse use) {
    owned_.clear();
    return k.place(ctx, t, use, placing, owned_);
  }
  void synchronize() { device_.synchronize(); }

 private:
  Buffer allocate(u64 bytes) {
    auto b = device_.allocate(bytes);
    if (!b.ok()) throw NoMemory(b.error().what);
    return std::move(*b);
  }
  static constexpr u64 block_bytes = u64(1) << 20;
  Device& device_;
  Buffer block_;
  u64 used_ = 0;
  std::vector<Buffer> buffers_, owned_;
};

struct Distance {
  f64 nmse = 0, max_error = 0;
};
// Infinite if NaN stands against a number anywhere.
inline Distance distance_of(std::span<const f32> got, std::span<const f64> want) {
  f64 error = 0, square = 0, most = 0;
  for (size_t i = 0; i < want.size(); i++) {
    const f64 g = f64(got[i]), w = want[i];
    if (std::isnan(g) && std::isnan(w)) continue;
    if (!std::isfinite(g) || !std::isfinite(w)) {
      if (g == w) continue;
      return {INFINITY, INFINITY};
    }
    error += (g - w) * (g - w);
    square += w * w;
    most = std::max(most, std::fabs(g - w));
  }
  const f64 rms = std::sqrt(square / f64(want.empty() ? 1 : want.size()));
  if (square == 0) return {error > 0 ? INFINITY : 0, most};
  return {error / square, most / rms};
}

}  // namespace fewbit::kernel
