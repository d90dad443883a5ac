#include "kernel/cuda/gemm_experts.cuh"

namespace fewbit::kernel::cuda {

namespace {
template <Code C, Scale S, Levels L = Levels::table>
ExpertEntry entry() {
  using Shape = ExpertShape<C, S>;
  return {gemm_experts_kernel<C, S, L>, Shape::smem, Shape::threads, Shape::tiles};
}
}  // namespace

ExpertEntry expert_entry(int layout, Levels levels) {
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
      if (levels == Levels::plain) return entry<Code::n4, Scale::g32, Levels::plain>();
      return levels == Levels::near ? entry<Code::n4, Scale::g32, Levels::near>() : entry<Code::n4, Scale::g32>();
    case layout_n4_k32:
      if (levels != Levels::near) return {};
      return entry<Code::n4, Scale::k32, Levels::near>();
    case layout_n4_k32m:
      return entry<Code::n4, Scale::k32m, Levels::plain>();
    case layout_b8_g32:
      return entry<Code::b8, Scale::g32>();
    default:
      return {};
  }
}

}  // namespace fewbit::kernel::cuda
