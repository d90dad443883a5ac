#include "kernel/cuda/gemm_experts.cuh"

namespace fewbit::kernel::cuda {

ExpertEntry expert_entry(int layout, Levels levels) {
  switch (layout) {
    case layout_q1_g128:
      return expert_entry_of<Code::q1, Scale::g128>();
    case layout_b2_g128:
      return expert_entry_of<Code::b2, Scale::g128>();
    case layout_b2_g64:
      return expert_entry_of<Code::b2, Scale::g64>();
    case layout_b2_k16m:
      return expert_entry_of<Code::b2, Scale::k16m>();
    case layout_b2_k32d:
      return expert_entry_of<Code::b2, Scale::k32d>();
    case layout_t3_k16:
      return expert_entry_of<Code::t3, Scale::k16>();
    case layout_t3_k32:
      return expert_entry_of<Code::t3, Scale::k32>();
    case layout_d2_k16:
      return expert_entry_of<Code::d2, Scale::k16>();
    case layout_n4_g32:
      if (levels == Levels::plain) return expert_entry_of<Code::n4, Scale::g32, Levels::plain>();
      return levels == Levels::near ? expert_entry_of<Code::n4, Scale::g32, Levels::near>() : expert_entry_of<Code::n4, Scale::g32>();
    case layout_n4_k32:
      if (levels != Levels::near) return {};
      return expert_entry_of<Code::n4, Scale::k32, Levels::near>();
    case layout_n4_k32m:
      return expert_entry_of<Code::n4, Scale::k32m, Levels::plain>();
    case layout_b8_g32:
      return expert_entry_of<Code::b8, Scale::g32>();
    default:
      return expert_entry_t5(layout);
  }
}

}  // namespace fewbit::kernel::cuda
