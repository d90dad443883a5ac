// Rows of a file -> a spread tile (r16_tiles.inl): what multiplies weights whose bytes stay as they lie in the file, at any width.
// Every block is decoded once per tile.  The same codes are what the simplest formats are packed from.  Included by r16.inl.

#include "kernel/cpu/r16_planes.inl"

#include "kernel/cpu/r16_grids.inl"

// word[t][r] = word t of row r.
template <int from, int words>
static inline void words_of_rows(const u8* const* block, u32 (*word)[16]) {
  constexpr int fours = lanes == 4 ? 0 : words / 4 * 4;  // four rows and words at a time
#if defined(__x86_64__)
  for (int r = 0; r < 16; r += 4) {
    FEWBIT_UNROLL
    for (int t = 0; t < fours; t += 4) {
      __m128i row[4];
      for (int i = 0; i < 4; i++) row[i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(block[r + i] + from + 4 * t));
      const __m128i a = _mm_unpacklo_epi32(row[0], row[1]), b = _mm_unpacklo_epi32(row[2], row[3]);
      const __m128i c = _mm_unpackhi_epi32(row[0], row[1]), d = _mm_unpackhi_epi32(row[2], row[3]);
      const __m128i column[4] = {_mm_unpacklo_epi64(a, b), _mm_unpackhi_epi64(a, b), _mm_unpacklo_epi64(c, d), _mm_unpackhi_epi64(c, d)};
      for (int i = 0; i < 4; i++) _mm_store_si128(reinterpret_cast<__m128i*>(word[t + i] + r), column[i]);
    }
  }
#endif
  for (int r = 0; r < 16; r++)
    for (int t = fours; t < words; t++) word[t][r] = load_le<u32>(block[r] + from + 4 * t);
}

// Which formats become words.
template <class T>
static constexpr bool by_words = !HasGrid<T> || grids_by_rows;
template <class T>
struct Block {  // of 16 rows
  const u8* row[16];
  alignas(64) u32 word[by_words<T> ? FileCodes<T>::words : 1][16];
};
template <class T>
requires(!by_words<T>) struct Block<T> {
  const u8* row[16];
};

// Block i of 16 rows, and the same of the next tile is asked for.  Rows that do not exist are the last one's doubles.
template <class T>
static inline void take_block(const u8* rows, int n_rows, i64 row, i64 i, Block<T>& block) {
  for (int r = 0; r < 16; r++) {
    block.row[r] = rows + std::min(r, n_rows - 1) * row + i * T::bytes;
    for (int at = 0; at < T::bytes; at += 64) prefetch(block.row[r] + 16 * row + at);
  }
  if constexpr (by_words<T>) {
    using C = FileCodes<T>;
    static_assert(C::from >= 0 && C::from + 4 * C::words <= T::bytes);
    words_of_rows<C::from, C::words>(block.row, block.word);
  }
}

template <class T>
static inline void spread_codes(const Block<T>& block, u8* codes) {
  if constexpr (by_words<T>) {
    for (int r = 0; r < 16; r += lanes) {
      auto emit = [&](int quad, I levels) __attribute__((always_inline)) { store(codes + 64 * quad + 4 * r, levels); };
      if constexpr (HasGrid<T>)
        each_point<T>(Words{block.word, r}, emit);
      else
        FileCodes<T>::each(Words{block.word, r}, emit);
    }
  } else {
    for (int r = 0; r < 16; r++) {
      unroll<T::block / 8>([&](auto k) __attribute__((always_inline)) {
        const u64 levels = eight_levels<T>(block.row[r], k);
        store_le(codes + 128 * k + 4 * r, u32(levels));
        store_le(codes + 128 * k + 64 + 4 * r, u32(levels >> 32));
      });
    }
  }
}

// Pairs of inputs of both halves side by side (layout/r16.h), in place.
static inline void mix_group(u8* codes) {
  for (int r = 0; r < 16; r += lanes) {
    I quad[8];
    FEWBIT_UNROLL
    for (int v = 0; v < 8; v++) quad[v] = load(codes + 64 * v + 4 * r);
    FEWBIT_UNROLL
    for (int v = 0; v < 4; v++) {
      store(codes + 128 * v + 4 * r, either(both(quad[v], all32(0xffff)), left<16>(quad[v + 4])));
      store(codes + 128 * v + 64 + 4 * r, either(right<16>(quad[v]), both(quad[v + 4], all32(0xffff0000u))));
    }
  }
}

// Whether the integer factors come from words; for the others they are collected as bytes.
template <class T>
static constexpr bool subs_by_words() {
  if constexpr (by_words<T>) return requires(const Words& w) {
      FileCodes<T>::template sub<0>(w);
    };
  else
    return false;
}

