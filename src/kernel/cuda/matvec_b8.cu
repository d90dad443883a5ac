#include "kernel/cuda/matvec.cuh"

namespace fewbit::kernel::cuda {

MvEntry mv_entry_b8(int layout) {
  switch (layout) {
    case layout_b8_g32:
      return mv_entry<Code::b8, Scale::g32>("matvec.b8.g32");
    case layout_b8_g32m:
      return mv_entry<Code::b8, Scale::g32m>("matvec.b8.g32m");
    case layout_b8_k16:
      return mv_entry<Code::b8, Scale::k16>("matvec.b8.k16");
    case layout_b8_k32m:
      return mv_entry<Code::b8, Scale::k32m>("matvec.b8.k32m");
    default:
      return {};
  }
}

}  // namespace fewbit::kernel::cuda
