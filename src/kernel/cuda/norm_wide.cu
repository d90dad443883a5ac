// The norm (norm.cu) of more than 32 columns into q8_128 or q8_256, rotated in blocks of 1024 or not, and into floats as well.
//
// Layout   a warp holds 1024 numbers of a column, eight units of 128: lane l numbers 4 l .. 4 l + 3 of each.
//          So the last three steps of the rotation need no exchange, and each lane finds
//          the scale of one of the warp's 32 groups of 32 for the others.
// Blocks   of a norm all warps of a column, which sum its squares together; else four columns, which share the signs.
// Order    every number is computed by the operations of norm_kernel in their order: the same bits.
#include "kernel/cuda/norm.h"

#include "kernel/cuda/act_layout.h"
#include "kernel/cuda/common.cuh"

namespace fewbit::kernel::cuda {

namespace {

constexpr int units = 8, chunk = 128 * units;          // of a warp
constexpr int most_chunks = 10, columns_of_block = 4;  // of a norm's row; without the sum of squares

struct WideArgs {
  const f32* x;
  i64 ldx;
  int n, cols;
  const f32* w;
  f32 eps, reciprocal_n;
  f32* plain;  // or null
  u8* act;
  const f32* signs;  // or null
  int perm_k_heads, perm_rep, perm_width;
  int most_of_128;
};

// 1 / sqrt(mean of squares + eps) of a row, by the block: 256 chains over numbers 1024 apart, a tree over each 32 chains, those in order.
__device__ __forceinline__ f32 norm_factor(const WideArgs& a, const f32* x, int warp, int lane) {
  __shared__ f32 partial[8];
  const int warps = int(blockDim.x / 32);
  for (int of = warp; of < 8; of += warps) {
    const f32* from = x + of * 128 + lane * 4;
    f32 s = 0;
#pragma unroll 5
    for (int i = of * 128; i < a.n; i += chunk, from += chunk) {
      const float4 v = *reinterpret_cast<const float4*>(from);
      s = __fmaf_rn(v.x, v.x, s), s = __fmaf_rn(v.y, v.y, s), s = __fmaf_rn(v.z, v.z, s), s = __fmaf_rn(v.w, v.w, s);
    }
    s = warp_sum(s);
    if (lane == 0) partial[of] = s;
  }
  __syncthreads();
  f32 s = 0;
#pragma unroll
  for (int of = 0; of < 8; of++) s += partial[of];
  return rsqrtf(s * a.reciprocal_n + a.eps);
}

// rotate4<1024> of eight units in a warp.
__device__ __forceinline__ void rotate1024(f32 (&v)[units][4], int lane) {
#pragma unroll
  for (int u = 0; u < units; u++) {
    const f32 x = v[u][0] + v[u][1], y = v[u][0] - v[u][1], z = v[u][2] + v[u][3], w = v[u][2] - v[u][3];
    v[u][0] = x + z, v[u][1] = y + w, v[u][2] = x - z, v[u][3] = y - w;
  }
#pragma unroll
  for (int m = 1; m < 32; m *= 2) {
    const f32 sign = lane & m ? -1.0f : 1.0f;
#pragma unroll
    for (int u = 0; u < units; u++)
#pragma unroll
      for (int i = 0; i < 4; i++) v[u][i] = __fmaf_rn(sign, v[u][i], __shfl_xor_sync(~0u, v[u][i], m));
  }
#pragma unroll
  for (int i = 0; i < 4; i++) {
    f32 sum[units];
#pragma unroll
    for (int u = 0; u < units; u++) {
      sum[u] = v[0][i];
#pragma unroll
      for (int o = 1; o < units; o++) {
        const int both = u & o;
        sum[u] = (both ^ both >> 1 ^ both >> 2) & 1 ? sum[u] - v[o][i] : sum[u] + v[o][i];
      }
    }
#pragma unroll
    for (int u = 0; u < units; u++) v[u][i] = sum[u] * 0.03125f;
  }
}

// v[i] of each of 8 lanes -> in lane i of them.
template <class T, class F>
__device__ __forceinline__ T gather8(T (&v)[8], int lane, F&& both) {
#pragma unroll
  for (int m = 4; m; m /= 2) {
    const bool up = lane & m;
#pragma unroll
    for (int k = 0; k < m; k++) v[k] = both(up ? v[k + m] : v[k], __shfl_xor_sync(~0u, up ? v[k] : v[k + m], m));
  }
  return v[0];
}
// v[i] of lanes 0..3 and of lanes 4..7 of each 8 -> in lane i of them.
__device__ __forceinline__ float2 gather4(f32 (&v)[8], int lane) {
#pragma unroll
  for (int m = 2; m; m /= 2) {
    const bool up = lane & m;
#pragma unroll
    for (int k = 0; k < 4 + m; k++)
      if (k % 4 < m) v[k] = (up ? v[k + m] : v[k]) + __shfl_xor_sync(~0u, up ? v[k] : v[k + m], m);
  }
  const bool last = lane & 4;
  const f32 other = __shfl_xor_sync(~0u, last ? v[0] : v[4], 4);
  return last ? make_float2(other, v[4]) : make_float2(v[0], other);
}

// The larger magnitude; NaN if one is.
__device__ __forceinline__ f32 larger(f32 x, f32 y) {
  f32 z;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(z) : "f"(fabsf(x)), "f"(fabsf(y)));
  return z;
}

// Scale of a group: multiple * unit, the unit a power of two of its 128 numbers.
struct Scale {
  f32 unit, d;
  int multiple;
};
// The smallest multiple of a unit with m <= 127 multiple unit.
__device__ __forceinline__ Scale scale_of(u32 m, int unit_bits) {
  Scale s;
  s.unit = __int_as_float(unit_bits);
  const f32 times = __uint_as_float(m) * __int_as_float((254 << 23) - unit_bits);  // m / unit
  s.multiple = int(ceilf(times * (1 / 127.0f)));
  s.multiple += (f32(s.multiple) * 127 < times) - (f32(s.multiple - 1) * 127 >= times);
  s.multiple = min(16, max(1, s.multiple));
  s.d = s.unit * f32(s.multiple);
  return s;
}

constexpr f32 to_integer = 12582912.0f;  // 1.5 * 2^23: its sum with an integer has that integer in the lowest bits

// The warp's numbers -> q8 blocks and image of column c, units from `first` on (`there` of them).
__device__ __forceinline__ void store_units(const WideArgs& a, f32 (&v)[units][4], int c, int first, int there, int lane) {
  const int i = lane % 8, j = lane / 8;  // this lane's group: j of unit i
  u32 most8[8];
#pragma unroll
  for (int u = 0; u < units; u++) most8[u] = __float_as_uint(larger(larger(v[u][0], v[u][1]), larger(v[u][2], v[u][3])));
  const u32 m = gather8(most8, lane, [](u32 x, u32 y) { return max(x, y); });
  u32 most = max(m, __shfl_xor_sync(~0u, m, 8));
  most = max(most, __shfl_xor_sync(~0u, most, 16));
  const bool finite = most < 0x7f800000u;
  // The smallest power of two with most <= 2032 unit, and larger ones until the sum of all magnitudes is small enough.
  constexpr u32 mantissa = 0x7fffff, of_2032 = 0x7e0000, exponent_of_2032 = 10;
  int bits = max(int((most + (mantissa - of_2032)) & ~mantissa) - int(exponent_of_2032 << 23), 1 << 23);
  // Quotients need a reciprocal: numbers too small or too large for one are brought nearer to 1, the others of their unit with them.
  f32 nearer = 1;
  if (bits < (127 - 86) << 23) nearer = 0x1p64f;
  if (bits > (127 + 90) << 23) nearer = 0x1p-64f;
  if (!most || !finite) nearer = 1;
  if (!__all_sync(~0u, nearer == 1 && finite)) {
#pragma unroll
    for (int u = 0; u < units; u++) {
      const f32 by = __shfl_sync(~0u, nearer, u);
      const bool finite_u = __shfl_sync(~0u, int(finite), u);
#pragma unroll
      for (int k = 0; k < 4; k++) v[u][k] = finite_u ? v[u][k] * by : 0;
    }
  }
  Scale scale;
  f32 q[units][4], sum, other;  // q: integers; their sums over the group's halves
  for (;;) {
    scale = most && finite ? scale_of(m, bits) : Scale{1, 1, 1};
    const f32 d = scale.d * nearer, r = __frcp_rn(d);
    f32 sums[8];  // 8192 magnitudes + numbers: below 2^24, so exact
#pragma unroll
    for (int u = 0; u < units; u++) {
      const f32 d_u = __shfl_sync(~0u, d, (lane & 24) | u), r_u = __shfl_sync(~0u, r, (lane & 24) | u);
#pragma unroll
      for (int k = 0; k < 4; k++) {  // rounded_quotients of quantise.cuh, by sums instead of conversions
        const f32 begin = v[u][k] * r_u, x = __fmaf_rn(__fmaf_rn(-begin, d_u, v[u][k]), r_u, begin);
        q[u][k] = copysignf(__fadd_rz(fabsf(x) + 0x1.fffffep-2f, 0x1p23f) - 0x1p23f, x);
      }
      sums[u] = __fmaf_rn(8192.0f, (fabsf(q[u][0]) + fabsf(q[u][1])) + (fabsf(q[u][2]) + fabsf(q[u][3])),
                          (q[u][0] + q[u][1]) + (q[u][2] + q[u][3]));
    }
    const float2 halves = gather4(sums, lane);
    auto magnitudes = [](f32 both) { return __fmaf_rn(both, 1 / 8192.0f, to_integer) - to_integer; };
    const f32 large = magnitudes(halves.x), large_other = magnitudes(halves.y);
    sum = __fmaf_rn(-8192.0f, large, halves.x), other = __fmaf_rn(-8192.0f, large_other, halves.y);
    f32 total = (large + large_other) * f32(scale.multiple);
    total += __shfl_xor_sync(~0u, total, 8);
    total += __shfl_xor_sync(~0u, total, 16);
    const bool again = total > f32(a.most_of_128);
    if (!__any_sync(~0u, again)) break;
    if (again) bits += 1 << 23;
  }
  if (!finite) scale.d = scale.unit = __uint_as_float(0x7fc00000u);
  if (!most) scale.d = 0;
  // What the integers are multiplied by in the image, and what is left for its d.
  const f32 within = finite ? fminf(fmaxf(scale.unit, 0x1p-24f), 0x1p1f) : 1.0f;
  static_assert(act_image_min_e == -24 && act_image_max_e == 1);
  const f32 factor = f32(scale.multiple) * within, left = scale.unit * __int_as_float((254 << 23) - __float_as_int(within));

  const int all_units = act_units(a.n), k = 4 * lane;
  u8* block = a.act + act_block_at(all_units, c, first);
  u8* image = a.act + act_image_block_at(all_units, a.cols, c, first);
  const bool odd = lane & 1;
  u8* to_q = block + act_q_at(c % 8, k);
  u8* to_image = image + act_image_q_at(c, odd ? k - 3 : k);  // two lanes share 16 bytes, the even one has the lower eight
#pragma unroll
  for (int u = 0; u < units; u++) {
    auto byte = [&](int n) { return __float_as_uint(q[u][n] + to_integer); };
    const u32 bytes = __byte_perm(__byte_perm(byte(0), byte(1), 0x0040), __byte_perm(byte(2), byte(3), 0x0040), 0x5410);
    const f32 by = __shfl_sync(~0u, factor, (lane & 24) | u);
    auto half2 = [&](int n) {
      const __half2 h = __floats2half2_rn(__fmaf_rn(q[u][n], by, 0.0f), __fmaf_rn(q[u][n + 2], by, 0.0f));  // + 0: no negative zero
      return *reinterpret_cast<const u32*>(&h);
    };
    const u32 even_half = half2(0), odd_half = half2(1), got = __shfl_xor_sync(~0u, odd ? even_half : odd_half, 1);
    if (u >= there) continue;
    *reinterpret_cast<u32*>(to_q + u * act_block) = bytes;
    *reinterpret_cast<uint2*>(to_image + u * act_image_block) = odd ? make_uint2(got, odd_half) : make_uint2(even_half, got);
  }

  const int s = int(sum), o = int(other);
  int whole = scale.multiple * (s + o);
  whole += __shfl_xor_sync(~0u, whole, 8);
  if (i >= there) return;
  block += i * act_block, image += i * act_image_block;
  *reinterpret_cast<f32*>(block + act_d_of(c % 8, j)) = scale.d;
  *reinterpret_cast<u32*>(block + act_sum_of(c % 8, j)) = u32(s & 0xffff) | u32(o) << 16;
  i32* at = reinterpret_cast<i32*>(block + act_whole_of(c % 8));
  at[j] = scale.multiple << (2 * (3 - j));
  at[j % 2 * 2 + j / 2 + 4] = j % 2 == 0 ? -64 * whole : __float_as_int(j == 1 ? scale.unit : -to_integer * scale.unit);
  *reinterpret_cast<f32*>(image + act_image_d_of(c, j)) = left;
#pragma unroll
  for (int part = 0; part < 2; part++) {
    auto of = [&](int v) { return f32(part ? v & ~31 : v & 31) * within; };
    *reinterpret_cast<__half2*>(image + act_image_sum_of(c, j, part)) = __floats2half2_rn(of(s * scale.multiple), of(o * scale.multiple));
  }
  if (c == a.cols - 1)  // columns beyond the last: nothing that would need care
    for (int n = c % 128 + 1; n < 128; n++) *reinterpret_cast<f32*>(image + act_image_d_of(n, j)) = 1;
}

template <bool NORM, bool ROTATED>
__global__ void __launch_bounds__(NORM ? 32 * most_chunks : 32 * columns_of_block, NORM ? 2 : 5)
    wide_kernel(const __grid_constant__ WideArgs a) {
  early_launch();
  const int lane = int(threadIdx.x % 32), warp = warp_index();
  const int c = NORM ? int(blockIdx.x) : int(blockIdx.y) * columns_of_block + warp, first = (NORM ? warp : int(blockIdx.x)) * units,
            there = min(units, a.n / 128 - first);
  early_wait();
  if (c >= a.cols) return;
  const f32* x = a.x + c * a.ldx;
  f32 v[units][4];
  auto each = [&](const f32* from, auto&& what) {
#pragma unroll
    for (int u = 0; u < units; u++) {
      float4 t = make_float4(0, 0, 0, 0);
      if (u < there) t = *reinterpret_cast<const float4*>(from + (first + u) * 128 + 4 * lane);
      const f32 ts[4] = {t.x, t.y, t.z, t.w};
#pragma unroll
      for (int k = 0; k < 4; k++) what(v[u][k], ts[k]);
    }
  };
  auto put = [](f32& to, f32 from) { to = from; };
  auto times = [](f32& to, f32 from) { to *= from; };
  if (!NORM && a.perm_k_heads) {  // runs of whole units stay together
    const int run = a.perm_width / 128;
    int at = first % run, g = first / run / a.perm_rep, r = first / run % a.perm_rep;
#pragma unroll
    for (int u = 0; u < units; u++) {
      const int from = (r * a.perm_k_heads + g) * run + at;
      if (++at == run) at = 0, r++;
      if (r == a.perm_rep) r = 0, g++;
      float4 t = make_float4(0, 0, 0, 0);
      if (u < there) t = *reinterpret_cast<const float4*>(x + from * 128 + 4 * lane);
      v[u][0] = t.x, v[u][1] = t.y, v[u][2] = t.z, v[u][3] = t.w;
    }
  } else {
    each(x, put);
  }
  if (NORM) {
    const f32 factor = norm_factor(a, x, warp, lane);
    each(a.w, [&](f32& to, f32 w) { to = to * factor * w; });
    if (a.plain) {
#pragma unroll
      for (int u = 0; u < units; u++)
        if (u < there)
          *reinterpret_cast<float4*>(a.plain + i64(c) * a.n + (first + u) * 128 + 4 * lane) =
              make_float4(v[u][0], v[u][1], v[u][2], v[u][3]);
    }
  }
  if (a.signs) each(a.signs, times);
  if (ROTATED) rotate1024(v, lane);
  store_units(a, v, c, first, there, lane);
}

}  // namespace

