// How far a kernel may be from the definition (kernel/ref): one bound per operation, with its reason.  `verify` and the tests use these.
//
// nmse is the sum of squared differences over the sum of squared reference values, of one whole output.
#pragma once
#include <string_view>

#include "base/types.h"

namespace fewbit::kernel {

struct Parity {
  const char* op;
  f64 nmse;
  const char* why;
};

inline constexpr Parity parity_table[] = {
    {"matmul", 1e-11,
     "integer sums are exact; up to K / 32 float roundings of 6e-8 in a random walk, cancelling sums lose a few bits more"},
    {"glu", 2e-11, "two products, an exponential good to 1e-7"},
    {"moe_glu", 2e-11, "as glu"},
    {"moe_down", 1e-11, "as matmul, k of them added"},
    {"embed", 1e-12, "exact without rotation; log2(B) roundings with"},
    {"norm", 1e-12, "one sum of squares, one root, two products"},
    {"act", 1e-8, "an input on a rounding boundary may fall to either side: 1 / 127 of a group's largest, rarely"},
    {"act_mul", 1e-12, "an exponential good to 1e-7"},
    {"attention", 1e-10, "scores and softmax in float; K and V as stored"},
    {"delta_net", 1e-10, "state in float, a few hundred steps"},
    {"route", 1e-12, "softmax in float"},
    {"add_gated", 1e-12, "an exponential good to 1e-7"},
    {"gather", 0, "a copy"},
    {"argmax", 0, "an index"},
};

inline constexpr const Parity* parity_of(std::string_view op) {
  for (const Parity& p : parity_table)
    if (op == p.op) return &p;
  return nullptr;
}

}  // namespace fewbit::kernel
