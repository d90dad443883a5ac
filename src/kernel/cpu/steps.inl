// The small steps over V16.  Included once per instruction set, inside its namespace.  The order matters: each file uses those above.
// clang-format off
#include "kernel/cpu/vec16.inl"
#include "kernel/cpu/rows.inl"
#include "kernel/cpu/kv.inl"
#include "kernel/cpu/attend.inl"
#include "kernel/cpu/delta.inl"
#include "kernel/exact/dots.inl"
// clang-format on

static constexpr Steps table(Isa isa) {
  return {isa,     sum_squares, scale,  add_scaled, largest_abs, signs,  fwht,  glu,   gate, gated_norm,
          softmax, rope,        argmax, store_kv,   conv_silu,   attend, merge, delta, dots};
}
