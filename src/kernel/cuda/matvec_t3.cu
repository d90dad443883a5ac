#include "kernel/cuda/matvec.cuh"

namespace fewbit::kernel::cuda {

MvEntry mv_entry_t3(int layout) {
  switch (layout) {
    case layout_t3_k16:
      return mv_entry<Code::t3, Scale::k16>("matvec.t3.k16");
    case layout_t3_k32:
      return mv_entry<Code::t3, Scale::k32>("matvec.t3.k32");
    default:
      return {};
  }
}

}  // namespace fewbit::kernel::cuda
