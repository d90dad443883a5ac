// Experts of few tokens: the launch of the kernels of matvec_experts.cuh.
#pragma once
#include <string>

#include "kernel/cuda/matvec_experts.cuh"
#include "kernel/cuda/product.cuh"

namespace fewbit::kernel::cuda {

inline constexpr int direct_entries = 64;  // up to here every entry is its own group

// To 16 levels within -64..63, modulo 256; false: some lie beyond.
bool add_to_levels(Tables& t, int more);

inline EntryArgs entry_args(const MvArgs& m, int k) {
  EntryArgs a{};
  a.p = m.p[0], a.units = m.units, a.k = k, a.split = 1, a.kind = m.kind;
  return a;
}
// Entry by entry; `down` adds to p.y.  False: not for these.
bool launch_entries(Ctx& ctx, EntryArgs a, int tiles, int layout, bool down, int tokens, u64 bytes, const std::string& shape);

}  // namespace fewbit::kernel::cuda
