// y[r][c] = sum over K of w[r] x[c] for tiles of 16 rows in layout R16 (layout/r16.h): 1..8 columns straight from the packed codes,
// and wider panels from codes that were spread to bytes once per tile.
//
// Float order: layout/integer_form.h, one accumulator per row and column.  The integer sums start at -zero * (sum of q), so raw codes
// are multiplied and the zero point costs nothing.  Included inside a namespace per set, after simd.h.

template <int n, class Fn>
static inline __attribute__((always_inline)) void unroll(Fn&& fn) {
  [&]<int... i>(std::integer_sequence<int, i...>) __attribute__((always_inline)) { (fn(std::integral_constant<int, i>{}), ...); }
  (std::make_integer_sequence<int, n>{});
}

#if defined(__clang__)
#define FEWBIT_UNROLL _Pragma("clang loop unroll(full)")
#else
#define FEWBIT_UNROLL _Pragma("GCC unroll 16")
#endif

// ---- codes of one quad of one group --------------------------------------------------------------------------------------------

// shift(f): sums of group f come out 2^shift times too large.
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
  static constexpr bool in_place = Map::step == 1;  // step 8: all fields move to bit 3
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
  constexpr int p = f < 3 ? 2 * f : 4, bit = Bits2x1::third(v), by = way_to_index(bit, p);
  const I index = pick(all32(0x03030303u << p), moved<2 * f, p>(w), moved<bit, bit + by>(high));
  return _mm512_permutexvar_epi8(index, load(table64<Map, p, bit + by>.t));
}
#else
template <class Map, int f, int v>
static inline I three_bits(I w, I high) {
  const I code = both(pick(all32(0x03030303u), right<2 * f>(w), moved<Bits2x1::third(v), 2>(high)), all32(0x07070707u));
  if constexpr (Map::affine)
    return code;
  else
    return look_up(level_table<Map>(), code);
}
#endif
template <class Map>
struct Code<Bits2x1, Map> {
  static constexpr int shift(int) { return 0; }
  static constexpr int largest = Map::largest;
  template <int f, int v>
  static inline I get(const u8* unit) {
    return three_bits<Map, f, v>(load(unit + 64 * v), load(unit + 64 * (8 + f)));
  }
};
template <class Map>
struct Code<Bits2s, Map> : Code<Bits2x1, Map> {
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

// ---- where factors come from ---------------------------------------------------------------------------------------------------

// A packed tile.  Formats that agree in all of this share their kernels.
template <class Codes_, class Map_, Subs subs_, int span_, bool halves_, bool mins_, bool byte_d_, int d_shift, bool min_added>
struct PackedTile : TileArrays<Codes_, subs_, span_, halves_, mins_, byte_d_> {
  using L = TileArrays<Codes_, subs_, span_, halves_, mins_, byte_d_>;
  using C = Code<Codes_, Map_>;
  static constexpr int groups = Codes_::groups;
  static constexpr Subs subs = subs_;
  static constexpr bool has_sub = subs != Subs::none, shifted = subs == Subs::shifted, eighths = subs == Subs::eighths;
  static constexpr int largest = C::largest;
  static constexpr int zero_point = levels_signed(largest) ? 0 : Map_::zero;
  static constexpr int shift(int f) { return C::shift(f); }
  const u8* tile;
  PackedTile(const u8* t, i64 n) : L(n), tile(t) {}

