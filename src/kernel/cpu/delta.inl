// Gated delta rule (models.md 8.5) for 16 rows of one head's state, through the columns of a sequence in order:
//
//   r = e (S k)     dl = beta (v - r)     S <- e S + dl k^T     o = S q
//
// The decay e is taken out of the first product (one multiplication per row instead of one per element).  A block of 16 x 128
// states is 8 KiB: it is read from memory once, stays in L1 for the whole window, and 16 dot products fold together.

static void delta(const DeltaBlock& b) {
  const int dim = b.dim;
  V16 part[16];
  for (int c = 0; c < b.cols; c++) {
    const f32 *q = b.q + c * b.ldqk, *k = b.k + c * b.ldqk;
    const f32 decay = b.decay[c * b.ldg];
    for (int r = 0; r < 16; r += 2) {
      const f32 *s0 = b.state + i64(r) * dim, *s1 = s0 + dim;
      V16 a0 = zero(), a1 = zero();
      for (int d = 0; d < dim; d += 16) {
        V16 kv = load(k + d);
        a0 = fma(load(s0 + d), kv, a0);
        a1 = fma(load(s1 + d), kv, a1);
      }
      part[r] = a0;
      part[r + 1] = a1;
    }
    f32 dl[16];
    store(dl, set1(b.beta[c * b.ldg]) * (load(b.v + c * b.ldv) - set1(decay) * sum16(part)));
    V16 e = set1(decay);
    for (int r = 0; r < 16; r += 2) {
      f32 *s0 = b.state + i64(r) * dim, *s1 = s0 + dim;
      V16 a0 = zero(), a1 = zero(), d0 = set1(dl[r]), d1 = set1(dl[r + 1]);
      for (int d = 0; d < dim; d += 16) {
        V16 kv = load(k + d), qv = load(q + d);
        V16 n0 = fma(d0, kv, e * load(s0 + d)), n1 = fma(d1, kv, e * load(s1 + d));
        store(s0 + d, n0);
        store(s1 + d, n1);
        a0 = fma(n0, qv, a0);
        a1 = fma(n1, qv, a1);
      }
      part[r] = a0;
      part[r + 1] = a1;
    }
    store(b.out + c * b.ldo, sum16(part));
  }
}
