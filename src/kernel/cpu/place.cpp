// Which kernels a weight gets, and putting its bytes where they want them.
#include <algorithm>
#include <string_view>
#include <vector>

#include "base/cpu_features.h"
#include "kernel/cpu/file_rows.h"
#include "kernel/cpu/matmul.h"
#include "kernel/cpu/ops.h"
#include "kernel/cpu/r16_sets.h"

namespace fewbit::kernel::cpu {

namespace {

const WeightKernels* find(std::span<const WeightKernels> list, Type type) {
  for (const WeightKernels& k : list)
    if (k.type == type) return &k;
  return nullptr;
}

// The R16 kernels of the best set; without any: empty, nullptr.
struct Set {
  std::span<const WeightKernels> packed;
  WeightKernels (*wide)(Type) = nullptr;
};
Set best_set() {
  [[maybe_unused]] const CpuFeatures& f = cpu_features();
#if defined(FEWBIT_NO_PACKED)  // fuzz builds: these files are slow to compile with sanitizers
#elif defined(__x86_64__)
  if (f.avx512_vnni && f.vbmi) return {avx512_vnni::packed_kernels(), avx512_vnni::wide_kernels};
  if (f.avx_vnni) return {avx_vnni::packed_kernels(), avx_vnni::wide_kernels};
  if (f.avx2) return {avx2::packed_kernels(), avx2::wide_kernels};
#elif defined(__aarch64__)
  if (f.i8mm) return {neon_i8mm::packed_kernels(), neon_i8mm::wide_kernels};
  if (f.dotprod) return {neon_dotprod::packed_kernels(), neon_dotprod::wide_kernels};
#endif
  return {};
}

// The file kernels of the best set, with the wide kernels of the best set for those that have integers to spread.
std::vector<WeightKernels> best_file_kernels() {
  std::span<const WeightKernels> list = cpu_features().avx2 ? avx2::file_kernels() : std::span<const WeightKernels>();
  if (list.empty()) list = scalar::file_kernels();
  std::vector<WeightKernels> v(list.begin(), list.end());
  const Set set = best_set();
  for (WeightKernels& k : v) {
#if defined(__x86_64__)
    if (TileFn f = cpu_features().avx512 ? avx512::float_kernel(k.type) : nullptr) {
      for (int c = 1; c <= max_panel; c++) k.narrow[c] = f;
      k.name = k.type == Type::F32 ? "gemv.F32/avx512.file" : k.type == Type::F16 ? "gemv.F16/avx512.file" : "gemv.BF16/avx512.file";
    }
#endif
    const WeightKernels w = set.wide ? set.wide(k.type) : WeightKernels{};
    if (!w.spread) continue;
    k.name = w.name;
    k.spread = w.spread;
    k.first_wide = w.first_wide;
    k.spread_bytes = w.spread_bytes;
    k.max_wide = w.max_wide;
    k.wide_spec = w.wide_spec;
    std::copy(std::begin(w.wide), std::end(w.wide), std::begin(k.wide));
  }
  return v;
}

bool packs(const HostTensor& t, const PlaceOptions& o) { return o.repack && packed_kernels(t.type) != nullptr; }

u64 packed_bytes(const HostTensor& t, const WeightKernels& k) {
  return u64(t.experts * div_up(t.rows, tile_rows)) * u64(k.tile_bytes(t.cols));
}

}  // namespace

static std::span<const WeightKernels> file_list() {
  static const std::vector<WeightKernels> list = best_file_kernels();
  return list;
}
const WeightKernels* file_kernels(Type type) { return find(file_list(), type); }

const WeightKernels* packed_kernels(Type type) {
  static const Set set = best_set();
  return find(set.packed, type);
}

ActLayout act_layout(Type type) { return type == Type::F32 || type == Type::F16 || type == Type::BF16 ? ActLayout::f32 : ActLayout::q8_32; }

u64 placed_bytes(const HostTensor& t, const PlaceOptions& o) {
  if (packs(t, o)) return packed_bytes(t, *packed_kernels(t.type));
  return o.mapped ? 0 : t.data.size();
}

Result<std::string> describe(const HostTensor& t, const PlaceOptions& o) {
  const WeightKernels* k = packs(t, o) ? packed_kernels(t.type) : file_kernels(t.type);
  if (!k) return Error{Code::unsupported, std::string("no CPU kernel for type ") + type_name(t.type)};
  return std::string(k->name);
}

std::vector<const WeightKernels*> all_kernels() {
  std::vector<const WeightKernels*> v;
  auto add = [&](std::span<const WeightKernels> list) {
    for (const WeightKernels& k : list) {
      const bool known = std::any_of(v.begin(), v.end(), [&](const WeightKernels* o) { return std::string_view(o->name) == k.name; });
      if (!known) v.push_back(&k);
    }
  };
  const CpuFeatures& f = cpu_features();
  add(scalar::file_kernels());
  add(file_list());
  if (f.avx2) {
    for (const WeightKernels& k : avx2::file_kernels())
      if (k.float_input) add({&k, 1});  // all others are read as file_list() does
  }
#if defined(FEWBIT_NO_PACKED)
#elif defined(__x86_64__)
  if (f.avx2) add(avx2::packed_kernels());
  if (f.avx_vnni) add(avx_vnni::packed_kernels());
  if (f.avx512_vnni && f.vbmi) add(avx512_vnni::packed_kernels());
#elif defined(__aarch64__)
  if (f.dotprod) add(neon_dotprod::packed_kernels());
  if (f.i8mm) add(neon_i8mm::packed_kernels());
#endif
  return v;
}

Result<Weight> place_with(Ctx& ctx, const HostTensor& t, const WeightKernels& k, const PlaceOptions& options, std::vector<Buffer>& owned) {
  Weight w;
  w.name = t.name;
  w.type = t.type;
  w.layout = k.layout;
  w.kernel = k.name;
  w.extra = &k;
  w.act = act_layout(t.type);
  w.cols = t.cols;
  w.rows = t.rows;
  w.experts = t.experts;
  w.scale = t.scale;
  w.bias = t.bias;
  const u64 row = row_bytes(t.type, t.cols);
  w.bytes = u64(t.experts * t.rows) * row;
  w.data = t.data.data();
  if (t.type == Type::I2_S) w.tensor_scale = load_le<f32>(t.data.data() + w.bytes);
  if (k.pack) {
    const i64 tiles = div_up(t.rows, tile_rows);
    const u64 tile_bytes = u64(k.tile_bytes(t.cols));
    w.bytes = u64(t.experts * tiles) * tile_bytes;
    FEWBIT_TRY(Buffer b, ctx.device->allocate(w.bytes));
    parallel(ctx, t.experts * tiles, 4, [&](i64 begin, i64 end, int) {
      for (i64 i = begin; i < end; i++) {
        const i64 expert = i / tiles, r = i % tiles * tile_rows;
        k.pack(t.data.data() + u64(expert * t.rows + r) * row, int(std::min<i64>(tile_rows, t.rows - r)), t.cols,
               b.as<u8>() + u64(i) * tile_bytes);
      }
    });
    w.data = b.data();
    owned.push_back(std::move(b));
  } else if (!options.mapped) {
    FEWBIT_TRY(Buffer b, ctx.device->allocate(t.data.size()));
    ctx.device->upload(b.data(), t.data.data(), t.data.size());
    w.data = b.data();
    owned.push_back(std::move(b));
  }
  return w;
}

Result<std::vector<Weight>> place(Ctx& ctx, std::span<const HostTensor> tensors, GroupUse, const PlaceOptions& options,
                                  std::vector<Buffer>& owned) {
  std::vector<Weight> out;
  for (const HostTensor& t : tensors) {
    const WeightKernels* k = packs(t, options) ? packed_kernels(t.type) : file_kernels(t.type);
    if (!k) return Error{Code::unsupported, "tensor '" + t.name + "': no CPU kernel for type " + type_name(t.type)};
    FEWBIT_TRY(Weight w, place_with(ctx, t, *k, options, owned));
    out.push_back(std::move(w));
  }
  return out;
}

}  // namespace fewbit::kernel::cpu
