// Numbers into 8-bit activations (act_layout.h).
#pragma once
#include <cuda_fp16.h>

#include "kernel/cuda/act_layout.h"
#include "kernel/kernel.h"

namespace fewbit::kernel::cuda {

__device__ __forceinline__ f32 pow2(int e) { return __uint_as_float(u32(e + 127) << 23); }
__device__ __forceinline__ u32 magnitude(f32 v) { return __float_as_uint(v) & 0x7fffffffu; }

// round(v / d), halves away from zero, of four numbers at most 127.5 d large: v / d is rounded as a division would be, by one reciprocal
// and a correction each.
__device__ __forceinline__ void rounded_quotients(const f32 (&v)[4], f32 d, int (&q)[4]) {
  if (d > 0x1p-90f && d < 0x1p100f) {
    const f32 r = __frcp_rn(d);
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const f32 first = v[i] * r, x = __fmaf_rn(__fmaf_rn(-first, d, v[i]), r, first);
      q[i] = int(x + copysignf(0x1.fffffep-2f, x));  // the largest number below 1/2: it carries exactly the halves over
    }
  } else {  // no reciprocal
#pragma unroll
    for (int i = 0; i < 4; i++) q[i] = d > 0 ? int(roundf(v[i] / d)) : 0;
  }
}

