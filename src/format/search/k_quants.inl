// Q2_K .. Q6_K (formats.md 4.7 .. 4.11) and the weighted Q4_0 .. Q5_1 (4.2 .. 4.5).

static f32 sum_of_squares(const f32* x, i64 n) {
  f32 sum = 0;
  for (i64 e = 0; e < n; e++) sum += x[e] * x[e];
  return sum;
}
// w = q sqrt(s2 + x^2)
static void importance_weights(const f32* x, const f32* q, f32 s2, i64 n, f32* w) {
  for (i64 e = 0; e < n; e++) w[e] = q[e] * __builtin_sqrtf(s2 + x[e] * x[e]);
}
template <int n>
INLINE V sum_of(const Groups<n>& w) {
  V s{};
  for (int e = 0; e < n; e++) s += w[e];
  return s;
}
static f32 f16_rounded(f32 v) { return half_to_f32(f32_to_half(v)); }

// codes of a group whose stored scale is dd: clamp(rint((x + shift) / dd), lo, hi) - lo.  dd = 0 keeps the codes of the fit.
static void requantise(const f32* x, f32 shift, f32 dd, int lo, int hi, int n, u8* codes) {
  if (dd == 0) return;
  for (int e = 0; e < n; e++) {
    f32 v = (x[e] + shift) / dd;
    v = v > f32(lo) ? v : f32(lo);
    v = v < f32(hi) ? v : f32(hi);
    codes[e] = u8(i32(v + 12582912.0f) - 12582912 - lo);
  }
}

// The fitted scales of a super-block become codes 0 .. top and one d.  Plain: relative to the largest.
static f32 scale_codes(const f32* scales, int n, int top, u8* codes) {
  f32 mx = 0;
  for (int g = 0; g < n; g++) mx = scales[g] > mx ? scales[g] : mx;
  const f32 i = f32(top) / mx;
  const bool any_scale = mx > 0 && i < INFINITY;
  for (int g = 0; g < n; g++) {
    f32 v = any_scale ? i * scales[g] : 0;
    v = v > 0 ? v : 0;
    v = v < f32(top) ? v : f32(top);
    codes[g] = u8(i32(v + 12582912.0f) - 12582912);
  }
  return any_scale ? mx / f32(top) : 0;
}

template <class F>
struct AffineRule;  // how a K-quant with a minimum is searched
template <>
struct AffineRule<Q2_K> {
  static constexpr int nmax = 3, top = 15;
  static constexpr f32 s2_factor = 1;
  static constexpr Affine plain{3, -0.5f, 0.1f, 15, true}, weighted{3, -0.9f, 0.05f, 36, false};
  static void pack(const u8* s, const u8* m, const u8* code, u8* out) {
    for (int g = 0; g < 16; g++) out[Q2_K::scales_at + g] = u8(s[g] | m[g] << 4);
    for (int b = 0; b < 64; b++) {
      const u8* c = code + 128 * (b / 32) + b % 32;
      out[Q2_K::codes_at + b] = u8(c[0] | c[32] << 2 | c[64] << 4 | c[96] << 6);
    }
  }
};
static void pack_k4_scales(const u8* s, const u8* m, u8* out) {
  for (int j = 0; j < 4; j++) {
    out[j] = u8(s[j] | s[j + 4] >> 4 << 6);
    out[j + 4] = u8(m[j] | m[j + 4] >> 4 << 6);
    out[j + 8] = u8((s[j + 4] & 15) | m[j + 4] << 4);
  }
}
template <>
struct AffineRule<Q4_K> {
  static constexpr int nmax = 15, top = 63;
  static constexpr f32 s2_factor = 2;
  static constexpr Affine plain{15, -1.0f, 0.1f, 20, false}, weighted{15, -0.9f, 0.05f, 36, false};
  static void pack(const u8* s, const u8* m, const u8* code, u8* out) {
    pack_k4_scales(s, m, out + Q4_K::scales_at);
    for (int b = 0; b < 128; b++) {
      const u8* c = code + 64 * (b / 32) + b % 32;
      out[Q4_K::codes_at + b] = u8(c[0] | c[32] << 4);
    }
  }
};
template <>
struct AffineRule<Q5_K> {
  static constexpr int nmax = 31, top = 63;
  static constexpr f32 s2_factor = 2;
  static constexpr Affine plain{31, -0.5f, 0.1f, 15, false}, weighted{31, -0.9f, 0.05f, 36, false};
  static void pack(const u8* s, const u8* m, const u8* code, u8* out) {
    pack_k4_scales(s, m, out + Q5_K::scales_at);
    for (int b = 0; b < 32; b++) {
      u32 high = 0;
      for (int g = 0; g < 8; g++) high |= u32(code[32 * g + b] >> 4) << g;
      out[Q5_K::high_at + b] = u8(high);
    }
    for (int b = 0; b < 128; b++) {
      const u8* c = code + 64 * (b / 32) + b % 32;
      out[Q5_K::codes_at + b] = u8((c[0] & 15) | (c[32] & 15) << 4);
    }
  }
};

