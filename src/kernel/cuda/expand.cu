#include "kernel/cuda/expand.h"

#include <algorithm>

#include "format/decode.h"
#include "kernel/cuda/common.cuh"
#include "kernel/cuda/product.cuh"

namespace fewbit::kernel::cuda {

namespace {

// Rows of a piece, of `mats` matrices; whole pairs of tiles.
i64 piece_rows(const Weight& w, int mats) {
  const u64 two_tiles = Units(w.layout_id - layout_in_file, 2 * unit_rows, w.cols).bytes();
  return i64(expand_bytes / two_tiles) * 2 * unit_rows / mats;
}

}  // namespace

Weight packed_form(const Weight& w, const void* units, i64 rows, i64 row0) {
  Weight p = w;
  p.layout_id -= layout_in_file;
  p.data = units, p.rows = rows, p.bytes = 0;  // pack() counts the file's
  if (w.bias) p.bias = w.bias + row0;
  return p;
}

PackSource source_of(const Weight& w, i64 row0, i64 rows) {
  PackSource s;
  s.row_bytes = i64(row_bytes(w.type, w.cols)), s.rows = rows, s.cols = int(w.cols);
  s.data[0] = static_cast<const u8*>(w.data) + row0 * s.row_bytes;
  return s;
}

InOrder::InOrder(Ctx& ctx) : ctx_(ctx), before_(device_of(ctx).set_early_launch(false)) {}
InOrder::~InOrder() { device_of(ctx_).set_early_launch(before_); }

bool keeps_file(const HostTensor& t, const PlaceOptions& o) {
  const int layout = type_layout(t.type).layout;
  if (layout < 0 || layout >= layout_rows_f32 || (o.repack && (!o.dense || has_dense(t.type)))) return false;
  const u64 file = data_bytes(t), packed = Units(layout, t.rows, t.cols).bytes() * u64(t.experts);
  if (o.repack && file >= packed) return false;
  // The smallest piece: two row tiles, or an expert of a pair.
  const bool expert = t.experts > 1 || t.name.find("_exps.") != std::string::npos;
  return Units(layout, expert ? 2 * t.rows : 2 * unit_rows, t.cols).bytes() <= expand_bytes;
}

void matmul_in_file(Ctx& ctx, const Kernels::Product& p) {
  const Weight& w = *p.w;
  const InOrder in_order(ctx);
  u8* units = expand_area(ctx) + expand_lists;
  const i64 step = piece_rows(w, 1);
  for (i64 row0 = 0; row0 < w.rows; row0 += step) {
    const i64 rows = std::min(step, w.rows - row0);
    const Units u(w.layout_id - layout_in_file, rows, w.cols);
    pack(ctx, w.type, w.layout_id - layout_in_file, source_of(w, row0, rows), u.tiles, int(u.units), units);
    const Weight part = packed_form(w, units, rows, row0);
    const Kernels::Product q{&part, p.a, p.y + row0, p.ldy, p.add};
    matmul(ctx, {&q, 1});
  }
}

void glu_in_file(Ctx& ctx, const Weight& gate, const Weight& up, const Act& a, Glu kind, f32* h) {
  const InOrder in_order(ctx);
  u8* units = expand_area(ctx) + expand_lists;
  const i64 step = piece_rows(gate, 2);
  for (i64 row0 = 0; row0 < gate.rows; row0 += step) {
    const i64 rows = std::min(step, gate.rows - row0);
    const Units u(gate.layout_id - layout_in_file, (rows + 7) / 8 * 16, gate.cols);
    PackSource src = source_of(gate, row0, rows);
    src.data[1] = source_of(up, row0, rows).data[0];
    pack(ctx, gate.type, gate.layout_id - layout_in_file, src, u.tiles, int(u.units), units);
    Weight parts[2] = {packed_form(gate, units, rows, row0), packed_form(up, units, rows, row0)};
    for (Weight& w : parts) w.extra = units;
    glu_pair(ctx, parts[0], parts[1], a, kind, h + row0, gate.rows);
  }
}

int rows_in_file(Ctx& ctx, const Weight& table, const i32* ids, int cols) {
  const Units u(table.layout_id - layout_in_file, 1, table.cols);
  const u64 one = u64(u.units) * u64(u.unit_bytes);
  const int n = int(std::min<u64>(u64(cols), expand_bytes / one));
  const PackSource src = source_of(table, 0, 1);
  pack(ctx, table.type, table.layout_id - layout_in_file, src, 1, int(u.units), expand_area(ctx) + expand_lists, {ids, n, src.row_bytes});
  return n;
}

}  // namespace fewbit::kernel::cuda
