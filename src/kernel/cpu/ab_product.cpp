// Contestants of `ab` on the CPU: any kernel of any instruction set that this machine has, by name.
#include <fstream>

#include "base/clock.h"
#include "kernel/ab.h"
#include "kernel/cpu/matmul.h"
#include "kernel/cpu/ops.h"
#include "kernel/layout/random_blocks.h"

namespace fewbit::kernel {

using namespace cpu;

std::vector<std::string> kernel_names(Type type) {
  std::vector<std::string> names;
  for (const WeightKernels* k : all_kernels())
    if (k->type == type) names.push_back(k->name);
  return names;
}

namespace {

// Bytes of the largest cache that the system tells of; 64 MiB if it tells of none.
u64 last_cache() {
  u64 most = 0;
  for (int i = 0; i < 8; i++) {
    std::ifstream in("/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(i) + "/size");
    u64 kib = 0;
    if (in >> kib) most = std::max(most, kib << 10);
  }
  return most ? most : u64(64) << 20;
}

class CpuProduct : public Contestant {
 public:
  static Result<std::unique_ptr<Contestant>> make(Device& device, const WeightKernels& kernels, const AbShape& s) {
    std::unique_ptr<CpuProduct> p(new CpuProduct(device, s));
    const i64 experts = std::max<i64>(s.experts, 1), blocks = s.rows * experts;
    // Cold: so many copies in turn that each is long out of the caches when it comes again.
    const u64 one = u64(experts * div_up(s.rows, tile_rows)) * u64(kernels.tile_bytes(s.n));
    const u64 want = s.cold ? std::min(3 * last_cache(), device.memory_free() / 4) : 0;
    const int copies = int(std::max<u64>(1, div_up(i64(want), i64(one))));
    std::vector<u8> bytes(size_t(*tensor_bytes(s.type, u64(s.n), u64(blocks))));
    RandomBlocks random(42);
    random.fill(s.type, bytes.data(), u64(blocks) * row_bytes(s.type, s.n));
    if (s.type == Type::I2_S) store_le(bytes.data() + u64(blocks) * row_bytes(s.type, s.n), 1.0f);
    HostTensor t;
    t.name = "ab";
    t.type = s.type;
    t.cols = s.n;
    t.rows = s.rows;
    t.experts = experts;
    t.data = bytes;
    PlaceOptions options;
    options.mapped = false;
    FEWBIT_TRY(Weight w, place_with(p->ctx_, t, kernels, options, p->owned_));
    if (s.panel) {
      p->narrowed_ = std::make_unique<WeightKernels>(kernels);
      p->narrowed_->max_narrow = std::min(kernels.max_narrow, s.panel);
      p->narrowed_->max_wide = std::min(kernels.max_wide, s.panel);
      if (s.panel < kernels.max_narrow || !widest_from(*p->narrowed_)) p->narrowed_->spread = nullptr;
      w.extra = p->narrowed_.get();
    }
    p->weights_.push_back(w);
    for (int i = 1; i < copies; i++) {
      FEWBIT_TRY(Buffer b, device.allocate(p->owned_[0].bytes()));
      device.copy(b.data(), p->owned_[0].data(), b.bytes());
      w.data = b.data();
      p->owned_.push_back(std::move(b));
      p->weights_.push_back(w);
    }
    return std::unique_ptr<Contestant>(std::move(p));
  }

  f64 run(int times) override {
    const f64 start = now_s();
    for (int i = 0; i < times; i++) once();
    return now_s() - start;
  }
  std::vector<u32> bits() override {
    std::vector<u32> v(y_.size());
    std::memcpy(v.data(), y_.data(), v.size() * 4);
    return v;
  }
  u64 bytes() const override { return weights_[0].bytes; }
  f64 products() const override { return f64(s_.rows) * f64(s_.n) * f64(act_.cols) * (s_.op == "moe_glu" ? 2 : 1); }

 private:
  // Whether there is a wide kernel of at most max_wide columns.
  static bool widest_from(const WeightKernels& k) {
    for (int c = 1; c <= k.max_wide; c++)
      if (k.wide[c]) return true;
    return false;
  }
  CpuProduct(Device& device, const AbShape& s) : s_(s) {
    ctx_.device = &device;
    ctx_.pool = device.pool();
    const int cols = s.experts ? int(s.experts) * s.cols : s.cols;
    act_.layout = act_layout(s.type);
    act_.n = int(s.n);
    act_.cols = cols;
    memory_.resize(act_bytes(act_.layout, act_.n, cols) + 64);
    act_.data = reinterpret_cast<void*>(round_up(i64(reinterpret_cast<uintptr_t>(memory_.data())), 64));
    RandomBlocks random(7);
    std::vector<f32> x;
    x.resize(size_t(s.n));
    for (int c = 0; c < cols; c++) {
      for (f32& v : x) v = random.normal();
      if (act_.layout == ActLayout::f32)
        std::memcpy(static_cast<f32*>(act_.data) + i64(c) * s.n, x.data(), x.size() * 4);
      else
        quantize_q8_32()(x.data(), s.n, static_cast<u8*>(act_.data) + u64(c) * act_record_bytes(s.n));
      ids_.push_back(s.experts ? c % i32(s.experts) : 0);
      route_.push_back(1.0f);
    }
    y_.resize(size_t(s.rows) * size_t(cols));
  }
  void once() {
    const Weight& w = weights_[next_++ % weights_.size()];
    if (s_.op == "moe_glu") {
      moe_glu(ctx_, w, w, act_, ids_.data(), 1, Glu::silu, y_.data());
    } else if (s_.op == "moe_down") {
      moe_down(ctx_, w, act_, ids_.data(), route_.data(), 1, y_.data());
    } else {
      const Kernels::Product p{&w, &act_, y_.data(), s_.rows, false};
      matmul(ctx_, {&p, 1});
      if (s_.planted > 0) {  // the first rows once more
        Weight part = w;
        part.rows = std::max<i64>(tile_rows, i64(f64(w.rows) * s_.planted) / tile_rows * tile_rows);
        const Kernels::Product again{&part, &act_, y_.data(), s_.rows, false};
        matmul(ctx_, {&again, 1});
      }
    }
  }

  AbShape s_;
  Ctx ctx_;
  std::vector<Buffer> owned_;
  std::vector<Weight> weights_;
  std::unique_ptr<WeightKernels> narrowed_;  // with another limit of columns
  std::vector<u8> memory_;
  Act act_;
  std::vector<i32> ids_;
  std::vector<f32> route_, y_;
  size_t next_ = 0;
};

}  // namespace

Result<std::unique_ptr<Contestant>> cpu_contestant(Device& device, const std::string& kernel, const AbShape& shape) {
  const WeightKernels* found = nullptr;
  for (const WeightKernels* k : all_kernels()) {
    const std::string name = k->name, rest = name.substr(name.find('/') + 1);
    if (k->type != shape.type) continue;
    if (kernel == name || kernel == rest) return CpuProduct::make(device, *k, shape);
    if (rest.rfind(kernel + ".", 0) == 0) found = k;  // the file's layout comes first
  }
  if (found) return CpuProduct::make(device, *found, shape);
  return Error{Code::not_found, "no kernel '" + kernel + "' for " + type_name(shape.type) + " on this machine"};
}

}  // namespace fewbit::kernel
