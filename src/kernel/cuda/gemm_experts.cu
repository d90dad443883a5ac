#include "kernel/cuda/gemm_experts.cuh"

namespace fewbit::kernel::cuda {

namespace {
template <Code C, Scale S, bool plain = false>
ExpertEntry entry() {
  using Shape = ExpertShape<C, S>;
  return {gemm_experts_kernel<C, S, plain>, Shape::smem, Shape::threads, Shape::tiles};
}
}  // namespace

ExpertEntry expert_entry(int layout, bool plain) {
  switch (layout) {
    case layout_q1_g128:
      return entry<Code::q1, Scale::g128>();
    case layout_b2_g128:
      return entry<Code::b2, Scale::g128>();
    case layout_b2_g64:
      return entry<Code::b2, Scale::g64>();
    case layout_b2_k16m:
      return entry<Code::b2, Scale::k16m>();
    case layout_b2_k32d:
      return entry<Code::b2, Scale::k32d>();
    case layout_t3_k16:
      return entry<Code::t3, Scale::k16>();
    case layout_t3_k32:
      return entry<Code::t3, Scale::k32>();
    case layout_n4_g32:
      return plain ? entry<Code::n4, Scale::g32, true>() : entry<Code::n4, Scale::g32>();
    case layout_n4_k32:
      return entry<Code::n4, Scale::k32>();
    case layout_n4_k32m:
      return entry<Code::n4, Scale::k32m, true>();
    case layout_b8_g32:
      return entry<Code::b8, Scale::g32>();
    default:
      return {};
  }
}

}  // namespace fewbit::kernel::cuda
