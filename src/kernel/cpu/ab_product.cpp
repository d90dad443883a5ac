// Contestants of `ab` on the CPU: any kernel of any instruction set that this machine has, by name.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <memory>
#include <optional>

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

Result<i64> planted_rows(const AbShape& shape) {
  const f64 tiles = std::max(1.0, std::round(shape.planted * f64(shape.rows) / tile_rows));
  const i64 rows = std::min(shape.rows, i64(tiles) * tile_rows);
  const f64 share = f64(rows) / f64(shape.rows);
  if (std::abs(share - shape.planted) <= shape.planted / 5) return rows;
  char text[200];
  std::snprintf(text, sizeof text, "--plant: %g of %lld rows is %.3g rows, but whole tiles of %d are planted: %g of %lld, a share of %.3g",
                shape.planted, static_cast<long long>(shape.rows), shape.planted * f64(shape.rows), tile_rows, tiles,
                static_cast<long long>(div_up(shape.rows, tile_rows)), share);
  return Error{Code::invalid_argument, text};
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

// What both contestants do: weights in one layout, inputs, room for outputs.  The same one serves two contestants that read the same
// bytes: a kernel on another copy of them was called faster than itself, as where they lie decides which caches and pages they share.
class Problem {
 public:
  static Result<std::shared_ptr<Problem>> get(Device& device, const WeightKernels& kernels, const AbShape& s) {
    static std::weak_ptr<Problem> last;
    if (auto p = last.lock(); p && &p->device_ == &device && p->does(kernels, s)) return p;
    FEWBIT_OK(fits(device, kernels, s));
    std::shared_ptr<Problem> p(new Problem(device, kernels, s));
    FEWBIT_OK(p->place(kernels));
    last = p;
    return p;
  }
  // The product with the next copy of the weights.
  void once(const WeightKernels& kernels, i64 planted) {
    Weight w = weight_;
    w.extra = &kernels;
    w.kernel = kernels.name;
    w.data = copy(next_++);
    if (s_.op == "moe_glu") {
      moe_glu(ctx_, w, w, act_, ids_.data(), 1, Glu::silu, y_.data());
    } else if (s_.op == "moe_down") {
      moe_down(ctx_, w, act_, ids_.data(), route_.data(), 1, y_.data());
    } else {
      const Kernels::Product p{&w, &act_, y_.data(), s_.rows, false};
      matmul(ctx_, {&p, 1});
      if (planted > 0) {  // the first rows once more, from a copy that is as cold
        w.data = copy(next_ + count_ / 2);
        w.rows = planted;
        matmul(ctx_, {&p, 1});
      }
    }
  }
  std::vector<u32> bits(const WeightKernels& kernels) {
    std::fill(y_.begin(), y_.end(), 0.0f);  // moe_down adds
    once(kernels, 0);
    std::vector<u32> v(y_.size());
    std::memcpy(v.data(), y_.data(), v.size() * 4);
    return v;
  }
  u64 bytes() const { return weight_.bytes; }
  f64 products() const { return f64(s_.rows) * f64(s_.n) * f64(act_.cols) * (s_.op == "moe_glu" ? 2 : 1); }

 private:
  const u8* copy(u64 i) const { return static_cast<const u8*>(copies_.data()) + i % count_ * stride_; }
  static i64 experts(const AbShape& s) { return std::max<i64>(s.experts, 1); }
  static u64 placed(const WeightKernels& k, const AbShape& s) {
    return k.pack ? u64(experts(s) * div_up(s.rows, tile_rows)) * u64(k.tile_bytes(s.n))
                  : u64(experts(s) * s.rows) * row_bytes(s.type, s.n);
  }
  static u64 columns(const AbShape& s) { return u64(experts(s)) * u64(s.cols); }
  // Said before anything is allocated: what the system promises may not be there when it is touched.
  static Status fits(Device& device, const WeightKernels& k, const AbShape& s) {
    const std::optional<u64> file = tensor_bytes(s.type, u64(s.n), u64(s.rows * experts(s)));
    const u64 most = u64(1) << 62, free = device.memory_free();
    const u64 need = file ? *file + placed(k, s) + columns(s) * (act_bytes(act_layout(s.type), int(s.n), 1) + 4 * u64(s.rows)) : most;
    if (need <= free) return {};
    return Error{Code::out_of_memory, "ab: weights of " + std::string(type_name(s.type)) + " " + std::to_string(s.rows) + "x" +
                                          std::to_string(s.n) + (s.experts ? ", " + std::to_string(s.experts) + " experts" : "") +
                                          ", and " + std::to_string(columns(s)) + " columns need " + std::to_string(need >> 20) + " MiB, " +
                                          std::to_string(free >> 20) + " MiB are free"};
  }

  Problem(Device& device, const WeightKernels& kernels, const AbShape& s) : device_(device), layout_(kernels.layout), s_(s) {
    ctx_.device = &device;
    ctx_.pool = device.pool();
    const int cols = int(columns(s));
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
  bool does(const WeightKernels& k, const AbShape& s) const {
    return layout_ == k.layout && s.op == s_.op && s.type == s_.type && s.rows == s_.rows && s.n == s_.n && s.cols == s_.cols &&
           s.experts == s_.experts && s.cold == s_.cold;
  }
  // The weights; when cold, so many copies in turn that each is long out of the caches when it comes again.  All lie in one buffer: a
  // tiny matrix has a hundred thousand copies, and asking for memory takes longer than filling it.
  Status place(const WeightKernels& kernels) {
    const u64 codes = u64(s_.rows * experts(s_)) * row_bytes(s_.type, s_.n);
    std::vector<u8> bytes(size_t(*tensor_bytes(s_.type, u64(s_.n), u64(s_.rows * experts(s_)))));
    RandomBlocks random(42);
    random.fill(s_.type, bytes.data(), codes);
    if (s_.type == Type::I2_S) store_le(bytes.data() + codes, 1.0f);
    HostTensor t;
    t.name = "ab";
    t.type = s_.type;
    t.cols = s_.n;
    t.rows = s_.rows;
    t.experts = experts(s_);
    t.data = bytes;
    PlaceOptions options;
    options.mapped = false;
    std::vector<Buffer> one;
    FEWBIT_TRY(weight_, place_with(ctx_, t, kernels, options, one));
    stride_ = u64(round_up(i64(weight_.bytes), 256));
    const u64 want = s_.cold ? std::min(3 * last_cache(), device_.memory_free() / 4) : 0;
    count_ = std::max<u64>(1, u64(div_up(i64(want), i64(stride_))));
    FEWBIT_TRY(copies_, device_.allocate(count_ * stride_));
    parallel(ctx_, i64(count_), std::max<i64>(1, (i64(1) << 20) / i64(stride_)), [&](i64 begin, i64 end, int) {
      for (i64 i = begin; i < end; i++) device_.copy(copies_.as<u8>() + u64(i) * stride_, weight_.data, weight_.bytes);
    });
    return {};
  }

  Device& device_;
  std::string layout_;
  AbShape s_;
  Ctx ctx_;
  Weight weight_;
  Buffer copies_;
  u64 count_ = 1, stride_ = 0;
  std::vector<u8> memory_;
  Act act_;
  std::vector<i32> ids_;
  std::vector<f32> route_, y_;
  u64 next_ = 0;
};

class CpuProduct : public Contestant {
 public:
  static Result<std::unique_ptr<Contestant>> make(Device& device, const WeightKernels& kernels, const AbShape& s) {
    std::unique_ptr<CpuProduct> p(new CpuProduct);
    FEWBIT_TRY(p->problem_, Problem::get(device, kernels, s));
    if (s.planted > 0) { FEWBIT_TRY(p->planted_, planted_rows(s)); }
    p->cancel_ = s.cancel;
    p->kernels_ = kernels;
    if (s.panel) {
      WeightKernels& k = p->kernels_;
      k.max_narrow = std::min(kernels.max_narrow, s.panel);
      k.max_wide = std::min(kernels.max_wide, s.panel);
      if ((k.first_wide > 1 && s.panel < kernels.max_narrow) || !widest_from(k)) k.spread = nullptr;
    }
    return std::unique_ptr<Contestant>(std::move(p));
  }
  f64 run(int times) override {
    const f64 start = now_s();
    for (int i = 0; i < times && !(cancel_ && *cancel_); i++) problem_->once(kernels_, planted_);
    return now_s() - start;
  }
  std::vector<u32> bits() override { return problem_->bits(kernels_); }
  u64 bytes() const override { return problem_->bytes(); }
  f64 products() const override { return problem_->products(); }

 private:
  // Whether there is a wide kernel of at most max_wide columns.
  static bool widest_from(const WeightKernels& k) {
    for (int c = 1; c <= k.max_wide; c++)
      if (k.wide[c]) return true;
    return false;
  }
  std::shared_ptr<Problem> problem_;
  WeightKernels kernels_;  // perhaps with another limit of columns
  i64 planted_ = 0;        // rows
  const std::atomic<bool>* cancel_ = nullptr;
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
