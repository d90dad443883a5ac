#include "kernel/cuda/matvec.cuh"

namespace fewbit::kernel::cuda {

MvEntry mv_entry_n4(int layout) {
  switch (layout) {
    case layout_n4_g32:
      return mv_entry<Code::n4, Scale::g32>("matvec.n4.g32");
    case layout_n4_k32:
      return mv_entry<Code::n4, Scale::k32>("matvec.n4.k32");
    case layout_n4_k32m:
      return mv_entry<Code::n4, Scale::k32m>("matvec.n4.k32m");
    default:
      return {};
  }
}

}  // namespace fewbit::kernel::cuda
