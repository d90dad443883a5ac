#include "kernel/cpu/table.h"

#include <algorithm>

#include "kernel/cpu/matmul.h"
#include "kernel/cpu/ops.h"

namespace fewbit::kernel::cpu {

static u64 scratch_bytes(int max_cols, int, int max_n, int n_q_heads, int head_dim, int max_context) {
  return std::max(steps_scratch_bytes(max_cols, max_n, n_q_heads, head_dim, max_context), matmul_scratch_bytes(max_cols, max_n));
}

const Kernels* fast_table() {
  static const std::string name = "cpu." + std::string(isa_name(cpu_features().best()));
  static const Kernels table = [] {
    Kernels t{};
    t.name = name.c_str();
    t.path = Path::fast;
    t.place = place;
    t.placed_bytes = placed_bytes;
    t.describe = describe;
    t.act_layout = [](const HostTensor& t) { return act_layout(t.type); };
    t.act_bytes = act_bytes_of;
    t.scratch_bytes = scratch_bytes;
    t.embed = embed;
    t.matmul = matmul;
    t.glu = glu;
    t.moe_glu = moe_glu;
    t.moe_down = moe_down;
    fill_steps(t, best_steps().isa, Path::fast);
    return t;
  }();
  return &table;
}

}  // namespace fewbit::kernel::cpu
