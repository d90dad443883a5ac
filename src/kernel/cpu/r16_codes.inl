// The unsigned codes of 4 neighbouring inputs (a quad) of a row vector, from the packed layouts of layout/r16.h: one struct Code per way
// that codes lie.  Included by r16.inl.
//
//   get<f, v>(unit)   quad v of group f, ready to be multiplied
//   shift(f)          sums of group f come out 2^shift times too large: fields stay where they lie if they may
//   largest           the largest byte that get gives

template <class C, class Map>
struct Code;

// Bits [at, at + n) of each byte moved to [to, to + n); other bits are rubbish.
template <int at, int to>
static inline I moved(I a) {
  if constexpr (at < to)
    return left<to - at>(a);
  else
    return right<at - to>(a);
}

template <class Map>
struct Code<Bits2, Map> {
  static constexpr bool in_place = Map::step == 1;           // step 8: all fields move to bit 3
  static constexpr int together = field_limit == 4 ? 2 : 1;  // the upper fields share a shift
  static constexpr int low(int f) { return in_place ? 2 * f % field_limit : 3; }
  static constexpr int shift(int f) { return in_place ? low(f) : 0; }
  static constexpr int largest = in_place ? 3 << (field_limit - 2) : 16;
  template <int f, int v>
  static inline I get(const u8* unit) {
    return both(moved<2 * f, low(f)>(load(unit + 64 * v)), all32(0x03030303u << low(f)));
  }
};
template <class Map>
struct Code<Bits1, Map> {  // level = 2 c - 1: bit b counts 2^b = 2 * 2^(b - 1); bit 0 is doubled
  static_assert(Map::step == 2);
  static constexpr int low(int f) { return f % field_limit; }
  static constexpr int shift(int f) { return low(f) == 0 ? 0 : low(f) - 1; }
  static constexpr int largest = 1 << (field_limit - 1);
  template <int f, int v>
  static inline I get(const u8* unit) {
    const I bit = both(right<f - low(f)>(load(unit + 64 * v)), all32(0x01010101u << low(f)));
    if constexpr (low(f) == 0)
      return add8(bit, bit);
    else
      return bit;
  }
};
// What the kernel multiplies for each of 16 codes.
template <class Map>
static inline I level_table() {
  alignas(16) i8 t[16];
  for (int c = 0; c < 16; c++) t[c] = i8(Map::level(c) + (levels_signed(Map::largest) ? 0 : Map::zero));
  return table16(t);
}
template <class Map>
struct Code<Nibble, Map> {
  static constexpr bool in_place = Map::affine && field_limit == 8;
  static constexpr int shift(int f) { return in_place ? 4 * f : 0; }
  static constexpr int largest = in_place ? 240 : Map::largest;
  template <int f, int v>
  static inline I get(const u8* unit) {
    const I w = load(unit + 64 * v);
    if constexpr (in_place)
      return both(w, all32(0x0f0f0f0fu << (4 * f)));
    else {
      const I nibble = right<4 * f>(w);
      if constexpr (Map::affine)
        return both(nibble, all32(0x0f0f0f0fu));
      else
        return look_up(level_table<Map>(), look_up_needs_mask ? both(nibble, all32(0x0f0f0f0fu)) : nibble);
    }
  }
};
template <class Map>
struct Code<Nibble1, Map> {
  static constexpr int shift(int) { return 0; }
  static constexpr int largest = Map::largest;
  template <int f, int v>
  static inline I get(const u8* unit) {
    const I low = right<4 * f>(load(unit + 64 * v)), high = moved<v, 4>(load(unit + 64 * (8 + f)));
    return both(pick(all32(0x0f0f0f0fu), low, high), all32(0x1f1f1f1fu));
  }
};
template <class Map>
struct Code<Nibble2, Map> {
  static constexpr int shift(int) { return 0; }
  static constexpr int largest = Map::largest;
  template <int f, int v>
  static inline I get(const u8* unit) {
    const I low = right<4 * f>(load(unit + 64 * v)), high = moved<2 * (v % 4), 4>(load(unit + 64 * (8 + 2 * f + v / 4)));
    return both(pick(all32(0x0f0f0f0fu), low, high), all32(0x3f3f3f3fu));
  }
};
// Bits 0 and 1 of the bytes of `low`, bit 2 of those of `high`, nothing else.
static inline I joined(I low, I high) {
  if constexpr (lanes == 8)  // without an instruction for pick
    return either(both(low, all32(0x03030303u)), both(high, all32(0x04040404u)));
  else
    return both(pick(all32(0x03030303u), low, high), all32(0x07070707u));
}
#if FEWBIT_SET == FEWBIT_AVX512_VNNI
// vpermb looks at six bits of the index: two of them are the low bits of the code where they lie (bit p), a third the high bit where it
// lies (bit b), and the table repeats itself over the other three.
template <class Map, int p, int b>
struct Table64 {
  i8 t[64];
  constexpr Table64() : t() {
    for (int i = 0; i < 64; i++) t[i] = i8(Map::level((i >> p & 3) | (i >> b & 1) << 2) + Map::zero);
  }
};
template <class Map, int p, int b>
alignas(64) static constexpr Table64<Map, p, b> table64{};

