// The inner product of the exact path: rows of decoded weights times columns of f32 activations.
//
//   y[c][r] = sum_k w[r][k] x[c][k]
//
// Float order   lane l of 16 sums k = l mod 16 in order (fused), then the fold of vec16.inl: it depends on K alone.
// Tiles         ER rows x EC columns in registers; the ragged edges run the same loop with 1.

#if FEWBIT_VEC == 512
static constexpr int ER = 4, EC = 5;
#elif FEWBIT_VEC == 256
static constexpr int ER = 3, EC = 2;
#else
static constexpr int ER = 2, EC = 1;
#endif

template <int R, int C>
static inline void dots_tile(f32* y, i64 ldy, const f32* w, const f32* const* x, i64 k_pad) {
  V16 a[R][C];
  FEWBIT_UNROLL
  for (int r = 0; r < R; r++) {
    FEWBIT_UNROLL
    for (int c = 0; c < C; c++) a[r][c] = zero();
  }
  for (i64 k = 0; k < k_pad; k += 16) {
    V16 wv[R];
    FEWBIT_UNROLL
    for (int r = 0; r < R; r++) wv[r] = load(w + r * k_pad + k);
    FEWBIT_UNROLL
    for (int c = 0; c < C; c++) {
      V16 xv = load(x[c] + k);
      FEWBIT_UNROLL
      for (int r = 0; r < R; r++) a[r][c] = fma(wv[r], xv, a[r][c]);
    }
  }
  FEWBIT_UNROLL
  for (int c = 0; c < C; c++) {
    FEWBIT_UNROLL
    for (int r = 0; r < R; r++) y[c * ldy + r] = sum(a[r][c]);
  }
}
template <int R>
static inline void dots_rows(f32* y, i64 ldy, const f32* w, const f32* const* x, int cols, i64 k_pad) {
  int c = 0;
  for (; c + EC <= cols; c += EC) dots_tile<R, EC>(y + c * ldy, ldy, w, x + c, k_pad);
  for (; c < cols; c++) dots_tile<R, 1>(y + c * ldy, ldy, w, x + c, k_pad);
}
static void dots(f32* y, i64 ldy, const f32* w, const f32* const* x, int rows, int cols, i64 k_pad) {
  int r = 0;
  for (; r + ER <= rows; r += ER) dots_rows<ER>(y + r, ldy, w + r * k_pad, x, cols, k_pad);
  for (; r < rows; r++) dots_rows<1>(y + r, ldy, w + r * k_pad, x, cols, k_pad);
}
