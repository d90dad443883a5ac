#include "kernel/cuda/gemm.cuh"

namespace fewbit::kernel::cuda {

GemmEntry gemm_entry_4(int layout, GemmKind kind) {
  if (kind.by_32) return {};
  switch (layout) {
    case layout_t3_k16:
      return gemm_entry<Code::t3, Scale::k16>();
    case layout_t3_k32:
      return gemm_entry<Code::t3, Scale::k32>();
    case layout_d2_k16:
      return gemm_entry<Code::d2, Scale::k16>();
    case layout_n4_g32:
      return kind.bf16    ? gemm_entry<Code::n4, Scale::g32, false, false, false, true>()
             : kind.plain ? gemm_entry<Code::n4, Scale::g32, false, false, true>()
                          : gemm_entry<Code::n4, Scale::g32>();
    case layout_n4_k32:
      return kind.bytes ? gemm_entry<Code::n4, Scale::k32, false, true>() : gemm_entry<Code::n4, Scale::k32>();
    case layout_n4_k32m:
      return gemm_entry<Code::n4, Scale::k32m, false, false, true>();
    default:
      return {};
  }
}

}  // namespace fewbit::kernel::cuda
