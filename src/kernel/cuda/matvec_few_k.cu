#include "kernel/cuda/matvec_few.cuh"

namespace fewbit::kernel::cuda {

MvEntry mv_few_k(int layout, int nc, int tiles) {
  switch (layout) {
    case layout_b2_k16m:
      return mv_few_of<Code::b2, Scale::k16m>(nc, tiles);
    case layout_b2_k32d:
      return mv_few_of<Code::b2, Scale::k32d>(nc, tiles);
    case layout_t3_k16:
      return mv_few_of<Code::t3, Scale::k16>(nc, tiles);
    case layout_t3_k32:
      return mv_few_of<Code::t3, Scale::k32>(nc, tiles);
    case layout_d2_k16:
      return mv_few_of<Code::d2, Scale::k16>(nc, tiles);
    case layout_n4_k32:
      return mv_few_of<Code::n4, Scale::k32>(nc, tiles);
    default:
      return {};
  }
}

}  // namespace fewbit::kernel::cuda
