// IQ1_S, IQ1_M: levels -1, 0, 1 shifted by an eighth up (P) or down (N), from a grid.  formats.md 5.7
//
// Sorted values take levels 0, 1, 2 in runs [0, i1), [i1, i2), [i2, n); all splits are tried, LANES groups side by side.

static constexpr f32 shifted_levels[2][3] = {{-0.875f, 0.125f, 1.125f}, {-1.125f, -0.125f, 0.875f}};  // P, N
static constexpr SnapLevels<8> snap_levels[2] = {{{-0.875f, 0.125f, 1.125f, 0, -0.875f, 0.125f, 1.125f, 0}},
                                                 {{-1.125f, -0.125f, 0.875f, 0, -1.125f, -0.125f, 0.875f, 0}}};

// order[r]: the element that comes r-th in ascending order; equal ones keep their order.
template <int n>
INLINE void sort_elements(const f32* x, u8* order) {
  u64 keys[n];  // order of floats as integers, then the element
  for (int e = 0; e < n; e++) {
    const u32 bits = std::bit_cast<u32>(x[e] + 0.0f);  // -0 counts as 0
    const u64 key = u64(bits >> 31 ? ~bits : bits | 0x80000000u) << 8 | u64(e);
    int at = e;
    for (; at > 0 && keys[at - 1] > key; at--) keys[at] = keys[at - 1];
    keys[at] = key;
  }
  for (int e = 0; e < n; e++) order[e] = u8(keys[e] & 255);
}

struct Split {
  V scale, best;
  I i1, i2, shift;
};
INLINE void take_split(Split& s, V s1, V s2, int i1, int i2, int shift) {
  const I better = (s2 > V{}) & (s1 * s1 > s.best * s2);
  if (!any(better)) return;
  s.scale = pick(better, s1 / s2, s.scale);
  s.best = pick(better, s.scale * s1, s.best);
  s.i1 = better ? I{} + i1 : s.i1;
  s.i2 = better ? I{} + i2 : s.i2;
  s.shift = better ? I{} + shift : s.shift;
}

// One shift for the whole group.  x, w: in ascending order of x.  shift: 0 is P, 1 is N.
template <int n>
INLINE Split best_split(const Groups<n>& x, const Groups<n>& w) {
  Groups<n + 1> sx, sw;
  sx[0] = sw[0] = V{};
  for (int e = 0; e < n; e++) {
    sx[e + 1] = sx[e] + w[e] * x[e];
    sw[e + 1] = sw[e] + w[e];
  }
  Split s{{}, all(-3.402823466e+38f), {}, {}, {}};
  for (int i1 = 0; i1 <= n; i1++)
    for (int i2 = i1; i2 <= n; i2++) {
      const V x1 = sx[i1] - sx[0], x2 = sx[i2] - sx[i1], x3 = sx[n] - sx[i2];
      const V w1 = sw[i1] - sw[0], w2 = sw[i2] - sw[i1], w3 = sw[n] - sw[i2];
      for (int shift = 0; shift < 2; shift++) {
        const f32* t = shifted_levels[shift];
        take_split(s, x1 * t[0] + x2 * t[1] + x3 * t[2], w1 * t[0] * t[0] + w2 * t[1] * t[1] + w3 * t[2] * t[2], i1, i2, shift);
      }
    }
  return s;
}

