#include "kernel/cuda/matvec_experts.cuh"

namespace fewbit::kernel::cuda {

namespace {
template <Code C, Scale S>
EntryKernels kernels(int units, int k, int split) {
  using Shape = EntryShape<C, S>;
  return {entry_glu_kernel<C, S>, entry_down_kernel<C, S>, Shape::smem(1, units, slab_count(units)), Shape::smem(k, units, k * split)};
}
}  // namespace

EntryKernels entry_kernels(int layout, int units, int k, int split) {
  switch (layout) {
    case layout_q1_g128:
      return kernels<Code::q1, Scale::g128>(units, k, split);
    case layout_b2_g128:
      return kernels<Code::b2, Scale::g128>(units, k, split);
    case layout_b2_g64:
      return kernels<Code::b2, Scale::g64>(units, k, split);
    case layout_b2_k16m:
      return kernels<Code::b2, Scale::k16m>(units, k, split);
    case layout_b2_k32d:
      return kernels<Code::b2, Scale::k32d>(units, k, split);
    case layout_t3_k16:
      return kernels<Code::t3, Scale::k16>(units, k, split);
    case layout_t3_k32:
      return kernels<Code::t3, Scale::k32>(units, k, split);
    case layout_n4_g32:
      return kernels<Code::n4, Scale::g32>(units, k, split);
    case layout_n4_k32:
      return kernels<Code::n4, Scale::k32>(units, k, split);
    case layout_n4_k32m:
      return kernels<Code::n4, Scale::k32m>(units, k, split);
    case layout_b8_g32:
      return kernels<Code::b8, Scale::g32>(units, k, split);
    default:
      return {};
  }
}

}  // namespace fewbit::kernel::cuda
