// What one (type, layout, instruction set) supplies to the matmul family on a CPU.
//
// A weight is walked in tiles of 16 rows.  A tile kernel multiplies one tile with a panel of a few columns and leaves (cols, 16)
// floats; product.h and matmul.cpp share the tiles out over the threads and finish the results (scale, bias, add, GLU).  So a kernel
// knows nothing of threads, experts or outputs, and a column's bits depend on nothing but K (see layout/integer_form.h).
//
// This header needs nothing but the formats, so that the kernels, which are slow to compile, depend on little.
#pragma once
#include <span>

#include "format/format.h"

namespace fewbit::kernel::cpu {

inline constexpr int tile_rows = 16;
inline constexpr int max_panel = 16;  // columns

enum class PanelSums : u8 { none, scaled, plain };  // d * (sum of q), or (sum of q) * 2^shift, as floats

// What a kernel wants to know about the activations besides their codes.
struct PanelSpec {
  bool quads = false;   // false: the columns themselves (Panel::col); true: the arrays below
  int groups = 1;       // groups of 32 inputs after which `shift` starts again
  i8 shift[8] = {};     // sums of group g come out 2^shift[g % groups] times as large
  int zero = 0;         // integer sums start at -zero * (sum of q) * 2^shift
  bool halves = false;  // starts and sums per 16 inputs instead of 32
  bool mixed = false;   // quads of two inputs from each half of a group (layout/r16.h); starts are then by runs
  int run = 0;          // otherwise than 0: starts are pairs of i16, of bytes 0, 1 and 2, 3 of `run` quads, and begin anew in each group
  PanelSums sums = PanelSums::none;
  bool pairs = false;  // -2 * (sum of q) over 8 and 8 inputs, for each half
  bool operator==(const PanelSpec&) const = default;
};

// The columns that a tile kernel multiplies with.
struct Panel {
  int cols = 0;
  const void* col[max_panel] = {};  // each column's record (q8_32) or floats (f32)
  const i8* q = nullptr;            // (K/4, cols, 4)
  const f32* a = nullptr;           // (G, cols)          d of the activations * 2^-shift
  const i32* start = nullptr;       // (G [, 2 or runs], cols)
  const f32* as = nullptr;          // (G [, 2], cols)    what `sums` says
  const i32* pairs = nullptr;       // (G, 2, cols)       two i16 each
};
u64 panel_bytes(const PanelSpec& spec, int cols, i64 n);
// Makes the arrays in `memory` (64-byte aligned, panel_bytes); with one column q stays in the record.
Panel make_panel(const PanelSpec& spec, std::span<const void* const> cols, i64 n, u8* memory);

// rows: how many of the tile's 16 exist.  Layout "file" writes no others; R16 writes all 16 of each column.
using TileFn = void (*)(const u8* tile, int rows, i64 n, const Panel& panel, f32* out);
// Weights of row r of a tile as floats, bit for bit as formats.md, but without I2_S's tensor scale.
using UnpackFn = void (*)(const u8* tile, int r, i64 n, f32* x);
using PackFn = void (*)(const u8* rows, int n_rows, i64 n, u8* tile);
using SpreadFn = void (*)(const u8* tile, int rows, i64 n, u8* to);

struct WeightKernels {
  Type type;
  const char* layout;        // "file", "bits2.r16", ...
  const char* name;          // "gemv.PQ2_0/avx512_vnni.bits2.r16"
  bool float_input;          // multiplies floats, not 8-bit activations
  i64 (*tile_bytes)(i64 n);  // 16 rows
  PackFn pack;               // nullptr: the file's bytes
  UnpackFn unpack;
  // One call for up to max_narrow columns: narrow[cols].  Where that is missing, the next wider one takes the last column twice.
  int max_narrow;
  PanelSpec narrow_spec;
  TileFn narrow[max_panel + 1];
  // From first_wide columns on, the tile is spread to bytes once and the columns are split evenly into panels of at most max_wide, each
  // multiplied by wide[its columns].  spread == nullptr: panels of max_narrow.
  SpreadFn spread = nullptr;
  i64 (*spread_bytes)(i64 n) = nullptr;
  int first_wide = 9, max_wide = 0;
  PanelSpec wide_spec = {};
  TileFn wide[max_panel + 1] = {};
};

}  // namespace fewbit::kernel::cpu
