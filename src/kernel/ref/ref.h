// The definition of every operation: scalar, double sums, one loop per sentence of the specification (models.md 3, 8, 11.3;
// hadamard.md 4; the last section of formats.md).  `verify` and the tests hold the other tables to it; it is itself held to the
// golden numbers and vectors.  Slow on purpose: nothing is shared with the code that it judges.
//
// It is a Kernels table on host memory like the others.  An activation of layout q8_32, q8_256 or token8 keeps the rounded values
// (d * q) as doubles, so that an integer kernel is compared with the sums it should have made.
#pragma once
#include "kernel/kernel.h"

namespace fewbit::kernel::ref {

const Kernels* table();

// The steps that the table is made of, for tests of the definition itself.
// hadamard.md 4: x' = Had(signs P x); inverse: signs Had(x).  x (n).
std::vector<f64> rotate(const Rotation& r, std::span<const f64> x, bool inverse);
// x (n) as the layout rounds it.
std::vector<f64> round_act(ActLayout layout, std::span<const f32> x);

void attention(Ctx&, const Batch&, const AttentionArgs&);
void delta_net(Ctx&, const Batch&, const DeltaNetArgs&);

}  // namespace fewbit::kernel::ref
