#include "kernel/cuda/gemm.cuh"

namespace fewbit::kernel::cuda {

GemmEntry gemm_entry_8(int layout, bool whole) {
  if (whole) return {};
  switch (layout) {
    case layout_b8_g32:
      return gemm_entry<Code::b8, Scale::g32>();
    case layout_b8_g32m:
      return gemm_entry<Code::b8, Scale::g32m>();
    case layout_b8_k32m:
      return gemm_entry<Code::b8, Scale::k32m>();
    default:
      return {};
  }
}

}  // namespace fewbit::kernel::cuda
