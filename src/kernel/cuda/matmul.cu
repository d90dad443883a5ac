// Which kernel multiplies: matmul and glu.
#include <algorithm>
#include <map>
#include <utility>

#include "base/half.h"
#include "kernel/cuda/gemm.cuh"
#include "kernel/cuda/half.cuh"
#include "kernel/cuda/matmul_half.h"
#include "kernel/cuda/matvec_few.cuh"
#include "kernel/cuda/matvec_one.cuh"
#include "kernel/cuda/ops.h"
#include "kernel/cuda/product.cuh"

namespace fewbit::kernel::cuda {

int wide_choice = 0, narrow_choice = 0;

namespace {

// The end of the scratch's room: totals of tiles that two pairs of blocks of the wide kernel share; what is packed for a moment.
constexpr u64 split_bytes = 2 * max_gemm_pairs * std::max(gemm_part_bytes, half_part_bytes);
constexpr u64 end_bytes = split_bytes + expand_lists + expand_bytes;

}  // namespace

u64 split_room(const Ctx& ctx) { return scratch_room(ctx) < end_bytes ? 0 : scratch_room(ctx) - end_bytes; }
u8* expand_area(const Ctx& ctx) {
  FEWBIT_CHECK(scratch_room(ctx) >= end_bytes, "scratch of %llu bytes", (unsigned long long)ctx.scratch_bytes);
  return static_cast<u8*>(ctx.scratch) + split_room(ctx) + split_bytes;
}

// A table of 16 levels that is c - 8.
bool plain_nibbles(const Tables& t) {
  bool plain = true;
  for (u32 c = 0; c < 16; c++) plain = plain && i8(t.w[c / 4] >> (8 * (c % 4))) == i32(c) - 8;
  return plain;
}

MvProduct mv_product(const Weight& w, const Act& a, f32* y, i64 ldy, bool add) {
  const TypeLayout t = type_layout(w.type);
  const Units units(w.layout_id, w.rows, w.cols);
  MvProduct p{};
  p.w = static_cast<const u8*>(w.data);
  p.expert_bytes = units.bytes();
  p.act = static_cast<const u8*>(a.data);
  p.y = y, p.ldy = ldy;
  p.scale[0] = w.scale, p.bias[0] = w.bias;
  p.table = {{u32(t.table[0]), u32(t.table[0] >> 32), u32(t.table[1]), u32(t.table[1] >> 32)}};
  p.factor = t.factor, p.rows = int(w.rows), p.add = add, p.bf16 = t.bf16;
  return p;
}

namespace {

// The kernel of a layout with the number of its blocks that fit on the device at once.
struct Chosen {
  MvEntry entry;
  int resident = 0;
};
const Chosen& choose(Ctx& ctx, int layout, bool per_128, int nc, int tiles, bool experts, int warps) {
  static Chosen table[std::size(layout_infos)][2][2][2][2][2];
  Chosen& c = table[layout][per_128][nc - 1][tiles - 1][experts][warps / 8];
  if (!c.entry.kernel) {
    if (per_128 && layout == layout_n4_k32) c.entry = mv_entry_n4_per_128(nc, tiles, experts);
    for (auto* f : {mv_entry_q1, mv_entry_b2, mv_entry_t3, mv_entry_n4, mv_entry_b8})
      if (!c.entry.kernel) c.entry = f(layout, nc, tiles, experts);
    allow_smem(c.entry.kernel, c.entry.smem[1]);
    int n = 0;
    FEWBIT_CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&n, c.entry.kernel, 32 * warps, c.entry.smem[warps / 8]));
    c.resident = std::max(1, n) * device_of(ctx).sms();
  }
  return c;
}

// Items of `at_once` tiles for a grid of `blocks`: all, or as many as go evenly if less than half of the blocks would get one more.
int full_items(int tiles, int at_once, int blocks) {
  const int items = tiles / at_once, rest = items % blocks;
  return items > blocks && 2 * rest <= blocks ? items - rest : items;
}

