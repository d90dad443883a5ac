// Weights onto the GPU: the file's bytes go up in pieces and are packed there (pack.h), losslessly.
#include <algorithm>

#include "format/decode.h"
#include "kernel/cuda/common.cuh"
#include "kernel/cuda/expand.h"
#include "kernel/cuda/matmul_half.h"
#include "kernel/cuda/ops.h"

namespace fewbit::kernel::cuda {

namespace {

namespace grids {
__device__ const u64 iq1s[2048] = {
#include "format/codebooks/iq1s.inc"
};
__device__ const u64 iq2xxs[256] = {
#include "format/codebooks/iq2xxs.inc"
};
__device__ const u64 iq2xs[512] = {
#include "format/codebooks/iq2xs.inc"
};
__device__ const u64 iq2s[1024] = {
#include "format/codebooks/iq2s.inc"
};
__device__ const u32 iq3xxs[256] = {
#include "format/codebooks/iq3xxs.inc"
};
__device__ const u32 iq3s[512] = {
#include "format/codebooks/iq3s.inc"
};
}  // namespace grids

template <class F>
__device__ const typename GridOf<F>::type* device_grid() {
  if constexpr (one_of<F, IQ1_S, IQ1_M>)
    return grids::iq1s;
  else if constexpr (std::is_same_v<F, IQ2_XXS>)
    return grids::iq2xxs;
  else if constexpr (std::is_same_v<F, IQ2_XS>)
    return grids::iq2xs;
  else if constexpr (std::is_same_v<F, IQ2_S>)
    return grids::iq2s;
  else if constexpr (std::is_same_v<F, IQ3_XXS>)
    return grids::iq3xxs;
  else if constexpr (std::is_same_v<F, IQ3_S>)
    return grids::iq3s;
  else
    return nullptr;
}

// A warp per unit of the matrices' tiles, n_units each.
template <class F, bool dense>
__global__ void __launch_bounds__(128) pack_kernel(PackSource src, u32 n_units, u32 units, u8* out, Gather gather) {
  early_launch();
  early_wait();
  const u32 i = blockIdx.x * 4 + threadIdx.x / 32;
  if (i >= n_units * u32(gather.count)) return;
  const u32 at = i % n_units, tile = at / units, u = at % units;
  const i64 offset = (gather.ids ? gather.ids[i / n_units] * gather.stride : 0) + unit_source_at<F>(int(u));
  auto row = [&](int r) -> const u8* {
    const u8* p = src.row(tile, r);
    return p ? p + offset : nullptr;
  };
  constexpr int unit_bytes = layout_infos[Target<F, dense>::layout].unit_bytes;
  pack_lane<F, dense>(row, src.cols, int(u), int(threadIdx.x % 32), device_grid<F>(), out + u64(i) * unit_bytes);
}

}  // namespace

void pack(Ctx& ctx, Type type, int layout, const PackSource& src, i64 tiles, int units, u8* out, const Gather& gather) {
  const i64 n = tiles * units;
  LaunchShape s;
  FEWBIT_CHECK(n * gather.count < (i64(1) << 32), "%lld units", (long long)n * gather.count);
  s.grid = dim3(unsigned((n * gather.count + 3) / 4)), s.block = dim3(128), s.name = "pack";
  if (ctx.launches) s.bytes = u64(src.rows) * u64(src.row_bytes) * u64(gather.count) * (src.data[1] ? 2 : 1);
#define FEWBIT_X(F, c, sc) \
  if (type == Type::F && layout == layout_##c##_##sc) return launch(ctx, pack_kernel<F, true>, s, src, u32(n), u32(units), out, gather);
  FEWBIT_CUDA_DENSE_TARGETS(FEWBIT_X)
#undef FEWBIT_X
  switch (type) {
#define FEWBIT_X(F, c, sc) \
  case Type::F:            \
    return launch(ctx, pack_kernel<F, false>, s, src, u32(n), u32(units), out, gather);
    FEWBIT_CUDA_TARGETS(FEWBIT_X)
#undef FEWBIT_X
    default:
      FEWBIT_CHECK(false, "pack of type %u", u32(type));
  }
}

namespace {

// The layout that a tensor gets: of two the faster (dense.cu), or the smaller if memory wants it.  Large F16 and BF16 matrices that would
// not be exact as f16 tiles stay rows: place() finds that out.
int layout_of(const HostTensor& t, const PlaceOptions& o) {
  if (half_wanted(t)) return layout_half;
  return type_layout(t.type, has_dense(t.type) && o.repack && (o.dense || dense_chosen(t.type))).layout;
}

const char* kernel_name(int layout, bool file = false) {
  switch (layout) {
#define FEWBIT_X(i, c, s) \
  case i:                 \
    return file ? "pack+matvec." #c "." #s : "matvec." #c "." #s;
    FEWBIT_CUDA_LAYOUTS(FEWBIT_X)
#undef FEWBIT_X
    case layout_half:
      return "matvec.half";
    default:
      return "rows";
  }
}

const char* layout_name(int layout) {
  return layout == layout_half ? "half" : layout >= layout_rows_f32 ? "rows" : layout_infos[layout].name;
}

Status check(const HostTensor& t) {
  const TypeLayout l = type_layout(t.type);
  const FormatInfo* f = find_format(t.type);
  if (l.layout < 0 || !f)
    return Error{fewbit::Code::unsupported, "'" + t.name + "': no CUDA kernel for type " + (f ? f->name : std::to_string(u32(t.type)))};
  const int multiple = l.layout >= layout_rows_f32 ? 8 : f->block;
  if (t.cols % multiple || t.cols <= 0 || t.rows <= 0 || t.experts <= 0)
    return Error{fewbit::Code::unsupported,
                 "'" + t.name + "': " + std::to_string(t.cols) + " inputs, CUDA needs a multiple of " + std::to_string(multiple)};
  if (t.data.size() < data_bytes(t))
    return Error{fewbit::Code::bad_file,
                 "'" + t.name + "': " + std::to_string(t.data.size()) + " bytes, " + std::to_string(data_bytes(t)) + " needed"};
  return {};
}

// Factors and biases, on the device.
Status place_vectors(Ctx& ctx, const HostTensor& t, Weight& w, std::vector<Buffer>& owned) {
  f32 tensor_scale = 1;
  if (t.type == Type::I2_S) {
    const u64 at = data_bytes(t);
    if (t.data.size() < at + 4) return Error{fewbit::Code::bad_file, "'" + t.name + "': no scale behind the codes"};
    tensor_scale = f32_at(t.data.data() + at);
    w.tensor_scale = tensor_scale;
  }
  if (t.scale || t.type == Type::I2_S) {
    std::vector<f32> v(size_t(t.experts), tensor_scale);
    for (size_t i = 0; i < v.size() && t.scale; i++) v[i] *= t.scale[i];
    FEWBIT_TRY(Buffer b, ctx.device->allocate(v.size() * 4));
    ctx.device->upload(b.data(), v.data(), v.size() * 4);
    w.scale = b.as<f32>();
    owned.push_back(std::move(b));
  }
  if (t.bias) {
    FEWBIT_TRY(Buffer b, ctx.device->allocate(u64(t.rows) * 4));
    ctx.device->upload(b.data(), t.bias, u64(t.rows) * 4);
    w.bias = b.as<f32>();
    owned.push_back(std::move(b));
  }
  return {};
}

Weight weight_of(const HostTensor& t, const PlaceOptions& options) {
  const int layout = layout_of(t, options);
  Weight w;
  w.name = t.name, w.type = t.type, w.layout_id = layout;
  w.act = act_layout(t);
  w.cols = t.cols, w.rows = t.rows, w.experts = t.experts;
  w.layout = layout_name(layout), w.kernel = kernel_name(layout);
  w.bytes = placed_bytes(t, options);
  if (keeps_file(t, options)) w.layout_id += layout_in_file, w.layout = "file", w.kernel = kernel_name(layout, true);
  return w;
}

// One matrix, or a pair whose rows alternate in eights.
Status pack_tensor(Ctx& ctx, int layout, const HostTensor& a, const HostTensor* b, u8* out) {
  const u64 rb = row_bytes(a.type, a.cols);
  const int tile_rows = b ? 8 : 16, unit_bytes = layout_infos[layout].unit_bytes;
  const i64 units = (a.cols + unit_k - 1) / unit_k;
  const i64 step = std::max<i64>(1, i64(staging_bytes / (b ? 2 : 1) / rb) / tile_rows) * tile_rows;
  FEWBIT_TRY(Buffer staging, ctx.device->allocate(std::min<u64>(u64(step), u64(a.rows)) * rb * (b ? 2 : 1)));
  const u64 expert_bytes = Units(layout, b ? (a.rows + 7) / 8 * 16 : a.rows, a.cols).bytes();
  for (i64 e = 0; e < a.experts; e++) {
    u8* to_units = out + u64(e) * expert_bytes;
    for (i64 r = 0; r < a.rows; r += step) {
      const i64 now = std::min(step, a.rows - r);
      PackSource src;
      src.row_bytes = i64(rb), src.rows = now, src.cols = int(a.cols);
      u8* to = staging.as<u8>();
      ctx.device->upload(to, a.data.data() + u64(e * a.rows + r) * rb, u64(now) * rb);
      src.data[0] = to;
      if (b) {
        ctx.device->upload(to + u64(now) * rb, b->data.data() + u64(e * a.rows + r) * rb, u64(now) * rb);
        src.data[1] = to + u64(now) * rb;
      }
      const i64 tiles = (now + tile_rows - 1) / tile_rows;
      pack(ctx, a.type, layout, src, tiles, int(units), to_units);
      to_units += u64(tiles) * u64(units) * u64(unit_bytes);
    }
  }
  ctx.device->synchronize();
  return {};
}

}  // namespace

Result<std::string> describe(const HostTensor& t, const PlaceOptions& options) {
  const TypeLayout l = type_layout(t.type);
  if (l.layout < 0) return Error{fewbit::Code::unsupported, std::string("no CUDA kernel for type ") + type_name(t.type)};
  const int multiple = l.layout >= layout_rows_f32 ? 8 : format_info(t.type).block;
  if (t.cols % multiple)
    return Error{fewbit::Code::unsupported, std::to_string(t.cols) + " inputs, CUDA needs a multiple of " + std::to_string(multiple)};
  return std::string(kernel_name(layout_of(t, options), keeps_file(t, options))) + "." + type_name(t.type) +
         (options.repack ? dense_reason(t.type, options.dense) : std::string());
}

u64 placed_bytes(const HostTensor& t, const PlaceOptions& options) {
  const int layout = layout_of(t, options);
  if (layout < 0) return 0;
  if (layout == layout_half) return half_bytes_of(t);
  if (layout >= layout_rows_f32 || keeps_file(t, options)) return data_bytes(t);
  return Units(layout, t.rows, t.cols).bytes() * u64(t.experts);
}

Result<std::vector<Weight>> place(Ctx& ctx, std::span<const HostTensor> tensors, GroupUse use, const PlaceOptions& options,
                                  std::vector<Buffer>& owned) {
  std::vector<Weight> out;
  for (const HostTensor& t : tensors) FEWBIT_OK(check(t));
  if (use == GroupUse::glu && tensors.size() == 2 && tensors[0].experts > 1 && tensors[0].type != tensors[1].type)
    return Error{fewbit::Code::unsupported, "'" + tensors[0].name + "' (" + type_name(tensors[0].type) + ") and '" + tensors[1].name +
                                                "' (" + type_name(tensors[1].type) +
                                                "): experts of two types are not multiplied as a pair on a GPU"};
  const bool pair =
      use == GroupUse::glu && tensors.size() == 2 && tensors[0].type == tensors[1].type && tensors[0].cols == tensors[1].cols &&
      tensors[0].rows == tensors[1].rows && tensors[0].experts == tensors[1].experts &&
      ((type_layout(tensors[0].type).layout < layout_rows_f32 && !keeps_file(tensors[0], options)) || half_wanted(tensors[0]));
  for (const HostTensor& t : tensors) {
    Weight w = weight_of(t, options);
    FEWBIT_OK(place_vectors(ctx, t, w, owned));
    out.push_back(std::move(w));
  }
  // F16 tiles where they are exact; a pair of which one is not stays two matrices of rows.
  for (size_t i = 0; i < tensors.size(); i += pair ? 2 : 1) {
    if (out[i].layout_id != layout_half) continue;
    FEWBIT_TRY(std::optional<Buffer> b, place_half(ctx, tensors[i], pair ? &tensors[1] : nullptr));
    for (size_t j = i; j < i + (pair ? 2 : 1); j++) {
      Weight& w = out[j];
      if (b) {
        w.data = b->data();
        if (pair) w.extra = w.data, w.bytes = b->bytes() / 2;
      } else {
        w.layout_id = type_layout(w.type).layout, w.act = ActLayout::f32, w.bytes = data_bytes(tensors[j]);
        w.layout = layout_name(w.layout_id), w.kernel = kernel_name(w.layout_id);
      }
    }
    if (b) owned.push_back(std::move(*b));
  }
  if (pair && out[0].layout_id < layout_rows_f32) {
    const HostTensor& t = tensors[0];
    const Units units(out[0].layout_id, (t.rows + 7) / 8 * 16, t.cols);
    FEWBIT_TRY(Buffer b, ctx.device->allocate(units.bytes() * u64(t.experts)));
    FEWBIT_OK(pack_tensor(ctx, out[0].layout_id, t, &tensors[1], b.as<u8>()));
    for (Weight& w : out) w.data = w.extra = b.data(), w.bytes = units.bytes() * u64(t.experts) / 2;
    owned.push_back(std::move(b));
    return out;
  }
  for (size_t i = 0; i < tensors.size(); i++) {
    if (out[i].data) continue;
    const HostTensor& t = tensors[i];
    FEWBIT_TRY(Buffer b, ctx.device->allocate(out[i].bytes));
    if (out[i].layout_id >= layout_rows_f32)
      ctx.device->upload(b.data(), t.data.data(), data_bytes(t));
    else
      FEWBIT_OK(pack_tensor(ctx, out[i].layout_id, t, nullptr, b.as<u8>()));
    out[i].data = b.data();
    owned.push_back(std::move(b));
  }
  return out;
}

}  // namespace fewbit::kernel::cuda
