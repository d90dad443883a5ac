// Attention over one split of positions, for the query rows that share a KV head.
//
//   s_t = <q, k_t>     m = max s     p_t = exp(s_t - m)     l = sum p     acc = sum p_t v_t
//
// Float order   <q, k>: lane l of 16 sums d = l mod 16 in order (fused), then the fold; l: 16 lanes over t, then the fold; acc: t in order
//               (fused).  It depends on head_dim and position alone: rows are tiled for speed, and a row takes part in a tile only for
//               positions that it may see.
// Tiles         TR rows x 4 positions of scores, TR rows x 4 registers of values: what the registers hold, each K and V element loaded
//               once per tile.  With more than one tile of rows, elements are converted to floats once, into L1.

#if FEWBIT_VEC == 512
static constexpr int TR = 6;  // 24 sums, 6 + 1 operands of 32 registers
#elif FEWBIT_VEC == 256
static constexpr int TR = 3;  // 12 sums, 3 + 1 operands of 16
#else
static constexpr int TR = 2;
#endif
static constexpr int value_run = 32;  // positions for which the sums of a tile stay in registers

#if FEWBIT_VEC == 512
// 8 lanes each of a and b: l + (l + 8).
static inline __m512 fold_halves(__m512 a, __m512 b) {
  return _mm512_add_ps(_mm512_mask_blend_ps(0xff00, a, b), _mm512_shuffle_f32x4(a, b, 0x4e));
}
// In chunks of 4, two lanes each of x and y: l + (l + 2).
static inline __m512 fold_twos(const f32* a, const f32* b) {
  const __m512 x = _mm512_load_ps(a), y = _mm512_load_ps(b);
  return _mm512_add_ps(_mm512_mask_blend_ps(0xcccc, x, y), _mm512_shuffle_ps(x, y, 0x4e));
}
#elif FEWBIT_VEC == 256
static inline __m256 fold_twos(const f32* a, const f32* b) {
  const __m256 x = _mm256_load_ps(a), y = _mm256_load_ps(b);
  return _mm256_add_ps(_mm256_blend_ps(x, y, 0xcc), _mm256_shuffle_ps(x, y, 0x4e));
}
#endif

// The first two steps of the fold of 4 sums at once: part[4 c ...] = lanes (l + (l + 8)) + ((l + 4) + (l + 12)) of sum c, l < 4.
// sum[h][c]: register h of sum c.
static inline void fold_4(const Reg sum[regs][4], f32* part) {
#if FEWBIT_VEC == 512
  const __m512i cross = _mm512_setr_epi32(4, 5, 6, 7, 16, 17, 18, 19, 12, 13, 14, 15, 24, 25, 26, 27);
  const __m512 p = fold_halves(sum[0][0], sum[0][2]), q = fold_halves(sum[0][1], sum[0][3]);
  _mm512_store_ps(part, _mm512_add_ps(_mm512_mask_blend_ps(0xf0f0, p, q), _mm512_permutex2var_ps(p, cross, q)));
#elif FEWBIT_VEC == 256
  FEWBIT_UNROLL
  for (int c = 0; c < 4; c += 2) {
    const __m256 a = _mm256_add_ps(sum[0][c], sum[1][c]), b = _mm256_add_ps(sum[0][c + 1], sum[1][c + 1]);
    _mm256_store_ps(part + 4 * c, _mm256_add_ps(_mm256_blend_ps(a, b, 0xf0), _mm256_permute2f128_ps(a, b, 0x21)));
  }
#else
  for (int c = 0; c < 4; c++) reg_store(part + 4 * c, (sum[0][c] + sum[2][c]) + (sum[1][c] + sum[3][c]));
#endif
}
// The rest of it: lane 4 c + j of the result comes from chunk c of part[j].
static inline V16 fold_end(const f32 part[4][16]) {
#if FEWBIT_VEC == 512
  const __m512i cross = _mm512_setr_epi32(1, 16, 3, 18, 5, 20, 7, 22, 9, 24, 11, 26, 13, 28, 15, 30);
  const __m512 x = fold_twos(part[0], part[2]), y = fold_twos(part[1], part[3]);
  return {_mm512_add_ps(_mm512_mask_blend_ps(0xaaaa, x, y), _mm512_permutex2var_ps(x, cross, y))};
#elif FEWBIT_VEC == 256
  __m256 r[2];
  FEWBIT_UNROLL
  for (int h = 0; h < 2; h++) {
    const __m256 x = fold_twos(part[0] + 8 * h, part[1] + 8 * h), y = fold_twos(part[2] + 8 * h, part[3] + 8 * h);
    r[h] = _mm256_add_ps(_mm256_shuffle_ps(x, y, 0x88), _mm256_shuffle_ps(x, y, 0xdd));
  }
  return {r[0], r[1]};
#else
  f32 t[16];
  for (int i = 0; i < 16; i++) {
    const f32* x = part[i % 4] + i / 4 * 4;
    t[i] = (x[0] + x[2]) + (x[1] + x[3]);
  }
  return load(t);
#endif
}

