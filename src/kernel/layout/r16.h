// R16: weights re-ordered at load so that 16 rows are multiplied side by side.
//
// A tile holds 16 rows.  Its codes are vectors of 64 bytes in which word r (4 bytes) belongs to row r and byte j of the word to the
// j-th of 4 neighbouring inputs (a quad), so a broadcast quad of activations meets the codes of all 16 rows in one instruction, sums
// land per row in 32-bit lanes, and nothing is ever added across lanes.  One layout serves every width of register: 64 bytes at once,
// two halves of 8 rows, four quarters of 4.
//
// Codes come in units of `groups` groups of 32 inputs.  A group is 8 quads; v below is the quad's number in its group.
//
//   Bits2    4 groups, 8 vectors    group f = bits 2f, 2f+1 of vector v
//   Bits1    8 groups, 8 vectors    group f = bit f of vector v
//   Nibble   2 groups, 8 vectors    group f = bits 4f.. of vector v
//   Nibble1  the same, then 2 vectors:   fifth bit of group f, quad v = bit v of vector 8 + f
//   Nibble2  the same, then 4 vectors:   two high bits of group f, quad v = bits 2(v % 4).. of vector 8 + 2f + v / 4
//   Bits3    8 groups, 24 vectors   group f < 6 = bits 3 (f % 2).. of vector 8 (f / 2) + v; groups 6 and 7 = bits 6, 7 of vectors v and
//            8 + v, their third bits = bits 6 and 7 of vector 16 + v: most codes cost a mask, or a shift and a mask
//   Bits2s   4 groups, 12 vectors   low two bits as Bits2; the third, a sign, of group f, quad v = bit v / 2 + 4 (v % 2) of vector 8 + f.
//            Every eighth sign (last of quads 1, 3, 5, 7 of a group) makes the number of negatives even: those four bits, on top of
//            a row's word, hold the group's scale code instead
//   Bytes    1 group, 8 vectors     vector v
//
// Mixed quads: where the two halves of a group have factors of their own and sums are made in 16-bit lanes (AVX2), bytes 0, 1 of quad v
// are inputs 2 v, 2 v + 1 of the first half of the group and bytes 2, 3 the same of the second, so that the sums of both halves lie
// side by side and one multiplication by a pair of factors ends them.  Their factors lie in words, as pair_words() says.
//
// A tile is then, each array starting on 64 bytes, inputs padded to whole units (zero scales):
//
//   d       (spans, 16)             as in the file: f16, or one byte for MXFP4
//   dmin    (spans, 16) f16         only where the format has minima
//   sub     (groups or halves, 16)  the integer factors, a byte each, or two to a byte
//   min     likewise
//   codes   (units, vectors, 64)
//
// The codes are unsigned: level = code_level(code); for all but table formats level = code * step - zero.
#pragma once
#include <array>

#include "base/bits.h"
#include "kernel/layout/integer_form.h"

