// Device layouts without a device: every format packs to its layout and comes back bit for bit; the layout is a bijection of codes.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/half.h"
#include "kernel/cuda/half_layout.h"
#include "kernel/cuda/matmul_half.h"
#include "kernel/cuda/ops.h"
#include "kernel/cuda/pack.h"
#include "kernel/layout/random_blocks.h"

namespace fewbit::kernel::cuda {
namespace {

template <class F>
const typename GridOf<F>::type* host_grid() {
  if constexpr (has_grid<F>)
    return F::host_grid();
  else
    return nullptr;
}

template <class F, bool dense>
std::vector<u8> pack_matrix(const PackSource& src, i64 tiles, int units) {
  const int ub = layout_infos[Target<F, dense>::layout].unit_bytes;
  std::vector<u8> out(size_t(tiles) * units * ub, 0xaa);
  for (i64 t = 0; t < tiles; t++)
    for (int u = 0; u < units; u++)
      for (int lane = 0; lane < 32; lane++)
        pack_lane<F, dense>(
            [&](int i) -> const u8* {
              const u8* row = src.row(t, i);
              return row ? row + unit_source_at<F>(u) : nullptr;
            },
            src.cols, u, lane, host_grid<F>(), out.data() + (t * units + u) * ub);
  return out;
}

template <class F, bool dense = false>
void check_format(Type type, bool pair) {
  using To = Target<F, dense>;
  SCOPED_TRACE(std::string(type_name(type)) + (dense ? " dense" : ""));
  const i64 rows = 21;
  const int cols = F::block >= 128 ? 3 * F::block : 5 * F::block;  // odd numbers of units, some of them partial
  cpu::RandomBlocks random(u64(type) + pair);
  const u64 rb = u64(cols / F::block) * F::bytes;
  std::vector<u8> a(rows * rb), b(rows * rb);
  random.fill<F>(a.data(), a.size());
  random.fill<F>(b.data(), b.size());
  const Units shape(To::layout, pair ? 2 * 24 : rows, cols);
  PackSource src{{a.data(), pair ? b.data() : nullptr}, i64(rb), rows, cols};
  const std::vector<u8> packed = pack_matrix<F, dense>(src, shape.tiles, int(shape.units));
  ASSERT_EQ(packed.size(), shape.bytes());

  const TypeLayout tl = type_layout(type, dense);
  ASSERT_EQ(tl.layout, int(To::layout));
  if (dense) { EXPECT_LT(shape.unit_bytes, layout_infos[Target<F>::layout].unit_bytes); }
  const f32 tensor_scale = type == Type::I2_S ? 0.37f : 1.0f;
  std::vector<f32> want(cols);
  for (int which = 0; which < (pair ? 2 : 1); which++)
    for (i64 r = 0; r < rows; r++) {
      const u8* row = (which ? b : a).data() + r * rb;
      if constexpr (std::is_same_v<F, I2_S>) {
        for (int k = 0; k < cols; k++) want[k] = tensor_scale * f32(F::level(row + k / 128 * F::bytes, k % 128));
      } else {
        decode_row(type, {row, rb}, want);
      }
      const i64 tile = pair ? r / 8 : r / 16;
      const int i = pair ? int(r % 8) + 8 * which : int(r % 16);
      for (int k = 0; k < int(shape.units) * unit_k; k++) {
        const u8* unit = packed.data() + (tile * shape.units + k / unit_k) * shape.unit_bytes;
        const f32 got = unit_value(To::code, To::scale, unit, i, k % unit_k, tl, tensor_scale);
        const f32 w = k < cols ? want[k] : 0;
        if (k < cols ? std::memcmp(&got, &w, 4) != 0 : got != 0) {
          FAIL() << "matrix " << which << " row " << r << " input " << k << ": " << got << ", expected " << w;
        }
      }
    }
  for (int i = pair ? 5 : 5; i < 8; i++) {  // rows behind the last are zero
    const u8* unit = packed.data() + (shape.tiles - 1) * shape.units * shape.unit_bytes;
    EXPECT_EQ(unit_value(To::code, To::scale, unit, i, 0, tl, tensor_scale), 0) << i;
  }
}

TEST(CudaLayout, EveryFormatComesBackBitForBit) {
#define FEWBIT_X(F, c, s)          \
  check_format<F>(Type::F, false); \
  check_format<F>(Type::F, true);
  FEWBIT_CUDA_TARGETS(FEWBIT_X)
#undef FEWBIT_X
}

TEST(CudaLayout, DenseFormatsComeBackBitForBit) {
#define FEWBIT_X(F, c, s)                \
  check_format<F, true>(Type::F, false); \
  check_format<F, true>(Type::F, true);
  FEWBIT_CUDA_DENSE_TARGETS(FEWBIT_X)
#undef FEWBIT_X
}

// Each bit of a unit's codes belongs to exactly one (row, input), or to as many as its layout says: no byte is unused, none shared by
// chance.
TEST(CudaLayout, CodesAreABijection) {
  for (const LayoutInfo& info : layout_infos) {
    if (info.code == Code::t5) continue;  // several codes share bits
    const int n = code_bytes(info.code);
    std::vector<u8> unit(n, 0);
    int owners = 0;
    for (int bit = 0; bit < 8 * n; bit++) {
      unit[bit / 8] = u8(1 << bit % 8);
      int seen = 0;
      if (bit % 7 == 0 || bit < 64) {  // a sample: the whole is slow
        for (int i = 0; i < 16; i++)
          for (int k = 0; k < unit_k; k++) seen += unit_code(info.code, unit.data(), i, k) != 0;
        const bool shared = info.code == Code::d2 && bit >= 8 * 512;  // by 8 neighbours
        EXPECT_EQ(seen, shared ? 8 : 1) << info.name << " bit " << bit;
        owners++;
      }
      unit[bit / 8] = 0;
    }
    EXPECT_GT(owners, 0);
  }
}

TEST(CudaLayout, SlabsCoverKInOrder) {
  for (int units : {1, 2, 3, 4, 5, 7, 8, 16, 40, 48, 136}) {
    EXPECT_EQ(slab_begin(units, 0), 0);
    const int slabs = slab_count(units);
    EXPECT_EQ(slab_begin(units, slabs), units);
    for (int s = 0; s < slabs; s++) EXPECT_LE(slab_begin(units, s), slab_begin(units, s + 1));
  }
}

TEST(CudaLayout, TypesWithoutAKernelSaySo) {
  EXPECT_EQ(type_layout(Type::NVFP4).layout, -1);
  EXPECT_EQ(type_layout(Type::Q8_K).layout, -1);
}

// ---- f16 tiles (half_layout.h) ----------------------------------------------------------------------------------------------------------

TEST(CudaHalfLayout, WeightsAndActivationsFillTheirRoom) {
  std::vector<int> seen(half_unit / 2, 0);
  for (int i = 0; i < 16; i++)
    for (int k = 0; k < 128; k++) seen[size_t(half_weight_at(i, k) / 2)]++;
  for (int s : seen) EXPECT_EQ(s, 1);

  for (int cols : {1, 8, 9, 250, 256, 257, 600}) {
    const int n = 256, units = 2;
    const u64 bytes = half_act_scales_at(units, cols);
    ASSERT_GE(half_act_bytes(n, cols), bytes + u64(cols) * 4);
    std::vector<u8> used(bytes / 2, 0);
    for (int c = 0; c < cols; c++)
      for (int k = 0; k < n; k++) {
        const u64 at = half_act_at(units, cols, c, k);
        ASSERT_TRUE(at % 2 == 0 && at + 2 <= bytes) << c << " " << k;
        ASSERT_EQ(used[at / 2]++, 0) << cols << ": column " << c << " input " << k;
      }
  }
}

TEST(CudaHalfLayout, Bf16BecomesF16ExactlyOrSaysSo) {
  for (int e : {-100, -30, -15, -10, 0, 40, 112})
    for (u32 bits = 0; bits < 0x10000; bits++) {
      if ((bits >> 7 & 255) == 255) continue;
      const f64 value = std::ldexp(f64(bf16_to_f32(u16(bits))), -e);
      if (std::fabs(value) >= 65536) continue;  // no row's exponent makes it so large
      const bool representable = std::ldexp(value, 24) == std::floor(std::ldexp(value, 24));
      bool exact = false;
      const u32 half = half_of_bf16(bits, e, exact);
      ASSERT_EQ(exact, representable) << bits << " exponent " << e;
      if (!exact) continue;
      ASSERT_EQ(f64(half_to_f32(u16(half))), value) << bits << " exponent " << e;
      ASSERT_TRUE(value != 0 || half == (bits & 0x8000));
    }
  EXPECT_EQ(half_row_exponent(0x3f80), -15);  // 1 becomes 2^15
  EXPECT_EQ(half_row_exponent(0x7f7f), 112);
  EXPECT_EQ(half_row_exponent(1), -100);
}

TEST(CudaHalfLayout, TakesLargeMatricesAlone) {
  HostTensor t;
  t.name = "blk.0.ffn_up.weight", t.type = Type::F16, t.cols = 1024, t.rows = 2048;
  half_choice = -1;
  EXPECT_FALSE(half_wanted(t));
  half_choice = 0;  // unless the environment says no
  const char* const word = std::getenv("FEWBIT_CUDA_HALF");
  EXPECT_EQ(half_wanted(t), !word || std::string_view(word) != "0");
  half_choice = 1;
  EXPECT_TRUE(half_wanted(t));
  auto changed = [&](auto&& change) {
    HostTensor other = t;
    change(other);
    return half_wanted(other);
  };
  EXPECT_TRUE(changed([](HostTensor& o) { o.type = Type::BF16; }));
  EXPECT_FALSE(changed([](HostTensor& o) { o.type = Type::F32; }));
  EXPECT_FALSE(changed([](HostTensor& o) { o.rows--; }));
  EXPECT_FALSE(changed([](HostTensor& o) { o.cols += 4; }));
  EXPECT_FALSE(changed([](HostTensor& o) { o.experts = 2; }));
  EXPECT_FALSE(changed([](HostTensor& o) { o.name = "blk.0.ffn_up_exps.weight"; }));
  EXPECT_FALSE(changed([](HostTensor& o) { o.name = "blk.0.ffn_gate_inp.weight"; }));
  half_choice = 0;
}

}  // namespace
}  // namespace fewbit::kernel::cuda