// Asks for the cache lines of `bytes` bytes at p (about: lines that other calls ask for as well may be left out).
template <i64 bytes>
static inline __attribute__((always_inline)) void ask_for(const u8* p) {
  for (i64 i = 0; i < std::max<i64>(1, (bytes + 32) / 64); i++) __builtin_prefetch(p + 64 * i);
}

// Scores of R rows for 16 positions; k: their rows, scale: the block scales of each (row_scales apart) where the type has any.
// ahead: as many rows that will be read later, or null; they are asked for bit by bit, because a burst of requests stalls the core.
template <class K, int R>
static inline void score_16(const f32* q, int hd, const u8* k, i64 row_bytes, const f32* scale, f32* scores, const u8* ahead) {
  alignas(64) f32 part[R][4][16];
  const int row_scales = hd / 32;
  for (int j = 0; j < 4; j++) {  // positions j, j + 4, j + 8, j + 12
    Reg lane[R][regs][4];
    FEWBIT_UNROLL
    for (int h = 0; h < regs; h++) {
      Reg a[R][4];
      FEWBIT_UNROLL
      for (int c = 0; c < 4; c++) {
        FEWBIT_UNROLL
        for (int r = 0; r < R; r++) a[r][c] = reg_set1(0);
      }
      for (int d = h * reg_lanes; d < hd; d += 16) {
        constexpr i64 bytes = K::bytes(64) / regs;
        if (ahead) {
          ask_for<bytes>(ahead);
          ahead += bytes;
        }
        Reg x[R];
        FEWBIT_UNROLL
        for (int r = 0; r < R; r++) x[r] = reg_load(q + r * hd + d);
        FEWBIT_UNROLL
        for (int c = 0; c < 4; c++) {
          const Reg y = K::get(k + (j + 4 * c) * row_bytes, d, scale + (j + 4 * c) * row_scales);
          FEWBIT_UNROLL
          for (int r = 0; r < R; r++) a[r][c] = reg_fma(x[r], y, a[r][c]);
        }
      }
      FEWBIT_UNROLL
      for (int r = 0; r < R; r++) {
        FEWBIT_UNROLL
        for (int c = 0; c < 4; c++) lane[r][h][c] = a[r][c];
      }
    }
    FEWBIT_UNROLL
    for (int r = 0; r < R; r++) fold_4(lane[r], part[r][j]);
  }
  FEWBIT_UNROLL
  for (int r = 0; r < R; r++) store(scores + r * split, fold_end(part[r]));
}