// One column of a large matrix.
bool launch_one(Ctx& ctx, const MvArgs& a, int layout, ActLayout act, u64 bytes, const std::string& shape) {
  if (narrow_choice < 0 || a.cols != 1 || a.ids || a.tiles < 2 * device_of(ctx).sms() || act == ActLayout::q8_per128) return false;
  const int warps = slab_count(a.units);
  MvOne one = mv_one(layout, a.units, warps);
  if (!one.kernel) one = mv_one_k(layout, a.units, warps);
  if (!one.kernel || one.smem > u32(device_of(ctx).max_smem())) return false;
  static std::map<std::pair<MvKernel, u32>, int> resident;  // blocks at once, by kernel and shared memory
  auto [known, fresh] = resident.emplace(std::pair(one.kernel, one.smem), 1);
  if (fresh) {
    allow_smem(one.kernel, size_t(device_of(ctx).max_smem()));
    FEWBIT_CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&known->second, one.kernel, 32 * warps, one.smem));
  }
  LaunchShape s;
  const int room = std::max(1, known->second) * device_of(ctx).sms();
  int rows = 0;
  for (int i = 0; i < a.n_rows; i++) rows += a.rows[i].rows;
  // Small matrices by the way: by blocks that have nothing else to do, if there is room for them.
  s.grid.x = unsigned(a.tiles / 2 + rows <= room ? a.tiles / 2 + rows : std::min(a.tiles / 2, room));
  s.block = dim3(unsigned(32 * warps)), s.smem = one.smem, s.name = layout_infos[layout].name, s.shape = shape, s.bytes = bytes;
  launch(ctx, one.kernel, s, a);
  return true;
}

// Several columns of activations q8_128 or q8_256.
bool launch_few(Ctx& ctx, MvArgs& a, int layout, int groups, u64 bytes, const std::string& shape) {
  struct Few {
    MvEntry entry;
    int resident = 0;  // blocks at once
  };
  static Few table[std::size(layout_infos)][2][3][2];
  if (a.ids || narrow_choice < 0) return false;
  const int warps = slab_count(a.units), sms = device_of(ctx).sms(), nc = a.cols > 4 ? 2 : 1;
  bool fours = a.tiles >= 4 * sms * 16 / warps;  // and no item lies in two matrices
  for (int i = 0; i < a.n; i++) fours = fours && a.p[i].tile0 % 4 == 0;
  const int tiles = fours ? 4 : a.tiles >= 2 * sms ? 2 : 1;
  Few& f = table[layout][nc - 1][tiles / 2][warps / 8];
  if (!f.entry.kernel) {
    f.entry = has_subs(layout_infos[layout].scale) ? mv_few_k(layout, nc, tiles) : mv_few(layout, nc, tiles);
    if (!f.entry.kernel) return false;
    allow_smem(f.entry.kernel, f.entry.smem[1]);
    FEWBIT_CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&f.resident, f.entry.kernel, 32 * warps, f.entry.smem[warps / 8]));
    f.resident = std::max(1, f.resident) * sms;
  }
  LaunchShape s;
  s.grid = dim3(unsigned(std::min(std::max(a.tiles / tiles, a.n_rows ? sms : 1), f.resident)), unsigned(groups));
  a.full = full_items(a.tiles, tiles, int(s.grid.x));
  if (tiles == 4) {  // single tiles where they give more blocks something to do
    a.full = std::min(a.tiles / 4, (std::max(a.tiles - f.resident, 0) + 2) / 3);
    s.grid.x = unsigned(std::min(a.tiles - 3 * a.full, f.resident));
  }
  // Between two and three tiles for a multiprocessor: one item of two for each, and the rest one by one.
  if (tiles == 2 && a.tiles > 2 * sms && a.tiles <= 3 * sms && f.resident >= 2 * sms && groups == 1)
    a.full = sms, s.grid.x = unsigned(a.tiles - sms);
  s.block = dim3(unsigned(32 * warps)), s.smem = f.entry.smem[warps / 8], s.cols = a.cols;
  s.name = layout_infos[layout].name, s.shape = shape, s.bytes = bytes;
  launch(ctx, f.entry.kernel, s, a);
  return true;
}

}  // namespace

void launch_mv(Ctx& ctx, MvArgs& a, int layout, ActLayout act, int groups, u64 bytes, const std::string& shape) {
  if (launch_one(ctx, a, layout, act, bytes, shape)) return;
  if ((act == ActLayout::q8_128 || act == ActLayout::q8_256) && a.cols > 1 && launch_few(ctx, a, layout, groups, bytes, shape)) return;
  const int nc = a.groups || (!a.ids && a.cols > 4) ? 2 : 1;
  // Two tiles at a time save loads of activations; where there are enough of them to go round.
  const int wanted = a.tiles >= 2 * device_of(ctx).sms() ? 2 : 1;
  const int warps = slab_count(a.units);
  const Chosen& c = choose(ctx, layout, act == ActLayout::q8_per128, nc, wanted, a.ids != nullptr, warps);
  LaunchShape s;
  const int items = std::max(a.tiles / c.entry.tiles, a.n_rows ? device_of(ctx).sms() : 1);
  s.grid.x = unsigned(std::min(items, c.resident));
  a.full = full_items(a.tiles, 2, int(s.grid.x));
  s.grid.y = unsigned(a.ids ? std::clamp(c.resident / int(s.grid.x), 1, groups) : groups);
  s.block = dim3(unsigned(32 * warps));
  s.smem = c.entry.smem[warps / 8], s.cols = a.ids ? a.entries : a.cols;
  s.name = layout_infos[layout].name, s.shape = shape, s.bytes = bytes;
  launch(ctx, c.entry.kernel, s, a);
}

