// h = RMSNorm(x) w, rotated, quantised: everything between two multiplies in one launch.
//
// Shapes   x: (cols, ldx) f32     w: (n) or none     outs: per entry an Act, rotated by its own Rotation
// Grid     chunks of the row x columns x outputs.  Each block sums the whole row (it lies in L2) and transforms its own chunk.
// Many     columns: norm_wide.cu, where it can.
// Order    the sum of squares: thread i takes float4 i, i + T, ..., then a warp tree, then the warps in order; T depends on the
//          rotation alone, so a column's bits do not depend on how many columns there are.
#include "kernel/cuda/act_layout.h"
#include "kernel/cuda/half_layout.h"
#include "kernel/cuda/layout.h"
#include "kernel/cuda/matmul_half.h"
#include "kernel/cuda/norm.h"
#include "kernel/cuda/ops.h"
#include "kernel/cuda/quantise.cuh"
#include "kernel/cuda/rotate.cuh"

namespace fewbit::kernel::cuda {

namespace {

// 4 neighbours at p of column c -> f16 (half_layout.h); none of the column's magnitudes is beyond `most`.
__device__ __forceinline__ void store_half(u8* act, int units, int cols, int c, int p, float4 v, f32 most) {
  const int e = min(max(int(__float_as_uint(most) >> 23) - 127, -100), 126);
  const f32 s = pow2(14 - e);
  const __half2 h[2] = {__floats2half2_rn(v.x * s, v.y * s), __floats2half2_rn(v.z * s, v.w * s)};
  *reinterpret_cast<uint2*>(act + half_act_at(units, cols, c, p)) = *reinterpret_cast<const uint2*>(h);
  if (p == 0)
    *reinterpret_cast<f32*>(act + half_act_scales_at(units, cols) + 4 * c) = most < INFINITY ? pow2(e - 14) : __uint_as_float(0x7fc00000u);
}

// 4 neighbours at i of n numbers; beyond the last: 0.
__device__ __forceinline__ float4 load4(const f32* x, int i, int n, bool aligned) {
  if (aligned && i < n) return *reinterpret_cast<const float4*>(x + i);
  return make_float4(i < n ? x[i] : 0, i + 1 < n ? x[i + 1] : 0, i + 2 < n ? x[i + 2] : 0, i + 3 < n ? x[i + 3] : 0);
}

// B: the block of every rotation, or 0: any.  FEW: no image, aligned rows, into q8_128 or floats: half the instructions, and a kernel this
// short waits for them.
template <int B, bool FEW>
__global__ void __launch_bounds__(B ? 256 : 1024) norm_kernel(const __grid_constant__ NormArgs a) {
  extern __shared__ float4 exchange[];  // one per thread
  __shared__ f32 partial[64];
  early_launch();
  const bool aligned = FEW || a.aligned;
  const NormOut& out = a.outs[blockIdx.z];
  const int c = int(blockIdx.y), p = int(blockIdx.x * blockDim.x + threadIdx.x) * 4;
  const f32* x = a.x + c * a.ldx;
  int src = p;
  if (out.perm_k_heads && p < a.n) {
    const int head = p / out.perm_width, g = head / out.perm_rep, r = head % out.perm_rep;
    src = (r * out.perm_k_heads + g) * out.perm_width + p % out.perm_width;
  }
  float4 w = make_float4(1, 1, 1, 1), signs = w;  // of the model, so they may be read early
  if (a.w && p < a.n) w = load4(a.w, src, a.n, aligned);
  if (out.signs && p < a.n) signs = load4(out.signs, p, a.n, aligned);
  early_wait();

  float4 v = make_float4(0, 0, 0, 0);
  if (p < a.n) v = load4(x, src, a.n, aligned);
  f32 factor = 1;
  if (a.w) {
    f32 s = 0;
    auto add = [&](float4 v) {
      s = __fmaf_rn(v.x, v.x, s), s = __fmaf_rn(v.y, v.y, s), s = __fmaf_rn(v.z, v.z, s), s = __fmaf_rn(v.w, v.w, s);
    };
    const int step = int(blockDim.x) * 4;
    int i = int(threadIdx.x) * 4;
    if (aligned) {  // five loads at once, without branches; beyond the last: zeros
      constexpr int at_once = 5;
      for (; i < a.n; i += at_once * step) {
        float4 v[at_once];
        if (i - int(threadIdx.x) * 4 + at_once * step <= a.n) {  // all there
#pragma unroll
          for (int k = 0; k < at_once; k++) v[k] = *reinterpret_cast<const float4*>(x + i + k * step);
#pragma unroll
          for (int k = 0; k < at_once; k++) add(v[k]);
          continue;
        }
#pragma unroll
        for (int k = 0; k < at_once; k++) v[k] = *reinterpret_cast<const float4*>(x + min(i + k * step, a.n - 4));
#pragma unroll
        for (int k = 0; k < at_once; k++) add(i + k * step < a.n ? v[k] : make_float4(0, 0, 0, 0));
      }
    } else {
      for (; i < a.n; i += step) add(load4(x, i, a.n, false));
    }
    factor = rsqrtf(block_sum < B ? 8 : 0 > (s, partial) * a.reciprocal_n + a.eps);
  }
  f32 scale8 = 0, most = 0;
  if (!FEW && (out.layout == ActLayout::token8 || out.layout == ActLayout::f16)) {  // the column's largest magnitude
    f32 m = 0;
    for (int i = int(threadIdx.x); i < a.n; i += int(blockDim.x)) m = fmaxf(m, fabsf(a.w ? x[i] * factor * a.w[i] : x[i]));
    m = warp_max(m);
    if (threadIdx.x % 32 == 0) partial[32 + threadIdx.x / 32] = m;
    __syncthreads();
    for (int i = 0; i < int(blockDim.x) / 32; i++) m = fmaxf(m, partial[32 + i]);
    scale8 = 127.0f / fmaxf(m, 1e-5f);  // such models have no rotation
    // A rotation makes it at most sqrt(block) times as large.
    most = out.block > 1 ? m * pow2((33 - __clz(out.block - 1)) / 2) : m;
  }

  if (a.w) v = make_float4(v.x * factor * w.x, v.y * factor * w.y, v.z * factor * w.z, v.w * factor * w.w);
  if (out.signs) v = make_float4(v.x * signs.x, v.y * signs.y, v.z * signs.z, v.w * signs.w);
  if (out.block > 1) v = rotate4<B>(v, out.block, exchange);
  if (out.layout == ActLayout::f32) {
    f32* to = static_cast<f32*>(out.data) + i64(c) * a.n + p;
    if (aligned) {
      if (p < a.n) *reinterpret_cast<float4*>(to) = v;
    } else {
      const f32 vs[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
      for (int i = 0; i < 4; i++)
        if (p + i < a.n) to[i] = vs[i];
    }
  } else if (!FEW && out.layout == ActLayout::f16) {
    if (p < act_units(a.n) * 128) store_half(static_cast<u8*>(out.data), act_units(a.n), a.cols, c, p, v, most);
  } else {
    store_q8<!FEW>(static_cast<u8*>(out.data), act_units(a.n), a.cols, c, p, v, p < act_units(a.n) * 128,
                   FEW ? ActLayout::q8_128 : out.layout, scale8);
  }
}

}  // namespace

void norm(Ctx& ctx, const f32* x, i64 ldx, int n, int cols, const f32* w, f32 eps, f32* plain, std::span<const Kernels::ActOut> outs) {
  int at = 0;
  bool plain_done = plain == nullptr;
  while (at < int(outs.size()) || !plain_done) {  // one launch per block size; usually one
    NormArgs a{x, ldx, n, cols, n % 4 == 0 && ldx % 4 == 0, w, eps, 1.0f / f32(n), 0, {}};
    int threads = 0;
    if (!plain_done) {
      a.outs[a.n_outs++] = NormOut{plain, ActLayout::f32, 1, nullptr, 0, 0, 0};
      threads = 256;
      plain_done = true;
    }
    while (at < int(outs.size()) && a.n_outs < 4) {
      const Act& act = *outs[at].act;
      FEWBIT_CHECK(act.n == n && act.cols == cols, "activation (%d, %d) of a norm over (%d, %d)", act.cols, act.n, cols, n);
      NormOut o{act.data, act.layout, 1, nullptr, 0, 0, 0};
      if (const Rotation* r = outs[at].rotation) {
        FEWBIT_CHECK(r->block >= 1 && r->block <= max_rotation && n % r->block == 0, "rotation block %d of %d numbers", r->block, n);
        FEWBIT_CHECK(!r->perm_k_heads || r->perm_width % 4 == 0, "input of a norm permuted in runs of %d", r->perm_width);
        o.block = r->block, o.signs = r->signs, o.perm_k_heads = r->perm_k_heads, o.perm_rep = r->perm_rep, o.perm_width = r->perm_width;
      }
      const int t = rotation_threads(o.block);
      if (threads && t != threads) break;
      threads = t;
      a.outs[a.n_outs++] = o;
      at++;
    }
    if (norm_wide(ctx, a)) continue;
    LaunchShape s;
    s.grid = dim3(unsigned((act_units(n) * 128 + 4 * threads - 1) / (4 * threads)), unsigned(cols), unsigned(a.n_outs));
    s.block = dim3(unsigned(threads)), s.smem = size_t(threads) * sizeof(float4);
    s.cols = cols, s.name = w ? "norm" : "act";
    s.shape = ctx.launches ? std::to_string(n) + "x" + std::to_string(cols) : std::string();
    bool usual = threads == 256, few = a.aligned && !act_has_image(cols);
    for (int i = 0; i < a.n_outs; i++) {
      usual = usual && (a.outs[i].block <= 1 || a.outs[i].block == 1024);
      few = few && (a.outs[i].layout == ActLayout::q8_128 || a.outs[i].layout == ActLayout::f32);
    }
    launch(ctx, usual && few ? norm_kernel<1024, true> : usual ? norm_kernel<1024, false> : norm_kernel<0, false>, s, a);
  }
}

ActLayout act_layout(Type type) {
  // Wherever sums over 128 inputs (or a weight's scale) can be kept exact: the wide kernel then needs no step between (gemm.cuh).
  switch (type) {
    case Type::F32:
    case Type::F16:
    case Type::BF16:
      return ActLayout::f32;
    case Type::IQ2_XXS:
    case Type::IQ2_XS:
    case Type::IQ2_S:
    case Type::IQ3_XXS:
    case Type::IQ3_S:
    case Type::Q4_K:
      return ActLayout::q8_256;
    case Type::IQ4_XS:
    case Type::Q6_K:
      return ActLayout::q8_per128;
    case Type::Q4_1:
    case Type::Q5_1:
    case Type::Q5_K:
      return ActLayout::q8_32;
    default:
      return ActLayout::q8_128;
  }
}

ActLayout act_layout(const HostTensor& t) { return half_wanted(t) ? ActLayout::f16 : act_layout(t.type); }

u64 act_bytes(ActLayout layout, int n, int cols) {
  if (layout == ActLayout::f16) return half_act_bytes(n, cols);
  return layout == ActLayout::f32 ? u64(n) * u64(cols) * sizeof(f32) : act_total_bytes(n, cols);
}

}  // namespace fewbit::kernel::cuda

// Measured on an H200 (nvcc 13.0, 30 Nov 2026), one column: 5120 numbers with the sum of squares 2.0 us, 17408 without it 1.5; inside a
// token about 2.9 each, of which a node alone is about 0.4.  A token of bonsai-27b PQ2_0: 293.7 tok/s with FEW, 287.7 without (2.1 %; four
// runs each, spread 0.1 %).
// tried: the row's loads guarded one by one | 2.94 us | the compiler keeps two in flight
// tried: divisions, square root and rotation as written in hadamard.md | 2.65 and 1.9 us
// tried: early launch behind the wait, or before the stores | a rotated token 3.62 ms against 3.30, a plain one 3.46 against 3.37
// tried: the factor behind the rotation, one barrier for both | 3.31 ms against 3.30; four sums of squares per thread: no difference
// tried: the code run once before the wait, on the weights | 291.9 tok/s against 290.5 and 289.4 | within the noise of that run
// tried: SwiGLU's outputs quantised by the last of the eight blocks that make 128 | 3.03 ms a token against 2.93 | a fence, an atomic and a
//        load each cross to L2 while the next launch's weights stream in: dearer than the launch saved
// tried: rows of small matrices (alpha, beta) by blocks of the norm's launch, not by the product's | 288.3 tok/s against 293.7; a chain
//        without DeltaNet 2.87 ms against 2.96 | perhaps DeltaNet's blocks then pile up on the first multiprocessors that are free
