// What a kernel sees of a tile of 16 rows: its factors as floats and its codes.  PackedTile reads the packed layouts, Spread one in
// which codes are bytes and factors floats, made once per tile for many columns.  Included by r16.inl.

// Sums in 16-bit lanes: how many quads surely fit when each lane gets two products per quad of levels -zero .. largest - zero with
// activations up to 127; 0 where sums begin otherwise.  scaled: they are multiplied by pairs of factors; halves: they end inside groups.
static constexpr int run_of(int largest, int zero, bool scaled, bool halves) {
  if (wide_lanes || halves || levels_signed(largest) || zero == 0 || (!scaled && largest <= 16)) return 0;
  const int most = zero > largest - zero ? zero : largest - zero;
  return most * 254 * 8 <= 32767 ? 8 : 32767 / (254 * most);
}
template <class F>
static constexpr bool mixes = !wide_lanes && can_mix<F>;

// A packed tile.  Formats that agree in all of this share their kernels.
template <class Codes_, class Map_, Subs subs_, int span_, bool halves_, bool mins_, bool byte_d_, int d_shift, bool min_added, bool mixed_>
struct PackedTile : TileArrays<Codes_, subs_, span_, halves_, mins_, byte_d_> {
  using L = TileArrays<Codes_, subs_, span_, halves_, mins_, byte_d_>;
  using C = Code<Codes_, Map_>;
  static constexpr int groups = Codes_::groups;
  static constexpr bool in_cache = false;
  static constexpr Subs subs = subs_;
  static constexpr bool has_sub = subs != Subs::none, shifted = subs == Subs::shifted, eighths = subs == Subs::eighths;
  static constexpr int largest = C::largest;
  static constexpr int zero_point = levels_signed(largest) ? 0 : Map_::zero;
  static constexpr int shift(int f) { return C::shift(f); }
  static constexpr bool mixed = mixed_, pair_subs = mixed, whole_subs = true;
  static constexpr int together() {
    if constexpr (requires { C::together; })
      return C::together;
    else
      return 1;
  }
  static constexpr int largest_shift() {
    int most = 0;
    for (int f = 0; f < groups; f++) most = shift(f) > most ? shift(f) : most;
    return most;
  }
  static constexpr int run = run_of(largest, zero_point << largest_shift(), mixed, halves_ && !mixed);
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
  // mixed: of both halves of group k = f modulo 8.
  I word(i64 k, int r) const { return load(tile + L::sub_at + k / pair_words(subs).groups * 64 + 4 * r); }
  template <int f>
  I sub_pair(i64 k, int r) const {
    const I w = word(k, r);
    if constexpr (subs == Subs::odd) return either(both(moved<f % 4 * 4, 1>(w), all32(0x001e001e)), all32(0x00010001));
    if constexpr (subs == Subs::bytes) return f % 2 ? high_bytes16(w) : low_bytes16(w);
    if constexpr (subs == Subs::two) return both(right<f % 2 * 4>(w), all32(0x000f000f));
  }
  template <int f, int half>
  F min_of(i64 k, int r) const {
    if constexpr (mixed)
      return to_f(both(right<8 + f % 2 * 4 + half * 16>(word(k, r)), all32(15)));
    else
      return min(k * (halves_ ? 2 : 1) + half, r);
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
                          (dmin_sign<T> < 0), mixes<T>>;

// Factors kept as pairs of i16.
template <bool has_sub, bool whole_subs, bool halves, bool mixed>
static constexpr bool pair_lanes = !wide_lanes && has_sub && whole_subs && (mixed || !halves);

// A tile spread out: factors as floats, levels + zero as bytes.  The shape is all that the kernel sees, so formats share it.
//   whole_subs  factors are integers: where sums are made in 16-bit lanes they are kept as pairs of i16, one for each half of a group,
//               instead of floats
template <int span_, bool halves_, bool mins_, bool has_sub_, int largest_, bool has_zero, int run_, bool mixed_, bool whole_subs_>
struct Spread {
  static constexpr int groups = 1, unit = 32, unit_bytes = 512;
  static constexpr bool in_cache = true;
  static constexpr int span = span_, block = span;
  static constexpr bool halves = halves_, mins = mins_, has_sub = has_sub_, shifted = false, eighths = false;
  static constexpr int sub_inputs = halves ? 16 : 32;
  static constexpr int largest = largest_;
  static constexpr bool zero_point = has_zero;
  static constexpr int shift(int) { return 0; }
  static constexpr int run = run_;
  static constexpr int together() { return 1; }
  static constexpr bool mixed = mixed_, whole_subs = whole_subs_, pair_subs = pair_lanes<has_sub, whole_subs, halves, mixed>;
  i64 blocks, dmin_at, sub_at, min_at, codes_at, bytes;
  const u8* tile;
  Spread(const u8* t, i64 n) : blocks(div_up(n, block)), tile(t) {
    const i64 subs = blocks * block / sub_inputs;
    dmin_at = blocks * 64;
    sub_at = dmin_at + (mins ? blocks * 64 : 0);
    min_at = sub_at + (has_sub ? (mixed ? subs / 2 : subs) * 64 : 0);
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
  template <int>
  I sub_pair(i64 k, int r) const {
    return load(floats(sub_at, k, r));
  }
  template <int, int half>
  F min_of(i64 k, int r) const {
    if constexpr (has_sub)
      return load_f(floats(min_at, k * (halves ? 2 : 1) + half, r));
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
static constexpr bool whole = !std::is_same_v<T, NVFP4>;
template <class T>
using SpreadOf =
    Spread<span_of<T>, halves_differ<T>, has_min<T>, ByteForm<T>::has_sub, largest_class(ByteForm<T>::largest), wide_zero<T> != 0,
           run_of(ByteForm<T>::largest, wide_zero<T>, pair_lanes<ByteForm<T>::has_sub, whole<T>, halves_differ<T>, mixes<T>>,
                  halves_differ<T> && !mixes<T>),
           mixes<T>, whole<T>>;
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
    auto store_sub = [&](i64 k, F sub) {
      if constexpr (P::shifted) sub = mul(sub, all(0.125f));
      if constexpr (S::pair_subs)
        store(floats(s.sub_at, k, r), pair_of(sub));
      else
        store_f(floats(s.sub_at, k, r), sub);
    };
    if constexpr (P::has_sub) {
      for (i64 k = 0; k < inputs / 32; k += P::groups) {
        unroll<P::groups>([&](auto f) __attribute__((always_inline)) {
          const i64 g = k + f;
          if (32 * g >= inputs) return;
          if constexpr (P::mixed) {
            store(floats(s.sub_at, g, r), p.template sub_pair<f>(g, r));
          } else if constexpr (P::halves) {
            store_sub(2 * g, p.template sub<0>(2 * g, r));
            store_sub(2 * g + 1, p.template sub<1>(2 * g + 1, r));
          } else {
            store_sub(g, p.template sub<f % 2>(g, r));
          }
          if constexpr (P::mins) {
            store_f(floats(s.min_at, P::halves ? 2 * g : g, r), p.template min_of<f, 0>(g, r));
            if constexpr (P::halves) store_f(floats(s.min_at, 2 * g + 1, r), p.template min_of<f, 1>(g, r));
          }
        });
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
