// Engine: a loaded model that does not change.  Sequence: one timeline of tokens with its KV pages and recurrent state.
// One thread drives an Engine; it holds no locks.
#pragma once
#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "gguf/gguf.h"
#include "kernel/kernel.h"
#include "text/tokenizer.h"

namespace fewbit::runtime {

using text::Token;

struct Prepared;  // runtime/plan.h

struct EngineOptions {
  std::string model;      // path, or empty with `synthetic`
  std::string synthetic;  // "bonsai-27b:PQ2_0": random weights in memory
  int layers = 0;         // with synthetic: cut the depth
  u64 seed = 1;
  std::string device = "auto";
  int threads = 0;
  kernel::Path path = kernel::Path::fast;
  int n_ctx = 0;  // positions per sequence; 0 = min(4096, trained context), or what `positions` says
  // How many are needed, asked once the vocabulary is known.  An error if that is more than n_ctx; with n_ctx = 0, more than the model was
  // trained for.
  std::function<Result<i64>(const Prepared&)> positions;
  int n_seqs = 1;                               // sequences that may exist at once
  int ubatch = 512;                             // columns of one forward pass at most
  Type k_type = Type::F16, v_type = Type::F16;  // F32, F16, Q8_0, Q4_0 (exact path: always F32)
  int checkpoints = 1;                          // of recurrent state, per sequence; each costs the memory of one state
  int logits = 0;                               // columns whose logits are computed at once (planned memory); 0 = max(n_seqs, 16)
  u64 logits_bytes = 0;                         // ... or as many as fit in here, if that is more, but no more than a pass has
  bool repack = true;
  int dense_groups = 0;   // groups of weights in their densest form, at least; more if the plan does not fit otherwise
  bool act_int8 = false;  // BitNet's own activation rounding (eval --act int8)
  bool q2_0_legacy = false;
  std::string tokenizer_pre;  // pre-tokeniser to use where the file's is unknown
  std::function<void(f64 fraction)> progress;
  const std::atomic<bool>* cancel = nullptr;  // looked at while loading and, in passes of many columns, between layers
  bool probe = false;                         // the caller measures the bandwidth before the load: its memory is part of the plan
};

// Bytes, printed before anything large is allocated, and kept.
struct MemoryPlan {
  u64 weights_mapped = 0, weights_packed = 0, kv = 0, state = 0, scratch = 0, other = 0, available = 0;
  int dense_groups = 0, groups = 0;  // of weights; dense: slower, but the plan fits
  u64 probe = 0;                     // of the caller, given back before the rest is taken
  u64 loading = 0;                   // the most at any time of the load, when what is packed stands beside its source
  u64 steady() const { return weights_mapped + weights_packed + kv + state + scratch + other; }
  u64 total() const { return std::max({steady(), probe, loading}); }
  std::string text() const;  // one line
};

struct ModelInfo {
  std::string architecture, name, type;  // type: "qwen3 1.7B PQ2_0" as bench shows it
  i64 parameters = 0;
  u64 file_bytes = 0;
  u64 bytes_per_token = 0;  // weights and recurrent state read for one decoded token (KV not counted)
  u64 macs_per_token = 0;   // multiplications of weights for one decoded token, the head's included
  int vocab = 0, hidden = 0, layers = 0, n_ctx_train = 0;
};

struct SequenceId {
  int index = -1;
};

// Columns of one sequence in a step; logits are computed for the columns in `want` (indices into tokens, ascending).
struct StepItem {
  SequenceId seq;
  std::vector<Token> tokens;
  std::vector<int> want;
};

class Engine {
 public:
  // Plans memory (error with the numbers and what would fit), then loads.
  static Result<std::unique_ptr<Engine>> load(const EngineOptions& options);
  static Result<std::unique_ptr<Engine>> load(Prepared prepared);
  static Result<MemoryPlan> plan(const EngineOptions& options);
  virtual ~Engine() = default;

  virtual const EngineOptions& options() const = 0;
  virtual const ModelInfo& info() const = 0;
  virtual const MemoryPlan& memory() const = 0;
  virtual const gguf::File& file() const = 0;
  virtual const text::Tokenizer* tokenizer() const = 0;      // nullptr if the file has none that can be used
  virtual const std::string& tokenizer_problem() const = 0;  // why tokenizer() is nullptr
  virtual Device& device() = 0;
  virtual std::span<const kernel::Weight> weights() const = 0;

  virtual Result<SequenceId> new_sequence() = 0;  // error: all n_seqs are in use
  virtual void free_sequence(SequenceId seq) = 0;
  virtual int length(SequenceId seq) const = 0;  // tokens so far
  // One batch, cut into passes of at most `ubatch` columns.  Returns the wanted logits, in order of items and of `want`:
  // (n_wanted, vocab), valid until the next step.  Allocates nothing as long as no more than EngineOptions::logits are wanted.
  // Error: a sequence would pass n_ctx, a token or a wanted index is out of range; nothing was changed then.  Error `cancelled`: the
  // sequences are cut back to where they were, or with recurrent state to a checkpoint before it; length() says where.
  virtual Result<std::span<const f32>> step(std::span<const StepItem> items) = 0;
  // The same, but only the id of the largest logit of each wanted column (the lowest id on ties); logits stay on the device.
  virtual Result<std::span<const Token>> step_argmax(std::span<const StepItem> items) = 0;

  // Cuts a sequence back to n tokens.  With recurrent state this works only to a checkpoint (or 0): returns the length reached.
  virtual Result<int> truncate(SequenceId seq, int n) = 0;
  // Remembers the recurrent state at the present length, in place of the oldest one when EngineOptions::checkpoints are taken.
  // Without recurrent state there is nothing to do: truncate() reaches any length.
  virtual Status checkpoint(SequenceId seq) = 0;
  virtual Result<SequenceId> fork(SequenceId seq) = 0;  // shares whole KV pages, copies the state

  // An error once a number was seen that is not finite: it names the first layer that put it out, or the logits.  Looked for in
  // every layer where device memory is host memory, else in what is asked for: logits, or tokens chosen on the device.  What follows from
  // such a column has no meaning; the other columns are as they should be.
  virtual Status finite() const = 0;

  // Every operation of the next step is recorded here until set to nullptr.
  virtual void record_launches(std::vector<kernel::Launch>* to) = 0;
  // Called with every matmul input (name of the weight, expert or -1, columns as f32) for importance matrices; slow.
  using InputTap = std::function<void(const std::string& weight, int expert, const f32* x, int n, int cols)>;
  virtual void tap_inputs(InputTap tap) = 0;
  // Called after every layer with the residual stream, (cols, n) floats in host memory; for tests, slow.
  using LayerTrace = std::function<void(int layer, const f32* x, int n, int cols)>;
  virtual void trace_layers(LayerTrace trace) = 0;
};

}  // namespace fewbit::runtime
