#include "kernel/cuda/gemm_experts.cuh"

namespace fewbit::kernel::cuda {

GemmEntry gemm_entry_t5(int layout, GemmKind) { return layout == layout_t5_g128 ? gemm_entry<Code::t5, Scale::g128>() : GemmEntry{}; }
ExpertEntry expert_entry_t5(int layout) { return layout == layout_t5_g128 ? expert_entry_of<Code::t5, Scale::g128>() : ExpertEntry{}; }

}  // namespace fewbit::kernel::cuda
