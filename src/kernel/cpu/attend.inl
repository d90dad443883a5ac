// Attention over one split of positions, for the query rows that share a KV head.
//
//   s_t = <q, k_t>     m = max s     p_t = exp(s_t - m)     l = sum p     acc = sum p_t v_t
//
// Float order   <q, k>: lane l of 16 sums d = l mod 16 in order (fused), then the fold; l: 16 lanes over t, then the fold; acc: t in order
//               (fused).  It depends on head_dim and position alone: rows are tiled for speed, and a row takes part in a tile only for
//               positions that it may see.
// Tiles         scores TT positions x TR rows, values TD vectors x TR rows: what the registers hold.  K and V stream through once, 16
//               positions at a time, while the rows' scores and sums stay in L1.

#if FEWBIT_VEC == 512
static constexpr int TR = 4, TT = 4, TD = 4;
#else
static constexpr int TR = 2, TT = 2, TD = 2;
#endif

template <class K, int R>
static inline void score_16(const f32* q, int hd, const u8* k, i64 row_bytes, f32* scores) {
  V16 part[R][16];
  for (int t = 0; t < 16; t += TT) {
    V16 a[R][TT];
    FEWBIT_UNROLL
    for (int i = 0; i < TT; i++) {
      FEWBIT_UNROLL
      for (int r = 0; r < R; r++) a[r][i] = zero();
    }
    const u8* row = k + t * row_bytes;
    for (int d = 0; d < hd; d += 16) {
      V16 kv[TT];
      FEWBIT_UNROLL
      for (int i = 0; i < TT; i++) kv[i] = K::load16(row + i * row_bytes, d);
      FEWBIT_UNROLL
      for (int r = 0; r < R; r++) {
        V16 qv = load(q + r * hd + d);
        FEWBIT_UNROLL
        for (int i = 0; i < TT; i++) a[r][i] = fma(qv, kv[i], a[r][i]);
      }
    }
    FEWBIT_UNROLL
    for (int r = 0; r < R; r++) {
      FEWBIT_UNROLL
      for (int i = 0; i < TT; i++) part[r][t + i] = a[r][i];
    }
  }
  for (int r = 0; r < R; r++) store(scores + r * split, sum16(part[r]));
}

// acc[r] += sum over t in [0, n) of p[r][t] v[t]
template <class V, int R, int D>
static inline void weigh_chunk(f32* acc, int hd, int d0, const f32* p, const u8* v, i64 row_bytes, int n) {
  V16 a[R][D];
  FEWBIT_UNROLL
  for (int r = 0; r < R; r++) {
    FEWBIT_UNROLL
    for (int i = 0; i < D; i++) a[r][i] = load(acc + r * hd + d0 + 16 * i);
  }
  for (int t = 0; t < n; t++) {
    V16 x[D];
    FEWBIT_UNROLL
    for (int i = 0; i < D; i++) x[i] = V::load16(v + t * row_bytes, d0 + 16 * i);
    FEWBIT_UNROLL
    for (int r = 0; r < R; r++) {
      V16 w = set1(p[r * split + t]);
      FEWBIT_UNROLL
      for (int i = 0; i < D; i++) a[r][i] = fma(w, x[i], a[r][i]);
    }
  }
  FEWBIT_UNROLL
  for (int r = 0; r < R; r++) {
    FEWBIT_UNROLL
    for (int i = 0; i < D; i++) store(acc + r * hd + d0 + 16 * i, a[r][i]);
  }
}
template <class V, int R>
static inline void weigh_16(f32* acc, int hd, const f32* p, const u8* v, i64 row_bytes, int n) {
  int d = 0;
  for (; d + 16 * TD <= hd; d += 16 * TD) weigh_chunk<V, R, TD>(acc, hd, d, p, v, row_bytes, n);
  for (; d < hd; d += 16) weigh_chunk<V, R, 1>(acc, hd, d, p, v, row_bytes, n);
}

