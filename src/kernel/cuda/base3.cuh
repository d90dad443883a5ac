// Decoding of t5 (layout.h): eight codes of 0..2 from a number of 8 bits and one of 5, for four neighbouring inputs at once.
//
// A word holds four numbers, one per byte.  Sums and products of whole words are right in every byte as long as the end result fits each:
// a carry between bytes that one step makes another takes back (all is exact modulo 2^32).  So a digit costs two instructions: multiply
// and add until it is the upper bits of its byte, and mask.  What is carried into the next byte for good (at most 2) does no harm there.
//
//   three   n = 9 a + 3 b + c + 3:   x = 7 n - 18 = 64 a + (21 b + 7 c - a + 3)
//                                    3 x + 64 a = 256 a + 64 b + (21 c - b - 3 a + 9)
//                                    64 n - 192 - 9 (64 a) - 3 (64 b) = 64 c
//   five    27 (3 p + q) + three: too wide for products in bytes, so 3 p + q comes from products in f16, a number in each half of a
//           register: 1280 + n is the byte n below 0x65, and fma(1280 + n, s, c) rounds to 1280 + floor((n - 3) / 27), whose lower byte is
//           wanted.
//   two     m = 3 p + q:             5 m + 2 = 16 p + (5 q - p + 2)
#pragma once
#include "kernel/cuda/common.cuh"
#include "kernel/cuda/layout.h"

namespace fewbit::kernel::cuda {

__device__ __forceinline__ u32 permute(u32 a, u32 b, u32 s) {
  u32 r;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(s));
  return r;
}

inline constexpr u32 each_byte = 0x01010101u;

// An instruction takes one immediate; what is wanted beside it is better kept in a register where a kernel has one to spare.
struct Base3Constants {
  u32 seven = 7, five = 5, upper = 0x65656565u, over_27 = 0x28be28beu;  // 0.03705 in f16
  __device__ __forceinline__ void into_registers(u32 zero) { seven |= zero, five |= zero, upper |= zero, over_27 |= zero; }
};

// A lane's numbers of row half h, taken apart as far as all kernels want it.
struct Base3 {
  u32 p, pq;       // 16 p, 16 (3 p + q)
  u32 n[2];        // of f = 0, 1: 9 a + 3 b + c + 3
  u32 a[2], b[2];  // times 64

  __device__ __forceinline__ Base3(u32 five, u32 three, const Base3Constants& k = {}) {
    auto over_27 = [&](u32 n) {
      u32 d;
      asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(n), "r"(k.over_27), "r"(0x64d064d0u));  // 1232: all bytes 3..245 round rightly
      return d;
    };
    const u32 even = permute(five, k.upper, 0x4240), odd = permute(five, k.upper, 0x4341);
    const u32 m = permute(over_27(even), over_27(odd), 0x6240);
    p = (m * k.five + 2 * each_byte) & 0x30303030u, pq = 16 * m;
    n[0] = five - 27 * m, n[1] = three;
#pragma unroll
    for (int f = 0; f < 2; f++) {
      const u32 x = n[f] * k.seven - 18 * each_byte;
      a[f] = x & 0xc0c0c0c0u;
      b[f] = (x * 3 + a[f]) & 0xc0c0c0c0u;
    }
  }
  __device__ __forceinline__ u32 q() const { return pq - 3 * p; }                                              // times 16
  __device__ __forceinline__ u32 c(int f) const { return n[f] * 64 - 192 * each_byte - 9 * a[f] - 3 * b[f]; }  // times 64
};

}  // namespace fewbit::kernel::cuda
