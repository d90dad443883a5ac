// Gated delta rule (models.md 8.5) for 16 rows of one head's state, through the columns of a sequence in order:
//
//   r = e (S k)     dl = beta (v - r)     S <- e S + dl k^T     o = S q
//
// The decay e is taken out of the first product (one multiplication per row instead of one per element).  A block of 16 x 128
// states is 8 KiB: it is read from memory once and stays in L1 for the whole window; 16 dot products fold together.  The pass that
// updates S for one column also multiplies it with the next column's k, so each column costs one pass.

// part[r] = lanes of S[r] k
static inline void delta_read(const f32* state, int dim, const f32* k, V16* part) {
  for (int r = 0; r < 16; r += 4) {
    const f32* s = state + i64(r) * dim;
    V16 a[4] = {zero(), zero(), zero(), zero()};
    for (int d = 0; d < dim; d += 16) {
      const V16 kv = load(k + d);
      FEWBIT_UNROLL
      for (int i = 0; i < 4; i++) a[i] = fma(load(s + i * dim + d), kv, a[i]);
    }
    FEWBIT_UNROLL
    for (int i = 0; i < 4; i++) part[r + i] = a[i];
  }
}

// S <- e S + dl k^T;  out[r] = lanes of S[r] q, next[r] = lanes of S[r] k_next
template <bool more>
static inline void delta_update(f32* state, int dim, f32 decay, const f32* dl, const f32* k, const f32* q, const f32* k_next, V16* out,
                                V16* next) {
  const V16 e = set1(decay);
  for (int r = 0; r < 16; r += 2) {
    f32 *s0 = state + i64(r) * dim, *s1 = s0 + dim;
    V16 o0 = zero(), o1 = zero(), n0 = zero(), n1 = zero(), d0 = set1(dl[r]), d1 = set1(dl[r + 1]);
    for (int d = 0; d < dim; d += 16) {
      const V16 kv = load(k + d), qv = load(q + d);
      const V16 x0 = fma(d0, kv, e * load(s0 + d)), x1 = fma(d1, kv, e * load(s1 + d));
      store(s0 + d, x0);
      store(s1 + d, x1);
      o0 = fma(x0, qv, o0);
      o1 = fma(x1, qv, o1);
      if constexpr (more) {
        const V16 nv = load(k_next + d);
        n0 = fma(x0, nv, n0);
        n1 = fma(x1, nv, n1);
      }
    }
    out[r] = o0;
    out[r + 1] = o1;
    if constexpr (more) {
      next[r] = n0;
      next[r + 1] = n1;
    }
  }
}

static void delta(const DeltaBlock& b) {
  if (b.cols == 0) return;
  V16 stored[16], out[16];
  delta_read(b.state, b.dim, b.k, stored);
  for (int c = 0; c < b.cols; c++) {
    const f32 *q = b.q + c * b.ldqk, *k = b.k + c * b.ldqk;
    const f32 decay = b.decay[c * b.ldg];
    f32 dl[16];
    store(dl, set1(b.beta[c * b.ldg]) * (load(b.v + c * b.ldv) - set1(decay) * sum16(stored)));
    if (c + 1 < b.cols) {
      delta_update<true>(b.state, b.dim, decay, dl, k, q, k + b.ldqk, out, stored);
    } else {
      delta_update<false>(b.state, b.dim, decay, dl, k, q, nullptr, out, nullptr);
    }
    store(b.out + c * b.ldo, sum16(out));
  }
}