namespace {

const GemmEntry& gemm_entry(int layout, GemmKind kind) {
  static GemmEntry table[std::size(layout_infos)][16];
  static bool known[std::size(layout_infos)][16] = {};
  const int i = kind.by_32 + 2 * kind.bytes + 4 * kind.plain + 8 * kind.bf16;
  GemmEntry& e = table[layout][i];
  if (!known[layout][i]) {
    for (auto* f : {gemm_entry_2, gemm_entry_4, gemm_entry_8})
      if (!e.kernel) e = f(layout, kind);
    if (e.kernel) allow_smem(e.kernel, e.smem);
    known[layout][i] = true;
  }
  return e;
}

// Of 16 levels the upper bytes of their f16; the lower ones are zero.
Tables half_bytes(const Tables& t) {
  Tables h{};
  for (u32 c = 0; c < 16; c++) {
    const u32 bits = f32_to_half(f32(i8(t.w[c / 4] >> (8 * (c % 4)))));
    FEWBIT_CHECK((bits & 255) == 0);
    h.w[c / 4] |= bits >> 8 << (8 * (c % 4));
  }
  return h;
}

// The wide kernel where it is there and faster than the mat-vec by eights (times in us, fitted on an H200).  Both give the same bits.
bool launch_gemm(Ctx& ctx, const MvArgs& m, int layout, ActLayout act, u64 bytes, const std::string& shape) {
  if (!act_has_image(m.cols) || device_of(ctx).arch() != 90) return false;
  GemmKind kind{act == ActLayout::q8_32 || act == ActLayout::token8, act == ActLayout::q8_per128, layout == layout_n4_g32, m.p[0].bf16};
  for (int i = 0; i < m.n; i++) kind.plain = kind.plain && plain_nibbles(m.p[i].table);
  const GemmEntry& e = gemm_entry(layout, kind);
  if (!e.kernel || wide_choice < 0) return false;
  GemmArgs a{};
  a.n = m.n, a.units = m.units, a.cols = m.cols, a.kind = m.kind, a.half_bias = half_bias_bits;
  int rows = 0;  // in pairs of blocks
  for (int i = 0; i < m.n; i++) {
    a.p[i] = m.p[i];
    if (kind.bf16) a.p[i].table = half_bytes(m.p[i].table);
    a.p[i].tile0 = rows;
    a.tiles[i] = (i + 1 < m.n ? m.p[i + 1].tile0 : m.tiles) - m.p[i].tile0;
    rows += (a.tiles[i] + 2 * e.tiles - 1) / (2 * e.tiles);
  }
  a.across = (m.cols + e.columns - 1) / e.columns, a.pairs = rows * a.across;
  const int room = std::min(device_of(ctx).sms() / 2, max_gemm_pairs), pairs = std::min(a.pairs, room);
  a.pieces = a.pairs > pairs && m.units >= max_slabs ? slab_count(m.units) : 1;
  const f64 shares = std::max(1.0, f64(a.pairs) / pairs);
  const bool each = layout == layout_n4_g32 || layout == layout_b8_g32;
  const f64 us = kind.by_32 ? 1.9 : each || kind.bytes ? 1.3 : 1.0;  // of a unit
  if (wide_choice == 0 && shares * m.units * us > (m.cols + 7) / 8 * (3 + 2.1e-4 * m.tiles * m.units)) return false;
  a.parts = reinterpret_cast<float4*>(static_cast<u8*>(ctx.scratch) + split_room(ctx));
  a.flags = counters(ctx);
  LaunchShape s;
  s.grid = dim3(unsigned(2 * pairs)), s.block = dim3(unsigned(e.threads)), s.smem = e.smem, s.cluster = 2;
  s.cols = m.cols, s.name = "gemm", s.shape = shape, s.bytes = bytes;
  launch(ctx, e.kernel, s, a);
  return true;
}

}  // namespace

