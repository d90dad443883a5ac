#include "kernel/cuda/gemm.cuh"

namespace fewbit::kernel::cuda {

GemmEntry gemm_entry_8(int layout, GemmKind kind) {
  switch (layout) {
    case layout_b8_g32:
      return kind.by_32 ? GemmEntry{} : gemm_entry<Code::b8, Scale::g32>();
    case layout_b8_g32m:
      return kind.by_32 ? gemm_entry<Code::b8, Scale::g32m, true>() : GemmEntry{};
    case layout_b8_k16:
      return kind.bytes ? gemm_entry<Code::b8, Scale::k16, false, true>() : GemmEntry{};
    case layout_b8_k32m:
      return kind.by_32 ? gemm_entry<Code::b8, Scale::k32m, true>() : GemmEntry{};
    default:
      return {};
  }
}

}  // namespace fewbit::kernel::cuda
