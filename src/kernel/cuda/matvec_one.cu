#include "kernel/cuda/matvec_one.cuh"

namespace fewbit::kernel::cuda {

MvOne mv_one(int layout, int units, int warps) {
  if (layout == layout_q1_g128) return mv_one_entry<Code::q1, Scale::g128>(units, warps);
  if (layout == layout_b2_g128) return mv_one_entry<Code::b2, Scale::g128>(units, warps);
  return mv_one_t5(layout, units, warps);
}

}  // namespace fewbit::kernel::cuda
