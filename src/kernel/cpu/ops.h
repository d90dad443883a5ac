// The small operations of kernel.h on a CPU: norm, attention, delta_net, route and so on, over the steps of one instruction set.
// The exact and the fast table share them; they differ in how an activation is written and in the matmul family.
#pragma once
#include <vector>

#include "kernel/cpu/steps.h"
#include "kernel/kernel.h"

namespace fewbit::kernel::cpu {

// Writes column `col` of an activation from its n floats.
using WriteAct = void (*)(const Act& act, int col, const f32* x);

// Fills norm, act_mul, attention, delta_net, route, add_gated, gather and argmax of a table of `path` with the steps of `isa`.
void fill_steps(Kernels& table, Isa isa, Path path);
u64 steps_scratch_bytes(int max_cols, int max_n, int n_q_heads, int head_dim, int max_context);

// hadamard.md section 4: to = Had(signs * P x), or with `inverse` to = signs * Had(x).  to != x.
void rotate(const Steps& steps, f32* to, const f32* x, const Rotation& rotation, int n, bool inverse);

// ---- for the operations themselves -----------------------------------------------------------------------------------------------

// f(begin, end, thread) over [0, n) in pieces of `grain`, on the caller alone where there is no pool.
template <class F>
inline void parallel(Ctx& ctx, i64 n, i64 grain, F&& f) {
  if (ctx.pool) return ctx.pool->for_range(n, grain, f);
  if (n > 0) f(i64(0), n, 0);
}
inline int threads(const Ctx& ctx) { return ctx.pool ? ctx.pool->size() : 1; }

// Memory of this thread, kept from call to call: `n` floats on 64 bytes.  A slot is in use by one operation at a time.
f32* local(int slot, i64 n);

// Pieces of Ctx::scratch; what does not fit comes from the calling thread's own memory (slots 8 and up).
class Arena {
 public:
  explicit Arena(Ctx& ctx) : at_(static_cast<u8*>(ctx.scratch)), left_(ctx.scratch ? ctx.scratch_bytes : 0) {}
  f32* floats(i64 n);

 private:
  u8* at_;
  u64 left_;
  int slot_ = 8;
};

// Records an operation in Ctx::launches, if somebody listens.
class Record {
 public:
  Record(Ctx& ctx, const char* kernel, u64 bytes, const char* format, ...) __attribute__((format(printf, 5, 6)));
  ~Record();

 private:
  Ctx& ctx_;
  f64 start_ = 0;
  size_t index_ = 0;
};

void norm(const Steps&, WriteAct, Ctx&, const f32* x, i64 ldx, int n, int cols, const f32* w, f32 eps, f32* plain,
          std::span<const Kernels::ActOut> outs);
void attention(const Steps&, Ctx&, const Batch&, const AttentionArgs&);
void delta_net(const Steps&, Ctx&, const Batch&, const DeltaNetArgs&);
void route(const Steps&, Ctx&, const f32* logits, int experts, int k, int cols, f32 scale, i32* ids, f32* weights);

}  // namespace fewbit::kernel::cpu
