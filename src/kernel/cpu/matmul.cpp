// The dense products: tiles are claimed from a shared counter, columns are prepared once.
#include "kernel/cpu/matmul.h"

#include "kernel/cpu/product.h"

namespace fewbit::kernel::cpu {

namespace {

std::span<const void* const> columns_of(const Act& a) {
  auto** p = reinterpret_cast<const void**>(thread_memory().take(slot_more, u64(a.cols) * sizeof(void*)));
  for (int c = 0; c < a.cols; c++) p[c] = column(a, c);
  return {p, size_t(a.cols)};
}

// Fills the panels; many columns are shared out.
void make_panels(Ctx& ctx, Panels& panels, std::span<const void* const> cols) {
  if (panels.count() < 2) {
    panels.make(0, cols);
    return;
  }
  parallel(ctx, panels.count(), 1, [&](i64 begin, i64 end, int) {
    for (i64 i = begin; i < end; i++) panels.make(i, cols);
  });
}

// A run of products that share their panels goes over the threads at once.
void run(Ctx& ctx, std::span<const Kernels::Product> products, const Panels& panels) {
  constexpr size_t most = 16;
  FEWBIT_CHECK(products.size() <= most, "%zu products in one call", products.size());
  i64 begin_of[most + 1] = {};
  for (size_t i = 0; i < products.size(); i++) begin_of[i + 1] = begin_of[i] + div_up(products[i].w->rows, tile_rows);
  const i64 tiles = begin_of[products.size()];
  u64 bytes = 0;
  for (const Kernels::Product& p : products) bytes += p.w->bytes;
  const Weight& w = *products[0].w;
  Record record(ctx, w.kernel, bytes, "%lld x %lld x %d%s", static_cast<long long>(w.rows), static_cast<long long>(w.cols),
                products[0].a->cols, products.size() > 1 ? " and more" : "");
  parallel(ctx, tiles, grain_for(ctx, tiles), [&](i64 begin, i64 end, int) {
    size_t i = 0;
    for (i64 t = begin; t < end; t++) {
      while (t >= begin_of[i + 1]) i++;
      const Kernels::Product& p = products[i];
      const Matrix m(*p.w, 0);
      const i64 tile = t - begin_of[i];
      multiply_tile(m, tile, panels, [&](i64 c0, int n, const f32* out) {
        for (int c = 0; c < n; c++) {
          f32* y = p.y + (c0 + c) * p.ldy + tile * tile_rows;
          if (!p.add) {
            m.finish(tile, out + c * tile_rows, y);
          } else {
            f32 v[tile_rows];
            m.finish(tile, out + c * tile_rows, v);
            for (int r = 0; r < m.rows_of(tile); r++) y[r] = y[r] + v[r];
          }
        }
      });
    }
  });
}

}  // namespace

u64 matmul_scratch_bytes(int, int) { return 0; }

void matmul(Ctx& ctx, std::span<const Kernels::Product> products) {
  size_t begin = 0;
  while (begin < products.size()) {
    const Act& a = *products[begin].a;
    check_shapes(*products[begin].w, a);
    Panels panels(*Matrix(*products[begin].w, 0).k, a.n, a.cols);
    size_t end = begin + 1;
    while (end < products.size() && products[end].a == &a && panels.fits(*Matrix(*products[end].w, 0).k, a.n, a.cols)) {
      check_shapes(*products[end].w, a);
      end++;
    }
    panels.place(thread_memory().take(slot_panels, panels.bytes()));
    make_panels(ctx, panels, columns_of(a));
    run(ctx, products.subspan(begin, end - begin), panels);
    begin = end;
  }
}

void glu(Ctx& ctx, const Weight& gate, const Weight& up, const Act& a, Glu kind, f32* h) {
  check_shapes(gate, a);
  check_shapes(up, a);
  Record record(ctx, gate.kernel, gate.bytes + up.bytes, "glu 2 x %lld x %lld x %d", static_cast<long long>(gate.rows),
                static_cast<long long>(gate.cols), a.cols);
  const Matrix g(gate, 0), u(up, 0);
  Panels gp(*g.k, a.n, a.cols), up_panels(*u.k, a.n, a.cols);
  const bool same = gp.fits(*u.k, a.n, a.cols);
  u8* memory = thread_memory().take(slot_panels, gp.bytes() + up_panels.bytes() + 64);
  gp.place(memory);
  make_panels(ctx, gp, columns_of(a));
  if (same) {
    up_panels = gp;
  } else {
    up_panels.place(memory + round_up(i64(gp.bytes()), 64));
    make_panels(ctx, up_panels, columns_of(a));
  }
  parallel(ctx, g.tiles(), grain_for(ctx, g.tiles()), [&](i64 begin, i64 end, int) {
    for (i64 tile = begin; tile < end; tile++)
      glu_tile(g, u, tile, gp, up_panels, a.cols, kind, [&](i64 c) { return h + c * gate.rows + tile * tile_rows; });
  });
}

void embed(Ctx& ctx, const Weight& table, const i32* ids, int cols, const Rotation* inverse, f32* x) {
  const i64 n = table.cols;
  Record record(ctx, "embed", u64(cols) * (table.bytes / u64(table.rows)), "%s %lld x %d", type_name(table.type), static_cast<long long>(n),
                cols);
  parallel(ctx, cols, 1, [&](i64 begin, i64 end, int) {
    const Matrix m(table, 0);
    for (i64 c = begin; c < end; c++) {
      FEWBIT_CHECK(ids[c] >= 0 && ids[c] < table.rows, "token %d of %lld", ids[c], static_cast<long long>(table.rows));
      f32* to = inverse ? reinterpret_cast<f32*>(thread_memory().take(slot_results, u64(n) * 4)) : x + c * n;
      m.k->unpack(m.data + u64(ids[c] / tile_rows) * m.tile_bytes, ids[c] % tile_rows, n, to);
      if (table.tensor_scale != 1.0f)
        for (i64 i = 0; i < n; i++) to[i] = table.tensor_scale * to[i];
      if (inverse) rotate(best_steps(), x + c * n, to, *inverse, int(n), true);
    }
  });
}

}  // namespace fewbit::kernel::cpu
