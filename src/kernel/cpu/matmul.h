// The matmul family on a CPU: what the fast table is filled with, and what one (type, layout, instruction set) supplies.
//
// A weight is walked in tiles of 16 rows.  A tile kernel multiplies one tile with a panel of up to 16 columns and leaves (cols, 16)
// floats; matmul.cpp shares the tiles out over the threads and finishes the results (scale, bias, add, GLU).  So a kernel knows
// nothing of threads, experts or outputs, and a column's bits depend on nothing but K (see layout/integer_form.h).
#pragma once
#include "kernel/kernel.h"
#include "kernel/layout/activation.h"

namespace fewbit::kernel::cpu {

inline constexpr int tile_rows = 16;
inline constexpr int panel_cols = 16;

// The columns that a tile kernel multiplies with.
struct Panel {
  int cols = 0;
  const void* col[panel_cols] = {};  // each column's record (q8_32) or floats (f32)
};

// rows: how many of the tile's 16 exist (results of the others are not written, their bytes not read in layout "file").
using TileFn = void (*)(const u8* tile, int rows, i64 n, const Panel& panel, f32* out);
// Weights of row r of a tile as floats, bit for bit as formats.md, but without I2_S's tensor scale.
using UnpackFn = void (*)(const u8* tile, int r, i64 n, f32* x);

struct WeightKernels {
  Type type;
  const char* layout;  // "file", "bits2.r16", ...
  const char* name;    // "gemv.PQ2_0/avx2.file"
  ActLayout act;
  int cols;  // columns per call of `tile`, at most panel_cols
  TileFn tile;
  UnpackFn unpack;
};

// The kernels for the bytes of a file, best set of this processor; nullptr: none for the type.
const WeightKernels* file_kernels(Type type);

// Entries of the Kernels table.
Result<std::vector<Weight>> place(Ctx&, std::span<const HostTensor>, GroupUse, const PlaceOptions&, std::vector<Buffer>& owned);
u64 placed_bytes(const HostTensor&, const PlaceOptions&);
ActLayout act_layout(Type type);
u64 act_bytes_of(ActLayout layout, int n, int cols);
u64 matmul_scratch_bytes(int max_cols, int max_n);
void embed(Ctx&, const Weight& table, const i32* ids, int cols, const Rotation* inverse, f32* x);
void matmul(Ctx&, std::span<const Kernels::Product>);
void glu(Ctx&, const Weight& gate, const Weight& up, const Act& a, Glu kind, f32* h);
void moe_glu(Ctx&, const Weight& gate, const Weight& up, const Act& a, const i32* ids, int k, Glu kind, f32* h);
void moe_down(Ctx&, const Weight& down, const Act& a, const i32* ids, const f32* weights, int k, f32* x);

}  // namespace fewbit::kernel::cpu
