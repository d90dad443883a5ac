// The small steps of a CPU pass, as functions over rows of numbers that exist once per instruction set (steps.inl and the files it
// names).  ops.cpp turns them into the operations of kernel.h: shapes, threads, scratch.
//
// Every function gives the same bits on AVX2 and AVX-512; those marked [=] also on the baseline (they use no fused operation).
#pragma once
#include "base/cpu_features.h"
#include "base/types.h"
#include "format/format.h"

namespace fewbit::kernel::cpu {

// Attention works through the positions in splits of this many, each with its own softmax, merged in order of position.  The size is
// fixed, so neither the number of columns nor of threads changes a bit.
inline constexpr int split = 128;
inline constexpr int max_head_dim = 1024;

// One split of one KV head, for `rows` query rows that read it.  K and V rows lie in runs of 16 positions.
struct AttendTile {
  const f32* q = nullptr;  // (rows, head_dim), scaled
  int rows = 0, head_dim = 0;
  const int* valid = nullptr;    // (rows) positions of this split that the row may see, 0..split; not falling
  const u8* const* k = nullptr;  // (split / 16) address of position 16 i
  const u8* const* v = nullptr;
  const u8* const* next = nullptr;  // addresses of the 32 positions whose keys are read after this split, or null
  f32* scores = nullptr;            // (rows, split) scratch
  f32* floats = nullptr;            // (32, head_dim) scratch
  f32* m = nullptr;                 // (rows) out: largest score; rows with valid 0 are left alone
  f32* l = nullptr;                 // (rows) out: sum of exp(score - m)
  f32* acc = nullptr;               // (rows, head_dim) out: sum of exp(score - m) v
};

// 16 rows of a DeltaNet state through the columns of one sequence, in order.
struct DeltaBlock {
  f32* state = nullptr;  // (16, dim)
  int dim = 0, cols = 0;
  const f32* q = nullptr;  // (cols) rows of dim, ldqk apart; k likewise
  const f32* k = nullptr;
  i64 ldqk = 0;
  const f32* v = nullptr;  // (cols) 16 values, ldv apart
  i64 ldv = 0;
  const f32* decay = nullptr;  // (cols), ldg apart
  const f32* beta = nullptr;
  i64 ldg = 0;
  f32* out = nullptr;  // (cols) 16 values, ldo apart
  i64 ldo = 0;
};

struct Steps {
  Isa isa;
  // [=] sum of squares: 16 lanes, folded
  f32 (*sum_squares)(const f32* x, int n);
  // [=] to = (x * s) * w;  w == nullptr: x * s
  void (*scale)(f32* to, const f32* x, f32 s, const f32* w, int n);
  // [=] to += s * x
  void (*add_scaled)(f32* to, const f32* x, f32 s, int n);
  // [=] largest |x|; NaN if any element is NaN or infinite
  f32 (*largest_abs)(const f32* x, int n);
  // [=] to = x * signs;  signs == nullptr: copy
  void (*signs)(f32* to, const f32* x, const f32* signs, int n);
  // [=] x <- Had(x) in blocks of B (a power of two that divides n), normalised: hadamard.md section 4
  void (*fwht)(f32* x, int n, int block);
  // [=] h = silu(g) * u, or relu(g)^2 * u
  void (*glu)(f32* h, const f32* g, const f32* u, bool relu2, i64 n);
  // [=] x *= sigmoid(g)
  void (*gate)(f32* x, const f32* g, int n);
  // [=] to = ((x * s) * w) * silu(z)
  void (*gated_norm)(f32* to, const f32* x, f32 s, const f32* w, const f32* z, int n);
  // [=] x <- exp(x - m); returns the sum (16 lanes, folded)
  f32 (*softmax)(f32* x, f32 m, int n);
  // [=] rotates n_rot elements by (n_rot/2, 2) cos, sin
  void (*rope)(f32* x, const f32* cos_sin, int n_rot, bool neox);
  // [=] index of the largest, lowest on ties; NaN never wins unless all are NaN (then 0)
  i64 (*argmax)(const f32* x, i64 n);
  // [=] one row of a KV cache: F32, F16, Q8_0, Q4_0 (bits as formats.md); a row with non-finite numbers becomes NaN
  void (*store_kv)(Type type, void* row, const f32* x, int n);
  // [=] causal convolution and SiLU over n channels of `cols` columns: in[i + j] points at the input of tap j of column i, w (n, conv)
  void (*conv_silu)(f32* to, i64 ldto, const f32* const* in, const f32* w, int conv, int cols, int n);
  // attention over one split; k and v: F32, F16, Q8_0, Q4_0
  void (*attend)(const AttendTile& tile, Type k, Type v);
  // merges the (m, l, acc) of a later split into those of the earlier ones [=]
  void (*merge)(f32* m, f32* l, f32* acc, f32 m2, f32 l2, const f32* acc2, int head_dim);
  void (*delta)(const DeltaBlock& block);
  // y[c * ldy + r] = sum over k of w[r * k_pad + k] x[c][k]: lane l of 16 sums k = l mod 16 in order, then the fold.
  // k_pad: a multiple of 16; w and every x[c] are padded with zeros.
  void (*dots)(f32* y, i64 ldy, const f32* w, const f32* const* x, int rows, int cols, i64 k_pad);
};

const Steps& steps(Isa isa);  // scalar, avx2 and avx512 exist; a set in between gives the widest that it includes
const Steps& best_steps();    // of this machine, FEWBIT_CPU_MAX respected

extern const Steps steps_scalar, steps_avx2, steps_avx512;

}  // namespace fewbit::kernel::cpu