// Calls f.operator()<R>(first row) for tiles of at most TR rows.
template <class F>
static inline void row_tiles(int rows, F f) {
  int r = 0;
  for (; r + TR <= rows; r += TR) f.template operator()<TR>(r);
  if constexpr (TR == 4) {
    if (rows - r == 3) return f.template operator()<3>(r);
    if (rows - r == 2) return f.template operator()<2>(r);
  }
  if (rows - r == 1) f.template operator()<1>(r);
}

template <class K>
static void scores_of(const AttendTile& a) {
  const i64 row_bytes = K::bytes(a.head_dim);
  const int most = a.valid[a.rows - 1];
  for (int b = 0; b < most; b += 16) {
    int first = 0;
    while (a.valid[first] <= b) first++;
    row_tiles(a.rows - first, [&]<int R>(int r) {
      score_16<K, R>(a.q + i64(first + r) * a.head_dim, a.head_dim, a.k[b / 16], row_bytes, a.scores + i64(first + r) * split + b);
    });
  }
}

template <class V>
static void weigh(const AttendTile& a) {
  const i64 row_bytes = V::bytes(a.head_dim);
  const int most = a.valid[a.rows - 1];
  for (int b = 0; b < most; b += 16) {
    int first = 0;  // rows before it see nothing here, rows before `full` a part of the 16
    while (a.valid[first] <= b) first++;
    int full = first;
    while (full < a.rows && a.valid[full] < b + 16) full++;
    for (int r = first; r < full; r++) {
      weigh_16<V, 1>(a.acc + i64(r) * a.head_dim, a.head_dim, a.scores + i64(r) * split + b, a.v[b / 16], row_bytes, a.valid[r] - b);
    }
    row_tiles(a.rows - full, [&]<int R>(int r) {
      weigh_16<V, R>(a.acc + i64(full + r) * a.head_dim, a.head_dim, a.scores + i64(full + r) * split + b, a.v[b / 16], row_bytes, 16);
    });
  }
}

static void attend(const AttendTile& a, Type k, Type v) {
  switch (k) {
    case Type::F32:
      scores_of<Kv<Type::F32>>(a);
      break;
    case Type::F16:
      scores_of<Kv<Type::F16>>(a);
      break;
    case Type::Q8_0:
      scores_of<Kv<Type::Q8_0>>(a);
      break;
    case Type::Q4_0:
      scores_of<Kv<Type::Q4_0>>(a);
      break;
    default:
      FEWBIT_CHECK(false, "K type %u", unsigned(k));
  }
  for (int r = 0; r < a.rows; r++) {
    f32* s = a.scores + i64(r) * split;
    int n = a.valid[r];
    if (n == 0) continue;
    V16 top = set1(-INFINITY);
    for (int i = n; i % 16; i++) s[i] = -INFINITY;
    for (int i = 0; i < n; i += 16) top = max(load(s + i), top);
    a.m[r] = largest(top);
    a.l[r] = softmax(s, a.m[r], int(round_up(n, 16)));
    std::memset(a.acc + i64(r) * a.head_dim, 0, size_t(a.head_dim) * sizeof(f32));
  }
  switch (v) {
    case Type::F32:
      weigh<Kv<Type::F32>>(a);
      break;
    case Type::F16:
      weigh<Kv<Type::F16>>(a);
      break;
    case Type::Q8_0:
      weigh<Kv<Type::Q8_0>>(a);
      break;
    case Type::Q4_0:
      weigh<Kv<Type::Q4_0>>(a);
      break;
    default:
      FEWBIT_CHECK(false, "V type %u", unsigned(v));
  }
}

static void merge(f32* m, f32* l, f32* acc, f32 m2, f32 l2, const f32* acc2, int hd) {
  f32 top = m2 > *m ? m2 : *m;
  f32 f1 = exp1(*m - top), f2 = exp1(m2 - top);
  *m = top;
  *l = *l * f1 + l2 * f2;
  V16 a = set1(f1), b = set1(f2);
  for (int d = 0; d < hd; d += 16) store(acc + d, load(acc + d) * a + load(acc2 + d) * b);
}
