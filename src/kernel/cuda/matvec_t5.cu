#include "kernel/cuda/matvec_experts.cuh"
#include "kernel/cuda/matvec_few.cuh"
#include "kernel/cuda/matvec_one.cuh"

namespace fewbit::kernel::cuda {

MvEntry mv_entry_t5(int layout, int nc, int tiles, bool experts) {
  return layout == layout_t5_g128 ? mv_entry<Code::t5, Scale::g128>(nc, tiles, experts) : MvEntry{};
}
MvOne mv_one_t5(int layout, int units, int warps) {
  return layout == layout_t5_g128 ? mv_one_entry<Code::t5, Scale::g128>(units, warps) : MvOne{};
}
MvEntry mv_few_t5(int layout, int nc, int tiles) {
  return layout == layout_t5_g128 ? mv_few_of<Code::t5, Scale::g128>(nc, tiles) : MvEntry{};
}
EntryKernels entry_kernels_t5(int layout, int units, int k, int split) {
  return layout == layout_t5_g128 ? entry_kernels_of<Code::t5, Scale::g128>(units, k, split) : EntryKernels{};
}

}  // namespace fewbit::kernel::cuda
