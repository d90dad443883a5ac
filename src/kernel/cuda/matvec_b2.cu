#include "kernel/cuda/matvec.cuh"

namespace fewbit::kernel::cuda {

MvEntry mv_entry_b2(int layout, int nc, int tiles, bool experts) {
  switch (layout) {
    case layout_b2_g128:
      return mv_entry<Code::b2, Scale::g128>(nc, tiles, experts);
    case layout_b2_g64:
      return mv_entry<Code::b2, Scale::g64>(nc, tiles, experts);
    case layout_b2_k16m:
      return mv_entry<Code::b2, Scale::k16m>(nc, tiles, experts);
    case layout_b2_k32d:
      return mv_entry<Code::b2, Scale::k32d>(nc, tiles, experts);
    default:
      return mv_entry_t5(layout, nc, tiles, experts);
  }
}

}  // namespace fewbit::kernel::cuda
