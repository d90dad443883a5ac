// IQ2_XXS, IQ2_XS, IQ2_S, IQ3_XXS, IQ3_S: magnitudes from a grid, signs apart.  formats.md 5.6
//
// LANES groups are tried side by side; only the snap of a code vector that is no grid point goes group by group, and there the
// lanes are neighbours.

// SNAP: the first of the neighbours that minimises sum over j of (w_j t) t, t = scale * level - x_j.  Returns the point.
// The term depends on j and the code alone, so a table of them is made first.  level: of codes 0.. (three levels are repeated from
// lane 4 on, so that the two bits of a code and the lowest of its neighbour select the same).
template <int dims>
struct SnapLevels {
  f32 level[8];
};
template <int dims>
INLINE int snap(const Lattice& t, const Lattice::Entry& entry, const SnapLevels<dims>& levels, f32 scale, const f32* x, const f32* w) {
  constexpr int bits = dims == 8 ? 2 : 3;
  const u16* near = t.near_codes.data() + entry.first;
#if LANES == 8
  V term[dims], least_error = all(INFINITY);
  V at;
  std::memcpy(&at, levels.level, sizeof at);
  at = scale * at;
  for (int j = 0; j < dims; j++) {
    const V d = at - x[j];
    term[j] = w[j] * d * d;
  }
  I least_block{};
  for (int b = 0; b < entry.blocks; b++) {
    I code = I(_mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(near + 8 * b))));
    V error = V(_mm256_permutevar8x32_ps(__m256(term[0]), __m256i(code)));
    for (int j = 1; j < dims; j++) {
      code >>= bits;
      error += V(_mm256_permutevar8x32_ps(__m256(term[j]), __m256i(code)));
    }
    const I better = error < least_error;
    least_error = pick(better, error, least_error);
    least_block = better ? I{} + b : least_block;
  }
  // The least of the lanes; of equal ones the first neighbour.
  V m = least_error;
  m = least(m, V(_mm256_permute2f128_ps(__m256(m), __m256(m), 1)));
  m = least(m, V(_mm256_shuffle_ps(__m256(m), __m256(m), 0x4e)));
  m = least(m, V(_mm256_shuffle_ps(__m256(m), __m256(m), 0xb1)));
  u32 lanes = u32(_mm256_movemask_ps(__m256(V(least_error == m))));
  u32 best = ~0u;
  for (; lanes; lanes &= lanes - 1) {
    const u32 lane = u32(__builtin_ctz(lanes)), n = 8 * u32(least_block[lane]) + lane;
    best = n < best ? n : best;
  }
#else
  f32 term[dims][8], least_error = INFINITY;
  for (int j = 0; j < dims; j++)
    for (int c = 0; c < 8; c++) {
      const f32 d = scale * levels.level[c] - x[j];
      term[j][c] = w[j] * d * d;
    }
  u32 best = 0;
  for (u32 n = 0; n < 8u * entry.blocks; n++) {
    u32 code = near[n];
    f32 error = term[0][code & 7];
    for (int j = 1; j < dims; j++) error += term[j][(code >>= bits) & 7];
    if (error < least_error) least_error = error, best = n;
  }
#endif
  return t.near_points[entry.first + best];
}

// Columns of the table in 5.6.
struct LatticeRule {
  int group;  // elements that share a scale
  f32 s2_factor;
  bool even_signs;
  int trials;  // k = -trials .. trials
  f32 step;
  f32 zero_below;  // a largest value below this (IQ3_S: equal to 0) silences the group
  f32 f16_factor;
};
template <class F>
constexpr LatticeRule rule_of = {};
template <>
constexpr LatticeRule rule_of<IQ2_XXS> = {32, 1, true, 6, 0.1f, 1e-15f, 1};
template <>
constexpr LatticeRule rule_of<IQ2_XS> = {16, 1, true, 9, 0.1f, 1e-15f, 1};
template <>
constexpr LatticeRule rule_of<IQ2_S> = {16, 2, false, 9, 0.1f, 1e-8f, 0.9875f};
template <>
constexpr LatticeRule rule_of<IQ3_XXS> = {32, 2, true, 15, 0.2f, 1e-8f, 1.0125f};
template <>
constexpr LatticeRule rule_of<IQ3_S> = {32, 2, false, 9, 0.2f, 0, 1.033f};

