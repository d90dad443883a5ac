// The exact path on a CPU: float32 activations, KV and state, weights decoded exactly.  `--exact` runs real models through it, so it
// is vectorised and threaded, but it knows no layout but the file's and no type by name.
#pragma once
#include "kernel/cpu/ops.h"

namespace fewbit::kernel::exact {

// The table for one instruction set (tests), and the best one of this machine.
const Kernels* table(Isa isa);
const Kernels* table();

// Activations: (cols, n rounded up to 16) floats, padded with zeros; layout token8 keeps the rounded integers as floats and one
// factor s per column behind them (models.md 11.3: the product is divided by s).
void write_act(const Act& act, int col, const f32* x);

}  // namespace fewbit::kernel::exact