template <class T>
static void spread_file(const u8* rows, int n_rows, i64 n, u8* to) {
  using S = SpreadOf<T>;
  const S s(to, n);
  constexpr int spans = T::block / S::span, subs = T::block / S::sub_inputs;
  constexpr bool bytes = S::has_sub && S::whole_subs && !subs_by_words<T>();
  const i64 blocks = n / T::block, row = blocks * T::bytes;
  auto floats = [&](i64 at, i64 k, int r) { return reinterpret_cast<f32*>(to + at) + k * 16 + r; };
  for (i64 i = 0; i < blocks; i++) {
    Block<T> block;
    take_block<T>(rows, n_rows, row, i, block);
    // Factors as they are; as floats only after the codes, as vectors loaded right behind their parts' stores wait for them.
    alignas(64) u16 d[16], dmin[16];
    alignas(64) u8 exponent[16];
    alignas(64) i8 sub[subs][16], min[subs][16];
    for (int r = 0; r < 16; r++) {
      const u8* b = block.row[r];
      if constexpr (std::is_same_v<T, MXFP4>)
        exponent[r] = b[T::exponent_at];
      else if constexpr (std::is_same_v<T, IQ1_M>)
        d[r] = T::scale_bits(b);
      else if constexpr (!std::is_same_v<T, I2_S> && !std::is_same_v<T, NVFP4>)
        d[r] = u16(u16_at(b + T::scale_at));
      if constexpr (S::mins) dmin[r] = u16(u16_at(b + T::min_at));
      if constexpr (!S::whole_subs)
        for (int g = 0; g < subs; g++) *floats(s.sub_at, i * subs + g, r) = block_sub<T>(b, g);
      if constexpr (bytes) {
        FEWBIT_UNROLL
        for (int g = 0; g < subs; g++) {
          sub[g][r] = i8(block_sub_code<T>(b, g));
          if constexpr (S::mins) min[g][r] = i8(block_min_code<T>(b, g));
        }
      }
    }
    u8* codes = to + s.codes_at + i * T::block * 16;
    spread_codes<T>(block, codes);
    if constexpr (S::mixed)
      for (int g = 0; g < T::block / 32; g++) mix_group(codes + 512 * g);
    for (int r = 0; r < 16; r += lanes) {
      F scale;
      if constexpr (std::is_same_v<T, MXFP4>)
        scale = exponent_to_f(load_u8(exponent + r));
      else if constexpr (std::is_same_v<T, I2_S> || std::is_same_v<T, NVFP4>)
        scale = all(1);
      else
        scale = mul(load_f16(d + r), all(d_factor<T>));
      for (int j = 0; j < spans; j++) store_f(floats(0, i * spans + j, r), scale);
      if constexpr (S::mins) {
        const F minus = mul(load_f16(dmin + r), all(-dmin_sign<T>));
        for (int j = 0; j < spans; j++) store_f(floats(s.dmin_at, i * spans + j, r), minus);
      }
      if constexpr (S::has_sub && S::whole_subs) {
        auto factor = [&](auto g) __attribute__((always_inline)) {
          if constexpr (bytes)
            return load_i8(sub[g] + r);
          else
            return FileCodes<T>::template sub<g>(Words{block.word, r});
        };
        unroll<subs>([&](auto g) __attribute__((always_inline)) {
          const i64 k = i * subs + g;
          if constexpr (!S::pair_subs) {
            store_f(floats(s.sub_at, k, r), to_f(factor(g)));
          } else if constexpr (!S::mixed) {
            store(floats(s.sub_at, k, r), either(both(factor(g), all32(0xffff)), left<16>(factor(g))));
          } else if constexpr (g % 2 == 0) {
            const I first = factor(g), second = factor(std::integral_constant<int, g + 1>{});
            store(floats(s.sub_at, k / 2, r), either(both(first, all32(0xffff)), left<16>(second)));
          }
          if constexpr (S::mins && bytes) store_f(floats(s.min_at, k, r), to_f(load_i8(min[g] + r)));
          if constexpr (S::mins && !bytes) store_f(floats(s.min_at, k, r), to_f(FileCodes<T>::template min<g>(Words{block.word, r})));
        });
      }
    }
  }
}

// ---- packing -------------------------------------------------------------------------------------------------------------------

// Whether a packed byte holds one code of each group of its unit, and the factors are the file's own.
template <class T>
static constexpr bool packs_planes = R16Codes<T>::subs == Subs::none&& R16Codes<T>::Map::affine&& R16Codes<T>::Codes::vectors == 8;

// As pack_tile (layout/r16.h), 16 rows at once.
template <class T>
static void pack_planes(const u8* rows, int n_rows, i64 n, u8* tile) {
  using L = R16<T>;
  constexpr int groups = L::Codes::groups, spans = T::block / L::span;
  const L l(n);
  const i64 blocks = n / T::block, row = blocks * T::bytes;
  for (i64 i = 0; i < blocks; i++) {
    Block<T> block;
    take_block<T>(rows, n_rows, row, i, block);
    alignas(64) u8 codes[T::block * 16];
    spread_codes<T>(block, codes);
    for (int g = 0; g < T::block / 32; g++) {
      const i64 k = i * (T::block / 32) + g;
      u8* unit = tile + l.codes_at + k / groups * L::unit_bytes;
      unroll<groups>([&](auto f) __attribute__((always_inline)) {
        if (k % groups != f) return;
        for (int at = 0; at < 512; at += 4 * lanes) {
          I code = load(codes + 512 * g + at);
          if constexpr (levels_signed(ByteForm<T>::largest)) code = flip(code, all32(0x80808080u));
          if constexpr (L::Map::step == 2) code = right<1>(code);
          store(unit + at, f == 0 ? code : either(load(unit + at), left<8 / groups * f>(code)));
        }
      });
    }
    for (int r = 0; r < n_rows; r++) {
      for (int s = 0; s < spans; s++) {
        u8* d = tile + l.d_at + ((i * spans + s) * 16 + r) * 2;
        if constexpr (std::is_same_v<T, I2_S>)
          store_le(d, u16(0x3c00));
        else
          store_le(d, u16(u16_at(block.row[r] + T::scale_at)));
        if constexpr (L::mins) store_le(tile + l.dmin_at + ((i * spans + s) * 16 + r) * 2, u16(u16_at(block.row[r] + T::min_at)));
      }
    }
  }
}
