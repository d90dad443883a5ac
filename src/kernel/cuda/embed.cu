// x <- rows of the embedding table, decoded exactly, rotated back if the table is stored rotated: signs * Had(row).
#include "kernel/cuda/expand.h"
#include "kernel/cuda/half_layout.h"
#include "kernel/cuda/layout.h"
#include "kernel/cuda/ops.h"
#include "kernel/cuda/rotate.cuh"

namespace fewbit::kernel::cuda {

namespace {

struct EmbedArgs {
  const void* data;
  TypeLayout type;
  Code code;
  Scale scale;
  int unit_bytes, units, n;
  const f32* row_scale;  // f16 tiles (half_layout.h), or nullptr
  const f32* factor;     // of the whole tensor, or nullptr
  const i32* ids;        // nullptr: row 16 c for column c
  int block;
  const f32* signs;
  f32* x;
};

__device__ f32 value_at(const EmbedArgs& a, i64 row, int k) {
  if (a.row_scale) {
    const u8* unit = static_cast<const u8*>(a.data) + (row / 16 * a.units + k / 128) * half_unit;
    return f32_of_f16(*reinterpret_cast<const u16*>(unit + half_weight_at(int(row % 16), k % 128))) * a.row_scale[row];
  }
  if (a.type.layout == layout_rows_f32) return static_cast<const f32*>(a.data)[row * a.n + k];
  if (a.type.layout == layout_rows_f16) return f32_of_f16(static_cast<const u16*>(a.data)[row * a.n + k]);
  if (a.type.layout == layout_rows_bf16) return bf16_bits(static_cast<const u16*>(a.data)[row * a.n + k]);
  const u8* unit = static_cast<const u8*>(a.data) + (row / 16 * a.units + k / unit_k) * a.unit_bytes;
  return unit_value(a.code, a.scale, unit, int(row % 16), k % unit_k, a.type, 1.0f);
}

__global__ void embed_kernel(const __grid_constant__ EmbedArgs a) {
  __shared__ float4 exchange[1024];
  early_launch();
  early_wait();
  const int c = int(blockIdx.y), p = int(blockIdx.x * blockDim.x + threadIdx.x) * 4;
  const i64 row = a.ids ? a.ids[c] : unit_rows * c;
  f32 v[4] = {0, 0, 0, 0};
  if (p < a.n)
    for (int i = 0; i < 4; i++) v[i] = value_at(a, row, p + i);
  float4 r = make_float4(v[0], v[1], v[2], v[3]);
  if (a.block > 1) r = rotate4(r, a.block, exchange);
  if (p >= a.n) return;
  if (a.factor) r = make_float4(r.x * *a.factor, r.y * *a.factor, r.z * *a.factor, r.w * *a.factor);
  if (a.signs) {
    const float4 s = *reinterpret_cast<const float4*>(a.signs + p);
    r = make_float4(r.x * s.x, r.y * s.y, r.z * s.z, r.w * s.w);
  }
  *reinterpret_cast<float4*>(a.x + i64(c) * a.n + p) = r;
}

}  // namespace

void embed(Ctx& ctx, const Weight& table, const i32* ids, int cols, const Rotation* inverse, f32* x) {
  FEWBIT_CHECK(!table.extra && table.cols % 4 == 0, "embedding table '%s'", table.name.c_str());
  if (in_file(table)) {
    const InOrder in_order(ctx);
    for (int done = 0, n = 0; done < cols; done += n) {
      n = rows_in_file(ctx, table, ids + done, cols - done);
      const Weight part = packed_form(table, expand_area(ctx) + expand_lists, table.rows, 0);
      embed(ctx, part, nullptr, n, inverse, x + i64(done) * table.cols);
    }
    return;
  }
  EmbedArgs a{};
  a.data = table.data, a.type = type_layout(table.type), a.n = int(table.cols);
  a.type.layout = table.layout_id;
  if (table.layout_id == layout_half) {
    const HalfUnits units(table.rows, table.cols);
    a.units = int(units.units), a.row_scale = reinterpret_cast<const f32*>(static_cast<const u8*>(table.data) + units.scales_at());
  } else if (table.layout_id < layout_rows_f32) {
    const LayoutInfo& l = layout_infos[table.layout_id];
    a.code = l.code, a.scale = l.scale, a.unit_bytes = l.unit_bytes, a.units = int(Units(table.layout_id, table.rows, table.cols).units);
  }
  a.factor = table.scale, a.ids = ids, a.block = 1, a.x = x;
  if (inverse) {
    FEWBIT_CHECK(inverse->block >= 1 && inverse->block <= max_rotation && a.n % inverse->block == 0 && !inverse->perm_k_heads,
                 "rotation block %d of %d numbers", inverse->block, a.n);
    a.block = inverse->block, a.signs = inverse->signs;
  }
  const int threads = rotation_threads(a.block);
  LaunchShape s;
  s.grid = dim3(unsigned((a.n + 4 * threads - 1) / (4 * threads)), unsigned(cols)), s.block = dim3(unsigned(threads));
  s.name = "embed";
  launch(ctx, embed_kernel, s, a);
}

}  // namespace fewbit::kernel::cuda
