#include "kernel/cpu/matmul.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cmath>
#include <cstring>

#include "base/cpu_features.h"
#include "kernel/cpu/file_rows.h"
#include "kernel/cpu/r16_sets.h"
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
  const void* column(int i) const {
    if (a.layout == ActLayout::f32) return &x[size_t(i) * size_t(n)];
    return act.data() + u64(i) * act_record_bytes(n);
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

// The columns of a case, by definition: the scalar kernel on the file's rows, one column at a time.
std::vector<f32> scalar_product(const Case& c) {
  const WeightKernels* k = nullptr;
  for (const WeightKernels& e : scalar::file_kernels())
    if (e.type == c.type) k = &e;
  FEWBIT_CHECK(k);
  std::vector<f32> y(size_t(c.cols) * size_t(c.rows));
  for (int i = 0; i < c.cols; i++) {
    const void* col = c.column(i);
    const Panel p = make_panel(k->narrow_spec, {&col, 1}, c.n, nullptr);
    for (i64 r0 = 0; r0 < c.rows; r0 += tile_rows) {
      f32 out[tile_rows];
      const int rows = int(std::min<i64>(tile_rows, c.rows - r0));
      k->narrow[1](c.bytes.data() + u64(r0) * row_bytes(c.type, c.n), rows, c.n, p, out);
      for (int r = 0; r < rows; r++) y[size_t(i) * size_t(c.rows) + size_t(r0 + r)] = c.type == Type::I2_S ? out[r] * 0.37f : out[r];
    }
  }
  return y;
}

void expect_same_bits(const std::vector<f32>& got, const std::vector<f32>& want, const Case& c, const std::string& what) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); i++)
    ASSERT_EQ(std::bit_cast<u32>(got[i]), std::bit_cast<u32>(want[i]))
        << type_name(c.type) << " " << what << " n " << c.n << " column " << i / size_t(c.rows) << " row " << i % size_t(c.rows) << ": "
        << got[i] << ", expected " << want[i];
}

std::vector<i64> lengths_of(Type t) {
  const i64 block = std::max(format_info(t).block, 32);
  std::vector<i64> v{block};
  for (i64 n : {3 * block, 576 / block * block, i64(1280)})
    if (n > 0 && n % block == 0) v.push_back(n);
  return v;
}

TEST(Matmul, SameBitsAtEveryWidthThreadCountAndLayout) {
  OnCpu one(1), three(3);
  for (Type t : weight_types()) {
    for (i64 n : lengths_of(t)) {
      const Case wide(t, n, 35, 31, u64(n));
      const std::vector<f32> want = scalar_product(wide);
      for (bool repack : {false, true}) {
        expect_same_bits(product(three, wide, repack), want, wide, repack ? "packed" : "file");
        for (int cols : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 25}) {
          Case some = wide;
          some.cols = some.a.cols = cols;
          some.a.data = some.act.data();
          expect_same_bits(product(one, some, repack), std::vector<f32>(want.begin(), want.begin() + cols * 35), some,
                           (repack ? "packed, width " : "file, width ") + std::to_string(cols));
        }
      }
    }
  }
}

TEST(Matmul, EverySetThatThisMachineHas) {
#if defined(__x86_64__) && !defined(FEWBIT_NO_PACKED)
  struct Set {
    const char* name;
    bool here;
    std::span<const WeightKernels> packed;
    WeightKernels (*wide)(Type);
  };
  const CpuFeatures& f = cpu_features();
  const Set sets[] = {{"avx2", f.avx2, avx2::packed_kernels(), avx2::wide_kernels},
                      {"avx_vnni", f.avx_vnni, avx_vnni::packed_kernels(), avx_vnni::wide_kernels},
                      {"avx512_vnni", f.avx512_vnni && f.vbmi, avx512_vnni::packed_kernels(), avx512_vnni::wide_kernels}};
  for (const Set& set : sets) {
    if (!set.here) {
      std::printf("%s: not on this machine\n", set.name);
      continue;
    }
    for (Type t : weight_types()) {
      if (act_layout(t) == ActLayout::f32) continue;
      for (i64 n : lengths_of(t)) {
        const Case c(t, n, 13, max_panel, u64(n));
        Case plain = c;
        std::vector<f32> want = scalar_product(c);
        if (t == Type::I2_S) {  // kernels leave the tensor's scale to the driver
          store_le(plain.bytes.data() + u64(c.rows) * row_bytes(t, n), 1.0f);
          for (f32& v : want) v = v / 0.37f;
          continue;
        }
        std::vector<const void*> cols;
        for (int i = 0; i < c.cols; i++) cols.push_back(c.column(i));
        alignas(64) static u8 tile[1 << 17], bytes[1 << 19], memory[1 << 18];
        auto check = [&](const WeightKernels& k, const TileFn* table, const PanelSpec& spec, const u8* data, const char* what) {
          for (int w = 1; w <= max_panel; w++) {
            if (!table[w]) continue;
            f32 out[max_panel * tile_rows];
            const Panel p = make_panel(spec, std::span(cols).subspan(0, size_t(w)), n, memory);
            table[w](data, int(c.rows), n, p, out);
            for (int i = 0; i < w; i++)
              for (i64 r = 0; r < c.rows; r++)
                ASSERT_EQ(std::bit_cast<u32>(out[i * tile_rows + r]), std::bit_cast<u32>(want[size_t(i * c.rows + r)]))
                    << set.name << " " << what << " " << type_name(k.type) << " n " << n << " width " << w << " column " << i << " row "
                    << r;
          }
        };
        for (const WeightKernels& k : set.packed) {
          if (k.type != t) continue;
          ASSERT_LE(size_t(k.tile_bytes(n)), sizeof tile);
          std::memset(tile, 0, sizeof tile);
          k.pack(c.bytes.data(), int(c.rows), n, tile);
          check(k, k.narrow, k.narrow_spec, tile, "narrow");
          ASSERT_LE(size_t(k.spread_bytes(n)), sizeof bytes);
          k.spread(tile, int(c.rows), n, bytes);
          check(k, k.wide, k.wide_spec, bytes, "wide");
        }
        WeightKernels k = set.wide(t);
        k.type = t;
        ASSERT_TRUE(k.spread);
        k.spread(c.bytes.data(), int(c.rows), n, bytes);
        check(k, k.wide, k.wide_spec, bytes, "wide from the file");
      }
    }
  }
#endif
}

