// Row-wise steps: norms, rotation, activation functions, the convolution.  Only + - * /: the same bits on every set.

static f32 sum_squares(const f32* x, int n) {
  V16 s[4] = {zero(), zero(), zero(), zero()};
  int i = 0;
  for (; i + 64 <= n; i += 64) {
    FEWBIT_UNROLL
    for (int j = 0; j < 4; j++) {
      V16 v = load(x + i + 16 * j);
      s[j] = s[j] + v * v;
    }
  }
  for (; i + 16 <= n; i += 16) {
    V16 v = load(x + i);
    s[0] = s[0] + v * v;
  }
  if (i < n) {
    V16 v = load_n(x + i, n - i);
    s[1] = s[1] + v * v;
  }
  return sum((s[0] + s[1]) + (s[2] + s[3]));
}

// to[i] = f(i) for V16 pieces; `f` gets a load function so that the tail reads nothing behind its end.
template <class F>
static inline void map(f32* to, i64 n, F f) {
  i64 i = 0;
  for (; i + 16 <= n; i += 16) store(to + i, f([i](const f32* p) { return load(p + i); }));
  if (i < n) {
    int rest = int(n - i);
    store_n(to + i, f([i, rest](const f32* p) { return load_n(p + i, rest); }), rest);
  }
}

static void scale(f32* to, const f32* x, f32 s, const f32* w, int n) {
  V16 f = set1(s);
  if (w) {
    map(to, n, [=](auto at) { return (at(x) * f) * at(w); });
  } else {
    map(to, n, [=](auto at) { return at(x) * f; });
  }
}

static void add_scaled(f32* to, const f32* x, f32 s, int n) {
  V16 f = set1(s);
  map(to, n, [=](auto at) { return at(to) + f * at(x); });
}

static void signs(f32* to, const f32* x, const f32* s, int n) {
  if (s) {
    map(to, n, [=](auto at) { return at(x) * at(s); });
  } else if (to != x) {
    std::memmove(to, x, size_t(n) * sizeof(f32));
  }
}

static f32 largest_abs(const f32* x, int n) {
  V16 m = zero(), bad = zero();
  int i = 0;
  for (; i + 16 <= n; i += 16) {
    V16 v = load(x + i);
    m = max(abs(v), m);
    bad = bad + v * zero();  // NaN for NaN and infinities
  }
  if (i < n) {
    V16 v = load_n(x + i, n - i);
    m = max(abs(v), m);
    bad = bad + v * zero();
  }
  return any_nan(bad) ? NAN : largest(m);
}

static void glu(f32* h, const f32* g, const f32* u, bool relu2, i64 n) {
  if (relu2) {
    map(h, n, [=](auto at) {
      V16 r = at(g);
      r = where_lt(r, zero(), zero(), r);  // keeps NaN
      return (r * r) * at(u);
    });
  } else {
    map(h, n, [=](auto at) { return silu(at(g)) * at(u); });
  }
}

static void gate(f32* x, const f32* g, int n) {
  map(x, n, [=](auto at) { return at(x) * sigmoid(at(g)); });
}

static void gated_norm(f32* to, const f32* x, f32 s, const f32* w, const f32* z, int n) {
  V16 f = set1(s);
  map(to, n, [=](auto at) { return ((at(x) * f) * at(w)) * silu(at(z)); });
}

static f32 softmax(f32* x, f32 m, int n) {
  V16 top = set1(m), s = zero();
  int i = 0;
  for (; i + 16 <= n; i += 16) {
    V16 e = exp_down(load(x + i) - top);
    store(x + i, e);
    s = s + e;
  }
  if (i < n) {
    f32 t[16];
    for (int j = 0; j < 16; j++) t[j] = i + j < n ? x[i + j] : -INFINITY;
    V16 e = exp_down(load(t) - top);
    store_n(x + i, e, n - i);
    s = s + e;
  }
  return sum(s);
}

