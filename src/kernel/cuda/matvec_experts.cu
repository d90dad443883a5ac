#include "kernel/cuda/matvec_experts.cuh"

namespace fewbit::kernel::cuda {

EntryKernels entry_kernels(int layout, int units, int k, int split) {
  switch (layout) {
    case layout_q1_g128:
      return entry_kernels_of<Code::q1, Scale::g128>(units, k, split);
    case layout_b2_g128:
      return entry_kernels_of<Code::b2, Scale::g128>(units, k, split);
    case layout_b2_g64:
      return entry_kernels_of<Code::b2, Scale::g64>(units, k, split);
    case layout_b2_k16m:
      return entry_kernels_of<Code::b2, Scale::k16m>(units, k, split);
    case layout_b2_k32d:
      return entry_kernels_of<Code::b2, Scale::k32d>(units, k, split);
    case layout_t3_k16:
      return entry_kernels_of<Code::t3, Scale::k16>(units, k, split);
    case layout_t3_k32:
      return entry_kernels_of<Code::t3, Scale::k32>(units, k, split);
    case layout_d2_k16:
      return entry_kernels_of<Code::d2, Scale::k16>(units, k, split);
    case layout_n4_g32:
      return entry_kernels_of<Code::n4, Scale::g32>(units, k, split);
    case layout_n4_k32:
      return entry_kernels_of<Code::n4, Scale::k32>(units, k, split);
    case layout_n4_k32m:
      return entry_kernels_of<Code::n4, Scale::k32m>(units, k, split);
    case layout_b8_g32:
      return entry_kernels_of<Code::b8, Scale::g32>(units, k, split);
    default:
      return entry_kernels_t5(layout, units, k, split);
  }
}

}  // namespace fewbit::kernel::cuda
