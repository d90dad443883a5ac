#include "kernel/cpu/matmul.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "kernel/cpu/file_rows.h"
#include "kernel/layout/fma.h"
#include "kernel/layout/integer_form.h"
#include "kernel/layout/random_blocks.h"

namespace fewbit::kernel::cpu {
namespace {

std::vector<Type> weight_types() {
  std::vector<Type> v;
#define FEWBIT_X(F, id) v.push_back(Type::F);
  FEWBIT_WEIGHT_FORMATS(FEWBIT_X)
#undef FEWBIT_X
  return v;
}

// A tensor of random blocks and random inputs for it.
struct Case {
  Type type;
  i64 n, rows;
  int cols;
  std::vector<u8> bytes;
  std::vector<f32> x, w;  // (cols, n); decoded (rows, n)
  std::vector<u8> act;
  Act a;
  Case(Type t, i64 n_, i64 rows_, int cols_, u64 seed = 1) : type(t), n(n_), rows(rows_), cols(cols_) {
    RandomBlocks random(seed);
    bytes.resize(size_t(*tensor_bytes(t, u64(n), u64(rows))));
    const u64 codes = u64(rows) * row_bytes(t, n);
    random.fill(t, bytes.data(), codes);
    if (t == Type::I2_S) store_le(bytes.data() + codes, 0.37f);
    w.resize(size_t(rows * n));
    decode_tensor(t, bytes, w);
    x.resize(size_t(cols) * size_t(n));
    for (f32& v : x) v = random.normal();
    a.layout = act_layout(t);
    a.n = int(n);
    a.cols = cols;
    act.resize(act_bytes(a.layout, a.n, cols));
    a.data = act.data();
    for (int c = 0; c < cols; c++) {
      if (a.layout == ActLayout::f32)
        std::memcpy(act.data() + size_t(c) * size_t(n) * 4, &x[size_t(c) * size_t(n)], size_t(n) * 4);
      else
        quantize_q8_32_scalar(&x[size_t(c) * size_t(n)], n, act.data() + u64(c) * act_record_bytes(n));
    }
  }
  // What an input is after quantisation.
  f64 input(int c, i64 k) const {
    if (a.layout == ActLayout::f32) return x[size_t(c) * size_t(n) + size_t(k)];
    Q8Record r = act_column(a, c);
    return f64(r.d[k / 32]) * r.q[k];
  }
  std::vector<f64> reference() const {
    std::vector<f64> y(size_t(cols) * size_t(rows));
    for (int c = 0; c < cols; c++)
      for (i64 r = 0; r < rows; r++)
        for (i64 k = 0; k < n; k++) y[size_t(c) * size_t(rows) + size_t(r)] += f64(w[size_t(r * n + k)]) * input(c, k);
    return y;
  }
};

struct OnCpu {
  std::unique_ptr<Device> device;
  Ctx ctx;
  explicit OnCpu(int threads = 2) {
    auto d = open_device("cpu", {threads});
    FEWBIT_CHECK(d.ok());
    device = std::move(*d);
    ctx.device = device.get();
    ctx.pool = device->pool();
  }
};

std::vector<f32> product(OnCpu& cpu, const Case& c, bool repack = true) {
  HostTensor t;
  t.name = type_name(c.type);
  t.type = c.type;
  t.cols = c.n;
  t.rows = c.rows;
  t.data = c.bytes;
  std::vector<Buffer> owned;
  PlaceOptions options;
  options.repack = repack;
  auto w = place(cpu.ctx, {&t, 1}, GroupUse::separate, options, owned);
  FEWBIT_CHECK(w.ok(), "%s", w.error().what.c_str());
  std::vector<f32> y(size_t(c.cols) * size_t(c.rows), 12345.0f);
  Kernels::Product p{&(*w)[0], &c.a, y.data(), c.rows, false};
  matmul(cpu.ctx, {&p, 1});
  return y;
}

f64 nmse(const std::vector<f32>& got, const std::vector<f64>& want) {
  f64 e = 0, s = 0;
  for (size_t i = 0; i < got.size(); i++) e += (got[i] - want[i]) * (got[i] - want[i]), s += want[i] * want[i];
  return s > 0 ? e / s : e;
}

TEST(Fma, ByDoubleRoundsOnce) {
  std::mt19937_64 rng(3);
  for (int i = 0; i < 2000000; i++) {
    f32 v[3];
    for (f32& f : v) {
      u32 bits = u32(rng());
      if (i % 2) bits = (bits & 0x807fffff) | u32(100 + rng() % 56) << 23;  // comparable exponents
      f = std::bit_cast<f32>(bits);
    }
    if (i % 4 == 1) v[2] = -v[0] * v[1];  // cancellation
    const f32 want = std::fma(v[0], v[1], v[2]), got = fma_by_double(v[0], v[1], v[2]);
    ASSERT_TRUE(std::bit_cast<u32>(want) == std::bit_cast<u32>(got) || (want != want && got != got)) << v[0] << " " << v[1] << " " << v[2];
  }
}

TEST(IntegerForm, ValuesAreThoseOfTheFormat) {
  for (Type t : weight_types()) {
    const i64 n = std::max(format_info(t).block, 256);
    Case c(t, n, 5, 1);
    std::vector<f32> row;
    row.resize(size_t(n));
    for (i64 r = 0; r < 5; r++) {
      file_kernels(t)->unpack(c.bytes.data(), int(r), n, row.data());
      if (t == Type::I2_S)
        for (f32& v : row) v = 0.37f * v;
      ASSERT_EQ(0, std::memcmp(row.data(), &c.w[size_t(r * n)], size_t(n) * 4)) << type_name(t) << " row " << r;
    }
  }
}

TEST(Matmul, EveryTypeAgainstDoubles) {
  OnCpu cpu;
  for (Type t : weight_types()) {
    const i64 block = std::max(format_info(t).block, 32);
    for (i64 n : {block, 3 * block, 576 / block * block, i64(1024)}) {
      if (n == 0) continue;
      Case c(t, n, 37, 3);
      EXPECT_LT(nmse(product(cpu, c), c.reference()), 1e-12) << type_name(t) << " n " << n;
    }
  }
}

TEST(Matmul, SameBitsOnEverySetWidthAndThreadCount) {
  OnCpu one(1), three(3);
  for (Type t : weight_types()) {
    const i64 block = std::max(format_info(t).block, 32), n = 1280 / block * block;
    const Case wide(t, n, 35, 20);
    const std::vector<f32> want = product(one, wide);
    for (bool repack : {false, true}) {
      const std::vector<f32> got = product(three, wide, repack);
      ASSERT_EQ(0, std::memcmp(got.data(), want.data(), got.size() * 4)) << type_name(t) << " repack " << repack;
    }
    for (const WeightKernels& k : scalar::file_kernels()) {
      if (k.type != t) continue;
      for (int c0 = 0; c0 < wide.cols; c0++) {
        Panel p;
        p.cols = 1;
        p.col[0] = t == Type::F32 || t == Type::F16 || t == Type::BF16
                       ? static_cast<const void*>(&wide.x[size_t(c0) * size_t(n)])
                       : static_cast<const void*>(wide.act.data() + u64(c0) * act_record_bytes(n));
        for (i64 r0 = 0; r0 < wide.rows; r0 += tile_rows) {
          f32 out[tile_rows];
          const int rows = int(std::min<i64>(tile_rows, wide.rows - r0));
          k.tile(wide.bytes.data() + u64(r0) * row_bytes(t, n), rows, n, p, out);
          for (int r = 0; r < rows; r++) {
            const f32 v = t == Type::I2_S ? out[r] * 0.37f : out[r];
            ASSERT_EQ(std::bit_cast<u32>(v), std::bit_cast<u32>(want[size_t(c0) * size_t(wide.rows) + size_t(r0 + r)]))
                << type_name(t) << " row " << r0 + r << " column " << c0;
          }
        }
      }
    }
  }
}

TEST(Quantize, RoundsHalfAwayAndKeepsNaN) {
  std::vector<f32> x(40);
  x[0] = 127, x[1] = 0.5f, x[2] = -0.5f, x[3] = 1.4999999f, x[4] = 0.49999997f, x[33] = INFINITY;
  std::vector<u8> record(act_record_bytes(40));
  quantize_q8_32_scalar(x.data(), 40, record.data());
  Q8Record r(record.data(), 40);
  EXPECT_EQ(r.d[0], 1.0f);
  EXPECT_EQ(r.q[1], 1);
  EXPECT_EQ(r.q[2], -1);
  EXPECT_EQ(r.q[3], 1);
  EXPECT_EQ(r.q[4], 0);
  EXPECT_EQ(r.sum[0] + r.sum[1], 128);
  EXPECT_TRUE(std::isnan(r.d[1]));
  EXPECT_EQ(r.d[2], 0.0f);
}

}  // namespace
}  // namespace fewbit::kernel::cpu