// The points of LANES groups: one index per point and lane.
template <int points>
struct Points {
  I index[points];
  I on_grid[points];  // masks
};

// Codes of x at inverse scale i; those that are no grid points go to a neighbour, chosen at `scale`.  odd: 2 code + 1 of every element.
// only: lanes and points to do (masks); the rest of odd and chosen stay.
template <class F, int n, int points>
INLINE void choose_points(const Lattice& t, const Groups<n>& x, const f32* x_rows, const f32* w_rows, V i, V scale, int count,
                          const I* only, Groups<n>& odd, Points<points>& chosen) {
  constexpr int dims = n / points, levels = dims == 8 ? 3 : 8;
  constexpr SnapLevels<dims> odd_levels =
      dims == 8 ? SnapLevels<dims>{{1, 3, 5, 0, 1, 3, 5, 0}} : SnapLevels<dims>{{1, 3, 5, 7, 9, 11, 13, 15}};
  for (int p = 0; p < points; p++) {
    V key{};
    V o[dims];
    for (int j = dims - 1; j >= 0; j--) {
      const V code = rint_to(0.5f * (i * x[p * dims + j] - 1), 0, levels - 1);
      o[j] = code + code + 1;
      key = key * f32(levels) + code;
    }
    for (int j = 0; j < dims; j++) odd[p * dims + j] = pick(only[p], o[j], odd[p * dims + j]);
    const I keys = __builtin_convertvector(key, I);
    for (int l = 0; l < count; l++) {
      if (!only[p][l]) continue;
      const Lattice::Entry& entry = t.entries[size_t(keys[l])];
      chosen.on_grid[p][l] = entry.point >= 0 ? -1 : 0;
      if (entry.point >= 0) {
        chosen.index[p][l] = entry.point;
        continue;
      }
      const int point = snap<dims>(t, entry, odd_levels, scale[l], x_rows + l * n + p * dims, w_rows + l * n + p * dims);
      chosen.index[p][l] = point;
      const u8* c = t.codes_of(point);
      for (int j = 0; j < dims; j++) odd[p * dims + j][l] = f32(2 * c[j] + 1);
    }
  }
}

// Absolute values of 8 elements and the mask of negatives.  even: the last sign is not stored, so the number of negatives must be
// even; the element that matters least takes the wrong sign and goes on as a negative value.
INLINE u32 split_signs(const f32* x, const f32* w, bool even, f32* magnitude) {
  u32 mask = 0;
  for (int j = 0; j < 8; j++) {
    mask |= u32(x[j] < 0) << j;
    magnitude[j] = __builtin_fabsf(x[j]);
  }
  if (!even) return mask;
  if (__builtin_popcount(mask) % 2) {
    int least_j = 0;
    for (int j = 1; j < 8; j++)
      if (w[j] * x[j] * x[j] < w[least_j] * x[least_j] * x[least_j]) least_j = j;
    magnitude[least_j] = -magnitude[least_j];
    mask ^= 1u << least_j;
  }
  return mask & 127;
}

template <class F>
struct LatticeBlock {  // what a super-block of 256 becomes, before it is packed
  static constexpr int group = rule_of<F>.group, groups = 256 / group, dims = sizeof(typename F::Grid);
  u32 index[256 / dims];
  u32 signs[32];
  u32 scale[groups];
  f32 d;
};

