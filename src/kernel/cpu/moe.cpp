// Products by expert ids.  The entries of a batch (column, slot) are grouped by expert, so that each expert's weights are read once and
// its columns share a tile; an entry's bits depend neither on its group nor on the threads.
#include "kernel/cpu/product.h"

namespace fewbit::kernel::cpu {

namespace {

// order[begin[x] .. begin[x + 1]) are the entries of the x-th expert in use, which is expert[x].
struct Groups {
  std::vector<i32> expert, begin, order;
  void sort(const i32* ids, int entries, i64 experts) {
    count_.assign(size_t(experts) + 1, 0);
    order.resize(size_t(entries));
    expert.clear();
    begin.clear();
    for (int e = 0; e < entries; e++) {
      FEWBIT_CHECK(ids[e] >= 0 && ids[e] < experts, "expert %d of %lld", ids[e], static_cast<long long>(experts));
      count_[size_t(ids[e])]++;
    }
    i32 at = 0;
    for (size_t x = 0; x < size_t(experts); x++) {
      const i32 n = count_[x];
      if (n > 0) expert.push_back(i32(x)), begin.push_back(at);
      count_[x] = at;
      at += n;
    }
    begin.push_back(at);
    for (int e = 0; e < entries; e++) order[size_t(count_[size_t(ids[e])]++)] = e;
  }
  i64 size() const { return i64(expert.size()); }

 private:
  std::vector<i32> count_;
};

// The panels of every group, for one weight's kernels.
struct GroupPanels {
  std::vector<Panels> panels;
  std::vector<const void*> cols;
  // column_of(entry) -> its input.
  template <class ColumnOf>
  void make(Ctx& ctx, const Groups& g, const WeightKernels& k, i64 n, int slot, ColumnOf&& column_of) {
    panels.clear();
    cols.resize(g.order.size());
    for (size_t i = 0; i < cols.size(); i++) cols[i] = column_of(g.order[i]);
    u64 bytes = 0;
    for (i64 x = 0; x < g.size(); x++) {
      panels.emplace_back(k, n, g.begin[size_t(x) + 1] - g.begin[size_t(x)]);
      bytes += u64(round_up(i64(panels.back().bytes()), 64));
    }
    u8* memory = thread_memory().take(slot, bytes);
    for (Panels& p : panels) {
      p.place(memory);
      memory += round_up(i64(p.bytes()), 64);
    }
    parallel(ctx, g.size(), div_up(g.size(), threads(ctx) * 4), [&](i64 b, i64 e, int) {
      for (i64 x = b; x < e; x++) {
        const size_t first = size_t(g.begin[size_t(x)]), count = size_t(g.begin[size_t(x) + 1]) - first;
        for (i64 i = 0; i < panels[size_t(x)].count(); i++) panels[size_t(x)].make(i, std::span(cols).subspan(first, count));
      }
    });
  }
};

struct MoeState {  // of the calling thread: reused, so that it soon stops growing
  Groups groups;
  GroupPanels gate, up;
};
MoeState& moe_state() {
  thread_local MoeState s;
  return s;
}

}  // namespace

void moe_glu(Ctx& ctx, const Weight& gate, const Weight& up, const Act& a, const i32* ids, int k, Glu kind, f32* h) {
  check_shapes(gate, a);
  check_shapes(up, a);
  MoeState& s = moe_state();
  s.groups.sort(ids, a.cols * k, gate.experts);
  auto column_of = [&](i32 entry) { return column(a, entry / k); };
  const WeightKernels &gk = *Matrix(gate, 0).k, &uk = *Matrix(up, 0).k;
  s.gate.make(ctx, s.groups, gk, a.n, slot_panels, column_of);
  const bool same = &gk == &uk;
  if (!same) s.up.make(ctx, s.groups, uk, a.n, slot_more, column_of);
  Record record(ctx, gate.kernel, u64(s.groups.size()) * (gate.bytes / u64(gate.experts) + up.bytes / u64(up.experts)),
                "moe_glu %lld experts 2 x %lld x %lld x %d", static_cast<long long>(s.groups.size()), static_cast<long long>(gate.rows),
                static_cast<long long>(gate.cols), a.cols);
  const i64 tiles = div_up(gate.rows, tile_rows), all = s.groups.size() * tiles;
  parallel(ctx, all, grain_for(ctx, all), [&](i64 begin, i64 end, int) {
    for (i64 i = begin; i < end; i++) {
      const size_t x = size_t(i / tiles);
      const i64 tile = i % tiles;
      const i32 expert = s.groups.expert[x], first = s.groups.begin[x], n = s.groups.begin[x + 1] - first;
      glu_tile(Matrix(gate, expert), Matrix(up, expert), tile, s.gate.panels[x], (same ? s.gate : s.up).panels[x], n, kind,
               [&](i64 c) { return h + s.groups.order[size_t(first + c)] * gate.rows + tile * tile_rows; });
    }
  });
}

void moe_down(Ctx& ctx, const Weight& down, const Act& a, const i32* ids, const f32* weights, int k, f32* x) {
  check_shapes(down, a);
  MoeState& s = moe_state();
  s.groups.sort(ids, a.cols, down.experts);
  s.gate.make(ctx, s.groups, *Matrix(down, 0).k, a.n, slot_panels, [&](i32 entry) { return column(a, entry); });
  Record record(ctx, down.kernel, u64(s.groups.size()) * (down.bytes / u64(down.experts)), "moe_down %lld experts %lld x %lld x %d",
                static_cast<long long>(s.groups.size()), static_cast<long long>(down.rows), static_cast<long long>(down.cols), a.cols);
  const i64 tiles = div_up(down.rows, tile_rows);
  // Split by rows, so that one thread adds the slots of a column in order.
  parallel(ctx, tiles, grain_for(ctx, tiles), [&](i64 begin, i64 end, int) {
    f32* results = reinterpret_cast<f32*>(thread_memory().take(slot_results, u64(a.cols) * tile_rows * 4));  // (entries, 16)
    for (i64 tile = begin; tile < end; tile++) {
      for (size_t g = 0; g < size_t(s.groups.size()); g++) {
        const Matrix m(down, s.groups.expert[g]);
        const i32* order = &s.groups.order[size_t(s.groups.begin[g])];
        multiply_tile(m, tile, s.gate.panels[g], [&](i64 c0, int n, const f32* out) {
          for (int c = 0; c < n; c++) m.finish(tile, out + c * tile_rows, results + order[c0 + c] * tile_rows);
        });
      }
      const int rows = int(std::min<i64>(tile_rows, down.rows - tile * tile_rows));
      for (int e = 0; e < a.cols; e++) {
        f32* y = x + i64(e / k) * down.rows + tile * tile_rows;
        for (int r = 0; r < rows; r++) y[r] = y[r] + weights[e] * results[e * tile_rows + r];
      }
    }
  });
}

}  // namespace fewbit::kernel::cpu