// 4 neighbours at p of column c -> q8_32 (or what the layout says): 8 threads share a group of 32, a warp 128.  IMAGE: with more than 32
// columns the wide kernel's image too.
template <bool IMAGE>
__device__ __forceinline__ void store_q8(u8* act, int units, int cols, int c, int p, float4 v, bool write, ActLayout layout, f32 fixed_s) {
  const f32 vs[4] = {v.x, v.y, v.z, v.w};
  const u32 mine = max(max(magnitude(v.x), magnitude(v.y)), max(magnitude(v.z), magnitude(v.w)));
  u32 m = mine;
#pragma unroll
  for (int s = 1; s < 8; s *= 2) m = max(m, __shfl_xor_sync(~0u, m, s));
  const bool by_128 = layout == ActLayout::q8_128 || layout == ActLayout::q8_256;
  bool finite = m < 0x7f800000u;
  int q[4];
  f32 d, unit = 1;   // by_128: a power of two, of the warp's 128 numbers
  int multiple = 1;  // d of it
  auto quantise = [&] {
    rounded_quotients(vs, d, q);
#pragma unroll
    for (int i = 0; i < 4; i++) q[i] = max(-127, min(127, q[i]));
  };
  if (by_128) {
    const u32 most = __reduce_max_sync(~0u, mine);
    finite = most < 0x7f800000u;
    q[0] = q[1] = q[2] = q[3] = 0, d = 0;
    if (most && finite) {  // the same in all threads of the warp
      // The smallest power of two with most <= 2032 unit, then the smallest multiples with m <= 127 multiple unit.
      constexpr u32 mantissa = 0x7fffff, of_2032 = 0x7e0000, exponent_of_2032 = 10;
      for (int bits = max(int((most + (mantissa - of_2032)) & ~mantissa) - int(exponent_of_2032 << 23), 1 << 23);; bits += 1 << 23) {
        unit = __int_as_float(bits);
        const f32 times = __uint_as_float(m) * __int_as_float((254 << 23) - bits);  // m / unit
        multiple = int(ceilf(times * (1 / 127.0f)));
        multiple += (f32(multiple) * 127 < times) - (f32(multiple - 1) * 127 >= times);
        multiple = min(16, max(1, multiple));
        d = unit * f32(multiple);
        quantise();
        const int total = (abs(q[0]) + abs(q[1]) + abs(q[2]) + abs(q[3])) * multiple;
        if (int(__reduce_add_sync(~0u, u32(total))) <= act_most_of_128(layout == ActLayout::q8_256)) break;
      }
    }
  } else if (layout == ActLayout::token8) {  // one scale per column
    d = 1.0f / fixed_s;
#pragma unroll
    for (int i = 0; i < 4; i++) q[i] = max(-128, min(127, int(rintf(vs[i] * fixed_s))));
  } else {
    if (layout == ActLayout::q8_per128) m = __reduce_max_sync(~0u, mine), finite = m < 0x7f800000u;
    d = __uint_as_float(m) / 127.0f;
    if (finite) quantise();
  }
  if (!finite) {
    d = unit = __uint_as_float(0x7fc00000u);
    q[0] = q[1] = q[2] = q[3] = 0;
  }
  int sum = q[0] + q[1] + q[2] + q[3];
  sum += __shfl_xor_sync(~0u, sum, 1);
  sum += __shfl_xor_sync(~0u, sum, 2);
  const int other = __shfl_xor_sync(~0u, sum, 4);
  int whole = multiple * (sum + other);
  whole += __shfl_xor_sync(~0u, whole, 8);
  if (!write) return;
  u8* block = act + act_block_at(units, c, p / 128);
  const int k = p % 128, j = k / 32;
  const u32 bytes = u32(q[0] & 255) | u32(q[1] & 255) << 8 | u32(q[2] & 255) << 16 | u32(q[3] & 255) << 24;
  *reinterpret_cast<u32*>(block + act_q_at(c % 8, k)) = bytes;
  if (k % 32 == 0) {
    *reinterpret_cast<f32*>(block + act_d_of(c % 8, j)) = d;
    *reinterpret_cast<u32*>(block + act_sum_of(c % 8, j)) = u32(sum & 0xffff) | u32(other) << 16;
    if (by_128) {
      i32* at = reinterpret_cast<i32*>(block + act_whole_of(c % 8));
      at[j] = multiple << (2 * (3 - j));
      if (j % 2 == 0) at[4 + j / 2] = -64 * whole;
      if (j == 0) at[6] = __float_as_int(unit), at[7] = __float_as_int(-12582912.0f * unit);
    }
  }
  if (!IMAGE || !act_has_image(cols)) return;
  u8* image = act + act_image_block_at(units, cols, c, p / 128);
  // What the integers are multiplied by in the image, and what is left for its d.
  f32 factor = 1, left = d;
  if (by_128) {
    const f32 within = finite ? fminf(fmaxf(unit, pow2(act_image_min_e)), pow2(act_image_max_e)) : 1.0f;
    factor = f32(multiple) * within, left = unit / within;
  }
  if (layout == ActLayout::q8_per128) {
    *reinterpret_cast<u32*>(image + act_image_byte_at(c, k)) = bytes;
  } else {
    *reinterpret_cast<__half2*>(image + act_image_q_at(c, k)) = __floats2half2_rn(f32(q[0]) * factor, f32(q[2]) * factor);
    *reinterpret_cast<__half2*>(image + act_image_q_at(c, k + 1)) = __floats2half2_rn(f32(q[1]) * factor, f32(q[3]) * factor);
  }
  if (k % 32 == 0) {
    *reinterpret_cast<f32*>(image + act_image_d_of(c, j)) = left;
    const int sums[2] = {sum * multiple, other * multiple}, mask = by_128 ? 31 : 0;
    const f32 one = by_128 ? factor / f32(multiple) : 1.0f;
#pragma unroll
    for (int part = 0; part < 2; part++) {
      auto of = [&](int v) { return f32(!mask ? (part ? 0 : v) : part ? v & ~mask : v & mask) * one; };
      *reinterpret_cast<__half2*>(image + act_image_sum_of(c, j, part)) = __floats2half2_rn(of(sums[0]), of(sums[1]));
    }
    if (c == cols - 1)  // columns beyond the last: nothing that would need care
      for (int i = c % 128 + 1; i < 128; i++) *reinterpret_cast<f32*>(image + act_image_d_of(i, j)) = 1;
  }
}

}  // namespace fewbit::kernel::cuda
