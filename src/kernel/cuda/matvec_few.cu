#include "kernel/cuda/matvec_few.cuh"

namespace fewbit::kernel::cuda {

MvEntry mv_few(int layout, int nc, int tiles) {
  switch (layout) {
    case layout_q1_g128:
      return mv_few_of<Code::q1, Scale::g128>(nc, tiles);
    case layout_b2_g128:
      return mv_few_of<Code::b2, Scale::g128>(nc, tiles);
    case layout_b2_g64:
      return mv_few_of<Code::b2, Scale::g64>(nc, tiles);
    default:
      return mv_few_t5(layout, nc, tiles);
  }
}

}  // namespace fewbit::kernel::cuda