// acc[r][d0 ... ) += sum over t in [0, n) of p[r][t] v[t], D registers wide; v[i]: the rows of positions 16 i ..., ahead[i]: as many rows
// that will be read later, or null.
template <class V, int R, int D>
static inline void weigh_chunk(f32* acc, int hd, int d0, const f32* p, const u8* const* v, i64 row_bytes, const f32* scale, int n,
                               const u8* const* ahead) {
  const int row_scales = hd / 32;
  Reg a[R][D];
  FEWBIT_UNROLL
  for (int r = 0; r < R; r++) {
    FEWBIT_UNROLL
    for (int i = 0; i < D; i++) a[r][i] = reg_load(acc + r * hd + d0 + reg_lanes * i);
  }
  for (int b = 0; b < n; b += 16) {
    const u8* row = v[b / 16];
    const u8* later = D > 1 && ahead && ahead[b / 16] ? ahead[b / 16] + V::bytes(d0) : nullptr;
    for (int t = b; t < std::min(n, b + 16); t++, row += row_bytes) {
      if (later) {
        ask_for<V::bytes(reg_lanes * D)>(later);
        later += row_bytes;
      }
      Reg w[R];
      FEWBIT_UNROLL
      for (int r = 0; r < R; r++) w[r] = reg_set1(p[r * split + t]);
      FEWBIT_UNROLL
      for (int i = 0; i < D; i++) {
        const Reg x = V::get(row, d0 + reg_lanes * i, scale + t * row_scales);
        FEWBIT_UNROLL
        for (int r = 0; r < R; r++) a[r][i] = reg_fma(w[r], x, a[r][i]);
      }
    }
  }
  FEWBIT_UNROLL
  for (int r = 0; r < R; r++) {
    FEWBIT_UNROLL
    for (int i = 0; i < D; i++) reg_store(acc + r * hd + d0 + reg_lanes * i, a[r][i]);
  }
}
template <class V, int R>
static inline void weigh_run(f32* acc, int hd, const f32* p, const u8* const* v, i64 row_bytes, const f32* scale, int n,
                             const u8* const* ahead) {
  int d = 0;
  for (; d + reg_lanes * 4 <= hd; d += reg_lanes * 4) weigh_chunk<V, R, 4>(acc, hd, d, p, v, row_bytes, scale, n, ahead);
  for (; d < hd; d += reg_lanes) weigh_chunk<V, R, 1>(acc, hd, d, p, v, row_bytes, scale, n, nullptr);
}

// Calls f.operator()<R>(first row) for tiles of at most TR rows, as even as they come: 8 rows as 4 + 4, not 6 + 2.
template <int R, class F>
static inline void one_tile(int n, int r, F& f) {
  if constexpr (R > 0) {
    if (n == R) return f.template operator()<R>(r);
    one_tile<R - 1>(n, r, f);
  }
}
template <class F>
static inline void row_tiles(int rows, F f) {
  for (int r = 0; r < rows;) {
    const int left = int(div_up(rows - r, TR)), n = int(div_up(rows - r, left));
    one_tile<TR>(n, r, f);
    r += n;
  }
}

// The 16 rows two blocks ahead, of these rows or, at their end, of those that come next; null: there are none.  They are asked for: the
// runs of a cache are too short for the processor's own prefetching.
static inline const u8* rows_ahead(const u8* const* rows, int block, int blocks, const u8* const* next) {
  block += 2;
  return block < blocks ? rows[block] : next ? next[block - blocks] : nullptr;
}
static inline void ask_for_all(const u8* p, i64 bytes) {
  for (i64 i = 0; p && i < bytes; i += 64) __builtin_prefetch(p + i);
  asm volatile("");  // GCC 12 takes a function that only prefetches for one without effect, and drops its calls
}

// 16 rows as floats, or their block scales.
template <class T>
static inline void to_floats(const u8* rows, i64 row_bytes, int hd, f32* to) {
  f32 scale[max_head_dim / 32];
  for (int t = 0; t < 16; t++, rows += row_bytes, to += hd) {
    T::scales(rows, row_bytes, hd, 1, scale);
    for (int d = 0; d < hd; d += reg_lanes) reg_store(to + d, T::get(rows, d, scale));
  }
}

