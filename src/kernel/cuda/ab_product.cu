// Contestants of `ab` on a GPU: products and experts, by what multiplies.  Timed by events around replays of a recorded graph, so that a
// launch costs what it costs in a decoded token.
#include <algorithm>
#include <cmath>
#include <memory>

#include "kernel/ab.h"
#include "kernel/cuda/common.cuh"
#include "kernel/cuda/layout.h"
#include "kernel/cuda/ops.h"
#include "kernel/layout/random_blocks.h"

namespace fewbit::kernel::cuda {

namespace {

enum class How { best, matvec, wide };
constexpr How every_how[] = {How::best, How::matvec, How::wide};
const char* name_of(How how) {
  static constexpr const char* names[] = {"auto", "matvec", "wide"};
  return names[int(how)];
}

// While one lives, the table multiplies with that kernel.
struct Chosen {
  explicit Chosen(How how) {
    wide_choice = how == How::best ? 0 : how == How::wide ? 1 : -1;
    narrow_choice = how == How::matvec ? -1 : 0;
  }
  ~Chosen() { wide_choice = narrow_choice = 0; }
};

u64 l2_bytes() {
  int device = 0, bytes = 0;
  FEWBIT_CUDA_CHECK(cudaGetDevice(&device));
  FEWBIT_CUDA_CHECK(cudaDeviceGetAttribute(&bytes, cudaDevAttrL2CacheSize, device));
  return u64(bytes);
}

// What both contestants do: inputs and weights.  The same one serves two contestants of one shape and format, as the same kernel on another
// copy of the same bytes was seen to differ by 0.8 % on an H200, time after time.
class Problem {
 public:
  static Result<std::shared_ptr<Problem>> get(Device& device, const AbShape& s) {
    static std::weak_ptr<Problem> last;
    if (auto p = last.lock(); p && &p->device_ == &device && p->does(s)) return p;
    std::shared_ptr<Problem> p(new Problem(device, s));
    FEWBIT_TRY(p->ctx_.k, kernel::kernels_for(device, Path::fast));
    FEWBIT_TRY(p->scratch_,
               device.allocate(p->ctx_.k->scratch_bytes(p->act_.cols, s.experts ? 1 : 0, int(std::max(s.rows, s.n)), 1, 64, 256)));
    p->ctx_.scratch = p->scratch_.data(), p->ctx_.scratch_bytes = p->scratch_.bytes();
    FEWBIT_OK(p->place());
    FEWBIT_OK(p->inputs());
    last = p;
    return p;
  }
  void once(size_t set) {
    const std::vector<Weight>& w = sets_[set];
    if (s_.op == "moe_glu") {
      ctx_.k->moe_glu(ctx_, w[0], w[1], act_, ids_.as<i32>(), 1, Glu::silu, y_.as<f32>());
    } else if (s_.op == "moe_down") {
      ctx_.k->moe_down(ctx_, w[0], act_, ids_.as<i32>(), route_.as<f32>(), 1, y_.as<f32>());
    } else {
      const Kernels::Product p{&w[0], &act_, y_.as<f32>(), s_.rows, false};
      ctx_.k->matmul(ctx_, {&p, 1});
    }
  }
  // Names of what once() launches.
  std::vector<std::string> launches() {
    std::vector<Launch> list;
    ctx_.launches = &list;
    once(0);
    ctx_.launches = nullptr;
    std::vector<std::string> names;
    for (const Launch& l : list) names.push_back(l.kernel);
    return names;
  }
  std::vector<u32> bits() {
    device_.zero(y_.data(), y_.bytes());  // moe_down adds
    once(0);
    std::vector<u32> v(size_t(y_.bytes() / 4));
    device_.download(v.data(), y_.data(), y_.bytes());
    return v;
  }
  Device& device() { return device_; }
  cudaStream_t stream() { return device_of(ctx_).cuda_stream(); }
  const AbShape& shape() const { return s_; }
  int columns() const { return act_.cols; }
  int sets() const { return int(sets_.size()); }
  u64 bytes() const { return set_bytes_; }

