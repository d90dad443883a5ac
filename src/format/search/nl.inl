// IQ4_NL and IQ4_XS: 5.5 NL-FIT over the 16 unevenly spaced levels T of codebooks/iq4nl.txt.

// The level nearest to v; a tie takes the higher one.  Every midpoint is a multiple of 1/2, so floor(2 v) decides, exactly.
struct NearestLevel {
  static constexpr int lo = -254, hi = 226;  // 2 T[0], 2 T[15]
  u8 code[hi - lo + 1];
  f32 level[hi - lo + 1];
};
static constexpr NearestLevel nearest_level = [] {
  NearestLevel t{};
  for (int h = NearestLevel::lo, c = 0; h <= NearestLevel::hi; h++) {
    while (c < 15 && h >= codebook::iq4nl[c] + codebook::iq4nl[c + 1]) c++;
    t.code[h - NearestLevel::lo] = u8(c);
    t.level[h - NearestLevel::lo] = codebook::iq4nl[c];
  }
  return t;
}();
INLINE I level_index(V v) {
  const V c = least(largest(v + v, all(NearestLevel::lo)), all(NearestLevel::hi));
  const I t = __builtin_convertvector(c, I);                           // toward zero
  return t + I(__builtin_convertvector(t, V) > c) - NearestLevel::lo;  // down: a mask is -1
}

// Scales of LANES groups of 32; the codes are found later, from the scale that is stored.
static V fit_levels(const Groups<32>& x, const Groups<32>& w) {
  V m = signed_largest(x);
  const I silent = absolute(m) < all(1e-15f);
  m = pick(silent, all(1), m);
  V d{}, best{};
  for (int k = -8; k <= 7; k++) {  // -8 stands for the start
    const V i = k == -8 ? 1 / (-m / f32(codebook::iq4nl[0])) : f32(k + codebook::iq4nl[0]) / m;
    V s1{}, s2{};
    for (int e = 0; e < 32; e++) {
      const I h = level_index(i * x[e]);
      V t;
      for (int l = 0; l < LANES; l++) t[l] = nearest_level.level[h[l]];
      s1 += w[e] * t * x[e];
      s2 += w[e] * t * t;
    }
    const I better = k == -8 ? I(V{} == V{}) : (s2 > V{}) & (s1 * s1 > best * s2);
    d = pick(better, pick(s2 > V{}, s1 / s2, V{}), d);
    best = pick(better, d * s1, best);
  }
  return pick(silent, V{}, d);
}

static void level_codes(const f32* x, f32 i, u8* out) {  // 32 elements -> 16 bytes
  u8 c[32];
  for (int e = 0; e < 32; e++) {
    const f32 v = i * x[e];
    f32 h = v + v;
    h = h > f32(NearestLevel::lo) ? h : f32(NearestLevel::lo);
    h = h < f32(NearestLevel::hi) ? h : f32(NearestLevel::hi);
    const i32 t = i32(h);
    c[e] = nearest_level.code[t - (f32(t) > h) - NearestLevel::lo];
  }
  for (int e = 0; e < 16; e++) out[e] = u8(c[e] | c[e + 16] << 4);
}

static void encode_search(IQ4_NL, const f32* x, const f32* q, i64 n_elements, u8* out) {
  using F = IQ4_NL;
  const i64 blocks = n_elements / 32;
  for (i64 b = 0; b < blocks; b += LANES) {
    const int count = blocks - b < LANES ? int(blocks - b) : LANES;
    const f32* xb = x + 32 * b;
    f32 weight[32 * LANES], d[LANES];
    Groups<32> xs, w;
    for (int l = 0; l < count; l++) {
      if (q)
        importance_weights(xb + 32 * l, q + 32 * (b + l), sum_of_squares(xb + 32 * l, 32) * (2.0f / 32), 32, weight + 32 * l);
      else
        for (int e = 32 * l; e < 32 * l + 32; e++) weight[e] = xb[e] * xb[e];
    }
    load_groups(xs, xb, count);
    load_groups(w, weight, count);
    store_lanes(fit_levels(xs, w), d, count);
    for (int l = 0; l < count; l++) {
      u8* o = out + (b + l) * F::bytes;
      store_f16(o + F::scale_at, d[l]);
      level_codes(xb + 32 * l, inv(d[l]), o + F::codes_at);
    }
  }
}

static void encode_search(IQ4_XS, const f32* x, const f32* q, i64 n_elements, u8* out) {
  using F = IQ4_XS;
  for (i64 i = 0; i < n_elements / 256; i++, x += 256, out += F::bytes) {
    f32 weight[256], scale[8];
    if (q)
      importance_weights(x, q + 256 * i, sum_of_squares(x, 256) * (2.0f / 256), 256, weight);
    else
      for (int e = 0; e < 256; e++) weight[e] = x[e] * x[e];
    for (int g = 0; g < 8; g += LANES) {
      Groups<32> xs, w;
      load_groups(xs, x + 32 * g, 8 - g);
      load_groups(w, weight + 32 * g, 8 - g);
      store_lanes(fit_levels(xs, w), scale + g, 8 - g);
    }
    const f32 d = -largest_scale(scale, 8) / 32, inverse = inv(d);
    store_f16(out + F::scale_at, d);
    u32 high = 0;
    std::memset(out + F::scales_at, 0, 4);
    for (int g = 0; g < 8; g++) {
      f32 v = inverse * scale[g];
      v = v > -32 ? (v < 31 ? v : 31) : -32;
      const i32 l = i32(v + 12582912.0f) - 12582912;
      level_codes(x + 32 * g, inv(d * f32(l)), out + F::codes_at + 16 * g);
      out[F::scales_at + g / 2] |= u8(((l + 32) & 15) << (4 * (g % 2)));
      high |= u32(l + 32) >> 4 << (2 * g);
    }
    store_le(out + F::high_at, u16(high));
  }
}
