// The definitions of the two operations with a memory: attention (models.md 3.2, 3.3, 8.4) and the gated delta rule (8.5).
#include <cmath>
#include <vector>

#include "kernel/ref/ref.h"

namespace fewbit::kernel::ref {
namespace {

using Row = std::vector<f64>;

f64 sigmoid(f64 x) { return 1 / (1 + std::exp(-x)); }

void rms(Row& x, const f32* w, f64 eps) {
  f64 sum = 0;
  for (f64 v : x) sum += v * v;
  for (size_t i = 0; i < x.size(); i++) x[i] *= f64(w[i]) / std::sqrt(sum / f64(x.size()) + eps);
}

void rope(Row& x, const f32* cos_sin, int n_rot, bool neox) {
  for (int i = 0; i < n_rot / 2; i++) {
    f64& u = x[size_t(neox ? i : 2 * i)];
    f64& v = x[size_t(neox ? i + n_rot / 2 : 2 * i + 1)];
    const f64 c = f64(cos_sin[2 * i]), s = f64(cos_sin[2 * i + 1]), a = u, b = v;
    u = a * c - b * s;
    v = a * s + b * c;
  }
}

std::span<u8> cache_row(void* base, Type type, const Batch& b, const AttentionArgs& a, int seq, int head, int pos) {
  const int pt = a.cache.page_tokens;
  const i64 page = b.page_table[seq * b.max_pages + pos / pt];
  const u64 bytes = row_bytes(type, a.head_dim);
  return {static_cast<u8*>(base) + u64((page * a.n_kv + head) * pt + pos % pt) * bytes, bytes};
}
void store(std::span<u8> to, Type type, const Row& x) {
  std::vector<f32> f(x.begin(), x.end());
  FEWBIT_CHECK(encode_row(type, f, {}, to).ok());
}
std::vector<f32> fetch(std::span<const u8> row, Type type, int n) {
  std::vector<f32> x(static_cast<size_t>(n));
  decode_row(type, row, x);
  return x;
}

}  // namespace

void attention(Ctx&, const Batch& b, const AttentionArgs& a) {
  for (int c = 0; c < b.cols; c++) {
    for (int h = 0; h < a.n_kv; h++) {
      const f32 *kp = a.k + c * a.ldk + i64(h) * a.head_dim, *vp = a.v + c * a.ldv + i64(h) * a.head_dim;
      Row k(kp, kp + a.head_dim), v(vp, vp + a.head_dim);
      if (a.k_norm) rms(k, a.k_norm, f64(a.eps));
      if (a.rope) rope(k, a.rope + i64(b.pos[c]) * a.n_rot, a.n_rot, a.neox);
      store(cache_row(a.cache.k, a.cache.k_type, b, a, b.seq[c], h, b.pos[c]), a.cache.k_type, k);
      store(cache_row(a.cache.v, a.cache.v_type, b, a, b.seq[c], h, b.pos[c]), a.cache.v_type, v);
    }
  }
  for (int c = 0; c < b.cols; c++) {
    for (int h = 0; h < a.n_q; h++) {
      const f32* qp = a.q + c * a.ldq + i64(h) * a.q_stride;
      const int kvh = h / (a.n_q / a.n_kv), n = b.pos[c] + 1;
      Row q(qp, qp + a.head_dim), s(static_cast<size_t>(n)), out(static_cast<size_t>(a.head_dim));
      if (a.q_norm) rms(q, a.q_norm, f64(a.eps));
      if (a.rope) rope(q, a.rope + i64(b.pos[c]) * a.n_rot, a.n_rot, a.neox);
      f64 most = -INFINITY, total = 0;
      for (int t = 0; t < n; t++) {
        std::vector<f32> k = fetch(cache_row(a.cache.k, a.cache.k_type, b, a, b.seq[c], kvh, t), a.cache.k_type, a.head_dim);
        f64 sum = 0;
        for (size_t d = 0; d < q.size(); d++) sum += q[d] * f64(k[d]);
        s[size_t(t)] = f64(a.scale) * sum;
        most = std::max(most, s[size_t(t)]);
      }
      for (f64& v : s) total += v = std::exp(v - most);
      for (int t = 0; t < n; t++) {
        std::vector<f32> v = fetch(cache_row(a.cache.v, a.cache.v_type, b, a, b.seq[c], kvh, t), a.cache.v_type, a.head_dim);
        for (size_t d = 0; d < out.size(); d++) out[d] += s[size_t(t)] / total * f64(v[d]);
      }
      for (int d = 0; d < a.head_dim; d++) {
        const f64 gate = a.gated ? sigmoid(f64(qp[a.head_dim + d])) : 1;
        a.out[(i64(c) * a.n_q + h) * a.head_dim + d] = f32(out[size_t(d)] * gate);
      }
    }
  }
}

void delta_net(Ctx&, const Batch& b, const DeltaNetArgs& a) {
  const i64 dim = a.dim, channels = i64(2 * a.k_heads + a.v_heads) * dim;
  for (int c = 0; c < b.cols; c++) {
    f32* window = a.conv_state + i64(b.slot[b.seq[c]]) * (a.conv - 1) * channels;
    const f32* u = a.qkv + c * a.ldqkv;
    Row y(static_cast<size_t>(channels));
    for (i64 ch = 0; ch < channels; ch++) {
      f64 sum = 0;
      for (int j = 0; j < a.conv; j++) { sum += f64(a.conv_w[ch * a.conv + j]) * f64(j == a.conv - 1 ? u[ch] : window[j * channels + ch]); }
      y[size_t(ch)] = sum * sigmoid(sum);
      for (int j = 0; j + 1 < a.conv; j++) window[j * channels + ch] = j + 2 < a.conv ? window[(j + 1) * channels + ch] : u[ch];
    }
    auto unit = [&](i64 at, f64 times) {
      f64 sum = 0;
      Row x(y.begin() + at, y.begin() + at + dim);
      for (f64 v : x) sum += v * v;
      for (f64& v : x) v *= times / std::max(std::sqrt(sum), f64(a.eps));
      return x;
    };
    for (int h = 0; h < a.v_heads; h++) {
      const int kh = a.tiled ? h % a.k_heads : h / (a.v_heads / a.k_heads);
      const Row q = unit(kh * dim, 1 / std::sqrt(f64(dim))), k = unit((a.k_heads + kh) * dim, 1);
      const f64 x = f64(a.alpha[c * a.ldab + h]) + f64(a.dt[h]);
      const f64 decay = std::exp(f64(a.a[h]) * (x > 20 ? x : std::log1p(std::exp(x)))), beta = sigmoid(f64(a.beta[c * a.ldab + h]));
      f32* state = a.state + (i64(b.slot[b.seq[c]]) * a.v_heads + h) * dim * dim;
      Row o(static_cast<size_t>(dim));
      for (i64 r = 0; r < dim; r++) {
        f32* s = state + r * dim;
        f64 stored = 0;
        for (i64 d = 0; d < dim; d++) stored += decay * f64(s[d]) * k[size_t(d)];
        const f64 dl = beta * (y[size_t((2 * a.k_heads + h) * dim + r)] - stored);
        for (i64 d = 0; d < dim; d++) {
          const f64 now = decay * f64(s[d]) + dl * k[size_t(d)];
          o[size_t(r)] += now * q[size_t(d)];
          s[d] = f32(now);
        }
      }
      rms(o, a.norm, f64(a.eps));
      for (i64 r = 0; r < dim; r++) {
        const f64 z = f64(a.z[c * a.ldz + h * dim + r]);
        a.out[(i64(c) * a.v_heads + h) * dim + r] = f32(o[size_t(r)] * z * sigmoid(z));
      }
    }
  }
}

}  // namespace fewbit::kernel::ref