// A shift for each half of the group: combinations P,P  P,N  N,P  N,N.  second: mask of elements in the second half.
// Sums run element by element in ascending order, so a split shares the sums of its beginning with others, not those of its end.
template <int n>
INLINE Split best_split_of_halves(const Groups<n>& x, const Groups<n>& w, const I* second) {
  V term1[n][3][4], term2[n][3][4];
  for (int e = 0; e < n; e++)
    for (int l = 0; l < 3; l++) {
      V a[2], b[2];
      for (int shift = 0; shift < 2; shift++) {
        const V wt = w[e] * shifted_levels[shift][l];
        a[shift] = wt * x[e];
        b[shift] = wt * shifted_levels[shift][l];
      }
      for (int c = 0; c < 4; c++) {
        term1[e][l][c] = pick(second[e], a[c & 1], a[c >> 1]);
        term2[e][l][c] = pick(second[e], b[c & 1], b[c >> 1]);
      }
    }
  Split s{{}, all(-3.402823466e+38f), {}, {}, {}};
  V first1[4]{}, first2[4]{};  // sums over [0, i1)
  for (int i1 = 0; i1 <= n; i1++) {
    V mid1[4], mid2[4];  // and over [i1, i2)
    for (int c = 0; c < 4; c++) mid1[c] = first1[c], mid2[c] = first2[c];
    for (int i2 = i1; i2 <= n; i2++) {
      V s1[4], s2[4];
      for (int c = 0; c < 4; c++) s1[c] = mid1[c], s2[c] = mid2[c];
      for (int e = i2; e < n; e++)
        for (int c = 0; c < 4; c++) {
          s1[c] += term1[e][2][c];
          s2[c] += term2[e][2][c];
        }
      for (int c = 0; c < 4; c++) take_split(s, s1[c], s2[c], i1, i2, c);
      if (i2 < n)
        for (int c = 0; c < 4; c++) {
          mid1[c] += term1[i2][1][c];
          mid2[c] += term2[i2][1][c];
        }
    }
    if (i1 < n)
      for (int c = 0; c < 4; c++) {
        first1[c] += term1[i1][0][c];
        first2[c] += term2[i1][0][c];
      }
  }
  return s;
}

template <int n>
struct TernaryGroup {
  f32 scale = 0;
  int shift = 0;  // IQ1_S: 0 P, 1 N.  IQ1_M: the combination
  u32 index[n / 8] = {};
};

// count groups of n at x.  halves: the shift may differ between the first and the second 8.
template <int n, bool halves>
INLINE void search_ternary(const Lattice& t, const f32* x, const f32* weight, int count, f32 zero_below, TernaryGroup<n>* out) {
  u8 order[LANES][n];
  Groups<n> xs{}, ws{};
  I second[n]{};
  bool silent[LANES];
  count = count < LANES ? count : LANES;
  for (int l = 0; l < count; l++) {
    f32 mx = 0;
    for (int e = 0; e < n; e++) mx = __builtin_fabsf(x[l * n + e]) > mx ? __builtin_fabsf(x[l * n + e]) : mx;
    silent[l] = mx < zero_below;
    sort_elements<n>(x + l * n, order[l]);
    for (int r = 0; r < n; r++) {
      xs[r][l] = x[l * n + order[l][r]];
      ws[r][l] = weight[l * n + order[l][r]];
      second[r][l] = order[l][r] >= n / 2 ? -1 : 0;
    }
  }
  Split s;
  if constexpr (halves)
    s = best_split_of_halves(xs, ws, second);
  else
    s = best_split(xs, ws);

  for (int l = 0; l < count; l++) {
    TernaryGroup<n>& g = out[l] = {};
    if (silent[l]) continue;
    u8 code[n];
    for (int r = 0; r < n; r++) code[order[l][r]] = u8(r < s.i1[l] ? 0 : r < s.i2[l] ? 1 : 2);
    g.scale = s.scale[l];
    g.shift = s.shift[l];
    if (g.scale < 0) {
      for (u8& c : code) c = u8(2 - c);
      g.scale = -g.scale;
      g.shift = (halves ? 3 : 1) - g.shift;
    }
    bool all_on_grid = true;
    f32 s1 = 0, s2 = 0;
    for (int p = 0; p < n / 8; p++) {
      const f32 *xp = x + l * n + 8 * p, *wp = weight + l * n + 8 * p;
      const int shift = !halves ? g.shift : p == 0 ? g.shift >> 1 : g.shift & 1;
      int key = 0;
      for (int j = 7; j >= 0; j--) key = 3 * key + code[8 * p + j];
      const Lattice::Entry& entry = t.entries[size_t(key)];
      int point = entry.point;
      if (point < 0) {
        all_on_grid = false;
        point = snap<8>(t, entry, snap_levels[shift], g.scale, xp, wp);
      }
      g.index[p] = u32(point);
      for (int j = 0; j < 8; j++) {
        const f32 v = shifted_levels[shift][t.codes_of(point)[j]];
        s1 += wp[j] * v * xp[j];
        s2 += wp[j] * v * v;
      }
    }
    if (!all_on_grid && s1 > 0 && s2 > 0) g.scale = s1 / s2;
  }
}