namespace fewbit::kernel::cpu {

// ---- where codes lie ---------------------------------------------------------------------------------------------------------

struct Slot {  // bits of one code in a unit: `bits` bits at `shift` of the byte; a second piece above them
  int byte, shift, bits;
  int byte2 = 0, shift2 = 0, bits2 = 0;
};
// Byte of vector, row and input of the quad.
constexpr int at(int vector, int r, int j) { return 64 * vector + 4 * r + j; }

struct Bits2 {
  static constexpr int groups = 4, vectors = 8;
  static constexpr Slot slot(int r, int f, int v, int j) { return {at(v, r, j), 2 * f, 2}; }
};
struct Bits1 {
  static constexpr int groups = 8, vectors = 8;
  static constexpr Slot slot(int r, int f, int v, int j) { return {at(v, r, j), f, 1}; }
};
struct Nibble {
  static constexpr int groups = 2, vectors = 8;
  static constexpr Slot slot(int r, int f, int v, int j) { return {at(v, r, j), 4 * f, 4}; }
};
struct Nibble1 {
  static constexpr int groups = 2, vectors = 10;
  static constexpr Slot slot(int r, int f, int v, int j) { return {at(v, r, j), 4 * f, 4, at(8 + f, r, j), v, 1}; }
};
struct Nibble2 {
  static constexpr int groups = 2, vectors = 12;
  static constexpr Slot slot(int r, int f, int v, int j) { return {at(v, r, j), 4 * f, 4, at(8 + 2 * f + v / 4, r, j), 2 * (v % 4), 2}; }
};
struct Bits3 {
  static constexpr int groups = 8, vectors = 24;
  static constexpr Slot slot(int r, int f, int v, int j) {
    if (f < 6) return {at(f / 2 * 8 + v, r, j), f % 2 * 3, 3};
    return {at((f - 6) * 8 + v, r, j), 6, 2, at(16 + v, r, j), f, 1};
  }
};
struct Bits2s {
  static constexpr int groups = 4, vectors = 12;
  static constexpr int third(int v) { return v / 2 + 4 * (v % 2); }
  static constexpr Slot slot(int r, int f, int v, int j) { return {at(v, r, j), 2 * f, 2, at(8 + f, r, j), third(v), 1}; }
  static constexpr u32 kept = 0x0fffffff;
  // Sign word of a row with the four bits on top made from the others.
  static constexpr u32 restored(u32 word) {
    u32 x = word & kept, y = x ^ x >> 16;
    y ^= y >> 8;
    y ^= y >> 4;
    return x | y << 28;
  }
};
struct Bytes {
  static constexpr int groups = 1, vectors = 8;
  static constexpr Slot slot(int r, int, int v, int j) { return {at(v, r, j), 0, 8}; }
};

// Where input e of a unit lies among its quads.
template <bool mixed>
constexpr int place_of(int e) {
  return mixed ? e / 32 * 32 + e % 16 / 2 * 4 + e % 32 / 16 * 2 + e % 2 : e;
}
template <bool mixed>
constexpr int input_at(int place) {
  return mixed ? place / 32 * 32 + place % 4 / 2 * 16 + place % 32 / 4 * 2 + place % 2 : place;
}

template <class C>
inline void put_code(u8* unit, int r, int e, int code) {
  const Slot s = C::slot(r, e / 32, e % 32 / 4, e % 4);
  unit[s.byte] = u8(unit[s.byte] | (code & ((1 << s.bits) - 1)) << s.shift);
  if (s.bits2) unit[s.byte2] = u8(unit[s.byte2] | (code >> s.bits) << s.shift2);
}
template <class C>
inline int get_code(const u8* unit, int r, int e) {
  const Slot s = C::slot(r, e / 32, e % 32 / 4, e % 4);
  int code = unit[s.byte] >> s.shift & ((1 << s.bits) - 1);
  if (s.bits2) code |= (unit[s.byte2] >> s.shift2 & ((1 << s.bits2) - 1)) << s.bits;
  return code;
}

// ---- which codes a format becomes --------------------------------------------------------------------------------------------

// How the integer factors are kept.
enum class Subs {
  none,     // there are none
  bytes,    // i8 each
  odd,      // 2 s + 1, s in 0..15: two to a byte, even group (or half) in the low nibble
  odd_top,  // the same, in the top four bits of the group's sign words (Bits2s)
  two,      // s and the minimum's factor, 4 bits each, in one byte
  shifted,  // 2 s + 1, s in 0..7, as `odd`; levels of the group are 8 (c - 1) - 1 if bit 3 of the nibble is set, else 8 (c - 1) + 1
  eighths,  // 2 s + 1 as `odd`, and that bit per 8 inputs: a word per row and 256 inputs, first 8 of half h in bit h, others 16 + h
};

// Maps of levels to unsigned codes.  Affine: level = step * code - zero.
template <int step_, int zero_, int codes>
struct Affine {
  static constexpr bool affine = true;
  static constexpr int step = step_, zero = zero_, largest = codes - 1;
  static constexpr int code(int level) { return (level + zero) / step; }
  static constexpr int level(int code) { return step * code - zero; }
};
// Any 16 levels; u = level + zero is what gets multiplied.
template <class T>
struct Table {
  static constexpr bool affine = false;
  static constexpr int step = 1, zero = T::zero, largest = T::largest;
  static constexpr int level(int code) { return T::levels[code]; }
  static constexpr int code(int level) {
    for (int c = 0; c < 16; c++)
      if (T::levels[c] == level) return c;
    return -1;
  }
};
struct Iq4Levels {
  static constexpr int zero = 128, largest = 241;
  static constexpr i8 levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
};
struct Fp4Levels {
  static constexpr int zero = 12, largest = 24;
  static constexpr i8 levels[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
};
struct Iq2Levels {  // bit 2 = negative; code 3 does not occur, and four codes stand twice
  static constexpr int zero = 43, largest = 86;
  static constexpr i8 levels[16] = {8, 25, 43, 0, -8, -25, -43, 0, 8, 25, 43, 0, -8, -25, -43, 0};
};
// 8 (c - 1) +- 1 of IQ1: which of the two is kept apart.
struct Ternary8 {
  static constexpr bool affine = true;
  static constexpr int step = 8, zero = 7, largest = 2;
  static constexpr int code(int level) { return (level + 9) / 8; }
  static constexpr bool minus(int level) { return (level & 7) == 7; }
};
struct Iq3xxsLevels {  // magnitude in the low three bits, bit 3 = negative
  static constexpr int zero = 62, largest = 124;
  static constexpr i8 levels[16] = {4, 12, 20, 28, 36, 44, 52, 62, -4, -12, -20, -28, -36, -44, -52, -62};
};
struct Iq3sLevels {
  static constexpr int zero = 15, largest = 30;
  static constexpr i8 levels[16] = {1, 3, 5, 7, 9, 11, 13, 15, -1, -3, -5, -7, -9, -11, -13, -15};
};

template <class F>
struct R16Codes {  // no packed layout
  static constexpr bool exists = false;
  static constexpr Subs subs = Subs::none;
};
template <class C, class M, Subs s>
struct R16Entry {
  static constexpr bool exists = true;
  using Codes = C;
  using Map = M;
  static constexpr Subs subs = s;
};
template <>
struct R16Codes<Q2_0> : R16Entry<Bits2, Affine<1, 1, 4>, Subs::none> {};
template <>
struct R16Codes<Q2_0_LEGACY128> : R16Entry<Bits2, Affine<1, 1, 4>, Subs::none> {};
template <>
struct R16Codes<PQ2_0> : R16Entry<Bits2, Affine<1, 1, 4>, Subs::none> {};
template <>
struct R16Codes<PTQ1_0> : R16Entry<Bits2, Affine<1, 1, 4>, Subs::none> {};
template <>
struct R16Codes<TQ1_0> : R16Entry<Bits2, Affine<1, 1, 4>, Subs::none> {};
template <>
struct R16Codes<TQ2_0> : R16Entry<Bits2, Affine<1, 1, 4>, Subs::none> {};
template <>
struct R16Codes<I2_S> : R16Entry<Bits2, Affine<1, 1, 4>, Subs::none> {};
template <>
struct R16Codes<Q1_0> : R16Entry<Bits1, Affine<2, 1, 2>, Subs::none> {};
template <>
struct R16Codes<Q4_0> : R16Entry<Nibble, Affine<1, 8, 16>, Subs::none> {};
template <>
struct R16Codes<Q4_1> : R16Entry<Nibble, Affine<1, 0, 16>, Subs::none> {};
template <>
struct R16Codes<Q4_K> : R16Entry<Nibble, Affine<1, 0, 16>, Subs::bytes> {};
template <>
struct R16Codes<IQ4_NL> : R16Entry<Nibble, Table<Iq4Levels>, Subs::none> {};
template <>
struct R16Codes<IQ4_XS> : R16Entry<Nibble, Table<Iq4Levels>, Subs::bytes> {};
template <>
struct R16Codes<MXFP4> : R16Entry<Nibble, Table<Fp4Levels>, Subs::none> {};
template <>
struct R16Codes<IQ3_XXS> : R16Entry<Nibble, Table<Iq3xxsLevels>, Subs::odd> {};
template <>
struct R16Codes<IQ3_S> : R16Entry<Nibble, Table<Iq3sLevels>, Subs::odd> {};
template <>
struct R16Codes<Q5_0> : R16Entry<Nibble1, Affine<1, 16, 32>, Subs::none> {};
template <>
struct R16Codes<Q5_1> : R16Entry<Nibble1, Affine<1, 0, 32>, Subs::none> {};
template <>
struct R16Codes<Q5_K> : R16Entry<Nibble1, Affine<1, 0, 32>, Subs::bytes> {};
template <>
struct R16Codes<Q6_K> : R16Entry<Nibble2, Affine<1, 32, 64>, Subs::bytes> {};
template <>
struct R16Codes<Q2_K> : R16Entry<Bits2, Affine<1, 0, 4>, Subs::two> {};
template <>
struct R16Codes<Q3_K> : R16Entry<Bits3, Affine<1, 4, 8>, Subs::bytes> {};
template <>
struct R16Codes<IQ2_XXS> : R16Entry<Bits2s, Table<Iq2Levels>, Subs::odd_top> {};
template <>
struct R16Codes<IQ2_XS> : R16Entry<Bits3, Table<Iq2Levels>, Subs::odd> {};
template <>
struct R16Codes<IQ2_S> : R16Entry<Bits3, Table<Iq2Levels>, Subs::odd> {};
template <>
struct R16Codes<IQ1_S> : R16Entry<Bits2, Affine<1, 1, 3>, Subs::shifted> {};
template <>
struct R16Codes<IQ1_M> : R16Entry<Bits2, Ternary8, Subs::eighths> {};
template <>
struct R16Codes<Q8_0> : R16Entry<Bytes, Affine<1, 128, 256>, Subs::none> {};

// Formats that have a packed layout: X(format, name of its codes).
// clang-format off
#ifndef FEWBIT_R16_FORMATS
#define FEWBIT_R16_FORMATS(X) \
  X(Q2_0, "bits2") X(Q2_0_LEGACY128, "bits2") X(PQ2_0, "bits2") X(PTQ1_0, "bits2") X(TQ1_0, "bits2") \
  X(TQ2_0, "bits2") X(I2_S, "bits2") X(Q1_0, "bits1") X(Q4_0, "nibble") X(Q4_1, "nibble") X(Q4_K, "nibble") \
  X(IQ4_NL, "nibble") X(IQ4_XS, "nibble") X(MXFP4, "nibble") X(IQ3_XXS, "nibble") X(IQ3_S, "nibble") \
  X(Q5_0, "nibble1") X(Q5_1, "nibble1") X(Q5_K, "nibble1") X(Q6_K, "nibble2") X(Q2_K, "bits2") \
  X(Q3_K, "bits3") X(Q8_0, "bytes") X(IQ2_XXS, "bits2s") X(IQ2_XS, "bits3") X(IQ2_S, "bits3") \
  X(IQ1_S, "bits2") X(IQ1_M, "bits2")
#endif
// clang-format on

// What the wide kernels multiply, for every format: levels + zero as bytes.
template <class F>
struct ByteForm {
  static constexpr int zero = R16Codes<F>::Map::zero, largest = R16Codes<F>::Map::affine
                                                                    ? R16Codes<F>::Map::level(R16Codes<F>::Map::largest) + zero
                                                                    : R16Codes<F>::Map::largest;
  static constexpr bool has_sub = R16Codes<F>::subs != Subs::none;
};
template <int z>
struct Signed {  // levels -z..z with integer factors
  static constexpr int zero = z, largest = 2 * z;
  static constexpr bool has_sub = true;
};
template <>
struct ByteForm<IQ1_S> : Signed<9> {};
template <>
struct ByteForm<IQ1_M> : Signed<9> {};
template <>
struct ByteForm<NVFP4> : Signed<12> {};

// ---- a tile's arrays -----------------------------------------------------------------------------------------------------------

template <class C, Subs s, int span_, bool halves_, bool mins_, bool byte_d_>
struct TileArrays {
  static constexpr int unit = C::groups * 32, unit_bytes = C::vectors * 64;  // inputs, bytes
  static constexpr int span = span_;
  static constexpr bool halves = halves_, mins = mins_, byte_d = byte_d_;
  static constexpr int sub_inputs = halves ? 16 : 32;      // inputs per integer factor
  static constexpr int block = span > unit ? span : unit;  // inputs that a kernel's loop takes at once
  static_assert(block % unit == 0 && block % span == 0);

