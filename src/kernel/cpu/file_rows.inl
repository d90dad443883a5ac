// y[r][c] = sum over K of w[r] x[c], weights as they lie in the file: any type, any instruction set.
//
// Each block of a row is unpacked to integers once and multiplied with all columns of the panel.  Float order: layout/integer_form.h;
// types without blocks: 16 partial sums, element k in sum k % 16, folded l + 8, + 4, + 2, + 1.
//
// Included inside a namespace per set after FEWBIT_FILE_SET is defined as its name.  The set supplies
//   dot16x2(w, q, s)  sums of w * q over the two halves of 32 bytes, |w| <= 128, |q| <= 127
//   fused(a, b, c)    a * b + c, rounded once
//   fma16(w, x, p)    p[l] = fused(w[l], x[l], p[l]) for 16 lanes
// and defines FEWBIT_FLOAT_TILE as the kernel for types without blocks: file_tile_float, or a faster one.

template <class F>
static void file_tile(const u8* tile, int rows, i64 n, const Panel& panel, f32* out) {
  constexpr int span = span_of<F>;
  static_assert(F::block % span == 0);
  const i64 blocks = n / F::block;
  for (int r = 0; r < rows; r++) {
    const u8* b = tile + u64(r) * u64(blocks) * F::bytes;
    f32 acc[max_panel] = {};
    for (i64 i = 0; i < blocks; i++, b += F::bytes) {
      const IntegerBlock<F> w(b);
      for (int s = 0; s < F::block; s += span) {
        const i64 g0 = (i * F::block + s) / 32;
        for (int c = 0; c < panel.cols; c++) {
          const Q8Record a(panel.col[c], n);
          f32 t = 0, m = 0;
          for (int g = 0; g < span / 32; g++) {
            i32 dot[2];
            dot16x2(w.level + s + 32 * g, a.q + 32 * (g0 + g), dot);
            const i16* sum = a.sum + 2 * (g0 + g);
            const f32 d = a.d[g0 + g];
            f32 S;
            if constexpr (halves_differ<F>) {
              const int j = s / 16 + 2 * g;
              S = fused(w.sub[j + 1], f32(dot[1]), w.sub[j] * f32(dot[0]));
              if constexpr (has_min<F>) m = fused(w.min[j + 1], d * f32(sum[1]), fused(w.min[j], d * f32(sum[0]), m));
            } else {
              const int j = F::group < F::block ? s / 32 + g : 0;
              S = w.sub[j] * f32(dot[0] + dot[1]);
              if constexpr (has_min<F>) m = fused(w.min[j], d * f32(sum[0] + sum[1]), m);
            }
            t = fused(d, S, t);
          }
          acc[c] = fused(w.d, t, acc[c]);
          if constexpr (has_min<F>) acc[c] = fused(-w.dmin, m, acc[c]);
        }
      }
    }
    for (int c = 0; c < panel.cols; c++) out[c * tile_rows + r] = acc[c];
  }
}

#if !defined(FEWBIT_FAST_FLOAT)
template <class F>
static void file_tile_float(const u8* tile, int rows, i64 n, const Panel& panel, f32* out) {
  for (int r = 0; r < rows; r++) {
    const u8* w = tile + u64(r) * u64(n) * F::bytes;
    for (int c = 0; c < panel.cols; c++) {
      const f32* x = static_cast<const f32*>(panel.col[c]);
      alignas(64) f32 p[16] = {}, v[16], z[16];
      i64 k = 0;
      for (; k + 16 <= n; k += 16) {
        for (int l = 0; l < 16; l++) v[l] = F::value(w + (k + l) * F::bytes);
        fma16(v, x + k, p);
      }
      if (k < n) {
        for (int l = 0; l < 16; l++) v[l] = k + l < n ? F::value(w + (k + l) * F::bytes) : 0.0f, z[l] = k + l < n ? x[k + l] : 0.0f;
        fma16(v, z, p);
      }
      for (int h = 8; h > 0; h /= 2)
        for (int l = 0; l < h; l++) p[l] += p[l + h];
      out[c * tile_rows + r] = p[0];
    }
  }
}
#endif

template <class F>
static void file_unpack(const u8* tile, int r, i64 n, f32* x) {
  const u8* b = tile + u64(r) * u64(n / F::block) * F::bytes;
  for (i64 i = 0; i < n / F::block; i++, b += F::bytes) {
    if constexpr (HasValue<F>)
      x[i] = F::value(b);
    else {
      const IntegerBlock<F> w(b);
      for (int e = 0; e < F::block; e++) x[i * F::block + e] = w.value(e);
    }
  }
}

template <class F>
static constexpr WeightKernels file_entry(Type type, const char* name) {
  WeightKernels k{};
  k.type = type;
  k.layout = "file";
  k.name = name;
  k.float_input = HasValue<F>;
  k.tile_bytes = [](i64 n) { return tile_rows * (n / F::block * F::bytes); };
  k.unpack = file_unpack<F>;
  k.max_narrow = max_panel;
  for (int c = 1; c <= max_panel; c++) {
    if constexpr (HasValue<F>)
      k.narrow[c] = FEWBIT_FLOAT_TILE<F>;
    else
      k.narrow[c] = file_tile<F>;
  }
  return k;
}

#define FEWBIT_X(F, id) file_entry<F>(Type::F, "gemv." #F "/" FEWBIT_FILE_SET ".file"),
static constexpr WeightKernels file_kernel_list[] = {FEWBIT_WEIGHT_FORMATS(FEWBIT_X)};
#undef FEWBIT_X
