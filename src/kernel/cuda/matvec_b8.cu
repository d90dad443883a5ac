#include "kernel/cuda/matvec.cuh"

namespace fewbit::kernel::cuda {

MvEntry mv_entry_b8(int layout, int nc, int tiles, bool experts) {
  switch (layout) {
    case layout_b8_g32:
      return mv_entry<Code::b8, Scale::g32>(nc, tiles, experts);
    case layout_b8_g32m:
      return mv_entry<Code::b8, Scale::g32m>(nc, tiles, experts);
    case layout_b8_k16:
      return mv_entry<Code::b8, Scale::k16, true>(nc, tiles, experts);
    case layout_b8_k32m:
      return mv_entry<Code::b8, Scale::k32m>(nc, tiles, experts);
    default:
      return {};
  }
}

}  // namespace fewbit::kernel::cuda
