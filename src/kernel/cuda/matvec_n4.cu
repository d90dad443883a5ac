#include "kernel/cuda/matvec.cuh"

namespace fewbit::kernel::cuda {

MvEntry mv_entry_n4(int layout, int nc, int tiles, bool experts) {
  switch (layout) {
    case layout_n4_g32:
      return mv_entry<Code::n4, Scale::g32>(nc, tiles, experts);
    case layout_n4_k32:
      return mv_entry<Code::n4, Scale::k32>(nc, tiles, experts);
    case layout_n4_k32m:
      return mv_entry<Code::n4, Scale::k32m>(nc, tiles, experts);
    default:
      return {};
  }
}

MvEntry mv_entry_n4_per_128(int nc, int tiles, bool experts) { return mv_entry<Code::n4, Scale::k32, true>(nc, tiles, experts); }

}  // namespace fewbit::kernel::cuda
