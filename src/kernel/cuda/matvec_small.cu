#include "kernel/cuda/matvec.cuh"

namespace fewbit::kernel::cuda {

MvEntry mv_entry_small(int layout) {
  switch (layout) {
    case layout_q1_g128:
      return mv_entry<Code::q1, Scale::g128>("matvec.q1.g128");
    case layout_b2_g128:
      return mv_entry<Code::b2, Scale::g128>("matvec.b2.g128");
    case layout_b2_g64:
      return mv_entry<Code::b2, Scale::g64>("matvec.b2.g64");
    case layout_b2_k16m:
      return mv_entry<Code::b2, Scale::k16m>("matvec.b2.k16m");
    case layout_b2_k32d:
      return mv_entry<Code::b2, Scale::k32d>("matvec.b2.k32d");
    default:
      return {};
  }
}

}  // namespace fewbit::kernel::cuda
