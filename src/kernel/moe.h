// The steps of a layer of experts joined into fewer launches, for a device whose launches cost more than the work of a token.  Optional:
// the single operations of the table (kernel.h) give the same bits.
#pragma once
#include "kernel/kernel.h"

namespace fewbit::kernel {

// From the normed input to the hidden numbers: routers, choice, gate and up of the chosen experts and of the shared one.
struct ExpertsUp {
  struct Input {
    const Weight* w = nullptr;  // nullptr: there is none
    const Act* a = nullptr;
  };
  Input router, shared_router;
  Input gate, shared_gate;  // their partners take the same activations
  const Weight *up = nullptr, *shared_up = nullptr;
  int k = 0;
  f32 scale = 0;  // as route()'s
  Glu kind = Glu::silu;
  f32* logits = nullptr;        // (cols, experts)
  f32* shared_logit = nullptr;  // (cols)
  i32* ids = nullptr;           // (cols, k), and their
  f32* weights = nullptr;       // weights
  f32* h = nullptr;             // (cols * k, n_ff)
  f32* shared_h = nullptr;      // (cols, n_ff of the shared expert)
};

// From there to x (cols, rows) += the weighted sum over the experts, then += sigmoid(gate) * the shared expert's output.
struct ExpertsDown {
  const Weight *down = nullptr, *shared = nullptr;  // neither with a rotation of its input
  const f32 *h = nullptr, *shared_h = nullptr;      // as in ExpertsUp
  const f32* y = nullptr;                           // (cols, rows): the shared expert's output, if it has been computed; `shared` is unset
  const f32* gate = nullptr;                        // (cols), or nullptr: factor 1
  const i32* ids = nullptr;
  const f32* weights = nullptr;
  int k = 0, cols = 0;
  f32* x = nullptr;
};

struct JoinedExperts {
  void (*up)(Ctx&, const ExpertsUp&);
  bool (*down)(Ctx&, const ExpertsDown&);  // false: nothing done, not for these
};
// nullptr: this device has none.
const JoinedExperts* joined_experts(const Device&);

}  // namespace fewbit::kernel
