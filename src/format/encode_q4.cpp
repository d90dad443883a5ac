// Q4_0, Q4_1, Q5_0, Q5_1: a closed formula; with weights a search.  formats.md 4.2 .. 4.5
#include "format/encode.h"
#include "format/encode_math.h"
#include "format/search/search.h"

namespace fewbit {
namespace {

template <class F>
void pack(const u8* code, u8* out) {
  for (int e = 0; e < 16; e++) out[F::codes_at + e] = u8((code[e] & 15) | (code[e + 16] & 15) << 4);
  if constexpr (requires { F::high_at; }) {
    u32 high = 0;
    for (int e = 0; e < 32; e++) high |= u32(code[e] >> 4) << e;
    store_le(out + F::high_at, high);
  }
}

template <class F>  // codes 0 .. 2 zero - 1; the element of largest magnitude gets code 0
void encode_signed(const f32* x, i64 n, u8* out) {
  for (i64 i = 0; i < n / 32; i++, x += 32, out += F::bytes) {
    f32 d = signed_largest(x, 32) / f32(-F::zero);
    if (!inverts(d)) d = -0.0f;
    const f32 inverse = inv(d);
    u8 code[32];
    for (int e = 0; e < 32; e++) code[e] = u8(trunc_to(x[e] * inverse + (f32(F::zero) + 0.5f), 0, 2 * F::zero - 1));
    store_f16(out + F::scale_at, d);
    pack<F>(code, out);
  }
}

template <class F>  // codes 0 .. top from the smallest to the largest element
void encode_ranged(const f32* x, i64 n, int top, u8* out) {
  for (i64 i = 0; i < n / 32; i++, x += 32, out += F::bytes) {
    f32 lo = *std::min_element(x, x + 32);
    f32 d = (*std::max_element(x, x + 32) - lo) / f32(top);
    if (d != 0 && !inverts(d)) d = lo = 0;
    const f32 inverse = inv(d);
    u8 code[32];
    for (int e = 0; e < 32; e++) code[e] = u8(trunc_to((x[e] - lo) * inverse + 0.5f, 0, top));
    store_f16(out + F::scale_at, d);
    store_f16(out + F::min_at, lo);
    pack<F>(code, out);
  }
}

}  // namespace

void encode(Q4_0, const f32* x, const f32* q, i64 n, u8* out) { q ? searches().Q4_0(x, q, n, out) : encode_signed<Q4_0>(x, n, out); }
void encode(Q5_0, const f32* x, const f32* q, i64 n, u8* out) { q ? searches().Q5_0(x, q, n, out) : encode_signed<Q5_0>(x, n, out); }
void encode(Q4_1, const f32* x, const f32* q, i64 n, u8* out) { q ? searches().Q4_1(x, q, n, out) : encode_ranged<Q4_1>(x, n, 15, out); }
void encode(Q5_1, const f32* x, const f32* q, i64 n, u8* out) { q ? searches().Q5_1(x, q, n, out) : encode_ranged<Q5_1>(x, n, 31, out); }

}  // namespace fewbit
