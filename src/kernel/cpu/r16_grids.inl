// The levels of formats with a grid: looked up row by row, eight at a time, or with AVX-512 for all rows at once.  Included by
// r16_file.inl.

// 0xff in byte j where bit j is set; even: of 7-bit sign codes, whose eighth sign makes the number of negatives even.
template <bool even>
inline constexpr auto sign_masks = [] {
  std::array<u64, even ? 128 : 256> m{};
  for (u32 code = 0; code < m.size(); code++) {
    u32 signs = code;
    if (even)
      for (int j = 0; j < 7; j++) signs ^= (code >> j & 1) << 7;
    for (int j = 0; j < 8; j++)
      if (signs >> j & 1) m[code] |= u64(0xff) << (8 * j);
  }
  return m;
}();

// Magnitudes with signs, + zero: neither sum nor difference leaves its byte.
template <class T>
FEWBIT_INLINE u64 signed_levels(u64 magnitudes, u64 minus) {
  return magnitudes + 0x0101010101010101ull * u64(ByteForm<T>::zero) - 2 * (magnitudes & minus);
}
// 8 t +- 1 of ternary bytes t, + 9.
FEWBIT_INLINE u64 shifted_levels(u64 ternary, bool minus) {
  constexpr u64 ones = 0x0101010101010101ull;
  return (((ternary & 3 * ones) + ones) & 3 * ones) * 8 + 2 * ones * u64(!minus);
}
// Levels + zero of eight inputs.
template <class T>
FEWBIT_INLINE u64 eight_levels(BytePtr b, int k) {
  const typename T::Grid* grid = T::host_grid();
  if constexpr (std::is_same_v<T, IQ1_S> || std::is_same_v<T, IQ1_M>) {
    return shifted_levels(grid[T::index(b, k)], T::minus(b, k));
  } else {
    u64 minus, magnitudes;
    if constexpr (std::is_same_v<T, IQ2_XS>)
      minus = sign_masks<true>[b[T::codes_at + 2 * k + 1] >> 1];
    else if constexpr (std::is_same_v<T, IQ2_XXS>)
      minus = sign_masks<true>[u32_at(b + T::codes_at + 8 * (k / 4) + 4) >> (7 * (k % 4)) & 127];
    else if constexpr (std::is_same_v<T, IQ3_XXS>)
      minus = sign_masks<true>[u32_at(b + T::signs_at + 4 * (k / 4)) >> (7 * (k % 4)) & 127];
    else
      minus = sign_masks<false>[T::signs(b, k)];
    if constexpr (sizeof(typename T::Grid) == 8)
      magnitudes = grid[T::index(b, k)];
    else
      magnitudes = grid[T::index(b, 2 * k)] | u64(grid[T::index(b, 2 * k + 1)]) << 32;
    return signed_levels<T>(magnitudes, minus);
  }
}

