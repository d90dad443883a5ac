// Large F16 and BF16 matrices onto the GPU as f16 tiles (half_layout.h).
#include <algorithm>

#include "format/decode.h"
#include "kernel/cuda/common.cuh"
#include "kernel/cuda/half_layout.h"
#include "kernel/cuda/matmul_half.h"
#include "kernel/cuda/pack.h"

namespace fewbit::kernel::cuda {

namespace {

struct PackHalfArgs {
  PackSource src;
  int units;
  bool bf16;
  u8* out;      // of the first tile of src
  f32* scales;  // likewise
  u32* lost;    // set if a number would not be exact
};

// A block per tile, 16 threads per row.
__global__ void __launch_bounds__(256) pack_half_kernel(const __grid_constant__ PackHalfArgs a) {
  early_launch();
  early_wait();
  const int i = int(threadIdx.x / 16), t = int(threadIdx.x % 16);
  const i64 tile = blockIdx.x;
  const u8* row = a.src.row(tile, i);
  auto load = [&](int k) {
    uint4 v = make_uint4(0, 0, 0, 0);
    if (row && k < a.src.cols) v = *reinterpret_cast<const uint4*>(row + k * 2);
    return v;
  };
  int e = 0;
  bool fits = true;
  if (a.bf16) {
    u32 most = 0;
    for (int k = 8 * t; k < a.src.cols; k += 128) {
      const uint4 v = load(k);
      for (u32 w : {v.x, v.y, v.z, v.w}) most = max(most, max(w & 0x7fff, w >> 16 & 0x7fff));
    }
    for (int m = 1; m < 16; m *= 2) most = max(most, __shfl_xor_sync(~0u, most, m));
    fits = most < 0x7f80;
    e = most ? half_row_exponent(most) : 0;
  }
  if (t == 0) a.scales[tile * 16 + i] = __uint_as_float(u32(e + 127) << 23);
  for (int u = 0; u < a.units; u++) {
    uint4 v = load(128 * u + 8 * t);
    if (a.bf16) {
      u32* w[4] = {&v.x, &v.y, &v.z, &v.w};
      for (int x = 0; x < 4; x++) {
        bool exact[2];
        *w[x] = half_of_bf16(*w[x] & 0xffff, e, exact[0]) | half_of_bf16(*w[x] >> 16, e, exact[1]) << 16;
        fits = fits && exact[0] && exact[1];
      }
    }
    *reinterpret_cast<uint4*>(a.out + (tile * a.units + u) * half_unit + half_weight_at(i, 8 * t)) = v;
  }
  if (!fits) *a.lost = 1;
}

}  // namespace

u64 half_bytes_of(const HostTensor& t) { return HalfUnits(t.rows, t.cols).bytes(); }

Result<std::optional<Buffer>> place_half(Ctx& ctx, const HostTensor& t, const HostTensor* up) {
  const u64 row_bytes = u64(t.cols) * 2;
  const int tile_rows = up ? 8 : 16, mats = up ? 2 : 1;
  const HalfUnits units(up ? (t.rows + 7) / 8 * 16 : t.rows, t.cols);
  FEWBIT_TRY(Buffer b, ctx.device->allocate(units.bytes()));
  FEWBIT_TRY(Buffer lost, ctx.device->allocate(4));
  ctx.device->zero(lost.data(), 4);
  const i64 step = std::max<i64>(1, i64(staging_bytes) / i64(row_bytes) / 16) * tile_rows;
  FEWBIT_TRY(Buffer staging, ctx.device->allocate(u64(std::min(step, t.rows)) * row_bytes * u64(mats)));
  i64 tile = 0;
  for (i64 r = 0; r < t.rows; r += step) {
    const i64 now = std::min(step, t.rows - r);
    const bool last = r + step >= t.rows;
    PackHalfArgs a{};
    a.src.row_bytes = i64(row_bytes), a.src.rows = now, a.src.cols = int(t.cols);
    for (int m = 0; m < mats; m++) {
      u8* to = staging.as<u8>() + u64(m) * u64(now) * row_bytes;
      ctx.device->upload(to, (m ? up : &t)->data.data() + u64(r) * row_bytes, u64(now) * row_bytes);
      a.src.data[m] = to;
    }
    a.units = int(units.units), a.bf16 = t.type == Type::BF16, a.lost = lost.as<u32>();
    a.out = b.as<u8>() + u64(tile) * u64(units.units) * half_unit;
    a.scales = reinterpret_cast<f32*>(b.as<u8>() + units.scales_at()) + tile * 16;
    const i64 tiles = last ? units.tiles - tile : now / tile_rows;  // up to the last: with those beyond the matrix
    LaunchShape s;
    s.grid = dim3(unsigned(tiles)), s.block = dim3(256), s.name = "pack";
    launch(ctx, pack_half_kernel, s, a);
    tile += tiles;
  }
  u32 any = 0;
  ctx.device->download(&any, lost.data(), 4);
  if (any) return std::optional<Buffer>();
  return std::optional<Buffer>(std::move(b));
}

}  // namespace fewbit::kernel::cuda