template <class K>
static void scores_of(const AttendTile& a) {
  const i64 row_bytes = K::bytes(a.head_dim);
  const int most = a.valid[a.rows - 1], blocks = int(div_up(most, 16));
  f32 scale[16 * max_head_dim / 32];
  for (int b = 0; b < most; b += 16) {
    int first = 0;
    while (a.valid[first] <= b) first++;
    const u8* k = a.k[b / 16];
    const u8* ahead = rows_ahead(a.k, b / 16, blocks, blocks > 1 ? a.v : nullptr);
    auto rows = [&]<class T>(const u8* from, i64 bytes, const u8* later) {
      row_tiles(a.rows - first, [&]<int R>(int r) {
        score_16<T, R>(a.q + i64(first + r) * a.head_dim, a.head_dim, from, bytes, scale, a.scores + i64(first + r) * split + b,
                       r == 0 ? later : nullptr);
      });
    };
    if (a.rows - first > TR && K::convert) {
      ask_for_all(ahead, 16 * row_bytes);
      to_floats<K>(k, row_bytes, a.head_dim, a.floats);
      rows.template operator()<Kv<Type::F32>>(reinterpret_cast<const u8*>(a.floats), Kv<Type::F32>::bytes(a.head_dim), nullptr);
    } else {
      K::scales(k, row_bytes, a.head_dim, 16, scale);
      rows.template operator()<K>(k, row_bytes, ahead);
    }
  }
}

template <class V>
static void weigh(const AttendTile& a) {
  const i64 row_bytes = V::bytes(a.head_dim), float_bytes = Kv<Type::F32>::bytes(a.head_dim);
  const int most = a.valid[a.rows - 1];
  f32 scale[value_run * max_head_dim / 32];
  for (int b = 0; b < most; b += value_run) {
    int first = 0;  // rows before it see nothing here, rows before `full` a part of the run
    while (a.valid[first] <= b) first++;
    int full = first;
    while (full < a.rows && a.valid[full] < b + value_run) full++;
    const u8 *v[value_run / 16], *ahead[value_run / 16] = {};
    const int blocks = int(div_up(std::min(most - b, value_run), 16));
    for (int i = 0; i < blocks; i++) ahead[i] = rows_ahead(a.v, b / 16 + i, int(div_up(most, 16)), a.next);
    for (int i = 0; i < blocks; i++) v[i] = a.v[b / 16 + i];
    auto rows = [&]<class T>(i64 bytes, const u8* const* later) {
      for (int r = first; r < full; r++) {
        weigh_run<T, 1>(a.acc + i64(r) * a.head_dim, a.head_dim, a.scores + i64(r) * split + b, v, bytes, scale, a.valid[r] - b, nullptr);
      }
      row_tiles(a.rows - full, [&]<int R>(int r) {
        weigh_run<T, R>(a.acc + i64(full + r) * a.head_dim, a.head_dim, a.scores + i64(full + r) * split + b, v, bytes, scale, value_run,
                        r == 0 ? later : nullptr);
      });
    };
    if (a.rows - first > TR && V::convert) {
      for (int i = 0; i < blocks; i++) {
        f32* to = a.floats + i64(i) * 16 * a.head_dim;
        ask_for_all(ahead[i], 16 * row_bytes);
        to_floats<V>(v[i], row_bytes, a.head_dim, to);
        v[i] = reinterpret_cast<const u8*>(to);
      }
      rows.template operator()<Kv<Type::F32>>(float_bytes, nullptr);
    } else {
      for (int i = 0; i < blocks; i++) V::scales(v[i], row_bytes, a.head_dim, 16, scale + i * 16 * (a.head_dim / 32));
      rows.template operator()<V>(row_bytes, ahead);
    }
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