template <class F>
static void encode_affine(F, const f32* x, const f32* q, i64 n_elements, u8* out) {
  using R = AffineRule<F>;
  constexpr int n = F::group, groups = 256 / n;
  for (i64 i = 0; i < n_elements / 256; i++, x += 256, out += F::bytes) {
    f32 weight[256], scale[groups], minus[groups], total[groups];
    u8 code[256], s[groups], m[groups];
    const f32* qi = q ? q + 256 * i : nullptr;
    if (q) importance_weights(x, qi, R::s2_factor * sum_of_squares(x, 256) / 256, 256, weight);
    for (int g = 0; g < groups; g += LANES) {
      const int count = groups - g;
      Groups<n> xs, w, codes;
      load_groups(xs, x + g * n, count);
      if (q) {
        load_groups(w, weight + g * n, count);
        store_lanes(sum_of(w), total + g, count);
      } else {
        V a{};
        if constexpr (F::group == 32) {  // Q4_K, Q5_K: the root mean square keeps small values from counting nothing
          for (int e = 0; e < n; e++) a += xs[e] * xs[e];
          for (int l = 0; l < LANES; l++) a[l] = __builtin_sqrtf(a[l] / 32);
        }
        for (int e = 0; e < n; e++) w[e] = a + absolute(xs[e]);
      }
      const AffineFit fit = fit_affine(q ? R::weighted : R::plain, xs, w, codes);
      store_lanes(fit.scale, scale + g, count);
      store_lanes(fit.minus, minus + g, count);
      store_codes(codes, code + g * n, count);
    }
    const f32 d = q ? fit_positive(R::top, scale, total, groups, s) : scale_codes(scale, groups, R::top, s);
    const f32 dmin = q ? fit_positive(R::top, minus, total, groups, m) : scale_codes(minus, groups, R::top, m);
    for (int g = 0; g < groups; g++)
      requantise(x + g * n, f16_rounded(dmin) * f32(m[g]), f16_rounded(d) * f32(s[g]), 0, R::nmax, n, code + g * n);
    store_f16(out + F::scale_at, d);
    store_f16(out + F::min_at, dmin);
    R::pack(s, m, code, out);
  }
}

// The scale of largest magnitude, the first of several.
static f32 largest_scale(const f32* scale, int n) {
  f32 a = 0, m = 0;
  for (int g = 0; g < n; g++) {
    const f32 b = __builtin_fabsf(scale[g]);
    if (b > a) a = b, m = scale[g];
  }
  return m;
}

static void encode_search(Q3_K, const f32* x, const f32* q, i64 n_elements, u8* out) {
  using F = Q3_K;
  constexpr int n = F::group, groups = 16;
  for (i64 i = 0; i < n_elements / 256; i++, x += 256, out += F::bytes) {
    f32 weight[256], scale[groups], total[groups], d = 0;
    u8 code[256], s[groups] = {};
    if (q) importance_weights(x, q + 256 * i, 2 * sum_of_squares(x, 256) / 256, 256, weight);
    for (int g = 0; g < groups; g += LANES) {
      const int count = groups - g;
      Groups<n> xs, w, codes;
      load_groups(xs, x + g * n, count);
      if (q) {
        load_groups(w, weight + g * n, count);
        store_lanes(sum_of(w), total + g, count);
        store_lanes(fit_symmetric(4, xs, w, codes), scale + g, count);
      } else {
        store_lanes(fit_q3(xs, codes), scale + g, count);
      }
      store_codes(codes, code + g * n, count);
    }
    if (q) {
      Groups<groups> xs, w, codes;  // the 16 scales as one group
      load_groups(xs, scale, 1);
      load_groups(w, total, 1);
      d = fit_symmetric(32, xs, w, codes)[0];
      store_codes(codes, s, 1);
    } else {
      const f32 inverse = -32 / largest_scale(scale, groups);
      if (__builtin_isfinite(inverse)) {
        for (int g = 0; g < groups; g++) {
          f32 v = inverse * scale[g];
          v = v > -32 ? (v < 31 ? v : 31) : -32;
          s[g] = u8(i32(v + 12582912.0f) - 12582912 + 32);
        }
        d = 1 / inverse;
      }
    }
    for (int g = 0; g < groups; g++) requantise(x + g * n, 0, f16_rounded(d) * f32(s[g] - 32), -4, 3, n, code + g * n);
    std::memset(out, 0, F::bytes);
    store_f16(out + F::scale_at, d);
    for (int g = 0; g < groups; g++) {
      out[F::scales_at + g % 8] |= u8((s[g] & 15) << (4 * (g / 8)));
      out[F::scales_at + 8 + g % 4] |= u8((s[g] >> 4) << (2 * (g / 4)));
    }
    for (int e = 0; e < 256; e++) {
      out[F::codes_at + 32 * (e / 128) + e % 32] |= u8((code[e] & 3) << (2 * (e / 32 % 4)));
      out[F::high_at + e % 32] |= u8((code[e] >> 2) << (e / 32));
    }
  }
}

