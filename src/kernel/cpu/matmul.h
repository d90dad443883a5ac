// The matmul family on a CPU: what the fast table is filled with.
#pragma once
#include "kernel/cpu/tile.h"
#include "kernel/kernel.h"
#include "kernel/layout/activation.h"

namespace fewbit::kernel::cpu {

// The kernels for the bytes of a file, best set of this processor; nullptr: none for the type.
const WeightKernels* file_kernels(Type type);
// Packed kernels of the best set; nullptr: none.
const WeightKernels* packed_kernels(Type type);

// Every kernel that this machine can run, and a weight placed for one of them (`ab`, tests).
std::vector<const WeightKernels*> all_kernels();
Result<Weight> place_with(Ctx&, const HostTensor&, const WeightKernels&, const PlaceOptions&, std::vector<Buffer>& owned);

// Entries of the Kernels table.
Result<std::vector<Weight>> place(Ctx&, std::span<const HostTensor>, GroupUse, const PlaceOptions&, std::vector<Buffer>& owned);
u64 placed_bytes(const HostTensor&, const PlaceOptions&);
Result<std::string> describe(const HostTensor&, const PlaceOptions&);
ActLayout act_layout(Type type);
inline u64 act_bytes_of(ActLayout layout, int n, int cols) { return act_bytes(layout, n, cols); }
u64 matmul_scratch_bytes(int max_cols, int max_n);
void embed(Ctx&, const Weight& table, const i32* ids, int cols, const Rotation* inverse, f32* x);
void matmul(Ctx&, std::span<const Kernels::Product>);
void glu(Ctx&, const Weight& gate, const Weight& up, const Act& a, Glu kind, f32* h);
void moe_glu(Ctx&, const Weight& gate, const Weight& up, const Act& a, const i32* ids, int k, Glu kind, f32* h);
void moe_down(Ctx&, const Weight& down, const Act& a, const i32* ids, const f32* weights, int k, f32* x);

}  // namespace fewbit::kernel::cpu
