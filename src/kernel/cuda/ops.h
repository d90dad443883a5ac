// The operations of the CUDA table, one .cu file per family; table.cu puts them into a Kernels.
#pragma once
#include "kernel/kernel.h"

namespace fewbit::kernel::cuda {

// place.cu
Result<std::vector<Weight>> place(Ctx&, std::span<const HostTensor>, GroupUse, const PlaceOptions&, std::vector<Buffer>& owned);
u64 placed_bytes(const HostTensor&, const PlaceOptions&);
Result<std::string> describe(const HostTensor&, const PlaceOptions&);
// dense.cu: types with two layouts (layout.h)
// Which one they get: 0 the one that is faster at one column on the device of dense_on(), measured at the first question; 1 the smaller
// one, -1 the other.  Both give the same bits.  FEWBIT_CUDA_DENSE (1 or 0) says it from outside.
extern int dense_choice;
// Whether large F16 and BF16 matrices become f16 tiles (half_layout.h): 1 yes, -1 no, 0 yes unless FEWBIT_CUDA_HALF=0.
extern int half_choice;
void dense_on(Device&);
bool dense_chosen(Type);
std::string dense_reason(Type, bool dense);  // behind a kernel's name: " (...)", or nothing; dense: memory wants it
// norm.cu
ActLayout act_layout(Type);  // of matrices that are not large F16 or BF16
ActLayout act_layout(const HostTensor&);
u64 act_bytes(ActLayout, int n, int cols);
void norm(Ctx&, const f32* x, i64 ldx, int n, int cols, const f32* w, f32 eps, f32* plain, std::span<const Kernels::ActOut> outs);
// embed.cu
void embed(Ctx&, const Weight& table, const i32* ids, int cols, const Rotation* inverse, f32* x);
// matmul.cu
void matmul(Ctx&, std::span<const Kernels::Product>);
void glu(Ctx&, const Weight& gate, const Weight& up, const Act& a, Glu kind, f32* h);
// Of a pair whose rows are laid out in turn; ldh: from one column of h to the next.
void glu_pair(Ctx&, const Weight& gate, const Weight& up, const Act& a, Glu kind, f32* h, i64 ldh);
void moe_glu(Ctx&, const Weight& gate, const Weight& up, const Act& a, const i32* ids, int k, Glu kind, f32* h);
void moe_down(Ctx&, const Weight& down, const Act& a, const i32* ids, const f32* weights, int k, f32* x);
u64 matmul_scratch_bytes(int max_cols, int experts_used, int max_n);
// Which kernel multiplies more than 32 columns: 0 the faster one, 1 the wide one wherever it is there, -1 the mat-vec (same bits).
extern int wide_choice;
// Which multiplies up to 8: 0 one made for the width where there is one, -1 the mat-vec (same bits).
extern int narrow_choice;
// attention.cu
void attention(Ctx&, const Batch&, const AttentionArgs&);
u64 attention_scratch_bytes(int max_cols, int n_q_heads, int head_dim, int max_context);
// delta_net.cu
void delta_net(Ctx&, const Batch&, const DeltaNetArgs&);
u64 delta_net_scratch_bytes(int max_cols, int max_n);
// steps.cu
void act_mul(Ctx&, const f32* gate, const f32* up, Glu kind, i64 count, f32* h);
void route(Ctx&, const f32* logits, int experts, int k, int cols, f32 scale, i32* ids, f32* weights);
void add_gated(Ctx&, f32* x, const f32* y, const f32* gate, int n, int cols);
void gather(Ctx&, const f32* from, const i32* index, int count, int n, f32* to);
void argmax(Ctx&, const f32* logits, int n, int cols, i32* ids);  // -1 for a column that holds a number that is not finite

}  // namespace fewbit::kernel::cuda
