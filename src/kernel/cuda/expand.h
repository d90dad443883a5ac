// Weights that keep their file's bytes on the GPU: before each use a piece of them is packed into scratch (pack.h), which the kernels then
// multiply by as ever, so that results do not change by a bit.  For weights whose fast layout is larger than the file and does not fit
// (PlaceOptions::dense), or on request (repack = false).
//
// Memory     the file's bytes are read, the piece is written to scratch and read from there: as it is small, mostly in the L2 cache.
// Experts    of few entries: those that are chosen, an entry at a time; of many: all, some experts at a time.  Where an expert (gate and
//            up) has no room in a piece, they are packed at load as ever.
#pragma once
#include "kernel/cuda/ops.h"
#include "kernel/cuda/pack.h"

namespace fewbit::kernel::cuda {

// Weight::layout_id: this plus the layout that it is packed into.
inline constexpr int layout_in_file = 64;
inline bool in_file(const Weight& w) { return w.layout_id >= layout_in_file; }

// Room for a piece, behind what the products' own parts take of the scratch; in front of it, what tells which expert lies where.
inline constexpr u64 expand_bytes = 16 << 20, expand_lists = 64 << 10;
u8* expand_area(const Ctx& ctx);  // expand_lists, then expand_bytes

// Of a tensor in its file.
inline u64 data_bytes(const HostTensor& t) { return u64(t.experts) * u64(t.rows) * row_bytes(t.type, t.cols); }

// Whether place() keeps a tensor in its file's bytes.
bool keeps_file(const HostTensor& t, const PlaceOptions& options);

// Where the matrices to be packed stand: each is `stride` bytes times an id behind the source's data.  No ids: one, at the data.
struct Gather {
  const i32* ids = nullptr;
  int count = 1;
  i64 stride = 0;
};
// Packs `tiles` row tiles of each matrix into units of a layout that the type has; place.cu.
void pack(Ctx& ctx, Type type, int layout, const PackSource& src, i64 tiles, int units, u8* out, const Gather& gather = {});

// Such a weight as the kernels know it: `rows` of its rows, from row0 on, in units.
Weight packed_form(const Weight& w, const void* units, i64 rows, i64 row0);
// The same rows as the file has them; of experts: those of the first.
PackSource source_of(const Weight& w, i64 row0, i64 rows);

// As the operations of the same names (ops.h), for weights that are in_file().
void matmul_in_file(Ctx& ctx, const Kernels::Product& p);
void glu_in_file(Ctx& ctx, const Weight& gate, const Weight& up, const Act& a, Glu kind, f32* h);
// Rows ids[c] of the table into scratch, of columns [c, c + returned): column i's is row 16 i of a matrix of the table's layout there.
int rows_in_file(Ctx& ctx, const Weight& table, const i32* ids, int cols);

// While it lives, kernels start only when their predecessor is done: it makes the weights that they would read ahead.
class InOrder {
 public:
  explicit InOrder(Ctx& ctx);
  ~InOrder();
  InOrder(const InOrder&) = delete;
  InOrder& operator=(const InOrder&) = delete;

 private:
  Ctx& ctx_;
  bool before_;
};

}  // namespace fewbit::kernel::cuda
