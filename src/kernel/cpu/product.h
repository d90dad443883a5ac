// One tile of one matrix times any number of columns: what matmul.cpp and moe.cpp are made of.
#pragma once
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <vector>

#include "kernel/cpu/matmul.h"
#include "kernel/cpu/ops.h"

namespace fewbit::kernel::cpu {

// Memory of one thread that lasts and only grows, so that the token loop soon allocates nothing.
class ThreadMemory {
 public:
  // n bytes on 64, valid until the next call with the same slot.
  u8* take(int slot, u64 n) {
    Block& b = blocks_[slot];
    if (b.size < n) {
      b.memory.reset(static_cast<u8*>(std::aligned_alloc(64, round_up(i64(n), 4096))));
      FEWBIT_CHECK(b.memory, "no memory for %llu bytes of kernel scratch", static_cast<unsigned long long>(n));
      b.size = n;
    }
    return b.memory.get();
  }

 private:
  struct Free {
    void operator()(u8* p) const { std::free(p); }
  };
  struct Block {
    std::unique_ptr<u8, Free> memory;
    u64 size = 0;
  };
  Block blocks_[4];
};
inline ThreadMemory& thread_memory() {
  thread_local ThreadMemory memory;
  return memory;
}
enum MemorySlot { slot_panels, slot_spread, slot_results, slot_more };

// One expert of a weight.
struct Matrix {
  const Weight* w;
  const WeightKernels* k;
  const u8* data;  // the expert's first tile
  u64 tile_bytes;
  f32 scale;
  Matrix(const Weight& weight, i64 expert) : w(&weight), k(static_cast<const WeightKernels*>(weight.extra)) {
    tile_bytes = u64(k->tile_bytes(weight.cols));
    const u64 expert_bytes = k->pack ? u64(tiles()) * tile_bytes : u64(weight.rows) * row_bytes(weight.type, weight.cols);
    data = static_cast<const u8*>(weight.data) + u64(expert) * expert_bytes;
    scale = weight.scale ? weight.scale[expert] : 1.0f;
  }
  i64 tiles() const { return div_up(w->rows, tile_rows); }
  int rows_of(i64 tile) const { return int(std::min<i64>(tile_rows, w->rows - tile * tile_rows)); }
  // y[r] = scale and bias applied to v[r] for the rows of a tile.
  void finish(i64 tile, const f32* v, f32* y) const {
    const int rows = rows_of(tile);
    for (int r = 0; r < rows; r++) y[r] = v[r];
    if (w->tensor_scale != 1.0f)
      for (int r = 0; r < rows; r++) y[r] = y[r] * w->tensor_scale;
    if (w->scale)
      for (int r = 0; r < rows; r++) y[r] = y[r] * scale;
    if (w->bias)
      for (int r = 0; r < rows; r++) y[r] = y[r] + w->bias[tile * tile_rows + r];
  }
};

// Columns as the kernels of one weight want them: panels of even width.
class Panels {
 public:
  Panels() = default;
  // How `cols` columns are split for these kernels.
  Panels(const WeightKernels& k, i64 n, i64 cols) : n_(n), cols_(cols) {
    wide_ = k.spread && cols >= k.first_wide;
    spec_ = wide_ ? k.wide_spec : k.narrow_spec;
    count_ = div_up(cols, wide_ ? k.max_wide : k.max_narrow);
    table_ = wide_ ? k.wide : k.narrow;
  }
  i64 count() const { return count_; }
  bool wide() const { return wide_; }
  i64 first(i64 i) const { return i * (cols_ / count_) + std::min(i, cols_ % count_); }
  int width(i64 i) const { return int(first(i + 1) - first(i)); }
  // What the kernel for panel i takes: its width or a little more.
  int kernel_width(i64 i) const { return rounded(width(i)); }
  // Same panels would do for another weight's kernels.
  bool fits(const WeightKernels& k, i64 n, i64 cols) const {
    const Panels o(k, n, cols);
    if (o.n_ != n_ || o.cols_ != cols_ || o.count_ != count_ || !(o.spec_ == spec_)) return false;
    return o.kernel_width(0) == kernel_width(0) && o.kernel_width(count_ - 1) == kernel_width(count_ - 1);
  }

