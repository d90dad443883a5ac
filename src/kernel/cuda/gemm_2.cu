#include "kernel/cuda/gemm.cuh"

namespace fewbit::kernel::cuda {

GemmEntry gemm_entry_2(int layout, GemmKind kind) {
  if (kind.by_32) return layout == layout_b2_g128 ? gemm_entry<Code::b2, Scale::g128, true>() : GemmEntry{};
  switch (layout) {
    case layout_q1_g128:
      return gemm_entry<Code::q1, Scale::g128>();
    case layout_b2_g128:
      return gemm_entry<Code::b2, Scale::g128>();
    case layout_b2_g64:
      return gemm_entry<Code::b2, Scale::g64>();
    case layout_b2_k16m:
      return gemm_entry<Code::b2, Scale::k16m>();
    case layout_b2_k32d:
      return gemm_entry<Code::b2, Scale::k32d>();
    default:
      return gemm_entry_t5(layout, kind);
  }
}

}  // namespace fewbit::kernel::cuda