std::string shape_of(const Ctx& ctx, i64 rows, i64 cols, int columns) {
  return ctx.launches ? std::to_string(rows) + "x" + std::to_string(cols) + "x" + std::to_string(columns) : std::string();
}

void launch_rows(Ctx& ctx, const RowsArgs& a, int groups, u64 bytes) {
  LaunchShape s;
  const bool split = a.p.rows < 2048;
  if (split && launch_rows_wide(ctx, a, bytes)) return;
  s.grid = dim3(unsigned(split ? a.p.rows : (a.p.rows + 7) / 8), unsigned(groups));
  s.block = dim3(256);
  s.cols = a.cols, s.name = "rows", s.shape = shape_of(ctx, a.p.rows, a.p.n, a.cols), s.bytes = bytes;
  launch(ctx, split ? rows_kernel<8> : rows_kernel<1>, s, a);
}

RowsArgs rows_args(const Weight& w, const Act& a, f32* y, i64 ldy, bool add) {
  FEWBIT_CHECK(a.layout == ActLayout::f32, "'%s' takes f32 activations", w.name.c_str());
  RowsArgs r{};
  r.p.w[0] = w.data;
  r.p.expert_bytes = u64(w.rows) * u64(w.cols) * (w.layout_id == layout_rows_f32 ? 4 : 2);
  r.p.act = static_cast<const f32*>(a.data);
  r.p.y = y, r.p.ldy = ldy;
  r.p.scale[0] = w.scale, r.p.bias[0] = w.bias;
  r.p.rows = int(w.rows), r.p.n = int(w.cols), r.p.layout = w.layout_id, r.p.add = add;
  r.cols = a.cols;
  return r;
}

void check_act(const Weight& w, const Act& a) {
  const bool one_scale = a.layout == ActLayout::q8_per128 || a.layout == ActLayout::token8;  // of a unit
  const bool half = a.layout == ActLayout::f16, quantised = !half && a.layout != ActLayout::f32;
  const bool fits = w.layout_id == layout_half ? half : is_rows(w) || (quantised && (w.layout_id != layout_b8_k16 || one_scale));
  FEWBIT_CHECK(a.n == w.cols && fits, "'%s' (%lld inputs) times an activation of %d, layout %d", w.name.c_str(), (long long)w.cols, a.n,
               int(a.layout));
}

MvArgs pair_args(const Weight& gate, const Weight& up, const Act& a, Glu kind, f32* h, i64 ldh) {
  MvArgs m{};
  m.p[0] = mv_product(gate, a, h, ldh, false);
  m.p[0].pair = true;
  m.p[0].scale[1] = up.scale, m.p[0].bias[1] = up.bias;
  const Units units(gate.layout_id, (gate.rows + 7) / 8 * 16, gate.cols);
  m.p[0].expert_bytes = units.bytes();
  m.n = 1, m.tiles = int(units.tiles), m.units = int(units.units), m.cols = a.cols, m.kind = kind;
  return m;
}