static void encode_search(Q6_K, const f32* x, const f32* q, i64 n_elements, u8* out) {
  using F = Q6_K;
  constexpr int n = F::group, groups = 16;
  for (i64 i = 0; i < n_elements / 256; i++, x += 256, out += F::bytes) {
    f32 scale[groups];
    u8 code[256];
    for (int g = 0; g < groups; g += LANES) {
      const int count = groups - g;
      Groups<n> xs, w, codes;
      load_groups(xs, x + g * n, count);
      if (q)
        load_groups(w, q + 256 * i + g * n, count);
      else
        for (int e = 0; e < n; e++) w[e] = xs[e] * xs[e];
      store_lanes(fit_symmetric(32, xs, w, codes), scale + g, count);
      store_codes(codes, code + g * n, count);
    }
    std::memset(out, 0, F::bytes);
    const f32 m = largest_scale(scale, groups);
    if (__builtin_fabsf(m) < 1e-15f) continue;
    const f32 inverse = -128 / m, d = 1 / inverse;
    store_f16(out + F::scale_at, d);
    for (int g = 0; g < groups; g++) {
      f32 v = inverse * scale[g];
      v = v > -128 ? (v < 127 ? v : 127) : -128;
      const i32 s = i32(v + 12582912.0f) - 12582912;
      out[F::scales_at + g] = u8(s);
      requantise(x + g * n, 0, f16_rounded(d) * f32(s), -32, 31, n, code + g * n);
    }
    for (int e = 0; e < 256; e++) {
      out[F::codes_at + 64 * (e / 128) + e % 64] |= u8((code[e] & 15) << (4 * (e / 64 % 2)));
      out[F::high_at + 32 * (e / 128) + e % 32] |= u8((code[e] >> 4) << (2 * (e / 32 % 4)));
    }
  }
}

static void encode_search(Q2_K f, const f32* x, const f32* q, i64 n, u8* out) { encode_affine(f, x, q, n, out); }
static void encode_search(Q4_K f, const f32* x, const f32* q, i64 n, u8* out) { encode_affine(f, x, q, n, out); }
static void encode_search(Q5_K f, const f32* x, const f32* q, i64 n, u8* out) { encode_affine(f, x, q, n, out); }

// Weighted Q4_0, Q4_1, Q5_0, Q5_1.  LANES neighbouring blocks of the row at a time.
template <class F>
static void encode_weighted_32(F, const f32* x, const f32* q, i64 n_elements, u8* out) {
  constexpr int bits = F::bytes - F::codes_at == 16 && requires { F::high_at; }
  ? 5 : 4;
  constexpr bool affine = requires { F::min_at; };
  constexpr int nmax = affine ? (1 << bits) - 1 : 1 << (bits - 1);
  const f32 s2 = sum_of_squares(x, n_elements) / f32(n_elements);
  const i64 blocks = n_elements / 32;
  for (i64 b = 0; b < blocks; b += LANES) {
    const int count = blocks - b < LANES ? int(blocks - b) : LANES;
    f32 weight[32 * LANES];
    u8 code[32 * LANES];
    Groups<32> xs, w, codes;
    importance_weights(x + 32 * b, q + 32 * b, s2, 32 * count, weight);
    load_groups(xs, x + 32 * b, count);
    load_groups(w, weight, count);
    V scale, minus{};
    if constexpr (affine) {
      const AffineFit fit = fit_affine({nmax, -0.9f, 0.05f, 36, false}, xs, w, codes);
      scale = fit.scale;
      minus = fit.minus;
    } else {
      scale = fit_symmetric(nmax, xs, w, codes);
    }
    store_codes(codes, code, count);
    for (int l = 0; l < count; l++) {
      u8* o = out + (b + l) * F::bytes;
      const u8* c = code + 32 * l;
      store_f16(o + F::scale_at, scale[l]);
      if constexpr (affine) store_f16(o + F::min_at, -minus[l]);
      for (int e = 0; e < 16; e++) o[F::codes_at + e] = u8((c[e] & 15) | (c[e + 16] & 15) << 4);
      if constexpr (bits == 5) {
        u32 high = 0;
        for (int e = 0; e < 32; e++) high |= u32(c[e] >> 4) << e;
        store_le(o + F::high_at, high);
      }
    }
  }
}
static void encode_search(Q4_0 f, const f32* x, const f32* q, i64 n, u8* out) { encode_weighted_32(f, x, q, n, out); }
static void encode_search(Q4_1 f, const f32* x, const f32* q, i64 n, u8* out) { encode_weighted_32(f, x, q, n, out); }
static void encode_search(Q5_0 f, const f32* x, const f32* q, i64 n, u8* out) { encode_weighted_32(f, x, q, n, out); }
static void encode_search(Q5_1 f, const f32* x, const f32* q, i64 n, u8* out) { encode_weighted_32(f, x, q, n, out); }
