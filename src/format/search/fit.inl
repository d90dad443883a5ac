// The fits of formats.md section 5.1-5.4.  x, w: values and weights of LANES groups; codes: whole numbers held in floats.

// 5.1 FIT-AFFINE: x ~ scale * code - minus, codes 0 .. nmax.
struct Affine {
  f32 nmax, rmin, rdelta;
  int nstep;
  bool by_magnitude;  // error |t|, else t^2
};
struct AffineFit {
  V scale, minus;
};
template <int n>
INLINE AffineFit fit_affine(const Affine& p, const Groups<n>& x, const Groups<n>& w, Groups<n>& codes) {
  V lo = x[0], hi = x[0], sw = w[0], sx = w[0] * x[0];
  for (int e = 1; e < n; e++) {
    lo = least(lo, x[e]);
    hi = largest(hi, x[e]);
    sw += w[e];
    sx += w[e] * x[e];
  }
  lo = least(lo, V{});
  // Groups without spread (or so little that its inverse is infinite) keep code 0.
  const I spread = (hi > lo) & (p.nmax / (hi - lo) < all(INFINITY));
  const V flat_minus = -lo;
  V best{}, scale = pick(spread, 1 / (p.nmax / (hi - lo)), V{});
  const auto error_of = [&](V t) { return p.by_magnitude ? absolute(t) : t * t; };
  {
    const V i = p.nmax / (hi - lo);
    for (int e = 0; e < n; e++) {
      const V l = pick(spread, rint_to(i * (x[e] - lo), 0, p.nmax), V{});
      codes[e] = l;
      best += w[e] * error_of((scale * l + lo) - x[e]);
    }
  }
  for (int k = 0; k <= p.nstep; k++) {
    const V i = ((p.rmin + p.rdelta * f32(k)) + p.nmax) / (hi - lo);
    V l[n], sl{}, sl2{}, sxl{};
    for (int e = 0; e < n; e++) {
      l[e] = rint_to(i * (x[e] - lo), 0, p.nmax);
      const V wl = w[e] * l[e];
      sl += wl;
      sl2 += wl * l[e];
      sxl += wl * x[e];
    }
    const V det = sw * sl2 - sl * sl;
    V s = (sw * sxl - sx * sl) / det, m = (sl2 * sx - sl * sxl) / det;
    const I above = m > V{};
    s = pick(above, sxl / sl2, s);
    m = pick(above, V{}, m);
    V error{};
    for (int e = 0; e < n; e++) error += w[e] * error_of((s * l[e] + m) - x[e]);
    const I better = spread & (det > V{}) & (error < best);
    if (!any(better)) continue;
    for (int e = 0; e < n; e++) codes[e] = pick(better, l[e], codes[e]);
    best = pick(better, error, best);
    scale = pick(better, s, scale);
    lo = pick(better, m, lo);
  }
  return {scale, pick(spread, -lo, flat_minus)};
}

template <int n>
INLINE V signed_largest(const Groups<n>& x) {
  V a{}, m{};
  for (int e = 0; e < n; e++) {
    const V b = absolute(x[e]);
    const I more = b > a;
    a = pick(more, b, a);
    m = pick(more, x[e], m);
  }
  return m;
}

// 5.2 FIT-SYM: x ~ scale * (code - nmax), codes 0 .. 2 nmax - 1.
template <int n>
INLINE V fit_symmetric(f32 nmax, const Groups<n>& x, const Groups<n>& w, Groups<n>& codes) {
  V m = signed_largest(x);
  const I silent = absolute(m) < all(1e-15f);
  m = pick(silent, all(1), m);
  V best{}, scale{};
  for (int step = -10; step <= 9; step++) {  // -10 stands for the start, which is k = 0
    if (step == 0) continue;
    const bool start = step == -10;
    const V i = start ? -nmax / m : -(nmax + 0.1f * f32(step)) / m;
    V l[n], s1{}, s2{};
    for (int e = 0; e < n; e++) {
      l[e] = rint_to(i * x[e], -nmax, nmax - 1);
      s1 += w[e] * x[e] * l[e];
      s2 += w[e] * l[e] * l[e];
    }
    const I better = start ? I(V{} == V{}) : (s2 > V{}) & (s1 * s1 > best * s2);
    if (!any(better)) continue;
    const V s = pick(s2 > V{}, s1 / s2, V{});
    for (int e = 0; e < n; e++) codes[e] = pick(better, l[e] + nmax, codes[e]);
    scale = pick(better, s, scale);
    best = pick(better, scale * s1, best);
  }
  for (int e = 0; e < n; e++) codes[e] = pick(silent, V{}, codes[e]);
  return pick(silent, V{}, scale);
}