 private:
  Problem(Device& device, const AbShape& s) : device_(device), s_(s) {
    ctx_.device = &device, ctx_.stream = device.stream();
    HostTensor t;
    t.type = s.type, t.cols = s.n, t.rows = s.rows, t.experts = std::max<i64>(s.experts, 1);
    act_ = {act_layout(t), int(s.n), s.experts ? int(s.experts) * s.cols : s.cols, nullptr};
  }
  bool does(const AbShape& s) const {
    return s.op == s_.op && s.type == s_.type && s.rows == s_.rows && s.n == s_.n && s.cols == s_.cols && s.experts == s_.experts &&
           s.cold == s_.cold;
  }
  // The weights; when cold, so many copies in turn that each is long out of the cache when it comes again.
  Status place() {
    const i64 experts = std::max<i64>(s_.experts, 1);
    const u64 codes = u64(s_.rows * experts) * row_bytes(s_.type, s_.n);
    std::vector<u8> bytes(size_t(*tensor_bytes(s_.type, u64(s_.n), u64(s_.rows * experts))));
    cpu::RandomBlocks random(42);
    random.fill(s_.type, bytes.data(), codes);
    if (s_.type == Type::I2_S) store_le(bytes.data() + codes, 1.0f);
    HostTensor t;
    t.name = "ab", t.type = s_.type, t.cols = s_.n, t.rows = s_.rows, t.experts = experts, t.data = bytes;
    const HostTensor pair[2] = {t, t};
    const bool glu = s_.op == "moe_glu";
    const u64 enough = s_.cold ? std::min(3 * l2_bytes(), device_.memory_free() / 4) : 1;
    for (u64 used = 0; used < enough; used += set_bytes_) {
      FEWBIT_TRY(auto w, ctx_.k->place(ctx_, {pair, size_t(glu ? 2 : 1)}, glu ? GroupUse::glu : GroupUse::separate, {}, owned_));
      set_bytes_ = 0;
      for (const Weight& x : w) set_bytes_ += x.bytes;
      sets_.push_back(std::move(w));
    }
    return {};
  }
  Status inputs() {
    cpu::RandomBlocks random(7);
    std::vector<f32> x(size_t(s_.n) * size_t(act_.cols));
    for (f32& v : x) v = random.normal();
    FEWBIT_TRY(Buffer dx, upload(x));
    FEWBIT_TRY(act_memory_, device_.allocate(ctx_.k->act_bytes(act_.layout, act_.n, act_.cols)));
    act_.data = act_memory_.data();
    const Kernels::ActOut out{&act_, nullptr};
    ctx_.k->norm(ctx_, dx.as<f32>(), s_.n, int(s_.n), act_.cols, nullptr, 0, nullptr, {&out, 1});
    std::vector<i32> ids;
    for (int c = 0; c < act_.cols; c++) ids.push_back(s_.experts ? c % i32(s_.experts) : 0);
    FEWBIT_TRY(ids_, upload(ids));
    FEWBIT_TRY(route_, upload(std::vector<f32>(size_t(act_.cols), 1.0f)));
    FEWBIT_TRY(y_, device_.allocate(u64(s_.rows) * u64(act_.cols) * 4));
    device_.synchronize();
    return {};
  }
  template <class T>
  Result<Buffer> upload(const std::vector<T>& v) {
    FEWBIT_TRY(Buffer b, device_.allocate(v.size() * sizeof(T)));
    device_.upload(b.data(), v.data(), v.size() * sizeof(T));
    return Result<Buffer>(std::move(b));
  }

