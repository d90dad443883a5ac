#include "kernel/cuda/matvec.cuh"

namespace fewbit::kernel::cuda {

MvEntry mv_entry_q1(int layout, int nc, int tiles, bool experts) {
  switch (layout) {
    case layout_q1_g128:
      return mv_entry<Code::q1, Scale::g128>(nc, tiles, experts);
    default:
      return {};
  }
}

}  // namespace fewbit::kernel::cuda
