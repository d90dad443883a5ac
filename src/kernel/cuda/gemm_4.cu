#include "kernel/cuda/gemm.cuh"

namespace fewbit::kernel::cuda {

GemmEntry gemm_entry_4(int layout, bool whole) {
  if (whole) return {};
  switch (layout) {
    case layout_t3_k16:
      return gemm_entry<Code::t3, Scale::k16>();
    case layout_t3_k32:
      return gemm_entry<Code::t3, Scale::k32>();
    case layout_n4_g32:
      return gemm_entry<Code::n4, Scale::g32>();
    case layout_n4_k32:
      return gemm_entry<Code::n4, Scale::k32>();
    case layout_n4_k32m:
      return gemm_entry<Code::n4, Scale::k32m>();
    default:
      return {};
  }
}

}  // namespace fewbit::kernel::cuda
