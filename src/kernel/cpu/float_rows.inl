// y[r][c] = sum over K of w[r] x[c] for F32, F16 and BF16 weights as they lie in the file, float inputs.
//
// Float order: 16 partial sums, element k in sum k % 16 by fused multiply-adds, folded l + 8, + 4, + 2, + 1; the same as file_rows.inl.
// R rows and C columns share their loads, which also hides the latency of the sums.
//
// Included inside a namespace per set after vec16.inl, for sets with a fused multiply-add.

#if FEWBIT_VEC == 256
static inline __m256 bf16x8(const u8* p) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))), 16));
}
#endif
template <class W>
static inline V16 weights16(const u8* w) {
  if constexpr (std::is_same_v<W, F32>) {
    return load(reinterpret_cast<const f32*>(w));
  } else if constexpr (std::is_same_v<W, F16>) {
    return load_f16(reinterpret_cast<const u16*>(w));
  } else {
#if FEWBIT_VEC == 512
    return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(w))), 16))};
#else
    return {bf16x8(w), bf16x8(w + 16)};
#endif
  }
}

template <class W, int R, int C>
static inline void float_block(const u8* w, i64 n, const void* const* cols, f32* out) {
  V16 p[R][C];
#pragma GCC unroll 8
  for (int r = 0; r < R; r++)
#pragma GCC unroll 8
    for (int c = 0; c < C; c++) p[r][c] = zero();
  const u64 stride = u64(n) * W::bytes;
  i64 k = 0;
  for (; k + 16 <= n; k += 16) {
    V16 a[R];
#pragma GCC unroll 8
    for (int r = 0; r < R; r++) a[r] = weights16<W>(w + u64(r) * stride + u64(k) * W::bytes);
#pragma GCC unroll 8
    for (int c = 0; c < C; c++) {
      const V16 x = load(static_cast<const f32*>(cols[c]) + k);
#pragma GCC unroll 8
      for (int r = 0; r < R; r++) p[r][c] = fma(a[r], x, p[r][c]);
    }
  }
  if (k < n) {
    for (int r = 0; r < R; r++) {
      alignas(64) u8 rest[64] = {};
      std::memcpy(rest, w + u64(r) * stride + u64(k) * W::bytes, size_t(n - k) * W::bytes);
      const V16 a = weights16<W>(rest);
      for (int c = 0; c < C; c++) p[r][c] = fma(a, load_n(static_cast<const f32*>(cols[c]) + k, int(n - k)), p[r][c]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; r++)
#pragma GCC unroll 8
    for (int c = 0; c < C; c++) out[c * 16 + r] = sum(p[r][c]);
}

template <class W, int R>
static inline void float_rows(const u8* w, i64 n, int n_cols, const void* const* cols, f32* out) {
  int c = 0;
  constexpr int most = FEWBIT_VEC == 512 ? 4 : 2;
  for (; c + most <= n_cols; c += most) float_block<W, R, most>(w, n, cols + c, out + 16 * c);
  for (; c < n_cols; c++) float_block<W, R, 1>(w, n, cols + c, out + 16 * c);
}

template <class W>
static void float_tile(const u8* tile, int rows, i64 n, const Panel& panel, f32* out) {
  constexpr int most = FEWBIT_VEC == 512 ? 4 : 2;
  int r = 0;
  for (; r + most <= rows; r += most) float_rows<W, most>(tile + u64(r) * u64(n) * W::bytes, n, panel.cols, panel.col, out + r);
  for (; r < rows; r++) float_rows<W, 1>(tile + u64(r) * u64(n) * W::bytes, n, panel.cols, panel.col, out + r);
}