  template <int f, int v>
  static inline I code(const u8* u) {
    return C::template get<f, v>(u);
  }
  F d(i64 s, int r) const {
    if constexpr (byte_d_) {
      return exponent_to_f(load_u8(tile + L::d_at + s * 16 + r));
    } else {
      const F v = load_f16(tile + L::d_at + (s * 16 + r) * 2);
      if constexpr (d_shift != 0)
        return mul(v, all(1.0f / f32(1 << d_shift)));
      else
        return v;
    }
  }
  F minus_dmin(i64 s, int r) const {
    const F v = load_f16(tile + L::dmin_at + (s * 16 + r) * 2);
    if constexpr (min_added)
      return v;
    else
      return mul(v, all(-1.0f));
  }
  // Factor of group (or half) k, whose parity is known.
  template <int parity>
  F sub(i64 k, int r) const {
    if constexpr (subs == Subs::bytes) return to_f(load_i8(tile + L::sub_at + k * 16 + r));
    if constexpr (subs == Subs::odd || eighths) {
      const I z = load_u8(tile + L::sub_at + k / 2 * 16 + r);
      return parity ? odd_high(z) : odd_low(z);
    }
    if constexpr (shifted) return mul(odd_of(nibble<parity>(k, r, 7)), all(8));
    if constexpr (subs == Subs::odd_top) {
      const u8* word = tile + L::codes_at + k / groups * L::unit_bytes + 64 * (8 + k % groups) + 4 * r;
      return odd_of(right<28>(load(word)));
    }
    if constexpr (subs == Subs::two) return to_f(both(load_u8(tile + L::sub_at + k * 16 + r), all32(15)));
  }
  template <int parity>
  I nibble(i64 k, int r, u32 mask) const {
    return both(right<4 * parity>(load_u8(tile + L::sub_at + k / 2 * 16 + r)), all32(mask));
  }
  // shifted: what the sum of the activations counts, -(2 s + 1) or 2 s + 1.
  template <int parity>
  F sum_factor(i64 k, int r) const {
    const I z = nibble<parity>(k, r, 15);
    return negated_where(odd_of(both(z, all32(7))), both(left<28>(z), all32(0x80000000u)));
  }
  // eighths: bit 0 (16) of a row's lane: whether the first (last) 8 inputs of half h are shifted down.
  I minus_bits(i64 h, int r) const { return both(right_by(load(tile + L::min_at + h / 16 * 64 + 4 * r), int(h % 16)), all32(0x00010001u)); }
  F min(i64 k, int r) const {
    if constexpr (subs == Subs::two)
      return to_f(right<4>(load_u8(tile + L::sub_at + k * 16 + r)));
    else if constexpr (subs == Subs::bytes)
      return to_f(load_i8(tile + L::min_at + k * 16 + r));
    else
      return all(1);
  }
};
template <class T>
using Packed = PackedTile<typename R16Codes<T>::Codes, typename R16Codes<T>::Map, R16Codes<T>::subs, span_of<T>, halves_differ<T>,
                          has_min<T>, std::is_same_v<T, MXFP4>,
                          d_factor<T> == 1.0f    ? 0
                          : d_factor<T> == 0.25f ? 2
                                                 : 3,
                          (dmin_sign<T> < 0)>;

// A tile spread out: factors as floats, levels + zero as bytes.  The shape is all that the kernel sees, so formats share it.
template <int span_, bool halves_, bool mins_, bool has_sub_, int largest_, bool has_zero>
struct Spread {
  static constexpr int groups = 1, unit = 32, unit_bytes = 512;
  static constexpr int span = span_, block = span;
  static constexpr bool halves = halves_, mins = mins_, has_sub = has_sub_, shifted = false, eighths = false;
  static constexpr int sub_inputs = halves ? 16 : 32;
  static constexpr int largest = largest_;
  static constexpr bool zero_point = has_zero;
  static constexpr int shift(int) { return 0; }
  i64 blocks, dmin_at, sub_at, min_at, codes_at, bytes;
  const u8* tile;
  Spread(const u8* t, i64 n) : blocks(div_up(n, block)), tile(t) {
    const i64 subs = blocks * block / sub_inputs;
    dmin_at = blocks * 64;
    sub_at = dmin_at + (mins ? blocks * 64 : 0);
    min_at = sub_at + (has_sub ? subs * 64 : 0);
    codes_at = min_at + (mins && has_sub ? subs * 64 : 0);
    bytes = codes_at + blocks * block * 16;
  }
  const f32* floats(i64 at, i64 k, int r) const { return reinterpret_cast<const f32*>(tile + at) + k * 16 + r; }
  template <int, int v>
  static inline I code(const u8* u) {
    return load(u + 64 * v);
  }
  F d(i64 s, int r) const { return load_f(floats(0, s, r)); }
  F minus_dmin(i64 s, int r) const { return load_f(floats(dmin_at, s, r)); }
  template <int>
  F sub(i64 k, int r) const {
    return load_f(floats(sub_at, k, r));
  }
  F min(i64 k, int r) const {
    if constexpr (has_sub)
      return load_f(floats(min_at, k, r));
    else
      return all(1);
  }
};
// Codes up to this many behave alike in Sum.
static constexpr int largest_class(int largest) {
  if (lanes == 16) return 255;
  return largest <= 16 ? 16 : largest <= 32 ? 32 : largest <= 64 ? 64 : largest <= 128 ? 128 : 255;
}
template <class T>
static constexpr int wide_zero = levels_signed(ByteForm<T>::largest) ? 0 : ByteForm<T>::zero;
template <class T>
using SpreadOf =
    Spread<span_of<T>, halves_differ<T>, has_min<T>, ByteForm<T>::has_sub, largest_class(ByteForm<T>::largest), wide_zero<T> != 0>;
template <class T>
static i64 spread_bytes(i64 n) {
  return SpreadOf<T>(nullptr, n).bytes;
}

// Packed -> spread.  The packed tile may hold more (zero) inputs than the spread one.
template <class P, class S>
static void spread_packed(const u8* tile, int, i64 n, u8* to) {
  const P p(tile, n);
  const S s(to, n);
  const i64 inputs = s.blocks * S::block;
  auto floats = [&](i64 at, i64 k, int r) { return reinterpret_cast<f32*>(to + at) + k * 16 + r; };
  for (int r = 0; r < 16; r += lanes) {
    for (i64 i = 0; i < s.blocks; i++) {
      store_f(floats(0, i, r), p.d(i, r));
      if constexpr (P::mins) store_f(floats(s.dmin_at, i, r), p.minus_dmin(i, r));
    }
    if constexpr (P::has_sub) {
      for (i64 k = 0; k < inputs / P::sub_inputs; k += 2) {
        const F unscale = all(P::shifted ? 0.125f : 1.0f);
        store_f(floats(s.sub_at, k, r), mul(p.template sub<0>(k, r), unscale));
        store_f(floats(s.sub_at, k + 1, r), mul(p.template sub<1>(k + 1, r), unscale));
        if constexpr (P::mins) {
          store_f(floats(s.min_at, k, r), p.min(k, r));
          store_f(floats(s.min_at, k + 1, r), p.min(k + 1, r));
        }
      }
    }
    const u8* unit = tile + p.codes_at + 4 * r;
    u8* out = to + s.codes_at + 4 * r;
    for (i64 k = 0; k < inputs; k += P::unit, unit += P::unit_bytes) {
      unroll<P::groups>([&](auto f) __attribute__((always_inline)) {
        if (k + 32 * f >= inputs) return;
        I up[2];  // shifted, eighths: what makes 8 c into level + 9, for the first and last 8 inputs of a half
        unroll<8>([&](auto v) __attribute__((always_inline)) {
          I code = right<P::shift(f)>(P::template code<f, v>(unit));
          if constexpr (P::shifted) {
            if constexpr (v == 0) {
              const I plus = both(flip(p.template nibble<f % 2>(k / 32 + f, r, 8), all32(8)), all32(8));
              up[0] = up[1] = in_all_bytes(right<2>(plus));
            }
            code = left<3>(code);
          }
          if constexpr (P::eighths && v % 4 == 0) {
            const I plus = left<1>(flip(p.minus_bits(k / 16 + 2 * f + v / 4, r), all32(0x00010001u)));
            up[0] = in_all_bytes(both(plus, all32(0xffff)));
            up[1] = in_all_bytes(right<16>(plus));
          }
          if constexpr (P::shifted || P::eighths) code = add8(code, up[v / 2 % 2]);
          store(out, code);
          out += 64;
        });
      });
    }
  }
}

// Rows of a file -> spread.
template <class T>
static void spread_file(const u8* rows, int n_rows, i64 n, u8* to) {
  using S = SpreadOf<T>;
  const S s(to, n);
  constexpr int zero = wide_zero<T>;
  std::memset(to, 0, size_t(s.codes_at));
  for (int r = 0; r < 16; r++) {
    u8* codes = to + s.codes_at + 4 * r;
    f32* f = reinterpret_cast<f32*>(to) + r;
    if (r >= n_rows) {
      for (i64 k = 0; k < s.blocks * S::block; k += 4) std::memset(codes + 16 * k, 0, 4);
      continue;
    }
    const u8* b = rows + u64(r) * u64(n / T::block) * T::bytes;
    for (i64 i = 0; i < n / T::block; i++, b += T::bytes) {
      const IntegerBlock<T> w(b);
      for (int e = 0; e < T::block; e += 4) {
        u8 quad[4];
        for (int j = 0; j < 4; j++) quad[j] = u8(w.level[e + j] + zero);
        std::memcpy(codes + 16 * (i * T::block + e), quad, 4);
      }
      for (int j = 0; j < T::block / S::span; j++) {
        const i64 span = i * (T::block / S::span) + j;
        f[span * 16] = w.d;
        if constexpr (S::mins) f[s.dmin_at / 4 + span * 16] = -w.dmin;
      }
      if constexpr (S::has_sub) {
        for (int j = 0; j < T::block / S::sub_inputs; j++) {
          const i64 k = i * (T::block / S::sub_inputs) + j;
          f[s.sub_at / 4 + k * 16] = w.sub[j];
          if constexpr (S::mins) f[s.min_at / 4 + k * 16] = w.min[j];
        }
      }
    }
  }
}

// ---- the product ---------------------------------------------------------------------------------------------------------------

static constexpr bool few_registers = lanes < 16;

// C columns, R row vectors at once.
template <class S, int C, int R>
static void walk(const u8* tile, int, i64 n, const Panel& p, f32* out) {
  static_assert(16 % (R * lanes) == 0);
  constexpr bool inside = S::span <= S::unit;  // spans end inside units
  constexpr int starts = S::halves ? 2 : 1;
  const S s(tile, n);
  for (int r0 = 0; r0 < 16; r0 += R * lanes) {
    F acc[C][R];
    FEWBIT_UNROLL
    for (int c = 0; c < C; c++) FEWBIT_UNROLL
    for (int r = 0; r < R; r++) acc[c][r] = zero();
    const i8* q = p.q;
    const f32* a = p.a;
    const i32* start = p.start;
    const f32* as = p.as;
    const i32* pairs = p.pairs;
    const u8* unit = tile + s.codes_at + 4 * r0;
    i64 group = 0;
    for (i64 b = 0; b < s.blocks; b++) {
      F t[C][R], m[C][R];
      if constexpr (!inside) {
        FEWBIT_UNROLL
        for (int c = 0; c < C; c++) FEWBIT_UNROLL
        for (int r = 0; r < R; r++) t[c][r] = m[c][r] = zero();
      }
      auto finish = [&](i64 span) __attribute__((always_inline)) {
        FEWBIT_UNROLL
        for (int r = 0; r < R; r++) {
          const F d = s.d(span, r0 + r * lanes);
          FEWBIT_UNROLL
          for (int c = 0; c < C; c++) acc[c][r] = fma(d, t[c][r], acc[c][r]);
          if constexpr (S::mins) {
            const F dmin = s.minus_dmin(span, r0 + r * lanes);
            FEWBIT_UNROLL
            for (int c = 0; c < C; c++) acc[c][r] = fma(dmin, m[c][r], acc[c][r]);
          }
        }
      };
      for (int u = 0; u < S::block / S::unit; u++) {
        if constexpr (C > 1) prefetch(unit + 2048);
        unroll<S::groups>([&](auto f) __attribute__((always_inline)) {
          // Without it the compiler keeps a unit's codes from one group to the next, and spills sums to do so.
          if constexpr (few_registers) asm volatile("" ::: "memory");
          constexpr bool first = inside && f * 32 % S::span == 0;
          constexpr int steps = 8 / starts;
          F x[C][R];
          unroll<starts>([&](auto h) __attribute__((always_inline)) {
            Sum<S::largest, steps, S::eighths> sum[C][R];
            FEWBIT_UNROLL
            for (int c = 0; c < C; c++) FEWBIT_UNROLL
            for (int r = 0; r < R; r++) sum[c][r].begin(start + h * C + c);
            if constexpr (S::eighths) {
              FEWBIT_UNROLL
              for (int r = 0; r < R; r++) {
                const I bits = s.minus_bits(group * 2 + h, r0 + r * lanes);
                FEWBIT_UNROLL
                for (int c = 0; c < C; c++) sum[c][r].pairs(bits, pairs + h * C + c);
              }
            }
            unroll<steps>([&](auto v) __attribute__((always_inline)) {
              I codes[R];
              FEWBIT_UNROLL
              for (int r = 0; r < R; r++) codes[r] = S::template code<f, h * steps + v>(unit + 4 * r * lanes);
              FEWBIT_UNROLL
              for (int c = 0; c < C; c++) {
                const i8* quad = q + ((h * steps + v) * C + c) * 4;
                FEWBIT_UNROLL
                for (int r = 0; r < R; r++) sum[c][r].template step<v>(codes[r], quad);
              }
            });
            FEWBIT_UNROLL
            for (int r = 0; r < R; r++) {
              F sub;
              if constexpr (S::has_sub) sub = s.template sub<(f * starts + h) % 2>(group * starts + h, r0 + r * lanes);
              FEWBIT_UNROLL
              for (int c = 0; c < C; c++) {
                const F value = to_f(sum[c][r].end(S::zero_point ? start + h * C + c : nullptr));
                if constexpr (!S::has_sub)
                  x[c][r] = value;
                else
                  x[c][r] = h == 0 ? mul(sub, value) : fma(sub, value, x[c][r]);
              }
              if constexpr (S::shifted) {
                const F factor = s.template sum_factor<f % 2>(group, r0 + r * lanes);
                FEWBIT_UNROLL
                for (int c = 0; c < C; c++) x[c][r] = fma(factor, all(as[c]), x[c][r]);
              }
              if constexpr (S::mins) {
                const F min = s.min(group * starts + h, r0 + r * lanes);
                FEWBIT_UNROLL
                for (int c = 0; c < C; c++) {
                  const F sums = all(as[h * C + c]);
                  m[c][r] = first && h == 0 ? (S::has_sub ? mul(min, sums) : sums) : fma(min, sums, m[c][r]);
                }
              }
            }
          });
          FEWBIT_UNROLL
          for (int c = 0; c < C; c++) {
            const F scale = all(a[c]);
            FEWBIT_UNROLL
            for (int r = 0; r < R; r++) t[c][r] = first ? mul(scale, x[c][r]) : fma(scale, x[c][r], t[c][r]);
          }
          q += 32 * C;
          a += C;
          start += starts * C;
          as += starts * C;
          if constexpr (S::eighths) pairs += starts * C;
          group++;
          if constexpr (inside && (f + 1) * 32 % S::span == 0) finish(b * (S::block / S::span) + f * 32 / S::span);
        });
        unit += S::unit_bytes;
      }
      if constexpr (!inside) finish(b);
    }
    FEWBIT_UNROLL
    for (int c = 0; c < C; c++) FEWBIT_UNROLL
    for (int r = 0; r < R; r++) store_f(out + c * 16 + r0 + r * lanes, acc[c][r]);
  }
}

// ---- tables --------------------------------------------------------------------------------------------------------------------

template <class S>
static constexpr PanelSpec panel_spec(int zero) {
  PanelSpec p;
  p.quads = true;
  p.groups = S::groups;
  for (int f = 0; f < S::groups; f++) p.shift[f] = i8(S::shift(f));
  p.zero = zero;
  p.halves = S::halves;
  p.sums = S::mins ? PanelSums::scaled : S::shifted ? PanelSums::plain : PanelSums::none;
  p.pairs = S::eighths;
  return p;
}

// Row vectors at once: one column leaves registers for both halves of a tile.
static constexpr int vectors_at_once(int cols) {
  return lanes == 4 ? (cols <= 2 ? 4 : cols <= 4 ? 2 : 1) : cols == 1 && lanes == 8 ? 2 : 1;
}
static constexpr int widest = lanes == 16 ? 12 : 6;  // columns of a wide panel: what the registers hold

// Formats that are only companions of the low-bit ones have fewer widths; missing ones are rounded up.
template <class T>
static constexpr bool every_width = !(std::is_same_v<T, Q4_1> || std::is_same_v<T, Q5_0> || std::is_same_v<T, Q5_1> ||
                                      std::is_same_v<T, Q5_K> || std::is_same_v<T, IQ4_NL> || std::is_same_v<T, MXFP4>);

// The wide kernels of format T, from the file's rows.
template <class T>
static constexpr WeightKernels wide_entry() {
  WeightKernels k{};
  k.spread = spread_file<T>;
  k.spread_bytes = spread_bytes<T>;
  k.max_wide = widest;
  k.wide_spec = panel_spec<SpreadOf<T>>(wide_zero<T>);
  if constexpr (lanes == 16) {
    k.wide[6] = walk<SpreadOf<T>, 6, 1>;
    k.wide[8] = walk<SpreadOf<T>, 8, 1>;
    k.wide[10] = walk<SpreadOf<T>, 10, 1>;
    k.wide[12] = walk<SpreadOf<T>, 12, 1>;
  } else {
    k.wide[4] = walk < SpreadOf<T>, 4, lanes == 4 ? 2 : 1 > ;
    k.wide[5] = walk < SpreadOf<T>, 5, lanes == 4 ? 2 : 1 > ;
    k.wide[6] = walk < SpreadOf<T>, 6, lanes == 4 ? 2 : 1 > ;
  }
  return k;
}

template <class T>
static constexpr WeightKernels packed_entry(Type type, const char* layout, const char* name) {
  WeightKernels k = wide_entry<T>();
  k.type = type;
  k.layout = layout;
  k.name = name;
  k.tile_bytes = [](i64 n) { return R16<T>(n).bytes; };
  k.pack = pack_tile<T>;
  k.unpack = unpack_row<T>;
  k.max_narrow = 8;
  k.narrow_spec = panel_spec<Packed<T>>(Packed<T>::zero_point);
  k.narrow[1] = walk<Packed<T>, 1, vectors_at_once(1)>;
  k.narrow[2] = walk<Packed<T>, 2, vectors_at_once(2)>;
  k.narrow[4] = walk<Packed<T>, 4, vectors_at_once(4)>;
  k.narrow[8] = walk<Packed<T>, 8, vectors_at_once(8)>;
  if constexpr (every_width<T>) {
    k.narrow[3] = walk<Packed<T>, 3, vectors_at_once(3)>;
    k.narrow[5] = walk<Packed<T>, 5, vectors_at_once(5)>;
    k.narrow[6] = walk<Packed<T>, 6, vectors_at_once(6)>;
    k.narrow[7] = walk<Packed<T>, 7, vectors_at_once(7)>;
  }
  k.spread = spread_packed<Packed<T>, SpreadOf<T>>;
  return k;
}

#define FEWBIT_X(F, codes) packed_entry<F>(Type::F, codes ".r16", "gemv." #F "/" FEWBIT_SET_NAME "." codes ".r16"),
static constexpr WeightKernels packed_list[] = {FEWBIT_R16_FORMATS(FEWBIT_X)};
#undef FEWBIT_X

#ifndef FEWBIT_WIDE_FORMATS
#define FEWBIT_WIDE_FORMATS FEWBIT_WEIGHT_FORMATS
#endif
static constexpr WeightKernels wide_of(Type type) {
  switch (type) {
#define FEWBIT_X(F, id)         \
  case Type::F:                 \
    if constexpr (!HasValue<F>) \
      return wide_entry<F>();   \
    else                        \
      break;
    FEWBIT_WIDE_FORMATS(FEWBIT_X)
#undef FEWBIT_X
    default:
      break;
  }
  return {};
}