// Weights that stay as they lie in the file: each block is decoded once per tile, also for one column.
TEST(Matmul, BytesOfAFileAreSpreadAtEveryWidth) {
#if !defined(FEWBIT_NO_PACKED)
  for (Type t : weight_types()) {
    const WeightKernels* k = file_kernels(t);
    if (act_layout(t) == ActLayout::f32 || packed_kernels(Type::Q8_0) == nullptr) continue;
    ASSERT_TRUE(k->spread) << type_name(t);
    EXPECT_EQ(k->first_wide, 1) << type_name(t);
    EXPECT_TRUE(k->wide[1] || k->wide[2]) << type_name(t);
    EXPECT_STREQ(k->layout, "file");
  }
#endif
}

// Tiles of fewer rows than 16 read none behind them, and give what whole ones do.
TEST(Matmul, RaggedTilesOfAFileReadNothingBehindTheirRows) {
  for (Type t : weight_types()) {
    const WeightKernels* k = file_kernels(t);
    if (!k->spread) continue;
    const i64 n = 2 * std::max(format_info(t).block, 32);
    for (int rows : {1, 5, 16}) {
      const Case c(t, n, rows, 3, 9);
      const u64 bytes = u64(rows) * row_bytes(t, n), page = 4096;
      u8* memory = static_cast<u8*>(
          mmap(nullptr, 2 * page + round_up(i64(bytes), 4096), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
      ASSERT_NE(static_cast<void*>(memory), MAP_FAILED);
      u8* end = memory + round_up(i64(bytes), 4096);
      ASSERT_EQ(0, mprotect(end, page, PROT_NONE));
      std::memcpy(end - bytes, c.bytes.data(), bytes);
      std::vector<u8> a(size_t(k->spread_bytes(n)) + 64), b(a.size());
      auto aligned = [](std::vector<u8>& v) { return reinterpret_cast<u8*>(round_up(i64(reinterpret_cast<uintptr_t>(v.data())), 64)); };
      k->spread(end - bytes, rows, n, aligned(a));
      k->spread(c.bytes.data(), rows, n, aligned(b));
      EXPECT_EQ(0, std::memcmp(aligned(a), aligned(b), size_t(k->spread_bytes(n)))) << type_name(t) << " rows " << rows;
      munmap(memory, 2 * page + round_up(i64(bytes), 4096));
    }
  }
}

// Packing loses nothing: every row of a packed tensor decodes to the floats of the file, every code and scale included.
TEST(Pack, IsLossless) {
  for (Type t : weight_types()) {
    const WeightKernels* k = packed_kernels(t);
    if (!k) continue;
    for (i64 n : lengths_of(t)) {
      Case c(t, n, 16, 1, 77);
      std::vector<u8> tile(size_t(k->tile_bytes(n)));
      k->pack(c.bytes.data(), 16, n, tile.data());
      std::vector<f32> row;
      row.resize(size_t(n));
      for (int r = 0; r < 16; r++) {
        k->unpack(tile.data(), r, n, row.data());
        if (t == Type::I2_S)
          for (f32& v : row) v = 0.37f * v;
        ASSERT_EQ(0, std::memcmp(row.data(), &c.w[size_t(r * n)], size_t(n) * 4)) << type_name(t) << " n " << n << " row " << r;
      }
      EXPECT_LE(f64(k->tile_bytes(1024)), 1.5 * 16 * f64(row_bytes(t, 1024)) + 64) << type_name(t);
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

TEST(Quantize, SameBytesOnEverySet) {
  RandomBlocks random(5);
  for (int trial = 0; trial < 4000; trial++) {
    const i64 n = 1 + i64(random.rng() % 300);
    std::vector<f32> x;
    x.resize(size_t(n));
    const int kind = trial % 8;
    for (f32& v : x) {
      v = random.normal();
      if (kind == 1) v = f32(int(random.rng() % 255) - 127) * 0.5f;                                  // halves
      if (kind == 2) v = std::bit_cast<f32>(u32(random.rng()));                                      // anything
      if (kind == 3) v = std::bit_cast<f32>(u32(random.rng() % 400) | u32(random.rng() & 1) << 31);  // subnormal
      if (kind == 4) v = random.rng() % 50 ? 0.0f : v;
      if (kind == 5) v = v * 1e38f;
    }
    std::vector<u8> a(act_record_bytes(n), 1), b(act_record_bytes(n), 2);
    quantize_q8_32_scalar(x.data(), n, a.data());
    quantize_q8_32()(x.data(), n, b.data());
    ASSERT_EQ(0, std::memcmp(a.data(), b.data(), a.size())) << "n " << n << " kind " << kind;
  }
}

}  // namespace
}  // namespace fewbit::kernel::cpu
