// The few words that let C++, CUDA and Metal share a header of block descriptions and pure functions.
#pragma once

#if defined(__METAL_VERSION__)
#include <metal_stdlib>
#define FEWBIT_FN inline
#define FEWBIT_CONST constant constexpr
namespace fewbit {
using u8 = uchar;
using u16 = ushort;
using u32 = uint;
using u64 = ulong;
using i8 = char;
using i16 = short;
using i32 = int;
using i64 = long;
using f32 = float;
using BytePtr = device const u8*;
FEWBIT_FN f32 f32_of_bits(u32 w) { return as_type<f32>(w); }
FEWBIT_FN f32 f32_of_f16(u16 h) { return f32(as_type<half>(h)); }
}  // namespace fewbit
#else
#include "base/half.h"
#include "base/types.h"
#if defined(__CUDACC__)
#include <cuda_fp16.h>
#define FEWBIT_FN __host__ __device__ inline
#else
#define FEWBIT_FN inline
#endif
#define FEWBIT_CONST static constexpr
namespace fewbit {
using BytePtr = const u8*;
#if defined(__CUDA_ARCH__)
FEWBIT_FN f32 f32_of_bits(u32 w) { return __uint_as_float(w); }
FEWBIT_FN f64 f64_of_bits(u64 w) { return __longlong_as_double(i64(w)); }
FEWBIT_FN f32 f32_of_f16(u16 h) { return __half2float(__ushort_as_half(h)); }
#else
FEWBIT_FN f32 f32_of_bits(u32 w) { return std::bit_cast<f32>(w); }
FEWBIT_FN f64 f64_of_bits(u64 w) { return std::bit_cast<f64>(w); }
FEWBIT_FN f32 f32_of_f16(u16 h) { return half_to_f32(h); }
#endif
}  // namespace fewbit
#endif

namespace fewbit {

// Little-endian fields at any alignment.  Compilers join the byte loads where the machine allows it.
FEWBIT_FN u32 u16_at(BytePtr p) { return u32(p[0]) | u32(p[1]) << 8; }
FEWBIT_FN u32 u32_at(BytePtr p) { return u16_at(p) | u16_at(p + 2) << 16; }
FEWBIT_FN f32 f16_at(BytePtr p) { return f32_of_f16(u16(u16_at(p))); }
FEWBIT_FN f32 f32_at(BytePtr p) { return f32_of_bits(u32_at(p)); }

// Code of element e of 32 in 16 bytes: low nibbles first, then high ones.
FEWBIT_FN u32 nibble_at(BytePtr p, int e) { return p[e % 16] >> (e / 16 * 4) & 15; }

// Entry k of a table of 16 signed bytes held in two words: no array, so no memory and no address space.
FEWBIT_FN i32 byte_of(u64 lo, u64 hi, u32 k) { return i8((k < 8 ? lo : hi) >> (k % 8 * 8)); }

// Eight bytes in one word; byte j belongs to element j.
FEWBIT_FN u64 all_bytes(u32 b) { return 0x0101010101010101ull * b; }
// 0xff in byte j where bit j of the mask is set.
FEWBIT_FN u64 spread_mask(u32 mask) {
  u64 one_bit = all_bytes(mask) & 0x8040201008040201ull;
  return ((one_bit + all_bytes(0x7f)) >> 7 & all_bytes(1)) * 255;
}
// Negates the bytes whose bit is set.  No byte may be 0 (the carry would reach its neighbour); magnitudes of grids never are.
FEWBIT_FN u64 negate_bytes(u64 bytes, u32 mask) {
  u64 m = spread_mask(mask);
  return (bytes ^ m) + (m & all_bytes(1));
}
FEWBIT_FN i32 byte_at(u64 bytes, int j) { return i8(bytes >> (8 * j)); }

// Sign mask of a 7-bit sign code: the eighth sign makes the number of negatives even (codebooks/ksigns.txt).
FEWBIT_FN u32 even_signs(u32 code) {
  u32 p = code ^ code >> 4;
  p ^= p >> 2;
  p ^= p >> 1;
  return code | (p & 1) << 7;
}

}  // namespace fewbit
