#include "kernel/exact/exact.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/bits.h"
#include "kernel/layout/as_in_file.h"

namespace fewbit::kernel::exact {

using cpu::local;
using cpu::parallel;
using cpu::Record;
using cpu::Steps;

namespace {

i64 padded(i64 n) { return round_up(n, 16); }
f32* act_column(const Act& a, i64 c) { return static_cast<f32*>(a.data) + c * padded(a.n); }
f32* act_factors(const Act& a) { return act_column(a, a.cols); }

Result<std::vector<Weight>> place(Ctx& ctx, std::span<const HostTensor> tensors, GroupUse, const PlaceOptions& options,
                                  std::vector<Buffer>& owned) {
  return place_as_in_file(ctx, tensors, options, "dots/exact", owned);
}
u64 placed_bytes(const HostTensor& t, const PlaceOptions& o) { return o.mapped ? 0 : t.data.size(); }
Result<std::string> describe(const HostTensor& t, const PlaceOptions&) {
  const FormatInfo* f = find_format(t.type);
  if (!f || !f->weights) return Error{Code::unsupported, fmt::format("no exact kernel for type {}", u32(t.type))};
  return fmt::format("dots.{}/{}.file", f->name, isa_name(cpu::best_steps().isa));
}
ActLayout act_layout(const HostTensor&) { return ActLayout::f32; }
u64 act_bytes(ActLayout layout, int n, int cols) {
  return u64(padded(n)) * u64(cols) * sizeof(f32) + (layout == ActLayout::token8 ? u64(cols) * sizeof(f32) : 0);
}

std::span<const u8> bytes_of(const Weight& w) { return {static_cast<const u8*>(w.data), size_t(w.bytes)}; }

// Rows [row, row + count) of an expert as floats, `k_pad` apart, zeros behind.
void decode(const Weight& w, i64 expert, i64 row, int count, f32* to) {
  const i64 k_pad = padded(w.cols);
  for (int r = 0; r < count; r++) {
    decode_tensor_row(w.type, bytes_of(w), expert * w.rows + row + r, w.cols, {to + r * k_pad, size_t(w.cols)});
    std::fill(to + r * k_pad + w.cols, to + (r + 1) * k_pad, 0.0f);
  }
}

// Rows that a thread decodes at a time: about 256 KiB of floats, so that they stay in its L2 while all columns pass.
int tile_rows(i64 k) { return int(std::clamp<i64>(65536 / padded(k) / 4 * 4, 4, 32)); }

// The columns of a product, and what their results are divided by.
struct Columns {
  std::vector<const f32*> x;
  std::vector<f32> s;  // empty: 1
  int n() const { return int(x.size()); }
};
Columns columns_of(const Act& a) {
  Columns c;
  for (int i = 0; i < a.cols; i++) c.x.push_back(act_column(a, i));
  if (a.layout == ActLayout::token8) c.s.assign(act_factors(a), act_factors(a) + a.cols);
  return c;
}

// y (cols, ldy): rows of one expert times the columns, scaled, with bias.
void multiply(const Steps& steps, const Weight& w, i64 expert, i64 row, int count, const f32* const* x, const f32* s, int cols, f32* y,
              i64 ldy) {
  const i64 k_pad = padded(w.cols);
  f32* rows = local(3, i64(count) * k_pad);
  decode(w, expert, row, count, rows);
  steps.dots(y, ldy, rows, x, count, cols, k_pad);
  if (!s && !w.scale && !w.bias) return;
  for (int c = 0; c < cols; c++) {
    for (int r = 0; r < count; r++) {
      f32 v = y[c * ldy + r];
      if (s) v = v / s[c];
      if (w.scale) v = v * w.scale[expert];
      if (w.bias) v = v + w.bias[row + r];
      y[c * ldy + r] = v;
    }
  }
}

void check(const Weight& w, const Act& a) {
  FEWBIT_CHECK(w.cols == a.n, "%s has %lld inputs, the activation %d", w.name.c_str(), static_cast<long long>(w.cols), a.n);
}
u64 expert_bytes(const Weight& w) { return w.bytes / u64(w.experts); }

void embed(const Steps& steps, Ctx& ctx, const Weight& table, const i32* ids, int cols, const Rotation* inverse, f32* x) {
  Record record(ctx, "embed", u64(cols) * (table.bytes / u64(table.rows)), "%s %lld x %d", type_name(table.type),
                static_cast<long long>(table.cols), cols);
  parallel(ctx, cols, 4, [&](i64 begin, i64 end, int) {
    const i64 n = table.cols;
    f32* row = local(0, n);
    for (i64 c = begin; c < end; c++) {
      FEWBIT_CHECK(ids[c] >= 0 && ids[c] < table.rows, "token %d of %lld", ids[c], static_cast<long long>(table.rows));
      f32* to = x + c * n;
      decode_tensor_row(table.type, bytes_of(table), ids[c], n, {inverse ? row : to, size_t(n)});
      if (inverse) cpu::rotate(steps, to, row, *inverse, int(n), true);
      if (table.scale) steps.scale(to, to, table.scale[0], nullptr, int(n));
    }
  });
}

void matmul(const Steps& steps, Ctx& ctx, std::span<const Kernels::Product> products) {
  for (const Kernels::Product& p : products) {
    const Weight& w = *p.w;
    check(w, *p.a);
    Record record(ctx, "matmul", w.bytes, "%s %lld x %lld x %d", type_name(w.type), static_cast<long long>(w.rows),
                  static_cast<long long>(w.cols), p.a->cols);
    const Columns cols = columns_of(*p.a);
    const int tile = tile_rows(w.cols);
    parallel(ctx, div_up(w.rows, tile), 1, [&](i64 begin, i64 end, int) {
      f32* t = p.add ? local(4, i64(cols.n()) * tile) : nullptr;
      for (i64 i = begin; i < end; i++) {
        const i64 row = i * tile;
        const int n = int(std::min<i64>(tile, w.rows - row));
        f32* y = p.y + row;
        multiply(steps, w, 0, row, n, cols.x.data(), cols.s.empty() ? nullptr : cols.s.data(), cols.n(), t ? t : y, t ? tile : p.ldy);
        if (!t) continue;
        for (int c = 0; c < cols.n(); c++) {
          for (int r = 0; r < n; r++) y[c * p.ldy + r] += t[c * tile + r];
        }
      }
    });
  }
}

// h[entry[c]] (rows) = act(gate) * up for some columns and a tile of rows; entry == nullptr: c itself.
void glu_tile(const Steps& steps, const Weight& gate, const Weight& up, i64 expert, i64 row, int n, const f32* const* x, const f32* s,
              int cols, const i32* entry, Glu kind, f32* h) {
  f32 *g = local(4, i64(cols) * n), *u = local(5, i64(cols) * n);
  multiply(steps, gate, expert, row, n, x, s, cols, g, n);
  multiply(steps, up, expert, row, n, x, s, cols, u, n);
  for (int c = 0; c < cols; c++) steps.glu(h + (entry ? entry[c] : c) * gate.rows + row, g + c * n, u + c * n, kind == Glu::relu2, n);
}

void glu(const Steps& steps, Ctx& ctx, const Weight& gate, const Weight& up, const Act& a, Glu kind, f32* h) {
  check(gate, a);
  check(up, a);
  FEWBIT_CHECK(gate.rows == up.rows);
  Record record(ctx, "glu", gate.bytes + up.bytes, "%s 2 x %lld x %lld x %d", type_name(gate.type), static_cast<long long>(gate.rows),
                static_cast<long long>(gate.cols), a.cols);
  const Columns cols = columns_of(a);
  const int tile = tile_rows(gate.cols);
  parallel(ctx, div_up(gate.rows, tile), 1, [&](i64 begin, i64 end, int) {
    for (i64 i = begin; i < end; i++) {
      const i64 row = i * tile;
      glu_tile(steps, gate, up, 0, row, int(std::min<i64>(tile, gate.rows - row)), cols.x.data(), cols.s.empty() ? nullptr : cols.s.data(),
               cols.n(), nullptr, kind, h);
    }
  });
}

// Entries of a window by expert: entries first[e] .. first[e + 1] of `entry` chose expert e, in order.
struct Groups {
  std::vector<i32> first, entry, used;  // used: experts that somebody chose
  Groups(const i32* ids, int n, i64 experts) : first(size_t(experts) + 1), entry(size_t(n)) {
    for (int i = 0; i < n; i++) {
      FEWBIT_CHECK(ids[i] >= 0 && ids[i] < experts, "expert %d of %lld", ids[i], static_cast<long long>(experts));
      first[size_t(ids[i]) + 1]++;
    }
    for (size_t e = 0; e < size_t(experts); e++) {
      if (first[e + 1] > 0) used.push_back(i32(e));
      first[e + 1] += first[e];
    }
    std::vector<i32> at(first.begin(), first.end() - 1);
    for (int i = 0; i < n; i++) entry[size_t(at[size_t(ids[i])]++)] = i;
  }
};

// The columns of a routed product in the order of `entry`; entry i belongs to column i / per of the activation.
Columns routed(const Act& a, const Groups& g, int per) {
  Columns all = columns_of(a), c;
  for (i32 e : g.entry) {
    c.x.push_back(all.x[size_t(e / per)]);
    if (!all.s.empty()) c.s.push_back(all.s[size_t(e / per)]);
  }
  return c;
}

void moe_glu(const Steps& steps, Ctx& ctx, const Weight& gate, const Weight& up, const Act& a, const i32* ids, int k, Glu kind, f32* h) {
  check(gate, a);
  check(up, a);
  const Groups g(ids, a.cols * k, gate.experts);
  const Columns cols = routed(a, g, k);
  Record record(ctx, "moe_glu", u64(g.used.size()) * (expert_bytes(gate) + expert_bytes(up)), "%s %zu experts 2 x %lld x %lld x %d",
                type_name(gate.type), g.used.size(), static_cast<long long>(gate.rows), static_cast<long long>(gate.cols), a.cols);
  const int tile = tile_rows(gate.cols);
  const i64 tiles = div_up(gate.rows, tile);
  parallel(ctx, i64(g.used.size()) * tiles, 1, [&](i64 begin, i64 end, int) {
    for (i64 i = begin; i < end; i++) {
      const size_t e = size_t(g.used[size_t(i / tiles)]), first = size_t(g.first[e]);
      const i64 row = i % tiles * tile;
      glu_tile(steps, gate, up, i64(e), row, int(std::min<i64>(tile, gate.rows - row)), &cols.x[first],
               cols.s.empty() ? nullptr : &cols.s[first], g.first[e + 1] - g.first[e], &g.entry[first], kind, h);
    }
  });
}

void moe_down(const Steps& steps, Ctx& ctx, const Weight& down, const Act& a, const i32* ids, const f32* weights, int k, f32* x) {
  check(down, a);
  const Groups g(ids, a.cols, down.experts);
  const Columns cols = routed(a, g, 1);
  Record record(ctx, "moe_down", u64(g.used.size()) * expert_bytes(down), "%s %zu experts %lld x %lld x %d", type_name(down.type),
                g.used.size(), static_cast<long long>(down.rows), static_cast<long long>(down.cols), a.cols / k);
  const int tile = tile_rows(down.cols);
  parallel(ctx, div_up(down.rows, tile), 1, [&](i64 begin, i64 end, int) {
    f32 *t = local(4, i64(a.cols) * tile), *part = local(5, i64(a.cols) * tile);  // by entry; by place in its expert
    for (i64 i = begin; i < end; i++) {
      const i64 row = i * tile;
      const int n = int(std::min<i64>(tile, down.rows - row));
      for (i32 used : g.used) {
        const size_t e = size_t(used), first = size_t(g.first[e]);
        const int count = g.first[e + 1] - g.first[e];
        multiply(steps, down, i64(e), row, n, &cols.x[first], cols.s.empty() ? nullptr : &cols.s[first], count, part, n);
        for (int c = 0; c < count; c++) std::copy(part + c * n, part + (c + 1) * n, t + i64(g.entry[first + size_t(c)]) * tile);
      }
      for (int c = 0; c < a.cols; c++) steps.add_scaled(x + c / k * down.rows + row, t + i64(c) * tile, weights[c], n);  // slots in order
    }
  });
}

u64 scratch_bytes(int max_cols, int, int max_n, int n_q_heads, int head_dim, int max_context) {
  return cpu::steps_scratch_bytes(max_cols, max_n, n_q_heads, head_dim, max_context);
}

template <const Steps& S>
const Kernels* make(Isa isa) {
  static const Kernels made = [isa] {
    Kernels t{};
    t.name = "exact";
    t.path = Path::exact;
    t.place = place;
    t.placed_bytes = placed_bytes;
    t.describe = describe;
    t.act_layout = act_layout;
    t.act_bytes = act_bytes;
    t.scratch_bytes = scratch_bytes;
    t.embed = [](Ctx& c, const Weight& w, const i32* ids, int cols, const Rotation* inverse, f32* x) {
      embed(S, c, w, ids, cols, inverse, x);
    };
    t.matmul = [](Ctx& c, std::span<const Kernels::Product> p) { matmul(S, c, p); };
    t.glu = [](Ctx& c, const Weight& g, const Weight& u, const Act& a, Glu kind, f32* h) { glu(S, c, g, u, a, kind, h); };
    t.moe_glu = [](Ctx& c, const Weight& g, const Weight& u, const Act& a, const i32* ids, int k, Glu kind, f32* h) {
      moe_glu(S, c, g, u, a, ids, k, kind, h);
    };
    t.moe_down = [](Ctx& c, const Weight& d, const Act& a, const i32* ids, const f32* weights, int k, f32* x) {
      moe_down(S, c, d, a, ids, weights, k, x);
    };
    cpu::fill_steps(t, isa, Path::exact);
    return t;
  }();
  return &made;
}

}  // namespace

void write_act(const Act& act, int col, const f32* x) {
  f32* to = act_column(act, col);
  if (act.layout == ActLayout::token8) {
    f32 most = 0;
    for (int i = 0; i < act.n; i++) most = std::isfinite(x[i]) ? std::max(most, std::fabs(x[i])) : NAN;
    const f32 s = 127.0f / (most > 1e-5f ? most : 1e-5f);
    for (int i = 0; i < act.n; i++) to[i] = std::clamp(std::nearbyintf(x[i] * s), -128.0f, 127.0f);
    act_factors(act)[col] = std::isnan(most) ? most : s;
  } else {
    FEWBIT_CHECK(act.layout == ActLayout::f32, "activation layout %d on the exact path", int(act.layout));
    std::memcpy(to, x, size_t(act.n) * sizeof(f32));
  }
  std::fill(to + act.n, to + padded(act.n), 0.0f);
}

const Kernels* table(Isa isa) {
  const Steps& s = cpu::steps(isa);
#if defined(__x86_64__)
  if (&s == &cpu::steps_avx512) return make<cpu::steps_avx512>(Isa::avx512);
  if (&s == &cpu::steps_avx2) return make<cpu::steps_avx2>(Isa::avx2);
#endif
  (void)s;
  return make<cpu::steps_scalar>(Isa::scalar);
}
const Kernels* table() { return table(cpu::best_steps().isa); }

}  // namespace fewbit::kernel::exact
