// What the tests of whole operations share: random shapes and numbers, and the same call on two tables.
#pragma once
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "base/bits.h"
#include "kernel/cpu/ops.h"
#include "kernel/kernel.h"

namespace fewbit::kernel::testing {

// An array with guards: 64 numbers before and behind that nobody may touch.
template <class T>
class Guarded {
 public:
  explicit Guarded(size_t n, T fill = T{}) : n_(n), v_(n + 128, poison()) { std::fill(begin(), begin() + n, fill); }
  T* begin() { return v_.data() + 64; }
  T* end() { return begin() + n_; }
  T* data() { return begin(); }
  size_t size() const { return n_; }
  T& operator[](size_t i) { return v_[64 + i]; }
  bool intact() const {
    const T p = poison();
    for (size_t i = 0; i < 64; i++) {
      if (std::memcmp(&v_[i], &p, sizeof p) != 0 || std::memcmp(&v_[64 + n_ + i], &p, sizeof p) != 0) return false;
    }
    return true;
  }

 private:
  static T poison() {
    T p;
    std::memset(&p, 0xa5, sizeof p);
    return p;
  }
  size_t n_;
  std::vector<T> v_;
};

// Cheap enough to start anew for every column: splitmix64, and the sum of 4 uniform numbers for a bell of deviation 1.
struct Random {
  u64 state;
  explicit Random(unsigned seed) : state(seed * u64(0x9e3779b97f4a7c15)) {}
  u64 next() {
    u64 z = state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
  }
  f32 normal(f32 scale = 1) {
    const u64 x = next();
    const i64 sum = i64((x & 0xffff) + (x >> 16 & 0xffff) + (x >> 32 & 0xffff) + (x >> 48)) - 2 * 65535;
    return scale * f32(sum) * f32(1.7320508 / 65536);
  }
  int below(int n) { return int(next() % unsigned(n)); }
  std::vector<f32> normals(size_t n, f32 scale = 1) {
    std::vector<f32> v(n);
    for (f32& x : v) x = normal(scale);
    return v;
  }
};

// Largest difference over the largest magnitude of `want`; infinite if only one of a pair is NaN.
inline f64 distance(std::span<const f32> got, std::span<const f32> want) {
  f64 most = 1e-30, diff = 0;
  for (size_t i = 0; i < want.size(); i++) {
    if (std::isnan(want[i]) || std::isnan(got[i])) {
      if (std::isnan(want[i]) != std::isnan(got[i])) return INFINITY;
      continue;
    }
    most = std::max(most, std::fabs(f64(want[i])));
    diff = std::max(diff, std::fabs(f64(got[i]) - f64(want[i])));
  }
  return diff / most;
}

// A table with its context on a CPU of so many threads.
struct Bench {
  std::unique_ptr<Device> device;
  Ctx ctx;
  const Kernels* k;
  std::vector<std::vector<u8>> memory;
  Bench(const Kernels* table, int threads) : device(std::move(open_device("cpu", {.threads = threads}).value())), k(table) {
    ctx.device = device.get();
    ctx.k = table;
    ctx.pool = device->pool();
  }
  Act act(int n, int cols, ActLayout layout = ActLayout::f32) {
    memory.emplace_back(k->act_bytes(layout, n, cols) + 64, u8(0xa5));
    void* p = memory.back().data();
    size_t room = memory.back().size();
    return {layout, n, cols, std::align(64, room - 64, p, room)};
  }
};

// The sets that this machine can run.
inline std::vector<Isa> sets() {
  std::vector<Isa> v = {Isa::scalar};
  if (cpu_features().avx2) v.push_back(Isa::avx2);
  if (cpu_features().avx512) v.push_back(Isa::avx512);
  return v;
}

}  // namespace fewbit::kernel::testing