template <class F>
INLINE void search_groups(const Lattice& t, const f32* magnitude, const f32* weight, int count, u32* index, u32* signs, f32* scales) {
  constexpr LatticeRule r = rule_of<F>;
  constexpr int n = r.group, dims = sizeof(typename F::Grid), points = n / dims;
  constexpr f32 top_odd = dims == 8 ? 5 : 15;
  count = count < LANES ? count : LANES;
  f32 root[n * LANES];
  for (int e = 0; e < n * count; e++) root[e] = __builtin_sqrtf(weight[e]);
  Groups<n> x, w, odd{};
  load_groups(x, magnitude, count);
  load_groups(w, weight, count);
  V ref = x[0];
  for (int e = 1; e < n; e++) ref = largest(ref, x[e]);
  I silent = r.zero_below > 0 ? I(ref < all(r.zero_below)) : I(ref == V{});
  V scale = ref / top_odd, best{};
  if constexpr (std::is_same_v<F, IQ2_XXS>) {
    for (int l = 0; l < count; l++) {
      u8 codes[n];
      scale[l] = silent[l] ? 0 : fit_positive(4, magnitude + l * n, weight + l * n, n, codes);
    }
    ref = scale * 3;
    silent |= I(ref <= V{});
  }
  ref = pick(silent, all(1), ref);
  I every[points];
  for (int p = 0; p < points; p++) every[p] = ~silent;
  Points<points> chosen{}, trial{};
  for (int p = 0; p < points; p++) chosen.on_grid[p] = std::is_same_v<F, IQ3_S> ? I{} : I{} - 1;
  for (int k = -r.trials; k <= r.trials; k++) {
    const V i = (top_odd + f32(k) * r.step) / ref;
    choose_points<F>(t, x, magnitude, root, i, 1 / i, count, every, odd, trial);
    V s1{}, s2{};
    for (int e = 0; e < n; e++) {
      s1 += w[e] * x[e] * odd[e];
      s2 += w[e] * odd[e] * odd[e];
    }
    const I better = ~silent & (s2 > V{}) & (s1 * s1 > best * s2);
    if (!any(better)) continue;
    scale = pick(better, s1 / s2, scale);
    best = pick(better, scale * s1, best);
    for (int p = 0; p < points; p++) {
      chosen.index[p] = better ? trial.index[p] : chosen.index[p];
      chosen.on_grid[p] = better ? trial.on_grid[p] : chosen.on_grid[p];
    }
  }
  // Once more at the scale that was found: there the neighbours may be others.
  I again = ~silent & (scale > V{}), off_grid{};
  for (int p = 0; p < points; p++) off_grid |= ~chosen.on_grid[p];
  if (!std::is_same_v<F, IQ2_XXS>) again &= off_grid;
  if (any(again)) {
    I redo[points];
    for (int p = 0; p < points; p++) {
      const bool all_points = std::is_same_v<F, IQ2_XXS> || std::is_same_v<F, IQ3_S>;
      redo[p] = all_points ? again : again & ~chosen.on_grid[p];
      for (int l = 0; l < count; l++)
        for (int j = 0; j < dims; j++) odd[p * dims + j][l] = f32(2 * t.codes_of(chosen.index[p][l])[j] + 1);
    }
    choose_points<F>(t, x, magnitude, root, 1 / scale, scale, count, redo, odd, chosen);
    V s1{}, s2{};
    for (int e = 0; e < n; e++) {
      s1 += w[e] * x[e] * odd[e];
      s2 += w[e] * odd[e] * odd[e];
    }
    scale = pick(again & (s2 > V{}), s1 / s2, scale);
  }
  for (int l = 0; l < count; l++) {
    scales[l] = silent[l] ? 0 : __builtin_fabsf(scale[l]);
    for (int p = 0; p < points; p++) index[l * points + p] = silent[l] ? 0 : u32(chosen.index[p][l]);
    for (int b = 0; b < n / 8; b++) {
      u32& s = signs[l * (n / 8) + b];
      if (silent[l])
        s = 0;
      else if (scale[l] < 0)
        s = ~s & (r.even_signs ? 127u : 255u);
    }
  }
}

// The block of 256 at x, or false if all of it is zero.
template <class F>
static bool search_block(const Lattice& t, const f32* x, const f32* q, LatticeBlock<F>& block) {
  constexpr LatticeRule r = rule_of<F>;
  constexpr int n = r.group, groups = 256 / n, dims = sizeof(typename F::Grid);
  f32 weight[256], magnitude[256], scales[groups];
  const f32 s2 = r.s2_factor * sum_of_squares(x, 256) / 256;
  if (q)
    importance_weights(x, q, s2, 256, weight);
  else
    for (int e = 0; e < 256; e++) weight[e] = std::is_same_v<F, IQ2_S> ? 0.25f * s2 + x[e] * x[e] : x[e] * x[e];
  for (int b = 0; b < 32; b++) block.signs[b] = split_signs(x + 8 * b, weight + 8 * b, r.even_signs, magnitude + 8 * b);
  for (int g = 0; g < groups; g += LANES)
    search_groups<F>(t, magnitude + g * n, weight + g * n, groups - g, block.index + g * n / dims, block.signs + g * n / 8, scales + g);
  f32 ms = 0;
  for (int g = 0; g < groups; g++) ms = scales[g] > ms ? scales[g] : ms;
  const f32 d = ms / 31, inverse = 1 / d;
  if (ms == 0 || !(inverse < INFINITY)) return false;
  block.d = d * r.f16_factor;
  for (int g = 0; g < groups; g++) {
    f32 v = 0.5f * (inverse * scales[g] - 1);
    v = v > 0 ? (v < 15 ? v : 15) : 0;
    block.scale[g] = u32(i32(v + 12582912.0f) - 12582912);
  }
  return true;
}

