#include "kernel/ref/ref.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/bits.h"
#include "base/half.h"
#include "kernel/cuda/act_layout.h"
#include "kernel/layout/as_in_file.h"

namespace fewbit::kernel::ref {

std::vector<f64> rotate(const Rotation& r, std::span<const f64> x, bool inverse) {
  const size_t n = x.size(), block = size_t(r.block);
  std::vector<f64> in(x.begin(), x.end()), out(n);
  if (!inverse && r.perm_k_heads > 0) {
    for (size_t i = 0; i < n; i++) {
      size_t head = i / size_t(r.perm_width), g = head / size_t(r.perm_rep), rep = head % size_t(r.perm_rep);
      in[i] = x[(rep * size_t(r.perm_k_heads) + g) * size_t(r.perm_width) + i % size_t(r.perm_width)];
    }
  }
  if (!inverse && r.signs) {
    for (size_t i = 0; i < n; i++) in[i] *= f64(r.signs[i]);
  }
  for (size_t i = 0; i < n; i++) {  // the matrix itself, not the fast form
    f64 sum = 0;
    for (size_t j = 0; j < block; j++) sum += (__builtin_popcountll(i % block & j) % 2 ? -1.0 : 1.0) * in[i / block * block + j];
    out[i] = sum / std::sqrt(f64(block));
  }
  if (inverse && r.signs) {
    for (size_t i = 0; i < n; i++) out[i] *= f64(r.signs[i]);
  }
  return out;
}

// The largest magnitude, NaN if a number is not finite.
static f32 largest(std::span<const f32> x) {
  f32 most = 0;
  for (f32 v : x) most = std::isfinite(v) && !std::isnan(most) ? std::max(most, std::fabs(v)) : NAN;
  return most;
}

std::vector<f64> round_act(ActLayout layout, std::span<const f32> x) {
  std::vector<f64> y(x.begin(), x.end());
  if (layout == ActLayout::f32) return y;
  if (layout == ActLayout::f16) {  // f16 times a power of two per column (cuda/half_layout.h)
    const f32 most = largest(x);
    const int e = most > 0 ? std::clamp(std::ilogb(most), -100, 126) : -100;
    for (f64& v : y) v = std::isnan(most) ? f64(NAN) : std::ldexp(f64(half_to_f32(f32_to_half(f32(std::ldexp(v, 14 - e))))), e - 14);
    return y;
  }
  if (layout == ActLayout::token8) {
    f64 most = 0;
    for (f32 v : x) most = std::isfinite(v) ? std::max(most, std::fabs(f64(v))) : NAN;
    const f32 s = 127.0f / std::max(f32(most), 1e-5f);
    for (size_t i = 0; i < y.size(); i++) y[i] = std::clamp(std::nearbyint(f64(x[i] * s)), -128.0, 127.0) / f64(s);
    if (std::isnan(most)) std::fill(y.begin(), y.end(), NAN);
    return y;
  }
  if (layout == ActLayout::q8_128 || layout == ActLayout::q8_256) {
    for (size_t u = 0; u < x.size(); u += 128) {
      const size_t end = std::min(u + 128, x.size());
      const f32 most = largest(x.subspan(u, end - u));
      if (!(most > 0)) {
        std::fill(y.begin() + i64(u), y.begin() + i64(end), std::isnan(most) ? f64(NAN) : 0.0);
        continue;
      }
      f32 unit = std::bit_cast<f32>((std::bit_cast<u32>(most / 2032.0f) + 0x7fffffu) & 0x7f800000u);  // up to a power of two
      const bool is_256 = layout == ActLayout::q8_256;
      for (bool fits = false; !fits; unit *= 2) {
        i64 total = 0;
        for (size_t g = u; g < end; g += 32) {
          const size_t n = std::min(g + 32, end) - g;
          const f32 s = std::clamp(std::ceil(largest(x.subspan(g, n)) / (127.0f * unit)), 1.0f, 16.0f), d = unit * s;
          for (size_t i = g; i < g + n; i++) {
            const f64 q = std::clamp(std::round(f64(x[i] / d)), -127.0, 127.0);
            y[i] = f64(d) * q, total += i64(std::fabs(q)) * i64(s);
          }
        }
        fits = total <= cuda::act_most_of_128(is_256);
      }
    }
    return y;
  }
  const size_t group = layout == ActLayout::q8_per128 ? 128 : 32;
  for (size_t g = 0; g < x.size(); g += group) {
    const size_t end = std::min(g + group, x.size());
    f32 most = 0;
    bool finite = true;
    for (size_t i = g; i < end; i++) finite = finite && std::isfinite(x[i]), most = std::max(most, std::fabs(x[i]));
    const f32 d = most / 127.0f;
    for (size_t i = g; i < end; i++) {
      y[i] = !finite ? f64(NAN) : d == 0 ? 0.0 : f64(d) * std::clamp(std::round(f64(x[i] / d)), -127.0, 127.0);
    }
  }
  return y;
}

namespace {

f64* act_column(const Act& a, i64 c) { return static_cast<f64*>(a.data) + c * a.n; }

Result<std::vector<Weight>> place(Ctx& ctx, std::span<const HostTensor> tensors, GroupUse, const PlaceOptions& options,
                                  std::vector<Buffer>& owned) {
  return place_as_in_file(ctx, tensors, options, "ref", owned);
}

std::vector<f32> decode(const Weight& w, i64 expert, i64 row) {
  std::vector<f32> x(static_cast<size_t>(w.cols));
  decode_tensor_row(w.type, {static_cast<const u8*>(w.data), size_t(w.bytes)}, expert * w.rows + row, w.cols, x);
  return x;
}

// One row of one expert times one column, scaled, with bias.
f64 product(const Weight& w, i64 expert, i64 row, std::span<const f32> weights, const f64* x) {
  f64 sum = 0;
  for (i64 k = 0; k < w.cols; k++) sum += f64(weights[size_t(k)]) * x[k];
  if (w.scale) sum *= f64(w.scale[expert]);
  if (w.bias) sum += f64(w.bias[row]);
  return sum;
}

f64 activate(Glu kind, f64 g, f64 u) {
  if (kind == Glu::relu2) return (g < 0 ? 0 : g * g) * u;
  return g / (1 + std::exp(-g)) * u;
}

void embed(Ctx&, const Weight& table, const i32* ids, int cols, const Rotation* inverse, f32* x) {
  for (i64 c = 0; c < cols; c++) {
    std::vector<f32> row = decode(table, 0, ids[c]);
    std::vector<f64> e(row.begin(), row.end());
    if (inverse) e = rotate(*inverse, e, true);
    for (i64 i = 0; i < table.cols; i++) x[c * table.cols + i] = f32(e[size_t(i)] * (table.scale ? f64(table.scale[0]) : 1.0));
  }
}

void norm(Ctx&, const f32* x, i64 ldx, int n, int cols, const f32* w, f32 eps, f32* plain, std::span<const Kernels::ActOut> outs) {
  for (i64 c = 0; c < cols; c++) {
    std::vector<f64> h(x + c * ldx, x + c * ldx + n);
    if (w) {
      f64 sum = 0;
      for (f64 v : h) sum += v * v;
      for (int i = 0; i < n; i++) h[size_t(i)] *= f64(w[i]) / std::sqrt(sum / n + f64(eps));
    }
    if (plain) std::copy(h.begin(), h.end(), plain + c * n);
    for (const Kernels::ActOut& o : outs) {
      std::vector<f64> y = o.rotation ? rotate(*o.rotation, h, false) : h;
      std::vector<f32> rounded(y.begin(), y.end());  // activations are f32 numbers before they are laid out
      y = round_act(o.act->layout, rounded);
      std::copy(y.begin(), y.end(), act_column(*o.act, c));
    }
  }
}

void matmul(Ctx&, std::span<const Kernels::Product> products) {
  for (const Kernels::Product& p : products) {
    for (i64 r = 0; r < p.w->rows; r++) {
      std::vector<f32> weights = decode(*p.w, 0, r);
      for (i64 c = 0; c < p.a->cols; c++) {
        f32& y = p.y[c * p.ldy + r];
        y = f32(product(*p.w, 0, r, weights, act_column(*p.a, c)) + (p.add ? f64(y) : 0));
      }
    }
  }
}

void glu_of(const Weight& gate, const Weight& up, i64 expert, const f64* x, Glu kind, f32* h) {
  for (i64 r = 0; r < gate.rows; r++) {
    h[r] = f32(activate(kind, product(gate, expert, r, decode(gate, expert, r), x), product(up, expert, r, decode(up, expert, r), x)));
  }
}
void glu(Ctx&, const Weight& gate, const Weight& up, const Act& a, Glu kind, f32* h) {
  for (i64 c = 0; c < a.cols; c++) glu_of(gate, up, 0, act_column(a, c), kind, h + c * gate.rows);
}
void act_mul(Ctx&, const f32* gate, const f32* up, Glu kind, i64 count, f32* h) {
  for (i64 i = 0; i < count; i++) h[i] = f32(activate(kind, f64(gate[i]), f64(up[i])));
}
void moe_glu(Ctx&, const Weight& gate, const Weight& up, const Act& a, const i32* ids, int k, Glu kind, f32* h) {
  for (i64 e = 0; e < i64(a.cols) * k; e++) glu_of(gate, up, ids[e], act_column(a, e / k), kind, h + e * gate.rows);
}
void moe_down(Ctx&, const Weight& down, const Act& a, const i32* ids, const f32* weights, int k, f32* x) {
  for (i64 c = 0; c < a.cols / k; c++) {
    for (i64 r = 0; r < down.rows; r++) {
      f64 sum = f64(x[c * down.rows + r]);
      for (int j = 0; j < k; j++) {
        const i64 e = c * k + j;
        sum += f64(weights[e]) * product(down, ids[e], r, decode(down, ids[e], r), act_column(a, e));
      }
      x[c * down.rows + r] = f32(sum);
    }
  }
}

void route(Ctx&, const f32* logits, int experts, int k, int cols, f32 scale, i32* ids, f32* weights) {
  for (i64 c = 0; c < cols; c++) {
    const f32* l = logits + c * experts;
    std::vector<f64> p(static_cast<size_t>(experts));
    f64 total = 0, sum = 0;
    const f64 top = f64(*std::max_element(l, l + experts));
    for (int e = 0; e < experts; e++) total += p[size_t(e)] = std::exp(f64(l[e]) - top);
    std::vector<i32> order(static_cast<size_t>(experts));
    for (int e = 0; e < experts; e++) order[size_t(e)] = e;
    std::stable_sort(order.begin(), order.end(), [&](i32 a, i32 b) { return l[a] > l[b]; });
    for (int j = 0; j < k; j++) sum += p[size_t(order[size_t(j)])] / total;
    for (int j = 0; j < k; j++) {
      ids[c * k + j] = order[size_t(j)];
      weights[c * k + j] = f32(p[size_t(order[size_t(j)])] / total / std::max(sum, 0x1p-14) * (scale == 0 ? 1.0 : f64(scale)));
    }
  }
}

void add_gated(Ctx&, f32* x, const f32* y, const f32* gate, int n, int cols) {
  for (i64 c = 0; c < cols; c++) {
    const f64 f = gate ? 1 / (1 + std::exp(-f64(gate[c]))) : 1;
    for (i64 i = c * n; i < (c + 1) * n; i++) x[i] = f32(f64(x[i]) + f * f64(y[i]));
  }
}
void gather(Ctx&, const f32* from, const i32* index, int count, int n, f32* to) {
  for (i64 i = 0; i < count; i++) std::copy(from + i64(index[i]) * n, from + i64(index[i] + 1) * n, to + i * n);
}
void argmax(Ctx&, const f32* logits, int n, int cols, i32* ids) {
  for (i64 c = 0; c < cols; c++) ids[c] = i32(std::max_element(logits + c * n, logits + (c + 1) * n) - (logits + c * n));
}

}  // namespace

const Kernels* table() {
  static const Kernels made = [] {
    Kernels t{};
    t.name = "ref";
    t.path = Path::exact;
    t.place = place;
    t.placed_bytes = [](const HostTensor& h, const PlaceOptions& o) -> u64 { return o.mapped ? 0 : h.data.size(); };
    t.act_layout = [](const HostTensor&) { return ActLayout::f32; };
    t.act_bytes = [](ActLayout, int n, int cols) { return u64(n) * u64(cols) * sizeof(f64); };
    t.scratch_bytes = [](int, int, int, int, int, int) { return u64(0); };
    t.embed = embed;
    t.norm = norm;
    t.matmul = matmul;
    t.glu = glu;
    t.act_mul = act_mul;
    t.attention = attention;
    t.delta_net = delta_net;
    t.route = route;
    t.moe_glu = moe_glu;
    t.moe_down = moe_down;
    t.add_gated = add_gated;
    t.gather = gather;
    t.argmax = argmax;
    return t;
  }();
  return &made;
}

}  // namespace fewbit::kernel::ref
