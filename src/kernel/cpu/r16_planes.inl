// The codes of formats without a grid, for all rows of a tile at once: word t of 16 rows' blocks becomes a vector, lane r for row r, and
// shifts and masks make the quads of levels of all rows from it.  Included by r16_file.inl.

// Vector of `lanes` rows: word t of their blocks.
struct Words {
  const u32 (*word)[16];
  int row;
  FEWBIT_INLINE I operator()(int t) const { return load(word[t] + row); }
};

// Bit j of the low four bits to bit `to` of byte j.
template <int to>
static inline I bits_to_bytes(I a) {
  const I two = either(a, left<14>(a));
  return both(left<to>(either(two, left<7>(two))), all32(0x01010101u << to));
}

// from, words: which bytes of a block become words.  each(w, emit): emit(number of a quad, its four levels + zero).  sub<g>(w), min<g>(w):
// the integer factors of group g; where they are missing, block_sub_code and block_min_code are asked row by row.
template <class T>
struct FileCodes;

// Fields of a byte, neighbours in neighbouring bytes: T says where they belong.  The codes are behind `first` words.
template <class T, class Map, int first = 0>
struct PlaneCodes {
  static constexpr int from = T::codes_at - 4 * first, words = first + T::words;
  template <class Emit>
  static FEWBIT_INLINE void each(const Words& w, Emit emit) {
    static_assert(T::step == 1);
    constexpr int bits = 8 / T::planes;
    unroll<T::words>([&](auto t) __attribute__((always_inline)) {
      const I word = w(first + t);
      unroll<T::planes>([&](auto p) __attribute__((always_inline)) {
        const I code = both(right<p * bits>(word), all32(0x01010101u * ((1 << bits) - 1)));
        if constexpr (Map::affine)
          emit(T::at(t, p) / 4, code);
        else
          emit(T::at(t, p) / 4, look_up(level_table<Map>(), code));
      });
    });
  }
};
template <class T>
requires(T::planes > 1 && T::step == 1) struct FileCodes<T> : PlaneCodes<T, typename R16Codes<T>::Map> {
};
template <>
struct FileCodes<NVFP4> : PlaneCodes<NVFP4, Table<Fp4Levels>> {};
template <>
struct FileCodes<Q2_K> : PlaneCodes<Q2_K, Affine<1, 0, 4>, 4> {
  static_assert(Q2_K::scales_at == from);
  template <int g>
  static I sub(const Words& w) {
    return both(right<g % 4 * 8>(w(g / 4)), all32(15));
  }
  template <int g>
  static I min(const Words& w) {
    return both(right<g % 4 * 8 + 4>(w(g / 4)), all32(15));
  }
};
template <>
struct FileCodes<IQ4_XS> : PlaneCodes<IQ4_XS, Table<Iq4Levels>, 2> {
  static_assert(IQ4_XS::high_at == from + 2 && IQ4_XS::scales_at == from + 4);
  template <int g>
  static I sub(const Words& w) {
    return add32(either(both(right<4 * g>(w(1)), all32(15)), both(moved<16 + 2 * g, 4>(w(0)), all32(48))), all32(u32(-32)));
  }
};
// Six bits of a scale and of a minimum per group, in the first three words (k4_scale, k4_min).
struct SixBits {
  template <int g>
  static I sub(const Words& w) {
    if constexpr (g < 4)
      return both(right<8 * g>(w(0)), all32(63));
    else
      return either(both(right<8 * (g - 4)>(w(2)), all32(15)), both(moved<8 * (g - 4) + 6, 4>(w(0)), all32(48)));
  }
  template <int g>
  static I min(const Words& w) {
    if constexpr (g < 4)
      return both(right<8 * g>(w(1)), all32(63));
    else
      return either(both(right<8 * (g - 4) + 4>(w(2)), all32(15)), both(moved<8 * (g - 4) + 6, 4>(w(1)), all32(48)));
  }
};
template <>
struct FileCodes<Q4_K> : PlaneCodes<Q4_K, Affine<1, 0, 16>, 3>, SixBits {
  static_assert(Q4_K::scales_at == from);
};