bool norm_wide(Ctx& ctx, const NormArgs& n) {
  const int chunks = (n.n + chunk - 1) / chunk;
  if (!act_has_image(n.cols) || !n.aligned || n.n % 128 || (n.w && chunks > most_chunks)) return false;
  WideArgs a{n.x, n.ldx, n.n, n.cols, n.w, n.eps, n.reciprocal_n, nullptr, nullptr, nullptr, 0, 0, 0, 0};
  bool rotated = false;
  for (int i = 0; i < n.n_outs; i++) {
    const NormOut& o = n.outs[i];
    if (o.layout == ActLayout::f32 && n.w && !a.plain && o.block <= 1 && !o.signs && !o.perm_k_heads) {
      a.plain = static_cast<f32*>(o.data);
    } else if ((o.layout == ActLayout::q8_128 || o.layout == ActLayout::q8_256) && !a.act && (o.block <= 1 || o.block == chunk) &&
               !(o.perm_k_heads && (n.w || o.perm_width % 128))) {
      a.act = static_cast<u8*>(o.data), a.signs = o.signs, a.most_of_128 = act_most_of_128(o.layout == ActLayout::q8_256);
      a.perm_k_heads = o.perm_k_heads, a.perm_rep = o.perm_rep, a.perm_width = o.perm_width;
      rotated = o.block == chunk;
    } else {
      return false;
    }
  }
  if (!a.act) return false;
  LaunchShape s;
  s.grid = n.w ? dim3(unsigned(n.cols)) : dim3(unsigned(chunks), unsigned(n.cols + columns_of_block - 1) / columns_of_block);
  s.block = dim3(unsigned(32 * (n.w ? chunks : columns_of_block)));
  s.cols = n.cols, s.name = n.w ? "norm.wide" : "act.wide";
  s.shape = ctx.launches ? std::to_string(n.n) + "x" + std::to_string(n.cols) : std::string();
  launch(ctx,
         n.w       ? rotated ? wide_kernel<true, true> : wide_kernel<true, false>
               : rotated ? wide_kernel<false, true>
                   : wide_kernel<false, false>,
         s, a);
  return true;
}

}  // namespace fewbit::kernel::cuda

// Measured on an H200 (nvcc 13.0, 30 Nov 2026), 512 columns into q8_128, rotated: 5120 numbers with the sum of squares 9.6 us, 6144 without
// 10.1, 17408 23.0 (by norm_kernel 21.3, 20.8 and 55.9, which were its instructions: 500 per 4 numbers of a thread, here 1650 per 32).
// tried: addresses without signed divisions, no bounds where rotated (1650 to 1450 instructions) | 9.6, 10.2, 23.7 us | no longer the limit
// tried: 80 registers, so that six blocks fit; the squares of two chains at once | 9.7, 10.1, 23.5 us
// tried: early launch | 9.5, 9.8, 23.7 us, pp512 0.15 % more
