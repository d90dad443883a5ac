// Products with f16 tiles (half_layout.h): which kernel, and how many warps and blocks.
#include <algorithm>

#include "kernel/cuda/half.cuh"
#include "kernel/cuda/matmul_half.h"
#include "kernel/cuda/ops.h"
#include "kernel/cuda/product.cuh"

namespace fewbit::kernel::cuda {

namespace {

constexpr u32 narrow_room = 144 << 10;  // shared memory of a multiprocessor for weights; the rest is L1, for activations

// Raises a kernel's limit of shared memory once.
void allow_all(Ctx& ctx, HalfKernel kernel) {
  static std::vector<HalfKernel> done;
  if (std::ranges::find(done, kernel) != done.end()) return;
  allow_smem(kernel, size_t(device_of(ctx).max_smem()));
  done.push_back(kernel);
}

HalfProduct product(const Weight& w, f32* y, i64 ldy, bool add) {
  const HalfUnits units(w.rows, w.cols);
  HalfProduct p{};
  p.w = static_cast<const u8*>(w.data), p.row_scale = reinterpret_cast<const f32*>(p.w + units.scales_at());
  p.y = y, p.ldy = ldy, p.scale[0] = w.scale, p.bias[0] = w.bias;
  p.rows = int(w.rows), p.tiles = int(units.tiles), p.add = add;
  return p;
}

HalfArgs args_of(const Act& a) {
  HalfArgs h{};
  h.units = int(HalfUnits(1, a.n).units), h.cols = a.cols;
  h.act = static_cast<const u8*>(a.data), h.act_scale = reinterpret_cast<const f32*>(h.act + half_act_scales_at(h.units, a.cols));
  return h;
}

void launch_narrow(Ctx& ctx, HalfArgs& a, u64 bytes, const std::string& shape) {
  const int sms = device_of(ctx).sms(), groups = (a.cols + 7) / 8, at_once = groups == 1 ? 1 : 4;
  const u32 room = std::min<u32>(narrow_room, u32(device_of(ctx).max_smem()));
  // As many warps on each multiprocessor as have the same number of tiles, or one less; deep rings where they are few.
  const int each = (a.tiles + sms - 1) / sms, most = std::min<int>(half_most_warps, int(room / half_narrow_smem(1, 2)));
  const int warps = (each + (each + most - 1) / most - 1) / ((each + most - 1) / most);
  int depth = 2;
  for (int d : {3, 4, 8})
    if (half_narrow_smem(warps, d) <= room) depth = d;
  LaunchShape s;
  s.grid = dim3(unsigned(std::min((a.tiles + warps - 1) / warps, sms)), unsigned((groups + at_once - 1) / at_once));
  s.block = dim3(unsigned(32 * warps)), s.smem = half_narrow_smem(warps, depth), s.cols = a.cols;
  s.name = "half", s.shape = shape, s.bytes = bytes;
  const HalfKernel kernel = half_narrow(at_once, depth);
  allow_all(ctx, kernel);
  launch(ctx, kernel, s, a);
}

// Hopper, more columns than the other kernel takes at once.
bool launch_wide(Ctx& ctx, HalfArgs a, u64 bytes, const std::string& shape) {
  if (a.cols <= 8 || device_of(ctx).arch() != 90 || wide_choice < 0) return false;
  int rows = 0;  // in pairs of blocks
  for (int i = 0; i < a.n; i++) a.p[i].tile0 = rows, rows += (a.p[i].tiles + 15) / 16;
  // Narrower tiles where there would be far from one for every pair of blocks.
  const int room = std::min(device_of(ctx).sms() / 2, max_gemm_pairs);
  int columns = a.cols <= 64 ? 64 : a.cols <= 128 ? 128 : 256;
  while (columns > 64 && 2 * rows * ((a.cols + columns - 1) / columns) <= room) columns /= 2;
  const HalfWide wide = half_wide(columns);
  a.down = rows, a.pairs = rows * ((a.cols + columns - 1) / columns);
  const int pairs = std::min(a.pairs, room);
  a.pieces = a.pairs > pairs ? a.units * wide.steps : 1;
  a.parts = reinterpret_cast<float4*>(static_cast<u8*>(ctx.scratch) + split_room(ctx)), a.flags = counters(ctx);
  LaunchShape s;
  s.grid = dim3(unsigned(2 * pairs)), s.block = dim3(unsigned(wide.threads)), s.smem = wide.smem, s.cluster = 2;
  s.cols = a.cols, s.name = "gemm.half", s.shape = shape, s.bytes = bytes;
  allow_all(ctx, wide.kernel);
  launch(ctx, wide.kernel, s, a);
  return true;
}

void launch_half(Ctx& ctx, HalfArgs& a, u64 bytes, const std::string& shape) {
  if (!launch_wide(ctx, a, bytes, shape)) launch_narrow(ctx, a, bytes, shape);
}

}  // namespace

void half_matmul(Ctx& ctx, std::span<const Kernels::Product> products, size_t first, std::span<bool> done) {
  const Act& act = *products[first].a;
  HalfArgs a = args_of(act);
  u64 bytes = 0;
  i64 rows = 0;
  for (size_t j = first; j < products.size() && a.n < half_products; j++) {
    const Kernels::Product& o = products[j];
    if (done[j] || o.w->layout_id != layout_half || o.a->data != act.data) continue;
    check_act(*o.w, *o.a);
    FEWBIT_CHECK(!o.w->extra, "'%s' is one of a pair", o.w->name.c_str());
    HalfProduct p = product(*o.w, o.y, o.ldy, o.add);
    p.tile0 = a.tiles, a.tiles += p.tiles, a.p[a.n++] = p;
    bytes += o.w->bytes, rows += o.w->rows;
    done[j] = true;
  }
  launch_half(ctx, a, bytes, shape_of(ctx, rows, act.n, act.cols));
}

void half_glu(Ctx& ctx, const Weight& gate, const Weight& up, const Act& act, Glu kind, f32* h) {
  HalfArgs a = args_of(act);
  HalfProduct& p = a.p[a.n++];
  p = product(gate, h, gate.rows, false);
  const HalfUnits units((gate.rows + 7) / 8 * 16, gate.cols);
  p.row_scale = reinterpret_cast<const f32*>(p.w + units.scales_at()), p.tiles = int(units.tiles), p.pair = true;
  p.scale[1] = up.scale, p.bias[1] = up.bias;
  a.tiles = p.tiles, a.kind = kind;
  launch_half(ctx, a, gate.bytes + up.bytes, shape_of(ctx, 2 * gate.rows, gate.cols, act.cols));
}

}  // namespace fewbit::kernel::cuda