// Bits 0..2 (p = 0) or 3..5 (p = 3) of w; of low and high, bits 6, 7 and bit `bit`.
template <class Map, int p>
static inline I look_up_field(I w) {
  return _mm512_permutexvar_epi8(w, load(table64<Map, p, p + 2>.t));
}
template <class Map, int bit>
static inline I look_up_split(I low, I high) {
  return _mm512_permutexvar_epi8(pick(all32(0x0c0c0c0cu), right<4>(low), right<bit>(high)), load(table64<Map, 2, 0>.t));
}

// By how much to move the high bit of quad v so that it lies in the index beside the low bits at p.
static constexpr int way_to_index(int bit, int p) {
  for (int by : {0, 2, -2, 4, -4}) {
    const int to = bit + by;
    if (to >= 0 && to < 6 && to != p && to != p + 1) return by;
  }
  return 99;
}
template <class Map, int f, int v>
static inline I three_bits(I w, I high) {
  constexpr int p = f < 3 ? 2 * f : 4, bit = Bits2s::third(v), by = way_to_index(bit, p);
  const I index = pick(all32(0x03030303u << p), moved<2 * f, p>(w), moved<bit, bit + by>(high));
  return _mm512_permutexvar_epi8(index, load(table64<Map, p, bit + by>.t));
}
#else
template <class Map, int p>
static inline I look_up_field(I w) {
  return look_up(level_table<Map>(), both(right<p>(w), all32(0x07070707u)));
}
template <class Map, int bit>
static inline I look_up_split(I low, I high) {
  return look_up(level_table<Map>(), joined(right<6>(low), right<bit - 2>(high)));
}
template <class Map, int f, int v>
static inline I three_bits(I w, I high) {
  if constexpr (lanes == 8) {  // vpshufb ignores bits 4..6: one mask serves the quad whose bit lies 4 higher as well
    const I two = both(moved<Bits2s::third(v) % 4, 2>(high), all32(0x44444444u));
    return look_up(level_table<Map>(), either(both(right<2 * f>(w), all32(0x03030303u)), right<v % 2 * 4>(two)));
  }
  return look_up(level_table<Map>(), joined(right<2 * f>(w), moved<Bits2s::third(v), 2>(high)));
}
#endif
template <class Map>
struct Code<Bits3, Map> {
  static constexpr int shift(int f) { return Map::affine && f < 6 ? f % 2 * 3 : 0; }
  static constexpr int largest = Map::affine ? Map::largest << 3 : Map::largest;
  template <int f, int v>
  static inline I get(const u8* unit) {
    if constexpr (f < 6) {
      const I w = load(unit + 64 * (f / 2 * 8 + v));
      if constexpr (Map::affine)
        return both(w, all32(0x07070707u << shift(f)));
      else
        return look_up_field<Map, f % 2 * 3>(w);
    } else {
      const I low = load(unit + 64 * ((f - 6) * 8 + v)), high = load(unit + 64 * (16 + v));
      if constexpr (Map::affine)
        return joined(right<6>(low), right<f - 2>(high));
      else
        return look_up_split<Map, f>(low, high);
    }
  }
};
template <class Map>
struct Code<Bits2s, Map> {
  static constexpr int shift(int) { return 0; }
  static constexpr int largest = Map::largest;
  template <int f, int v>
  static inline I get(const u8* unit) {
    const I x = both(load(unit + 64 * (8 + f)), all32(Bits2s::kept));  // as Bits2s::restored
    I y = flip(x, right<16>(x));
    y = flip(y, right<8>(y));
    y = flip(y, right<4>(y));
    return three_bits<Map, f, v>(load(unit + 64 * v), either(x, left<28>(y)));
  }
};
template <class Map>
struct Code<Bytes, Map> {
  static constexpr int shift(int) { return 0; }
  static constexpr int largest = Map::largest;
  template <int f, int v>
  static inline I get(const u8* unit) {
    const I w = load(unit + 64 * v);
    if constexpr (levels_signed(largest))
      return flip(w, all32(0x80808080u));
    else
      return w;
  }
};
