#include "kernel/cpu/matmul.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/cpu_features.h"
#include "kernel/cpu/file_rows.h"

namespace fewbit::kernel::cpu {

const WeightKernels* file_kernels(Type type) {
  auto find = [&](std::span<const WeightKernels> list) -> const WeightKernels* {
    for (const WeightKernels& k : list)
      if (k.type == type) return &k;
    return nullptr;
  };
  if (cpu_features().avx2)
    if (const WeightKernels* k = find(avx2::file_kernels())) return k;
  return find(scalar::file_kernels());
}

namespace {

const WeightKernels& kernels_of(const Weight& w) { return *static_cast<const WeightKernels*>(w.extra); }

// A row range of one expert of a weight.
struct Matrix {
  const Weight* w;
  const WeightKernels* k;
  const u8* data;  // the expert's first tile
  u64 tile_bytes;
  f32 scale;
  Matrix(const Weight& weight, i64 expert)
      : w(&weight),
        k(&kernels_of(weight)),
        data(static_cast<const u8*>(weight.data) + u64(expert) * u64(weight.rows) * row_bytes(weight.type, weight.cols)),
        tile_bytes(tile_rows * row_bytes(weight.type, weight.cols)),
        scale(weight.scale ? weight.scale[expert] : 1.0f) {}
  i64 tiles() const { return div_up(w->rows, tile_rows); }
  int rows_of(i64 tile) const { return int(std::min<i64>(tile_rows, w->rows - tile * tile_rows)); }
  void multiply(i64 tile, const Panel& p, f32* out) const { k->tile(data + u64(tile) * tile_bytes, rows_of(tile), w->cols, p, out); }
  // Scale and bias of row r of a tile.
  f32 finish(i64 row, f32 v) const {
    if (w->tensor_scale != 1.0f) v = v * w->tensor_scale;
    if (w->scale) v = v * scale;
    if (w->bias) v = v + w->bias[row];
    return v;
  }
};

const void* column(const Act& a, i64 c) {
  if (a.layout == ActLayout::f32) return static_cast<const f32*>(a.data) + c * a.n;
  return static_cast<const u8*>(a.data) + u64(c) * act_record_bytes(a.n);
}

void check_shapes(const Weight& w, const Act& a) {
  FEWBIT_CHECK(w.extra && w.cols == a.n && (w.act == ActLayout::f32) == (a.layout == ActLayout::f32), "%s: %lld columns, input of %d",
               w.name.c_str(), (long long)w.cols, a.n);
}

f32 activate(Glu kind, f32 g, f32 u) {
  if (kind == Glu::relu2) return g > 0 ? g * g * u : 0 * u;
  return g / (1.0f + std::exp(-g)) * u;
}

i64 grain_for(i64 tiles, ThreadPool& pool) { return std::max<i64>(1, tiles / (pool.size() * 16)); }

// All tiles of one matrix times the given columns; done(tile, first column of the panel, columns, results (cols, 16)).
template <class Done>
void multiply_tile(const Matrix& m, i64 tile, std::span<const void* const> cols, Done&& done) {
  alignas(64) f32 out[panel_cols * tile_rows];
  for (size_t c = 0; c < cols.size(); c += size_t(m.k->cols)) {
    Panel p;
    p.cols = int(std::min(cols.size() - c, size_t(m.k->cols)));
    for (int i = 0; i < p.cols; i++) p.col[i] = cols[c + size_t(i)];
    m.multiply(tile, p, out);
    done(i64(c), p.cols, out);
  }
}

std::vector<const void*> columns_of(const Act& a) {
  std::vector<const void*> v(size_t(a.cols));
  for (int c = 0; c < a.cols; c++) v[size_t(c)] = column(a, c);
  return v;
}

// Entries of a routed batch in order of expert: order[begin[x] .. begin[x + 1]) are the entries of expert x.
struct Groups {
  std::vector<i32> begin, order;
  Groups(const i32* ids, int entries, i64 experts) : begin(size_t(experts) + 1), order(size_t(entries)) {
    for (int e = 0; e < entries; e++) begin[size_t(ids[e]) + 1]++;
    for (size_t x = 0; x < size_t(experts); x++) begin[x + 1] += begin[x];
    std::vector<i32> next(begin.begin(), begin.end() - 1);
    for (int e = 0; e < entries; e++) order[size_t(next[size_t(ids[e])]++)] = e;
  }
};

}  // namespace

QuantizeFn quantize_q8_32() { return quantize_q8_32_scalar; }

ActLayout act_layout(Type type) { return type == Type::F32 || type == Type::F16 || type == Type::BF16 ? ActLayout::f32 : ActLayout::q8_32; }
u64 act_bytes_of(ActLayout layout, int n, int cols) { return act_bytes(layout, n, cols); }
u64 matmul_scratch_bytes(int, int) { return 0; }

u64 placed_bytes(const HostTensor& t, const PlaceOptions& o) { return o.mapped ? 0 : t.data.size(); }

Result<std::vector<Weight>> place(Ctx& ctx, std::span<const HostTensor> tensors, GroupUse, const PlaceOptions& options,
                                  std::vector<Buffer>& owned) {
  std::vector<Weight> out;
  for (const HostTensor& t : tensors) {
    const WeightKernels* k = file_kernels(t.type);
    if (!k) return Error{Code::unsupported, "tensor '" + t.name + "': no CPU kernel for type " + type_name(t.type)};
    Weight w;
    w.name = t.name;
    w.type = t.type;
    w.layout = k->layout;
    w.kernel = k->name;
    w.extra = k;
    w.act = k->act;
    w.cols = t.cols;
    w.rows = t.rows;
    w.experts = t.experts;
    w.scale = t.scale;
    w.bias = t.bias;
    w.bytes = u64(t.experts * t.rows) * row_bytes(t.type, t.cols);
    w.data = t.data.data();
    if (t.type == Type::I2_S) w.tensor_scale = load_le<f32>(t.data.data() + w.bytes);
    if (!options.mapped) {
      FEWBIT_TRY(Buffer b, ctx.device->allocate(t.data.size()));
      ctx.device->upload(b.data(), t.data.data(), t.data.size());
      w.data = b.data();
      owned.push_back(std::move(b));
    }
    out.push_back(std::move(w));
  }
  return out;
}

void embed(Ctx& ctx, const Weight& table, const i32* ids, int cols, const Rotation* inverse, f32* x) {
  FEWBIT_CHECK(inverse == nullptr, "rotated embeddings");
  const i64 n = table.cols;
  ctx.pool->for_range(cols, 1, [&](i64 begin, i64 end, int) {
    const Matrix m(table, 0);
    for (i64 c = begin; c < end; c++) {
      FEWBIT_CHECK(ids[c] >= 0 && ids[c] < table.rows, "token %d of %lld", ids[c], (long long)table.rows);
      f32* to = x + c * n;
      m.k->unpack(m.data + u64(ids[c] / tile_rows) * m.tile_bytes, ids[c] % tile_rows, n, to);
      if (table.tensor_scale != 1.0f)
        for (i64 i = 0; i < n; i++) to[i] = table.tensor_scale * to[i];
    }
  });
}

void matmul(Ctx& ctx, std::span<const Kernels::Product> products) {
  for (const Kernels::Product& p : products) {
    check_shapes(*p.w, *p.a);
    const Matrix m(*p.w, 0);
    const std::vector<const void*> cols = columns_of(*p.a);
    ctx.pool->for_range(m.tiles(), grain_for(m.tiles(), *ctx.pool), [&](i64 begin, i64 end, int) {
      for (i64 tile = begin; tile < end; tile++) {
        multiply_tile(m, tile, cols, [&](i64 c0, int n, const f32* out) {
          for (int c = 0; c < n; c++) {
            f32* y = p.y + (c0 + c) * p.ldy + tile * tile_rows;
            for (int r = 0; r < m.rows_of(tile); r++) {
              const f32 v = m.finish(tile * tile_rows + r, out[c * tile_rows + r]);
              y[r] = p.add ? y[r] + v : v;
            }
          }
        });
      }
    });
  }
}

// h row of entry e at h + e * rows.
static void glu_tile(const Matrix& gate, const Matrix& up, i64 tile, std::span<const void* const> cols, const i32* entry, Glu kind,
                     f32* h) {
  const int rows = gate.rows_of(tile);
  multiply_tile(gate, tile, cols, [&](i64 c0, int n, const f32* g) {
    multiply_tile(up, tile, cols.subspan(size_t(c0), size_t(n)), [&](i64 d0, int m, const f32* u) {
      for (int c = 0; c < m; c++) {
        const i64 col = c0 + d0 + c;
        f32* y = h + (entry ? entry[col] : col) * gate.w->rows + tile * tile_rows;
        for (int r = 0; r < rows; r++) {
          const i64 row = tile * tile_rows + r;
          y[r] = activate(kind, gate.finish(row, g[(d0 + c) * tile_rows + r]), up.finish(row, u[c * tile_rows + r]));
        }
      }
    });
  });
}

void glu(Ctx& ctx, const Weight& gate, const Weight& up, const Act& a, Glu kind, f32* h) {
  check_shapes(gate, a);
  check_shapes(up, a);
  const Matrix g(gate, 0), u(up, 0);
  const std::vector<const void*> cols = columns_of(a);
  ctx.pool->for_range(g.tiles(), grain_for(g.tiles(), *ctx.pool), [&](i64 begin, i64 end, int) {
    for (i64 tile = begin; tile < end; tile++) glu_tile(g, u, tile, cols, nullptr, kind, h);
  });
}

void moe_glu(Ctx& ctx, const Weight& gate, const Weight& up, const Act& a, const i32* ids, int k, Glu kind, f32* h) {
  check_shapes(gate, a);
  check_shapes(up, a);
  const Groups groups(ids, a.cols * k, gate.experts);
  std::vector<const void*> cols(groups.order.size());
  for (size_t i = 0; i < cols.size(); i++) cols[i] = column(a, groups.order[i] / k);
  const i64 tiles = div_up(gate.rows, tile_rows);
  ctx.pool->for_range(gate.experts * tiles, grain_for(tiles, *ctx.pool), [&](i64 begin, i64 end, int) {
    for (i64 i = begin; i < end; i++) {
      const size_t x = size_t(i / tiles);
      const i32 first = groups.begin[x], n = groups.begin[x + 1] - first;
      if (n == 0) continue;
      glu_tile(Matrix(gate, i64(x)), Matrix(up, i64(x)), i % tiles, std::span(cols).subspan(size_t(first), size_t(n)),
               &groups.order[size_t(first)], kind, h);
    }
  });
}

void moe_down(Ctx& ctx, const Weight& down, const Act& a, const i32* ids, const f32* weights, int k, f32* x) {
  check_shapes(down, a);
  const int cols = a.cols / k;
  const i64 tiles = div_up(down.rows, tile_rows);
  // Split by rows: the slots of a column are added in order by one thread.
  ctx.pool->for_range(tiles, grain_for(tiles, *ctx.pool), [&](i64 begin, i64 end, int) {
    for (i64 tile = begin; tile < end; tile++) {
      for (int e = 0; e < cols * k; e++) {
        const Matrix m(down, ids[e]);
        const void* col = column(a, e);
        multiply_tile(m, tile, {&col, 1}, [&](i64, int, const f32* out) {
          f32* y = x + i64(e / k) * down.rows + tile * tile_rows;
          for (int r = 0; r < m.rows_of(tile); r++) y[r] = y[r] + weights[e] * m.finish(tile * tile_rows + r, out[r]);
        });
      }
    }
  });
}

}  // namespace fewbit::kernel::cpu