  Device& device_;
  AbShape s_;
  Ctx ctx_;
  Buffer scratch_, act_memory_, ids_, route_, y_;
  std::vector<Buffer> owned_;
  std::vector<std::vector<Weight>> sets_;  // the copies
  u64 set_bytes_ = 0;
  Act act_;
};

class GpuProduct final : public Contestant {
 public:
  static Result<std::unique_ptr<Contestant>> make(Device& device, How how, const AbShape& s) {
    FEWBIT_TRY(auto problem, Problem::get(device, s));
    const Chosen chosen(how);
    const std::vector<std::string> names = problem->launches();
    const bool wide = std::any_of(names.begin(), names.end(), [](const std::string& n) { return n.rfind("gemm", 0) == 0; });
    if (how == How::wide && !wide)
      return Error{fewbit::Code::unsupported, "ab: 'wide' does not do " + s.op + " of " + std::to_string(problem->columns()) +
                                                  " columns of " + type_name(s.type) + " on " + device.id()};
    return std::unique_ptr<Contestant>(new GpuProduct(std::move(problem), how, s.planted));
  }
  ~GpuProduct() override {
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
  }
  // Whole rounds over the copies of the weights, at least `times` operations; the time of `times` of them.
  f64 run(int times) override {
    const int replays = (times + operations_ - 1) / operations_;
    FEWBIT_CUDA_CHECK(cudaEventRecord(begin_, problem_->stream()));
    for (int i = 0; i < replays; i++) graph_->launch();
    FEWBIT_CUDA_CHECK(cudaEventRecord(end_, problem_->stream()));
    FEWBIT_CUDA_CHECK(cudaEventSynchronize(end_));
    float ms = 0;
    FEWBIT_CUDA_CHECK(cudaEventElapsedTime(&ms, begin_, end_));
    return f64(ms) * 1e-3 * times / (f64(replays) * operations_);
  }
  std::vector<u32> bits() override {
    const Chosen chosen(how_);
    return problem_->bits();
  }
  u64 bytes() const override { return problem_->bytes(); }
  f64 products() const override {
    const AbShape& s = problem_->shape();
    return f64(s.rows) * f64(s.n) * f64(problem_->columns()) * (s.op == "moe_glu" ? 2 : 1);
  }

 private:
  // Records one or more rounds over the copies, and the planted share of operations more.
  GpuProduct(std::shared_ptr<Problem> problem, How how, f64 planted) : problem_(std::move(problem)), how_(how) {
    FEWBIT_CUDA_CHECK(cudaEventCreate(&begin_));
    FEWBIT_CUDA_CHECK(cudaEventCreate(&end_));
    const int sets = problem_->sets();
    operations_ = std::max(1, 128 / sets) * sets;
    const int more = planted > 0 ? std::max(1, int(std::lround(f64(operations_) * planted))) : 0;
    problem_->device().begin_record();
    for (int i = 0; i < operations_ + more; i++) problem_->once(size_t(i % sets));
    graph_ = problem_->device().end_record();
  }

  std::shared_ptr<Problem> problem_;
  How how_;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
  std::unique_ptr<Graph> graph_;
  int operations_ = 1;  // that the graph counts as
};

// The kernels of a format, as `--list` shows them.  `device`: has wide ones or not.
bool offered(const Device& device, How how, Type type) {
  const int layout = type_layout(type).layout;
  if (how == How::wide && static_cast<const fewbit::cuda::CudaDevice&>(device).arch() != 90) return false;
  return layout >= 0 && (how == How::best || layout < layout_rows_f32);
}
std::string full_name(How how, Type type) {
  const int layout = type_layout(type, dense_chosen(type)).layout;
  return std::string(name_of(how)) + "." + (layout < layout_rows_f32 ? layout_infos[layout].name : "rows") + "." + type_name(type);
}

}  // namespace

std::vector<std::string> kernel_names(Device& device, Type type) {
  dense_on(device);
  std::vector<std::string> names;
  for (How how : every_how)
    if (offered(device, how, type)) names.push_back(full_name(how, type));
  return names;
}

Result<std::unique_ptr<Contestant>> contestant(Device& device, const std::string& kernel, const AbShape& shape) {
  dense_on(device);
  if (shape.panel) return Error{fewbit::Code::unsupported, "ab: --tile is for kernels of the CPU"};
  AbShape s = shape;
  s.type = named_format(kernel, s.type);
  if (type_layout(s.type).layout < 0) return Error{fewbit::Code::unsupported, std::string("ab: no CUDA kernel for ") + type_name(s.type)};
  if (s.n % format_info(s.type).block)
    return Error{fewbit::Code::invalid_argument, "ab: " + std::to_string(s.n) + " inputs are not whole blocks of " + type_name(s.type)};
  for (How how : every_how) {
    if (!offered(device, how, s.type)) continue;
    const bool named = kernel == name_of(how) || kernel == full_name(how, s.type) || (how == How::best && kernel == type_name(s.type));
    if (named) return GpuProduct::make(device, how, s);
  }
  return Error{fewbit::Code::not_found,
               "ab: no kernel '" + kernel + "' for " + type_name(s.type) + " on " + device.id() + " (--list names them)"};
}

}  // namespace fewbit::kernel::cuda
