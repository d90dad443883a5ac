#include "kernel/cuda/matvec_one.cuh"

namespace fewbit::kernel::cuda {

namespace {

template <Code C>
MvOne one(int units, int warps) {
  return {warps == 4 ? matvec_one_kernel<C, 4> : matvec_one_kernel<C, 8>, OneShape<C>::smem(warps, units)};
}

}  // namespace

MvOne mv_one(int layout, int units, int warps) {
  if (layout == layout_q1_g128) return one<Code::q1>(units, warps);
  if (layout == layout_b2_g128) return one<Code::b2>(units, warps);
  return {};
}

}  // namespace fewbit::kernel::cuda