static void rope(f32* x, const f32* cos_sin, int n_rot, bool neox) {
  int half = n_rot / 2;
  for (int i = 0; i < half; i++) {
    f32 c = cos_sin[2 * i], s = cos_sin[2 * i + 1];
    f32* u = neox ? x + i : x + 2 * i;
    f32* v = neox ? x + i + half : x + 2 * i + 1;
    f32 a = *u, b = *v;
    *u = a * c - b * s;
    *v = a * s + b * c;
  }
}

static i64 argmax(const f32* x, i64 n) {
  V16 top = set1(-INFINITY);
  i64 i = 0;
  for (; i + 16 <= n; i += 16) top = max(load(x + i), top);  // NaN in x: keeps top
  f32 best = largest(top);
  for (; i < n; i++) best = x[i] > best ? x[i] : best;
  for (i = 0; i < n; i++) {
    if (x[i] == best) return i;
  }
  return 0;
}

// One pass of butterflies at distance H inside a vector: lanes without bit H become a + b, the others a - b.
template <int H>
static inline V16 butterfly(V16 v, V16 sign) {
  return swap<H>(v) + flip(v, sign);
}

static void fwht_small(f32* x, int block) {
  for (int h = 1; h < block; h *= 2) {
    for (int j = 0; j < block; j++) {
      if (j & h) continue;
      f32 a = x[j], b = x[j + h];
      x[j] = a + b;
      x[j + h] = a - b;
    }
  }
}

static void fwht(f32* x, int n, int block) {
  f32 norm = f32(1.0 / std::sqrt(f64(block)));
  if (block < 16) {
    for (int b = 0; b < n; b += block) fwht_small(x + b, block);
    scale(x, x, norm, nullptr, n);
    return;
  }
  f32 bits[4][16];
  for (int l = 0; l < 16; l++) {
    for (int k = 0; k < 4; k++) bits[k][l] = l >> k & 1 ? -0.0f : 0.0f;
  }
  V16 s1 = load(bits[0]), s2 = load(bits[1]), s4 = load(bits[2]), s8 = load(bits[3]), f = set1(norm);
  for (int b = 0; b < n; b += block) {
    f32* y = x + b;
    int h = 16;
    for (; 4 * h <= block; h *= 4) {  // distances h and 2h together
      for (int i = 0; i < block; i += 4 * h) {
        for (int j = i; j < i + h; j += 16) {
          V16 p = load(y + j), q = load(y + j + h), r = load(y + j + 2 * h), t = load(y + j + 3 * h);
          V16 pq = p + q, pmq = p - q, rt = r + t, rmt = r - t;
          store(y + j, pq + rt);
          store(y + j + h, pmq + rmt);
          store(y + j + 2 * h, pq - rt);
          store(y + j + 3 * h, pmq - rmt);
        }
      }
    }
    if (2 * h <= block) {
      for (int j = 0; j < h; j += 16) {
        V16 p = load(y + j), q = load(y + j + h);
        store(y + j, p + q);
        store(y + j + h, p - q);
      }
    }
    for (int j = 0; j < block; j += 16) {
      V16 v = butterfly<8>(butterfly<4>(butterfly<2>(butterfly<1>(load(y + j), s1), s2), s4), s8);
      store(y + j, v * f);
    }
  }
}

static void conv_silu(f32* to, i64 ldto, const f32* const* in, const f32* w, int conv, int cols, int n) {
  for (int c = 0; c < n; c += 16) {
    const int m = std::min(16, n - c);
    V16 tap[16];
    for (int j = 0; j < conv; j++) {
      if (m == 16) {
        tap[j] = load_strided(w + i64(c) * conv + j, conv);
      } else {
        f32 t[16] = {};
        for (int l = 0; l < m; l++) t[l] = w[i64(c + l) * conv + j];
        tap[j] = load(t);
      }
    }
    for (int i = 0; i < cols; i++) {
      V16 y = zero();
      for (int j = 0; j < conv; j++) y = y + tap[j] * (m == 16 ? load(in[i + j] + c) : load_n(in[i + j] + c, m));
      if (m == 16) {
        store(to + i * ldto + c, silu(y));
      } else {
        store_n(to + i * ldto + c, silu(y), m);
      }
    }
  }
}