// 5.3 FIT-Q3: FIT-SYM's start with nmax 4 and w = x^2, then codes are moved one by one as long as that helps.
template <int n>
INLINE V fit_q3(const Groups<n>& x, Groups<n>& codes) {
  V m = signed_largest(x);
  const I silent = absolute(m) < all(1e-15f);
  m = pick(silent, all(1), m);
  const V i = -4 / m;
  V l[n], s1{}, s2{};
  for (int e = 0; e < n; e++) {
    l[e] = rint_to(i * x[e], -4, 3);
    const V w = x[e] * x[e];
    s1 += w * x[e] * l[e];
    s2 += w * l[e] * l[e];
  }
  for (int pass = 0; pass < 5; pass++) {
    I changed{};
    for (int e = 0; e < n; e++) {
      const V w = x[e] * x[e];
      V a = s1 - w * x[e] * l[e], b = s2 - w * l[e] * l[e];
      const V next = rint_to(x[e] * b / a, -4, 3);
      const I moves = (a > V{}) & (next != l[e]);
      a += w * x[e] * next;
      b += w * next * next;
      const I better = moves & (b > V{}) & (a * a * s2 > s1 * s1 * b);
      l[e] = pick(better, next, l[e]);
      s1 = pick(better, a, s1);
      s2 = pick(better, b, s2);
      changed |= better;
    }
    if (!any(changed)) break;
  }
  for (int e = 0; e < n; e++) codes[e] = pick(silent, V{}, l[e] + 4);
  return pick(silent | ~I(s2 > V{}), V{}, s1 / s2);
}

// 5.4 FIT-POS for a handful of non-negative scales: x ~ scale * code, codes 0 .. nmax.  Codes are bytes; negative inputs wrap.
static f32 fit_positive(int nmax, const f32* x, const f32* w, int n, u8* codes) {
  constexpr i32 far = 1 << 21;  // beyond what rint is defined for; never reached by finite scales
  const auto rounded = [](f32 v) { return i32((v > -far ? (v < far ? v : far) : -far) + 12582912.0f) - 12582912; };
  f32 mx = 0;
  for (int e = 0; e < n; e++) mx = x[e] > mx ? x[e] : mx;
  if (mx < 1e-15f) {
    for (int e = 0; e < n; e++) codes[e] = 0;
    return 0;
  }
  f32 i = f32(nmax) / mx, best = 0;
  const f32 scale = 1 / i;
  for (int e = 0; e < n; e++) {
    const f32 t = x[e] - scale * f32(u8(rounded(i * x[e])));
    best += w[e] * t * t;
  }
  for (int k = -4; k <= 4; k++) {
    if (k == 0) continue;
    const f32 i2 = (0.1f * f32(k) + f32(nmax)) / mx, s2 = 1 / i2;
    f32 error = 0;
    for (int e = 0; e < n; e++) {
      const i32 l = rounded(i2 * x[e]);
      const f32 t = x[e] - s2 * f32(l < nmax ? l : nmax);
      error += w[e] * t * t;
    }
    if (error < best) best = error, i = i2;
  }
  f32 s1 = 0, s2 = 0;
  for (int e = 0; e < n; e++) {
    i32 l = rounded(i * x[e]);
    l = l < nmax ? l : nmax;
    codes[e] = u8(l);
    s1 += w[e] * x[e] * f32(l);
    s2 += w[e] * f32(l) * f32(l);
  }
  for (int pass = 0; pass < 5; pass++) {
    bool changed = false;
    for (int e = 0; e < n; e++) {
      const f32 l = codes[e];
      f32 a = s1 - w[e] * x[e] * l, b = s2 - w[e] * l * l;
      if (!(a > 0 && b > 0)) continue;
      i32 next = rounded(x[e] * b / a);
      next = next < nmax ? next : nmax;
      if (next == codes[e]) continue;
      a += w[e] * x[e] * f32(next);
      b += w[e] * f32(next) * f32(next);
      if (!(a * a * s2 > s1 * s1 * b)) continue;
      codes[e] = u8(next);
      s1 = a;
      s2 = b;
      changed = true;
    }
    if (!changed) break;
  }
  return s2 > 0 ? s1 / s2 : 0;
}