static void pack(const LatticeBlock<IQ2_XXS>& b, u8* out) {
  for (int g = 0; g < 8; g++) {
    u32 word = b.scale[g] << 28;
    for (int l = 0; l < 4; l++) {
      out[IQ2_XXS::codes_at + 8 * g + l] = u8(b.index[4 * g + l]);
      word |= b.signs[4 * g + l] << (7 * l);
    }
    store_le(out + IQ2_XXS::codes_at + 8 * g + 4, word);
  }
}
static void pack(const LatticeBlock<IQ2_XS>& b, u8* out) {
  for (int k = 0; k < 32; k++) store_le(out + IQ2_XS::codes_at + 2 * k, u16(b.index[k] | b.signs[k] << 9));
  for (int g = 0; g < 8; g++) out[IQ2_XS::scales_at + g] = u8(b.scale[2 * g] | b.scale[2 * g + 1] << 4);
}
static void pack(const LatticeBlock<IQ2_S>& b, u8* out) {
  for (int k = 0; k < 32; k++) {
    out[IQ2_S::codes_at + k] = u8(b.index[k]);
    out[IQ2_S::signs_at + k] = u8(b.signs[k]);
    out[IQ2_S::high_at + k / 4] |= u8(b.index[k] >> 8 << (2 * (k % 4)));
  }
  for (int g = 0; g < 8; g++) out[IQ2_S::scales_at + g] = u8(b.scale[2 * g] | b.scale[2 * g + 1] << 4);
}
static void pack(const LatticeBlock<IQ3_XXS>& b, u8* out) {
  for (int k = 0; k < 64; k++) out[IQ3_XXS::codes_at + k] = u8(b.index[k]);
  for (int g = 0; g < 8; g++) {
    u32 word = b.scale[g] << 28;
    for (int l = 0; l < 4; l++) word |= b.signs[4 * g + l] << (7 * l);
    store_le(out + IQ3_XXS::signs_at + 4 * g, word);
  }
}
static void pack(const LatticeBlock<IQ3_S>& b, u8* out) {
  for (int k = 0; k < 64; k++) {
    out[IQ3_S::codes_at + k] = u8(b.index[k]);
    out[IQ3_S::high_at + k / 8] |= u8(b.index[k] >> 8 << (k % 8));
  }
  for (int k = 0; k < 32; k++) out[IQ3_S::signs_at + k] = u8(b.signs[k]);
  for (int t = 0; t < 4; t++) out[IQ3_S::scales_at + t] = u8(b.scale[2 * t] | b.scale[2 * t + 1] << 4);
}

template <class F>
static void encode_lattice(F, const f32* x, const f32* q, i64 n, u8* out) {
  const Lattice& t = lattice_of<F>();
  for (i64 i = 0; i < n / 256; i++, out += F::bytes) {
    LatticeBlock<F> block;
    std::memset(out, 0, F::bytes);
    if (!search_block<F>(t, x + 256 * i, q ? q + 256 * i : nullptr, block)) continue;
    pack(block, out);
    store_f16(out + F::scale_at, block.d);
  }
}
static void encode_search(IQ2_XXS f, const f32* x, const f32* q, i64 n, u8* out) { encode_lattice(f, x, q, n, out); }
static void encode_search(IQ2_XS f, const f32* x, const f32* q, i64 n, u8* out) { encode_lattice(f, x, q, n, out); }
static void encode_search(IQ2_S f, const f32* x, const f32* q, i64 n, u8* out) { encode_lattice(f, x, q, n, out); }
static void encode_search(IQ3_XXS f, const f32* x, const f32* q, i64 n, u8* out) { encode_lattice(f, x, q, n, out); }
static void encode_search(IQ3_S f, const f32* x, const f32* q, i64 n, u8* out) { encode_lattice(f, x, q, n, out); }
