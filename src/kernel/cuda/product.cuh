// What the launches of products share (matmul.cu).
#pragma once
#include <string>

#include "kernel/cuda/expand.h"
#include "kernel/cuda/matvec.cuh"

namespace fewbit::kernel::cuda {

inline constexpr u64 groups_bytes = 512 << 10;  // in front of the scratch: room for the experts' list of groups

// Sums of tiles that two pairs of blocks of a wide kernel share lie at the end of the scratch.
inline constexpr int max_gemm_pairs = 80;
// Bytes of scratch, from its start, that no product's own parts take.
u64 split_room(const Ctx& ctx);

inline bool is_rows(const Weight& w) { return w.layout_id >= layout_rows_f32 && w.layout_id <= layout_rows_bf16; }
inline bool interleaved(const Weight& gate, const Weight& up) { return gate.extra && gate.extra == up.extra; }
bool plain_nibbles(const Tables& t);  // 16 levels that are c - 8

// "ROWSxCOLSxCOLUMNS" where launches are listed.
std::string shape_of(const Ctx& ctx, i64 rows, i64 cols, int columns);

void check_act(const Weight& w, const Act& a);
MvProduct mv_product(const Weight& w, const Act& a, f32* y, i64 ldy, bool add);
MvArgs pair_args(const Weight& gate, const Weight& up, const Act& a, Glu kind, f32* h, i64 ldh);
RowsArgs rows_args(const Weight& w, const Act& a, f32* y, i64 ldy, bool add);

void launch_rows(Ctx& ctx, const RowsArgs& a, int groups, u64 bytes);
// By a kernel for many columns, the same sums; false: not for these.
bool launch_rows_wide(Ctx& ctx, const RowsArgs& a, u64 bytes);
// By the mat-vec, `groups` of up to 8 columns.
void launch_mv(Ctx& ctx, MvArgs& a, int layout, ActLayout act, int groups, u64 bytes, const std::string& shape);

}  // namespace fewbit::kernel::cuda