void matmul(Ctx& ctx, std::span<const Kernels::Product> products) {
  constexpr i64 small_rows = 1024;
  FEWBIT_CHECK(products.size() <= 32);
  bool done[32] = {};
  for (size_t k = 0; k < 2 * products.size(); k++) {  // matrices of rows last: by then some have gone with the others
    const size_t i = k % products.size();
    const bool last_chance = k >= products.size();
    if (done[i]) continue;
    const Kernels::Product& q = products[i];
    const Weight& w = *q.w;
    check_act(w, *q.a);
    FEWBIT_CHECK(!w.extra, "'%s' is one of a pair", w.name.c_str());
    if (in_file(w)) {
      matmul_in_file(ctx, q);
      done[i] = true;
      continue;
    }
    if (is_rows(w)) {
      if (!last_chance) continue;
      launch_rows(ctx, rows_args(w, *q.a, q.y, q.ldy, q.add), (q.a->cols + 7) / 8, w.bytes);
      continue;
    }
    if (w.layout_id == layout_half) {
      half_matmul(ctx, products, i, done);
      continue;
    }
    // All products of one kernel with the same number of inputs and columns in one launch, and small ones with f32 activations with them.
    MvArgs m{};
    m.units = int(Units(w.layout_id, w.rows, w.cols).units), m.cols = q.a->cols;
    u64 bytes = 0;
    i64 rows = 0;
    for (size_t j = i; j < products.size() && m.n < mv_products; j++) {
      const Kernels::Product& o = products[j];
      if (done[j] || o.w->layout_id != w.layout_id || (o.w->type == Type::MXFP4) != (w.type == Type::MXFP4) || o.w->cols != w.cols ||
          o.a->cols != m.cols || o.a->layout != q.a->layout || o.a->data != q.a->data || o.w->extra)
        continue;
      check_act(*o.w, *o.a);
      MvProduct p = mv_product(*o.w, *o.a, o.y, o.ldy, o.add);
      p.tile0 = m.tiles;
      m.tiles += int(Units(o.w->layout_id, o.w->rows, o.w->cols).tiles);
      m.p[m.n++] = p;
      bytes += o.w->bytes, rows += o.w->rows;
      done[j] = true;
    }
    for (size_t j = 0; j < products.size() && m.n_rows < mv_rows && m.cols <= 32; j++) {
      const Kernels::Product& o = products[j];
      if (done[j] || !is_rows(*o.w) || o.a->cols != m.cols || o.w->rows > small_rows) continue;
      check_act(*o.w, *o.a);
      m.rows[m.n_rows++] = rows_args(*o.w, *o.a, o.y, o.ldy, o.add).p;
      bytes += o.w->bytes, rows += o.w->rows;
      done[j] = true;
    }
    const std::string shape = shape_of(ctx, rows, w.cols, m.cols);
    if (m.n_rows == 0 && launch_gemm(ctx, m, w.layout_id, q.a->layout, bytes, shape)) continue;
    launch_mv(ctx, m, w.layout_id, q.a->layout, (m.cols + 7) / 8, bytes, shape);
  }
}

void glu_pair(Ctx& ctx, const Weight& gate, const Weight& up, const Act& a, Glu kind, f32* h, i64 ldh) {
  MvArgs m = pair_args(gate, up, a, kind, h, ldh);
  const std::string shape = shape_of(ctx, 2 * gate.rows, gate.cols, a.cols);
  if (!launch_gemm(ctx, m, gate.layout_id, a.layout, gate.bytes + up.bytes, shape))
    launch_mv(ctx, m, gate.layout_id, a.layout, (a.cols + 7) / 8, gate.bytes + up.bytes, shape);
}

void glu(Ctx& ctx, const Weight& gate, const Weight& up, const Act& a, Glu kind, f32* h) {
  check_act(gate, a);
  if (is_rows(gate) && gate.layout_id == up.layout_id) {
    RowsArgs r = rows_args(gate, a, h, gate.rows, false);
    r.p.w[1] = up.data, r.p.scale[1] = up.scale, r.p.bias[1] = up.bias;
    r.kind = kind;
    launch_rows(ctx, r, (a.cols + 7) / 8, gate.bytes + up.bytes);
    return;
  }
  if (interleaved(gate, up))
    return gate.layout_id == layout_half ? half_glu(ctx, gate, up, a, kind, h) : glu_pair(ctx, gate, up, a, kind, h, gate.rows);
  if (in_file(gate) && gate.layout_id == up.layout_id && gate.type == up.type && gate.rows == up.rows)
    return glu_in_file(ctx, gate, up, a, kind, h);
  // Different layouts: gate into h, up into scratch.
  FEWBIT_CHECK(split_room(ctx) >= groups_bytes + u64(a.cols) * u64(up.rows) * 4, "scratch of %llu bytes for (%d, %lld)",
               (unsigned long long)ctx.scratch_bytes, a.cols, (long long)up.rows);
  f32* other = reinterpret_cast<f32*>(static_cast<u8*>(ctx.scratch) + groups_bytes);
  const Kernels::Product two[2] = {{&gate, &a, h, gate.rows, false}, {&up, &a, other, up.rows, false}};
  matmul(ctx, two);
  act_mul(ctx, h, other, kind, i64(a.cols) * gate.rows, h);
}

// One half of a pair that is multiplied in two; the experts' outputs of some columns at a time, at least of eight.
u64 matmul_scratch_bytes(int max_cols, int experts_used, int max_n) {
  constexpr u64 enough = 64 << 20;
  const u64 half = u64(max_cols) * u64(max_n) * 4, outputs = half * u64(experts_used), eight = u64(8 * experts_used) * u64(max_n) * 4;
  return groups_bytes + std::max(half, std::max(eight, std::min(outputs, enough))) + (1 << 20) + end_bytes;
}

}  // namespace fewbit::kernel::cuda