  u64 bytes() const { return header() + u64(count_) * stride(); }
  void place(u8* memory) { memory_ = memory; }
  // Makes panel i from all the columns.
  void make(i64 i, std::span<const void* const> cols) {
    const void* from[max_panel];
    const int n = kernel_width(i);
    for (int c = 0; c < n; c++) from[c] = cols[size_t(first(i) + std::min(c, width(i) - 1))];
    panel(i) = make_panel(spec_, {from, size_t(n)}, n_, memory_ + header() + u64(i) * stride());
  }
  const Panel& operator[](i64 i) const { return reinterpret_cast<const Panel*>(memory_)[i]; }

 private:
  Panel& panel(i64 i) { return reinterpret_cast<Panel*>(memory_)[i]; }
  u64 header() const { return u64(round_up(count_ * i64(sizeof(Panel)), 64)); }
  u64 stride() const { return panel_bytes(spec_, kernel_width(0), n_); }
  int rounded(int cols) const {
    while (!table_[cols]) cols++;
    return cols;
  }
  i64 n_ = 0, cols_ = 0, count_ = 1;
  bool wide_ = false;
  PanelSpec spec_;
  const TileFn* table_ = nullptr;
  u8* memory_ = nullptr;
};

// done(first column, columns, results (columns, 16)) for every panel, in order.
template <class Done>
void multiply_tile(const Matrix& m, i64 tile, const Panels& panels, Done&& done) {
  alignas(64) f32 out[max_panel * tile_rows];
  const u8* at = m.data + u64(tile) * m.tile_bytes;
  const int rows = m.rows_of(tile);
  if (panels.wide()) {
    u8* bytes = thread_memory().take(slot_spread, u64(m.k->spread_bytes(m.w->cols)));
    m.k->spread(at, rows, m.w->cols, bytes);
    at = bytes;
  }
  const TileFn* fn = panels.wide() ? m.k->wide : m.k->narrow;
  for (i64 i = 0; i < panels.count(); i++) {
    fn[panels.kernel_width(i)](at, rows, m.w->cols, panels[i], out);
    done(panels.first(i), panels.width(i), static_cast<const f32*>(out));
  }
}

inline const void* column(const Act& a, i64 c) {
  if (a.layout == ActLayout::f32) return static_cast<const f32*>(a.data) + c * a.n;
  return static_cast<const u8*>(a.data) + u64(c) * act_record_bytes(a.n);
}

inline i64 grain_for(const Ctx& ctx, i64 tiles) { return std::max<i64>(1, tiles / (threads(ctx) * 16)); }

// act(gate) * up for a tile of both; row_of(c) is where the rows of column c go.
template <class RowOf>
void glu_tile(const Matrix& gate, const Matrix& up, i64 tile, const Panels& gate_panels, const Panels& up_panels, i64 cols, Glu kind,
              RowOf&& row_of) {
  f32* g = reinterpret_cast<f32*>(thread_memory().take(slot_results, u64(cols) * tile_rows * 4));
  multiply_tile(gate, tile, gate_panels, [&](i64 c0, int n, const f32* out) {
    for (int c = 0; c < n; c++) gate.finish(tile, out + c * tile_rows, g + (c0 + c) * tile_rows);
  });
  const int rows = gate.rows_of(tile);
  multiply_tile(up, tile, up_panels, [&](i64 c0, int n, const f32* out) {
    f32 u[tile_rows];
    for (int c = 0; c < n; c++) {
      up.finish(tile, out + c * tile_rows, u);
      best_steps().glu(row_of(c0 + c), g + (c0 + c) * tile_rows, u, kind == Glu::relu2, rows);
    }
  });
}

inline void check_shapes(const Weight& w, const Act& a) {
  FEWBIT_CHECK(w.extra && w.cols == a.n && (w.act == ActLayout::f32) == (a.layout == ActLayout::f32), "%s: %lld columns, input of %d",
               w.name.c_str(), static_cast<long long>(w.cols), a.n);
}

}  // namespace fewbit::kernel::cpu
