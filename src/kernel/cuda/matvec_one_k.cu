#include "kernel/cuda/matvec_one.cuh"

namespace fewbit::kernel::cuda {

MvOne mv_one_k(int layout, int units, int warps) {
  switch (layout) {
    case layout_b2_k16m:
      return mv_one_entry<Code::b2, Scale::k16m>(units, warps);
    case layout_b2_k32d:
      return mv_one_entry<Code::b2, Scale::k32d>(units, warps);
    case layout_t3_k16:
      return mv_one_entry<Code::t3, Scale::k16>(units, warps);
    case layout_t3_k32:
      return mv_one_entry<Code::t3, Scale::k32>(units, warps);
    case layout_d2_k16:
      return mv_one_entry<Code::d2, Scale::k16>(units, warps);
    case layout_n4_k32:
      return mv_one_entry<Code::n4, Scale::k32>(units, warps);
    default:
      return {};
  }
}

}  // namespace fewbit::kernel::cuda