#if FEWBIT_SET == FEWBIT_AVX512_VNNI && !defined(FEWBIT_EMULATED)
// With AVX-512 all rows are looked up at once: 16 rows' words, as above.
//   index<k>(w), signs<k>(w)   of eight k: the point of the grid, and its sign bits (a byte); index<k> counts fours where points are fours
//   plus<k>(w)                 of IQ1: 2 in all bytes, or 0 where the shift is negative
static constexpr bool grids_by_rows = true;
template <int byte>
static inline I byte_of(I a) {
  return both(right<8 * byte>(a), all32(255));
}
static inline I odd_number(I s) { return either(left<1>(s), all32(1)); }
static inline I even_signs(I code) {
  I p = flip(code, right<4>(code));
  p = flip(p, right<2>(p));
  return either(code, left<7>(both(flip(p, right<1>(p)), all32(1))));
}
template <>
struct FileCodes<IQ2_XXS> {
  static constexpr int from = IQ2_XXS::codes_at, words = 16;
  template <int k>
  static I index(const Words& w) {
    return byte_of<k % 4>(w(k / 4 * 2));
  }
  template <int k>
  static I signs(const Words& w) {
    return even_signs(both(right<k % 4 * 7>(w(k / 4 * 2 + 1)), all32(127)));
  }
  template <int g>
  static I sub(const Words& w) {
    return odd_number(right<28>(w(2 * g + 1)));
  }
};
template <>
struct FileCodes<IQ2_XS> {
  static constexpr int from = IQ2_XS::codes_at, words = 18;
  template <int k>
  static I index(const Words& w) {
    return both(right<k % 2 * 16>(w(k / 2)), all32(511));
  }
  template <int k>
  static I signs(const Words& w) {
    return even_signs(both(right<k % 2 * 16 + 9>(w(k / 2)), all32(127)));
  }
  template <int g>
  static I sub(const Words& w) {
    return odd_number(both(right<g % 8 * 4>(w(16 + g / 8)), all32(15)));
  }
};
template <>
struct FileCodes<IQ2_S> {
  static constexpr int from = IQ2_S::codes_at, words = 20;
  static_assert(IQ2_S::signs_at == from + 32 && IQ2_S::high_at == from + 64);
  template <int k>
  static I index(const Words& w) {
    return either(byte_of<k % 4>(w(k / 4)), both(moved<k % 16 * 2, 8>(w(16 + k / 16)), all32(0x300)));
  }
  template <int k>
  static I signs(const Words& w) {
    return byte_of<k % 4>(w(8 + k / 4));
  }
  template <int g>
  static I sub(const Words& w) {
    return odd_number(both(right<g % 8 * 4>(w(18 + g / 8)), all32(15)));
  }
};
template <>
struct FileCodes<IQ3_XXS> {
  static constexpr int from = IQ3_XXS::codes_at, words = 24;
  static_assert(IQ3_XXS::signs_at == from + 64);
  template <int k>
  static I index(const Words& w) {
    return byte_of<k % 4>(w(k / 4));
  }
  template <int k>
  static I signs(const Words& w) {
    return even_signs(both(right<k % 4 * 7>(w(16 + k / 4)), all32(127)));
  }
  template <int g>
  static I sub(const Words& w) {
    return odd_number(right<28>(w(16 + g)));
  }
};
template <>
struct FileCodes<IQ3_S> {
  static constexpr int from = IQ3_S::codes_at, words = 27;
  static_assert(IQ3_S::high_at == from + 64 && IQ3_S::signs_at == from + 72);
  template <int k>
  static I index(const Words& w) {
    return either(byte_of<k % 4>(w(k / 4)), both(moved<k % 32, 8>(w(16 + k / 32)), all32(256)));
  }
  template <int k>
  static I signs(const Words& w) {
    return byte_of<k % 4>(w(18 + k / 4));
  }
  template <int g>
  static I sub(const Words& w) {
    return odd_number(both(right<4 * g>(w(26)), all32(15)));
  }
};
template <>
struct FileCodes<IQ1_S> {
  static constexpr int from = IQ1_S::codes_at, words = 12;
  static_assert(IQ1_S::high_at == from + 32);
  template <int k>
  static I index(const Words& w) {
    return either(byte_of<k % 4>(w(k / 4)), both(moved<k / 4 % 2 * 16 + k % 4 * 3, 8>(w(8 + k / 8)), all32(0x700)));
  }
  template <int k>
  static I plus(const Words& w) {
    return in_all_bytes(flip(both(moved<k / 4 % 2 * 16 + 15, 1>(w(8 + k / 8)), all32(2)), all32(2)));
  }
  template <int g>
  static I sub(const Words& w) {
    return odd_number(both(right<g % 2 * 16 + 12>(w(8 + g / 2)), all32(7)));
  }
};
template <>
struct FileCodes<IQ1_M> {
  static constexpr int from = IQ1_M::codes_at, words = 14;
  static_assert(IQ1_M::high_at == from + 32);
  template <int k>
  static I index(const Words& w) {
    return either(byte_of<k % 4>(w(k / 4)), both(moved<k % 8 * 4, 8>(w(8 + k / 8)), all32(0x700)));
  }
  template <int k>
  static I plus(const Words& w) {
    return in_all_bytes(flip(both(moved<k % 8 * 4 + 3, 1>(w(8 + k / 8)), all32(2)), all32(2)));
  }
  template <int g>
  static I sub(const Words& w) {
    return odd_number(both(right<g / 4 % 2 * 16 + g % 4 * 3>(w(12 + g / 8)), all32(7)));
  }
};

template <class T, class Emit>
static FEWBIT_INLINE void each_point(const Words& w, Emit emit) {
  using C = FileCodes<T>;
  const typename T::Grid* grid = T::host_grid();
  const I none = _mm512_setzero_si512(), zero_point = all32(0x01010101u * u32(ByteForm<T>::zero));
  unroll<T::block / 8>([&](auto k) __attribute__((always_inline)) {
    if constexpr (sizeof(typename T::Grid) == 4) {
      const I signs = C::template signs<k>(w);
      unroll<2>([&](auto h) __attribute__((always_inline)) {
        const I four = _mm512_i32gather_epi32(C::template index<2 * k + h>(w), grid, 4);
        const __mmask64 minus = _mm512_movepi8_mask(bits_to_bytes<7>(both(right<4 * h>(signs), all32(15))));
        emit(2 * k + h, add8(zero_point, _mm512_mask_sub_epi8(four, minus, none, four)));
      });
    } else {
      const I index = C::template index<k>(w);
      I eight[2] = {_mm512_i32gather_epi64(_mm512_castsi512_si256(index), grid, 8),
                    _mm512_i32gather_epi64(_mm512_extracti64x4_epi64(index, 1), grid, 8)};
      I more = zero_point;
      if constexpr (requires { C::template plus<0>(w); }) {
        for (I& e : eight) e = left<3>(add8(e, all32(0x01010101u)));
        more = C::template plus<k>(w);
      } else {
        const __m128i signs = _mm512_cvtepi32_epi8(C::template signs<k>(w));
        const __mmask64 minus[2] = {__mmask64(_mm_cvtsi128_si64(signs)), __mmask64(_mm_extract_epi64(signs, 1))};
        for (int i = 0; i < 2; i++) eight[i] = _mm512_mask_sub_epi8(eight[i], minus[i], none, eight[i]);
      }
      const I even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30), odd = add32(even, all32(1));
      emit(2 * k, add8(more, _mm512_permutex2var_epi32(eight[0], even, eight[1])));
      emit(2 * k + 1, add8(more, _mm512_permutex2var_epi32(eight[0], odd, eight[1])));
    }
  });
}
#else
static constexpr bool grids_by_rows = false;
template <class T, class Emit>
static void each_point(const Words&, Emit);
#endif
