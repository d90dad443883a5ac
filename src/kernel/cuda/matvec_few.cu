#include "kernel/cuda/matvec_few.cuh"

namespace fewbit::kernel::cuda {

namespace {

template <Code C, Scale S, int NC, int T>
MvEntry few() {
  return {matvec_few_kernel<C, S, NC, T>, {FewShape<C, S, T>::smem(NC, 4), FewShape<C, S, T>::smem(NC, 8)}, T};
}
template <Code C, Scale S>
MvEntry few(int nc, int tiles) {
  if (nc == 1) return tiles == 1 ? few<C, S, 1, 1>() : tiles == 2 ? few<C, S, 1, 2>() : few<C, S, 1, 4>();
  return tiles == 1 ? few<C, S, 2, 1>() : tiles == 2 ? few<C, S, 2, 2>() : few<C, S, 2, 4>();
}

}  // namespace

MvEntry mv_few(int layout, int nc, int tiles) {
  switch (layout) {
    case layout_q1_g128:
      return few<Code::q1, Scale::g128>(nc, tiles);
    case layout_b2_g128:
      return few<Code::b2, Scale::g128>(nc, tiles);
    case layout_b2_g64:
      return few<Code::b2, Scale::g64>(nc, tiles);
    default:
      return {};
  }
}

}  // namespace fewbit::kernel::cuda