// Scale codes 0 .. 7 of the groups, and the d that they multiply; false if all is zero.
template <int n, int groups>
INLINE bool ternary_scales(const TernaryGroup<n>* g, u32* code, f32& d) {
  f32 ms = 0;
  for (int i = 0; i < groups; i++) ms = g[i].scale > ms ? g[i].scale : ms;
  d = ms / 15;
  const f32 inverse = 1 / d;
  if (ms == 0 || !(inverse < INFINITY)) return false;
  for (int i = 0; i < groups; i++) {
    f32 v = 0.5f * (inverse * g[i].scale - 1);
    v = v > 0 ? (v < 7 ? v : 7) : 0;
    code[i] = u32(i32(v + 12582912.0f) - 12582912);
  }
  return true;
}

static void ternary_weights(const f32* x, const f32* q, f32* weight) {
  if (q)
    importance_weights(x, q, 2 * sum_of_squares(x, 256) / 256, 256, weight);
  else
    for (int e = 0; e < 256; e++) weight[e] = x[e] * x[e];
}

static void encode_search(IQ1_S, const f32* x, const f32* q, i64 n_elements, u8* out) {
  using F = IQ1_S;
  const Lattice& t = lattice_of<IQ1_S>();
  for (i64 i = 0; i < n_elements / 256; i++, x += 256, out += F::bytes) {
    f32 weight[256], d;
    u32 code[8];
    TernaryGroup<32> g[8];
    ternary_weights(x, q ? q + 256 * i : nullptr, weight);
    for (int b = 0; b < 8; b += LANES) search_ternary<32, false>(t, x + 32 * b, weight + 32 * b, 8 - b, 1e-12f, g + b);
    std::memset(out, 0, F::bytes);
    if (!ternary_scales<32, 8>(g, code, d)) continue;
    store_f16(out + F::scale_at, d * 1.125f);
    for (int b = 0; b < 8; b++) {
      u32 high = code[b] << 12 | u32(g[b].shift) << 15;
      for (int l = 0; l < 4; l++) {
        out[F::codes_at + 4 * b + l] = u8(g[b].index[l]);
        high |= g[b].index[l] >> 8 << (3 * l);
      }
      store_le(out + F::high_at + 2 * b, u16(high));
    }
  }
}

static void encode_search(IQ1_M, const f32* x, const f32* q, i64 n_elements, u8* out) {
  using F = IQ1_M;
  const Lattice& t = lattice_of<IQ1_S>();
  for (i64 i = 0; i < n_elements / 256; i++, x += 256, out += F::bytes) {
    f32 weight[256], d;
    u32 code[16];
    TernaryGroup<16> g[16];
    ternary_weights(x, q ? q + 256 * i : nullptr, weight);
    for (int b = 0; b < 16; b += LANES) search_ternary<16, true>(t, x + 16 * b, weight + 16 * b, 16 - b, 1e-7f, g + b);
    std::memset(out, 0, F::bytes);
    if (!ternary_scales<16, 16>(g, code, d)) continue;
    f32 s1 = 0, s2 = 0;  // d once more, now that everything else is fixed
    for (int e = 0; e < 256; e++) {
      const TernaryGroup<16>& ge = g[e / 16];
      const int shift = e % 16 < 8 ? ge.shift >> 1 : ge.shift & 1;
      const f32 v = shifted_levels[shift][t.codes_of(int(ge.index[e / 8 % 2]))[e % 8]] * f32(2 * code[e / 16] + 1);
      s1 += weight[e] * v * x[e];
      s2 += weight[e] * v * v;
    }
    if (s2 > 0) d = s1 / s2;
    u32 words[4] = {};
    const u32 d_bits = f32_to_half(d * 1.1125f);
    for (int b = 0; b < 16; b++) {
      words[b / 4] |= code[b] << (3 * (b % 4));
      for (int p = 0; p < 2; p++) {
        const u32 minus = p == 0 ? u32(g[b].shift >> 1) : u32(g[b].shift & 1);
        out[F::codes_at + 2 * b + p] = u8(g[b].index[p]);
        out[F::high_at + b] |= u8((g[b].index[p] >> 8 | minus << 3) << (4 * p));
      }
    }
    for (int w = 0; w < 4; w++) store_le(out + F::scales_at + 2 * w, u16(words[w] | (d_bits >> (4 * w) & 15) << 12));
  }
}
