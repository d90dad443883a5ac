#include "kernel/cuda/matvec.cuh"

namespace fewbit::kernel::cuda {

MvEntry mv_entry_t3(int layout, int nc, int tiles, bool experts) {
  switch (layout) {
    case layout_t3_k16:
      return mv_entry<Code::t3, Scale::k16>(nc, tiles, experts);
    case layout_t3_k32:
      return mv_entry<Code::t3, Scale::k32>(nc, tiles, experts);
    case layout_d2_k16:
      return mv_entry<Code::d2, Scale::k16>(nc, tiles, experts);
    default:
      return {};
  }
}

}  // namespace fewbit::kernel::cuda