  i64 blocks, d_at, dmin_at, sub_at, min_at, codes_at, bytes;  // byte offsets in a tile; min_at: minima, or the bits of `eighths`

  explicit TileArrays(i64 n) : blocks(div_up(n, block)) {
    const i64 inputs = blocks * block, spans = inputs / span, subs = inputs / sub_inputs;
    i64 at = 0;
    auto array = [&](i64 size) {
      i64 begin = at;
      at = round_up(at + size, 64);
      return begin;
    };
    d_at = array(spans * 16 * (byte_d ? 1 : 2));
    dmin_at = array(mins ? spans * 32 : 0);
    constexpr int sub_bits = s == Subs::none || s == Subs::odd_top ? 0 : s == Subs::bytes || s == Subs::two ? 8 : 4;
    sub_at = array(subs * 2 * sub_bits);
    min_at = array(mins && s == Subs::bytes ? subs * 16 : s == Subs::eighths ? inputs / 256 * 64 : 0);
    codes_at = array(inputs / unit * unit_bytes);
    bytes = at;
  }
};
template <class F>
struct R16
    : TileArrays<typename R16Codes<F>::Codes, R16Codes<F>::subs, span_of<F>, halves_differ<F>, has_min<F>, std::is_same_v<F, MXFP4>> {
  using Codes = typename R16Codes<F>::Codes;
  using Map = typename R16Codes<F>::Map;
  static constexpr Subs subs = R16Codes<F>::subs;
  static constexpr bool nibbles = subs == Subs::odd || subs == Subs::shifted || subs == Subs::eighths;
  using TileArrays<Codes, subs, span_of<F>, halves_differ<F>, has_min<F>, std::is_same_v<F, MXFP4>>::TileArrays;
};

// Formats whose quads may be mixed: the factors of halves are small integers.
template <class F>
inline constexpr bool can_mix = halves_differ<F> &&
                                (R16Codes<F>::subs == Subs::two || R16Codes<F>::subs == Subs::bytes || R16Codes<F>::subs == Subs::odd);

// Factors of mixed tiles: a word per row and `groups` groups, what belongs to the first half in bits 0..15, to the second in 16..31.
//   odd    4 groups   the codes of group g in bits 4 (g % 4)..
//   bytes  2 groups   the factors of group g in bits 8 (g % 2)..
//   two    2 groups   the factors of group g in bits 4 (g % 2)..; those of the minima in bits 8 + 4 (g % 2)..
struct PairWords {
  int groups, bits;
};
constexpr PairWords pair_words(Subs s) { return s == Subs::odd ? PairWords{4, 4} : s == Subs::bytes ? PairWords{2, 8} : PairWords{2, 4}; }
// Of half k (of 16 inputs) of row r: byte offset of its word in `sub` and its lowest bit.
struct PairAt {
  i64 word;
  int bit;
};
constexpr PairAt pair_at(Subs s, i64 k, int r) {
  const PairWords w = pair_words(s);
  return {k / 2 / w.groups * 64 + 4 * r, int(k / 2 % w.groups) * w.bits + int(k % 2) * 16};
}

// Codes by level (as u8) of the formats that have a table of levels: a search per weight is most of the time of a load.
template <class M>
inline constexpr auto codes_of = [] {
  std::array<u8, 256> codes{};
  for (int b = 0; b < 256; b++) codes[size_t(b)] = u8(M::code(i8(u8(b))));
  return codes;
}();

// rows (at most 16) of a file -> a tile (zeroed memory of R16<F>(n).bytes).
template <class F, bool mixed = false>
void pack_tile(const u8* rows, int n_rows, i64 n, u8* tile) {
  using L = R16<F>;
  const L l(n);
  constexpr int blocks_per_span = F::block / L::span;
  for (int r = 0; r < n_rows; r++) {
    const u8* b = rows + u64(r) * u64(n / F::block) * F::bytes;
    for (i64 i = 0; i < n / F::block; i++, b += F::bytes) {
      const IntegerBlock<F> w(b);
      for (int s = 0; s < blocks_per_span; s++) {
        const i64 span = i * blocks_per_span + s;
        if constexpr (std::is_same_v<F, MXFP4>)
          tile[l.d_at + span * 16 + r] = b[F::exponent_at];
        else if constexpr (std::is_same_v<F, IQ1_M>)
          store_le(tile + l.d_at + (span * 16 + r) * 2, F::scale_bits(b));
        else if constexpr (std::is_same_v<F, I2_S>)
          store_le(tile + l.d_at + (span * 16 + r) * 2, u16(0x3c00));
        else
          store_le(tile + l.d_at + (span * 16 + r) * 2, u16(u16_at(b + F::scale_at)));
        if constexpr (L::mins) store_le(tile + l.dmin_at + (span * 16 + r) * 2, u16(u16_at(b + F::min_at)));
      }
      if constexpr (L::subs != Subs::none) {
        for (int g = 0; g < F::block / L::sub_inputs; g++) {
          const i64 k = i * (F::block / L::sub_inputs) + g;
          if constexpr (L::subs == Subs::odd_top) continue;
          if constexpr (mixed) {
            const PairAt at = pair_at(L::subs, k, r);
            u32 bits = L::subs == Subs::odd ? (u32(w.sub[g]) - 1) / 2 : u32(i32(w.sub[g])) & (L::subs == Subs::bytes ? 0xff : 0xf);
            if constexpr (L::subs == Subs::two) bits |= u32(w.min[g]) << 8;
            u8* word = tile + l.sub_at + at.word;
            store_le(word, load_le<u32>(word) | bits << at.bit);
            continue;
          }
          u8* to = tile + l.sub_at + (L::nibbles ? k / 2 * 16 : k * 16) + r;
          if constexpr (L::subs == Subs::bytes) *to = u8(i8(w.sub[g]));
          if constexpr (L::nibbles) {
            int code = (int(w.sub[g]) - 1) / 2;
            if constexpr (L::subs == Subs::shifted) code |= Ternary8::minus(w.level[32 * g]) << 3;
            *to = u8(*to | code << (4 * (k % 2)));
          }
          if constexpr (L::subs == Subs::eighths) {
            u8* word = tile + l.min_at + i * 64 + 4 * r;
            const u32 bits = u32(Ternary8::minus(w.level[16 * g])) << g | u32(Ternary8::minus(w.level[16 * g + 8])) << (16 + g);
            store_le(word, load_le<u32>(word) | bits);
          }
          if constexpr (L::subs == Subs::two) *to = u8(int(w.sub[g]) | int(w.min[g]) << 4);
          if constexpr (L::mins && L::subs == Subs::bytes) tile[l.min_at + k * 16 + r] = u8(i8(w.min[g]));
        }
      }
      for (int e = 0; e < F::block; e++) {
        const i64 k = i * F::block + e;
        int code;
        if constexpr (L::subs == Subs::shifted)
          code = Ternary8::code(w.level[e]);
        else if constexpr (L::Map::affine)
          code = L::Map::code(w.level[e]);
        else
          code = codes_of<typename L::Map>[u8(w.level[e])];
        put_code<typename L::Codes>(tile + l.codes_at + k / L::unit * L::unit_bytes, r, place_of<mixed>(int(k % L::unit)), code);
      }
      if constexpr (L::subs == Subs::odd_top) {
        for (int g = 0; g < F::block / 32; g++) {
          u8* word = tile + l.codes_at + (i * F::block + 32 * g) / L::unit * L::unit_bytes + 64 * (8 + g % 4) + 4 * r;
          store_le(word, (load_le<u32>(word) & Bits2s::kept) | (u32(w.sub[g]) - 1) / 2 << 28);
        }
      }
    }
  }
}

// Row r of a tile as floats: bit for bit what the file's blocks decode to (without I2_S's scale).
template <class F, bool mixed = false>
void unpack_row(const u8* tile, int r, i64 n, f32* x) {
  using L = R16<F>;
  const L l(n);
  for (i64 k = 0; k < n; k++) {
    const i64 span = k / L::span, s = k / L::sub_inputs;
    f32 d, sub = 1, min = 1;
    if constexpr (L::byte_d)
      d = MXFP4::scale_of(tile[l.d_at + span * 16 + r]);
    else
      d = f16_at(tile + l.d_at + (span * 16 + r) * 2) * d_factor<F>;
    if constexpr (mixed) {
      const PairAt at = pair_at(L::subs, s, r);
      const u32 bits = load_le<u32>(tile + l.sub_at + at.word) >> at.bit;
      sub = L::subs == Subs::odd ? f32(2 * (bits & 15) + 1) : L::subs == Subs::bytes ? f32(i8(bits)) : f32(bits & 15);
      if constexpr (L::subs == Subs::two) min = f32(bits >> 8 & 15);
    } else if constexpr (L::subs == Subs::bytes)
      sub = f32(i8(tile[l.sub_at + s * 16 + r]));
    if constexpr (L::subs == Subs::two && !mixed) sub = f32(tile[l.sub_at + s * 16 + r] & 15), min = f32(tile[l.sub_at + s * 16 + r] >> 4);
    if constexpr (L::mins && L::subs == Subs::bytes) min = f32(i8(tile[l.min_at + s * 16 + r]));
    const u8* unit = tile + l.codes_at + k / L::unit * L::unit_bytes;
    int code = get_code<typename L::Codes>(unit, r, place_of<mixed>(int(k % L::unit))), level;
    if constexpr (L::nibbles && !mixed) {
      const int nibble = tile[l.sub_at + s / 2 * 16 + r] >> (4 * (s % 2)) & 15;
      sub = f32(2 * (L::subs == Subs::odd ? nibble : nibble & 7) + 1);
      bool minus = nibble & 8;
      if constexpr (L::subs == Subs::eighths)
        minus = load_le<u32>(tile + l.min_at + k / 256 * 64 + 4 * r) >> (k / 8 % 2 * 16 + k / 16 % 16) & 1;
      if constexpr (L::subs != Subs::odd) level = 8 * (code - 1) + (minus ? -1 : 1);
    }
    if constexpr (L::subs == Subs::odd_top) {
      const u32 word = load_le<u32>(unit + 64 * (8 + k / 32 % 4) + 4 * r), signs = Bits2s::restored(word);
      sub = f32(2 * (word >> 28) + 1);
      code = (code & 3) | int(signs >> (k % 4 * 8 + Bits2s::third(int(k % 32 / 4))) & 1) << 2;
    }
    if constexpr (L::subs != Subs::shifted && L::subs != Subs::eighths) level = L::Map::level(code);
    x[k] = d * sub * f32(level);
    if constexpr (L::mins) x[k] = x[k] + -(dmin_sign<F> * f16_at(tile + l.dmin_at + (span * 16 + r) * 2) * min);
  }
}

}  // namespace fewbit::kernel::cpu
