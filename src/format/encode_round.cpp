// Encoders that only scale and round: 8-bit, binary and ternary.  formats.md 4.6, 4.21, 4.22, 4.30..4.34, 6
#include "format/encode.h"
#include "format/encode_math.h"

namespace fewbit {
namespace {

// The scale of a block whose largest magnitude becomes `top`; 0 if its inverse would be infinite.
f32 scale_to(const f32* x, int n, f32 top) {
  const f32 d = largest_magnitude(x, n) / top;
  return inverts(d) ? d : 0;
}

// d = max|x|, digits 0, 1, 2 into digit[].  Returns d.
f32 ternary_digits(const f32* x, int n, u8* digit) {
  const f32 d = scale_to(x, n, 1), i = inv(d);
  for (int e = 0; e < n; e++) digit[e] = u8(rhaz_to(x[e] * i, -1, 1) + 1);
  return d;
}

template <class F>  // 2-bit planes: codes(word, p) of word t are elements at(t, p) + step * 0..3
void pack_planes(const u8* code, u8* out) {
  for (int t = 0; t < F::words; t++) {
    u32 word = 0;
    for (int p = 0; p < F::planes; p++)
      for (int j = 0; j < 4; j++) word |= u32(code[F::at(t, p) + F::step * j]) << (8 * j + 2 * p);
    store_le(out + F::codes_at + 4 * t, word);
  }
}

template <class F>
void encode_two_bit(const f32* x, i64 n, u8* out) {
  for (i64 i = 0; i < n / F::block; i++, x += F::block, out += F::bytes) {
    u8 code[F::block];
    store_f16(out + F::scale_at, ternary_digits(x, F::block, code));
    pack_planes<F>(code, out);
  }
}

template <class F>  // five base-3 digits per byte as a fraction, rounded up (tq1_0.h)
void encode_base_3(const f32* x, i64 n, u8* out) {
  for (i64 i = 0; i < n / F::block; i++, x += F::block, out += F::bytes) {
    u8 digit[F::block];
    store_f16(out + F::scale_at, ternary_digits(x, F::block, digit));
    u32 number[F::scale_at] = {};
    for (int e = 0; e < F::block; e++) number[F::byte_of_element(e)] += digit[e] * power_of_3(4 - F::digit_of_element(e));
    for (int b = 0; b < F::scale_at; b++) out[F::codes_at + b] = u8((number[b] * 256 + 242) / 243);
  }
}

// q = rhaz(x / d).  Returns d.
f32 bytes_of_32(const f32* x, i8* q) {
  const f32 d = scale_to(x, 32, 127), i = inv(d);
  for (int e = 0; e < 32; e++) q[e] = i8(rhaz_to(x[e] * i, -127, 127));
  return d;
}

}  // namespace

void encode(Q8_0, const f32* x, const f32*, i64 n, u8* out) {
  for (i64 i = 0; i < n / Q8_0::block; i++, x += Q8_0::block, out += Q8_0::bytes)
    store_f16(out + Q8_0::scale_at, bytes_of_32(x, reinterpret_cast<i8*>(out + Q8_0::codes_at)));
}

void encode(Q8_1, const f32* x, const f32*, i64 n, u8* out) {
  for (i64 i = 0; i < n / Q8_1::block; i++, x += Q8_1::block, out += Q8_1::bytes) {
    i8* q = reinterpret_cast<i8*>(out + Q8_1::codes_at);
    const f32 d = bytes_of_32(x, q);
    i32 sum = 0;
    for (int e = 0; e < Q8_1::block; e++) sum += q[e];
    store_f16(out + Q8_1::scale_at, d);
    store_f16(out + Q8_1::sum_at, f32(sum) * d);
  }
}

void encode(Q8_K, const f32* x, const f32*, i64 n, u8* out) {
  for (i64 i = 0; i < n / Q8_K::block; i++, x += Q8_K::block, out += Q8_K::bytes) {
    const f32 m = signed_largest(x, Q8_K::block), inverse = -127 / m;
    std::fill_n(out, Q8_K::bytes, u8(0));
    if (m == 0 || !std::isfinite(inverse)) continue;
    store_le(out + Q8_K::f32_scale_at, 1 / inverse);
    for (int g = 0; g < 16; g++) {
      i16 sum = 0;
      for (int e = 16 * g; e < 16 * g + 16; e++) {
        const i8 q = i8(rint_to(inverse * x[e], -127, 127));
        store_le(out + Q8_K::codes_at + e, q);
        sum = i16(sum + q);
      }
      store_le(out + Q8_K::sums_at + 2 * g, sum);
    }
  }
}

void encode(Q1_0, const f32* x, const f32*, i64 n, u8* out) {
  for (i64 i = 0; i < n / Q1_0::block; i++, x += Q1_0::block, out += Q1_0::bytes) {
    f32 sum = 0;
    std::fill_n(out, Q1_0::bytes, u8(0));
    for (int e = 0; e < Q1_0::block; e++) {
      sum += std::abs(x[e]);
      out[Q1_0::codes_at + e / 8] |= u8((x[e] >= 0) << e % 8);
    }
    store_f16(out + Q1_0::scale_at, sum / Q1_0::block);
  }
}

void encode(Q2_0, const f32* x, const f32*, i64 n, u8* out) { encode_two_bit<Q2_0>(x, n, out); }
void encode(PQ2_0, const f32* x, const f32*, i64 n, u8* out) { encode_two_bit<PQ2_0>(x, n, out); }
void encode(TQ2_0, const f32* x, const f32*, i64 n, u8* out) { encode_two_bit<TQ2_0>(x, n, out); }
void encode(TQ1_0, const f32* x, const f32*, i64 n, u8* out) { encode_base_3<TQ1_0>(x, n, out); }
void encode(PTQ1_0, const f32* x, const f32*, i64 n, u8* out) { encode_base_3<PTQ1_0>(x, n, out); }

void encode_i2_s(const f32* x, i64 n, u8* out) {
  f32 scale = 0;
  for (i64 i = 0; i < n; i++) scale = std::max(scale, std::abs(x[i]));
  for (i64 i = 0; i < n / I2_S::block; i++, x += I2_S::block, out += I2_S::bytes) {
    u8 code[I2_S::block];
    for (int e = 0; e < I2_S::block; e++) code[e] = std::abs(f64(x[e])) < 1e-6 ? 1 : x[e] > 0 ? 2 : 0;
    pack_planes<I2_S>(code, out);
  }
  std::fill_n(out, I2_S::tail, u8(0));
  store_le(out, scale);
}

}  // namespace fewbit
