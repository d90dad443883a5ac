// Random bytes that are valid blocks.
//
// All bits of a block are drawn, then the few that are not free are put right: scales get the value that gives the wanted deviation
// (with a spread of a quarter, so that no two blocks need be alike), ternary codes their three values, packed base-3 bytes the forms
// that an encoder writes.  How much a unit scale spreads is measured once per type, by decoding blocks of it.
#include <algorithm>
#include <cmath>
#include <vector>

#include "base/bits.h"
#include "base/check.h"
#include "base/half.h"
#include "format/formats.h"
#include "gguf/synth_shape.h"

namespace fewbit::gguf {

namespace {

// SplitMix64 (Steele, Lea, Flood 2014): a counter through a mixing function, so every position can be computed on its own.
inline u64 mix(u64 x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

void draw(std::span<u8> bytes, u64 seed) {
  const u64 base = mix(seed);
  const size_t words = bytes.size() / 8;
  for (size_t i = 0; i < words; i++) store_le(bytes.data() + 8 * i, mix(base + i * 0x9e3779b97f4a7c15u));
  const u64 last = mix(base + words * 0x9e3779b97f4a7c15u);
  for (size_t i = 8 * words; i < bytes.size(); i++) bytes[i] = u8(last >> (8 * (i % 8)));
}

constexpr int spreads = 64;
struct Scales {
  u16 d[spreads] = {};  // f16
  u16 m[spreads] = {};
  int exponent = 0;  // types whose scale is a power of two, or coarse
};

// The mean of the codes, which the second scale has to take away; negative where it is added.
template <class F>
constexpr f64 mean_code() {
  if constexpr (std::is_same_v<F, Q4_1>) return -7.5;
  if constexpr (std::is_same_v<F, Q5_1>) return -15.5;
  if constexpr (std::is_same_v<F, Q2_K>) return 1.5;
  if constexpr (std::is_same_v<F, Q4_K>) return 7.5;
  if constexpr (std::is_same_v<F, Q5_K>) return 15.5;
  return 0;
}

template <class F>
constexpr bool is_ternary_2bit = std::is_same_v<F, Q2_0> || std::is_same_v<F, PQ2_0> || std::is_same_v<F, TQ2_0> || std::is_same_v<F, I2_S>;

// Code 3 becomes 1, the weight 0: half of the weights are 0, a quarter each +1 and -1.
inline void three_to_one(u8* p, size_t n) {
  for (size_t i = 0; i < n; i++) p[i] = u8(p[i] ^ ((p[i] & p[i] >> 1 & 0x55) << 1));
}
// The byte of a number of five base-3 digits; the fifth is 0 where only four are kept.
inline void to_base3(u8* p, int five, int four) {
  for (int i = 0; i < five; i++) p[i] = u8(((u32(p[i]) * 243 >> 8) * 256 + 242) / 243);
  for (int i = five; i < five + four; i++) p[i] = u8(((u32(p[i]) * 81 >> 8) * 3 * 256 + 242) / 243);
}

template <class F>
void fix(u8* b, const Scales& s) {
  if constexpr (is_ternary_2bit<F>) three_to_one(b + F::codes_at, size_t(F::block / 4));
  if constexpr (std::is_same_v<F, TQ1_0>) to_base3(b, 48, 4);
  if constexpr (std::is_same_v<F, PTQ1_0>) to_base3(b, 24, 2);
  if constexpr (requires { F::scale_at; }) {
    const int k = b[F::scale_at] % spreads;
    store_le(b + F::scale_at, s.d[k]);
    if constexpr (requires { F::min_at; }) store_le(b + F::min_at, s.m[k]);
  } else if constexpr (std::is_same_v<F, IQ1_M>) {  // the f16 lies in the top nibbles of four words
    const u16 d = s.d[(b[F::scales_at + 1] >> 4) * 4 + 1];
    for (int i = 0; i < 4; i++) b[F::scales_at + 2 * i + 1] = u8((b[F::scales_at + 2 * i + 1] & 15) | (d >> (4 * i) & 15) << 4);
  } else if constexpr (std::is_same_v<F, MXFP4>) {
    b[F::exponent_at] = u8(s.exponent + (b[F::exponent_at] & 1));
  } else if constexpr (std::is_same_v<F, NVFP4>) {
    for (int i = 0; i < 4; i++) b[F::scales_at + i] = u8(std::min(0x7e, s.exponent + (b[F::scales_at + i] & 1)));
  }
}

// Floats of random sign and mantissa, exponent e or e - 1.
template <class W, int mantissa, int exponent_bits>
void fill_floats(std::span<u8> bytes, int e) {
  constexpr W keep = W(W(1) << (mantissa + exponent_bits)) | W((W(1) << mantissa) - 1);
  for (size_t i = 0; i + sizeof(W) <= bytes.size(); i += sizeof(W)) {
    const W r = load_le<W>(bytes.data() + i);
    store_le(bytes.data() + i, W((r & keep) | W(W(e - int(r >> mantissa & 1)) << mantissa)));
  }
}
// Their deviation is 1.3 times 2^e.
int exponent_for(f64 deviation, int bias, int top) { return std::clamp(int(std::lround(std::log2(deviation / 1.3))) + bias, 2, top); }

template <class F>
void fix_all(std::span<u8> bytes, const Scales& s) {
  for (size_t at = 0; at + size_t(F::bytes) <= bytes.size(); at += size_t(F::bytes)) fix<F>(bytes.data() + at, s);
}

template <class F>
f64 unit_deviation(Type type) {
  constexpr int blocks = 256;
  std::vector<u8> bytes(size_t(blocks * F::bytes));
  std::vector<f32> x(size_t(blocks * F::block));
  draw(bytes, 1);
  Scales unit;
  unit.exponent = std::is_same_v<F, MXFP4> ? 128 : 0x38;
  for (int i = 0; i < spreads; i++) {
    unit.d[i] = f32_to_half(1.0f);
    unit.m[i] = f32_to_half(f32(mean_code<F>()));
  }
  fix_all<F>(bytes, unit);
  decode_row(type, bytes, x);
  f64 sum = 0;
  for (f32 v : x) sum += f64(v) * v;
  return std::sqrt(sum / f64(x.size()));
}

template <class F>
Scales scales_for(Type type, f64 deviation) {
  Scales s;
  if constexpr (std::is_same_v<F, I2_S>) return s;
  static const f64 unit = unit_deviation<F>(type);
  const f64 d = deviation / unit;
  if constexpr (std::is_same_v<F, MXFP4>) {
    s.exponent = std::clamp(int(std::lround(std::log2(d))) + 128, 1, 253);
  } else if constexpr (std::is_same_v<F, NVFP4>) {
    // The unit is byte 0x38 or the one above it.  NVFP4 alone cannot be finer than its first byte.
    while (s.exponent < 0x7d && NVFP4::scale_of(u32(s.exponent + 1)) <= d * NVFP4::scale_of(0x38)) s.exponent++;
    s.exponent = std::max(s.exponent, 1);
  } else {
    for (int i = 0; i < spreads; i++) {
      const f64 spread = d * (0.75 + 0.5 * (i + 0.5) / spreads);
      s.d[i] = std::max<u16>(f32_to_half(f32(spread)), 1);
      s.m[i] = f32_to_half(f32(spread * mean_code<F>()));
    }
  }
  return s;
}

constexpr size_t chunk_bytes = size_t(2) << 20;

}  // namespace

size_t Filler::chunk_size() const {
  const size_t block = size_t(format_info(type_).bytes);
  return chunk_bytes / block * block;
}

size_t Filler::chunks(size_t tensor_bytes) const { return (tensor_bytes + chunk_size() - 1) / chunk_size(); }

void Filler::chunk(std::span<u8> tensor, size_t i) const {
  const size_t size = chunk_size(), at = i * size;
  FEWBIT_CHECK(at < tensor.size());
  std::span<u8> bytes = tensor.subspan(at, std::min(size, tensor.size() - at));
  draw(bytes, mix(seed_) + i);
  if (type_ == Type::F32) return fill_floats<u32, 23, 8>(bytes, exponent_for(deviation_, 127, 254));
  if (type_ == Type::BF16) return fill_floats<u16, 7, 8>(bytes, exponent_for(deviation_, 127, 254));
  if (type_ == Type::F16) return fill_floats<u16, 10, 5>(bytes, exponent_for(deviation_, 15, 30));
  switch (type_) {
#define FEWBIT_CASE(name, id)                                                                 \
  case Type::name:                                                                            \
    if constexpr (name::block > 1) fix_all<name>(bytes, scales_for<name>(type_, deviation_)); \
    break;
    FEWBIT_WEIGHT_FORMATS(FEWBIT_CASE)
#undef FEWBIT_CASE
    default:
      FEWBIT_CHECK(false, "%s is no type of weights", type_name(type_));
  }
  if (type_ == Type::I2_S && at + bytes.size() == tensor.size()) {  // the tail: one scale, zeros
    std::span<u8> tail = tensor.last(I2_S::tail);
    std::fill(tail.begin(), tail.end(), u8(0));
    store_le(tail.data(), f32(deviation_ * std::sqrt(2.0)));
  }
}

void fill_random(Type type, std::span<u8> bytes, f64 deviation, u64 seed) {
  const Filler filler(type, deviation, seed);
  for (size_t i = 0; i < filler.chunks(bytes.size()); i++) filler.chunk(bytes, i);
}

}  // namespace fewbit::gguf