// Four codes of a byte are neighbours.
template <class T>
requires(T::planes == 4 && T::step == 4) struct FileCodes<T> {
  static constexpr int from = T::codes_at, words = T::words;
  template <class Emit>
  static FEWBIT_INLINE void each(const Words& w, Emit emit) {
    unroll<T::words>([&](auto t) __attribute__((always_inline)) {
      unroll<4>([&](auto j) __attribute__((always_inline)) {
        const I a = both(right<8 * j>(w(t)), all32(0xff)), two = either(a, left<12>(a));
        emit(4 * t + j, both(either(two, left<6>(two)), all32(0x03030303u)));
      });
    });
  }
};
template <>
struct FileCodes<Q1_0> {
  static constexpr int from = Q1_0::codes_at, words = 4;
  template <class Emit>
  static FEWBIT_INLINE void each(const Words& w, Emit emit) {
    unroll<32>([&](auto v) __attribute__((always_inline)) { emit(v, bits_to_bytes<1>(both(right<v % 8 * 4>(w(v / 8)), all32(15)))); });
  }
};
template <>
struct FileCodes<Q8_0> {
  static constexpr int from = Q8_0::codes_at, words = 8;
  template <class Emit>
  static FEWBIT_INLINE void each(const Words& w, Emit emit) {
    unroll<8>([&](auto t) __attribute__((always_inline)) { emit(t, levels_signed(255) ? w(t) : flip(w(t), all32(0x80808080u))); });
  }
};
// Nibbles and a word of fifth bits.
template <class T>
struct FifthBits {
  static constexpr int from = T::high_at, words = 5;
  static_assert(T::codes_at == from + 4);
  template <class Emit>
  static FEWBIT_INLINE void each(const Words& w, Emit emit) {
    unroll<8>([&](auto v) __attribute__((always_inline)) {
      const I low = both(right<v / 4 * 4>(w(1 + v % 4)), all32(0x0f0f0f0fu));
      emit(v, either(low, bits_to_bytes<4>(both(right<4 * v>(w(0)), all32(15)))));
    });
  }
};
template <>
struct FileCodes<Q5_0> : FifthBits<Q5_0> {};
template <>
struct FileCodes<Q5_1> : FifthBits<Q5_1> {};
template <>
struct FileCodes<Q5_K> : SixBits {
  static constexpr int from = Q5_K::scales_at, words = 43;
  static_assert(Q5_K::high_at == from + 12 && Q5_K::codes_at == from + 44);
  template <class Emit>
  static FEWBIT_INLINE void each(const Words& w, Emit emit) {
    unroll<64>([&](auto v) __attribute__((always_inline)) {
      const I low = both(right<v / 8 % 2 * 4>(w(11 + v / 16 * 8 + v % 8)), all32(0x0f0f0f0fu));
      emit(v, either(low, both(moved<v / 8, 4>(w(3 + v % 8)), all32(0x10101010u))));
    });
  }
};
template <>
struct FileCodes<Q3_K> {
  static constexpr int from = Q3_K::high_at, words = 27;
  static_assert(Q3_K::codes_at == from + 32 && Q3_K::scales_at == from + 96);
  template <class Emit>
  static FEWBIT_INLINE void each(const Words& w, Emit emit) {
    unroll<64>([&](auto v) __attribute__((always_inline)) {
      const I low = both(right<v / 8 % 4 * 2>(w(8 + v / 32 * 8 + v % 8)), all32(0x03030303u));
      emit(v, either(low, both(moved<v / 8, 2>(w(v % 8)), all32(0x04040404u))));
    });
  }
  template <int g>
  static I sub(const Words& w) {
    const I low = both(right<g % 4 * 8 + g / 8 * 4>(w(24 + g % 8 / 4)), all32(15));
    return add32(either(low, both(moved<g % 4 * 8 + g / 4 * 2, 4>(w(26)), all32(48))), all32(u32(-32)));
  }
};
template <>
struct FileCodes<Q6_K> {
  static constexpr int from = Q6_K::codes_at, words = 52;
  static_assert(Q6_K::high_at == from + 128 && Q6_K::scales_at == from + 192);
  template <class Emit>
  static FEWBIT_INLINE void each(const Words& w, Emit emit) {
    unroll<64>([&](auto v) __attribute__((always_inline)) {
      const I low = both(right<v / 16 % 2 * 4>(w(v / 32 * 16 + v % 16)), all32(0x0f0f0f0fu));
      emit(v, either(low, both(moved<v / 8 % 4 * 2, 4>(w(32 + v / 32 * 8 + v % 8)), all32(0x30303030u))));
    });
  }
  template <int g>
  static I sub(const Words& w) {  // signed bytes
    return add32(flip(both(right<g % 4 * 8>(w(48 + g / 4)), all32(255)), all32(128)), all32(u32(-128)));
  }
};

// Digits of base 3, the highest first: each is what three times the rest carries out of eight bits.  Two bytes of a word at a time.
struct Trits {
  I even, odd;
  explicit Trits(I word) : even(both(word, all32(0x00ff00ff))), odd(both(right<8>(word), all32(0x00ff00ff))) {}
  FEWBIT_INLINE I next() {
    even = add32(even, left<1>(even));
    odd = add32(odd, left<1>(odd));
    const I digits = either(both(right<8>(even), all32(0x00030003)), both(odd, all32(0x03000300)));
    even = both(even, all32(0x00ff00ff));
    odd = both(odd, all32(0x00ff00ff));
    return digits;
  }
};
template <>
struct FileCodes<TQ1_0> {
  static constexpr int from = TQ1_0::codes_at, words = 13;
  template <class Emit>
  static FEWBIT_INLINE void each(const Words& w, Emit emit) {
    unroll<13>([&](auto t) __attribute__((always_inline)) {
      Trits digits(w(t));
      unroll<t == 12 ? 4 : 5>([&](auto d) __attribute__((always_inline)) {
        emit(t < 8 ? 8 * d + t : t < 12 ? 40 + 4 * d + (t - 8) : 60 + d, digits.next());
      });
    });
  }
};
template <>
struct FileCodes<PTQ1_0> {  // the last word is two bytes of codes and the scale
  static constexpr int from = PTQ1_0::codes_at, words = 7;
  template <class Emit>
  static FEWBIT_INLINE void each(const Words& w, Emit emit) {
    unroll<6>([&](auto t) __attribute__((always_inline)) {
      Trits digits(w(t));
      unroll<5>([&](auto d) __attribute__((always_inline)) { emit(t < 4 ? 4 * d + t : 20 + 2 * d + (t - 4), digits.next()); });
    });
    Trits digits(w(6));
    unroll<2>([&](auto half) __attribute__((always_inline)) {
      const I a = both(digits.next(), all32(0xffff));
      emit(30 + half, either(a, left<16>(digits.next())));
    });
  }
};
