// One forward pass over the columns of a batch: the vocabulary in which the architectures are written.  Straight-line code; every call
// is one operation of the kernel table.  Nothing is allocated: temporaries come from an arena whose size the same code measured.
#pragma once
#include <atomic>
#include <functional>
#include <initializer_list>
#include <span>

#include "model/config.h"
#include "model/linear.h"

namespace fewbit::model {

struct Experts;  // blocks.h

bool all_finite(std::span<const f32> x);

// State of one layer, allotted by the runtime.
struct LayerState {
  kernel::KvCache cache;
  f32* conv_state = nullptr;
  f32* state = nullptr;
};

// Every input of a multiply, as f32 columns: (name of the weight, expert or -1, (cols, n), n, cols).
using InputTap = std::function<void(const std::string& weight, int expert, const f32* x, int n, int cols)>;
using LayerTrace = std::function<void(int layer, const f32* x, int n, int cols)>;  // residual stream after a layer, in host memory

// The input of one or several weights: normed once, then transformed and laid out once for each distinct need.
class Input {
 public:
  int cols() const { return cols_; }

 private:
  friend class Pass;
  static constexpr int max_acts = 6;
  kernel::Act& find(const Linear& w);
  int n_ = 0, cols_ = 0, count_ = 0;
  kernel::Act acts_[max_acts];
  const kernel::Rotation* rotations_[max_acts] = {};
  const f32* source_ = nullptr;  // for the tap: what was normed
  i64 ld_ = 0;
  const f32* norm_ = nullptr;
};

// What a layer of experts leaves between its steps (kernel/moe.h: ExpertsUp).
struct ExpertSteps {
  f32 *logits, *shared_logit;
  i32* ids;
  f32 *weights, *h;
  f32 *shared_h = nullptr, *y = nullptr;  // of the shared expert: hidden, and its output once computed
};

class Pass {
 public:
  // Runs on `arena` (device memory); with measure set it only finds out how much of it is needed and runs nothing.
  Pass(kernel::Ctx& ctx, const Config& config, std::span<u8> arena, bool measure)
      : ctx_(ctx), config_(config), arena_(arena), measure_(measure) {}

  kernel::Batch batch;
  std::span<const LayerState> states;
  const f32* rope = nullptr;
  const InputTap* tap = nullptr;
  const LayerTrace* trace = nullptr;
  const std::atomic<bool>* cancel = nullptr;  // looked at between layers; what a cancelled pass computed is of no use
  int* non_finite_layer = nullptr;  // where device memory is host memory: set to the first layer whose output is not finite, if it is -1

  bool cancelled() const { return cancel && cancel->load(std::memory_order_relaxed); }
  int cols() const { return batch.cols; }
  const Config& config() const { return config_; }
  u64 peak() const { return peak_; }

  // Temporary floats, given back when the enclosing Scope ends.
  f32* floats(i64 n) { return static_cast<f32*>(bytes(u64(n) * sizeof(f32))); }
  i32* ints(i64 n) { return static_cast<i32*>(bytes(u64(n) * sizeof(i32))); }
  class Scope {
   public:
    explicit Scope(Pass& p) : p_(p), mark_(p.used_) {}
    ~Scope() { p_.used_ = mark_; }
    Scope(const Scope&) = delete;

   private:
    Pass& p_;
    u64 mark_;
  };

  void embed(const Linear& table, f32* x);

  // RMSNorm(x) * norm (nullptr: x itself) for every weight named.
  Input input(const f32* x, int n, int cols, const f32* norm, std::initializer_list<const Linear*> weights);
  struct Out {
    const Linear* w;
    f32* y;
    i64 ldy;
    bool add = false;  // y += instead of y =
  };
  // Absent weights are passed over.
  void multiply(Input& in, std::initializer_list<Out> outs);
  // h = act(gate x) * (up x)
  void glu(Input& in, const Linear& gate, const Linear& up, kernel::Glu kind, f32* h);

  void attention(int layer, kernel::AttentionArgs args);
  void delta_net(int layer, kernel::DeltaNetArgs args);

  void route(const f32* logits, i32* ids, f32* weights);
  void moe_glu(Input& in, const Linear& gate, const Linear& up, const i32* ids, f32* h);
  void moe_down(Input& in, const Linear& down, const i32* ids, const f32* weights, f32* x);
  void add_gated(f32* x, const f32* y, const f32* gate, int n);
  // The same joined, where the device can: everything up to the hidden numbers, and from there to x.  False: nothing done.  (experts.cpp)
  bool experts_up(Input& in, const Experts& e, const ExpertSteps& s);
  bool experts_down(const Experts& e, const ExpertSteps& s, f32* x);

  void gather(const f32* from, const i32* index, int count, int n, f32* to);
  void layer_done(int layer, const f32* x);

 private:
  void* bytes(u64 n);
  bool tapped() const { return tap && *tap; }
  void tap_input(Input& in, const Linear& w, const i32* ids, bool per_entry);

  kernel::Ctx& ctx_;
  const Config& config_;
  std::span<u8> arena_;
  bool measure_;
  u64 used_ = 0, peak_ = 0;
};

}  // namespace fewbit::model
