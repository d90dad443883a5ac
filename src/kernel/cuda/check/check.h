// cuda_check: the CUDA table against kernel/ref on a real GPU, bitwise invariance, and timings.  One JSON line per finding.
#pragma once
#include <cmath>
#include <cstdio>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kernel/kernel.h"

namespace fewbit::kernel::cuda::check {

struct Random {
  std::mt19937_64 engine;
  explicit Random(u64 seed) : engine(seed) {}
  f32 normal(f32 scale = 1) { return std::normal_distribution<f32>(0, scale)(engine); }
  int below(int n) { return int(engine() % u64(n)); }
  std::vector<f32> normals(size_t n, f32 scale = 1) {
    std::vector<f32> v(n);
    for (f32& x : v) x = normal(scale);
    return v;
  }
};

// Both tables: the GPU's and the definition on the host.
struct Rig {
  std::unique_ptr<Device> gpu, host;
  Ctx ctx, ref;
  Buffer scratch;
  int ok = 0, failed = 0;

  static Result<std::unique_ptr<Rig>> open();
  Buffer buffer(u64 bytes) { return std::move(gpu->allocate(bytes ? bytes : 1)).value(); }
  template <class T>
  Buffer up(const std::vector<T>& v) {
    Buffer b = buffer(v.size() * sizeof(T));
    gpu->upload(b.data(), v.data(), v.size() * sizeof(T));
    return b;
  }
  template <class T>
  std::vector<T> down(const void* p, size_t n) {
    std::vector<T> v(n);
    gpu->download(v.data(), p, n * sizeof(T));
    return v;
  }
  // Counts and prints a finding; only failures unless `verbose`.
  void report(const std::string& op, const std::string& what, bool good, f64 error);
  // |got - want| / |want| over all numbers, NaN counted as failure unless both are.
  static f64 distance(const std::vector<f32>& got, const std::vector<f32>& want);
  void compare(const std::string& op, const std::string& what, const std::vector<f32>& got, const std::vector<f32>& want, f64 bound) {
    const f64 d = distance(got, want);
    report(op, what, d <= bound, d);
  }
  void same_bits(const std::string& op, const std::string& what, const std::vector<f32>& a, const std::vector<f32>& b);
  bool verbose = false;
};

// An activation on the GPU made from x (cols, n), and the same rounded numbers as the definition wants them (doubles).
struct TwoActs {
  Buffer memory;
  Act gpu;
  std::vector<f64> values;
  Act ref;
};
// Of weights of a type; of a matrix of that size.
inline ActLayout act_of(const Rig& rig, Type type, i64 rows = 1, i64 cols = 1) {
  HostTensor t;
  t.type = type, t.rows = rows, t.cols = cols;
  return rig.ctx.k->act_layout(t);
}
TwoActs make_act(Rig& rig, const std::vector<f32>& x, int n, int cols, ActLayout layout, const Rotation* rotation = nullptr);

void check_wide(Rig&, bool quick);
void check_experts(Rig&, bool quick);
void check_matmul(Rig& rig, bool quick);
void check_layouts(Rig& rig);  // the same bits from both layouts of a type
void check_decode(Rig& rig);   // the kernels of one column, at the shapes of large models
void check_in_file(Rig& rig, bool quick);
void check_half(Rig& rig, bool quick);  // large F16 and BF16 matrices
void check_half_wide(Rig& rig);         // their wide kernel, briefly
void check_steps(Rig& rig);
void check_sequence(Rig& rig, bool quick);   // attention, DeltaNet
void check_attention(Rig& rig, bool quick);  // over an f16 cache
struct TimeOptions {
  std::string what, types, cols;  // matvec, chain, steps, experts; lists with commas; empty: all
};
void time_kernels(Rig& rig, const TimeOptions&);

}  // namespace fewbit::kernel::cuda::check
