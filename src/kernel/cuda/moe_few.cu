// Experts of few tokens: entry by entry, and the steps around them joined (kernel/moe.h).
//
// Joined   rows of the routers are multiplied by the way in the launch of the shared expert's gate and up; every block that multiplies
//          an expert's gate and up makes the choice; every block that multiplies `down` quantises what it reads, and takes the shared
//          expert along.  With more tokens the blocks are so many that
//          what each repeats costs more than a launch.
#include "kernel/moe.h"

#include <utility>

#include "kernel/cuda/moe_few.cuh"
#include "kernel/cuda/ops.h"

namespace fewbit::kernel::cuda {

bool add_to_levels(Tables& t, int more) {
  Tables to{};
  for (u32 c = 0; c < 16; c++) {
    const int level = i8(t.w[c / 4] >> (8 * (c % 4)));
    if (level < -64 || level > 63) return false;
    to.w[c / 4] |= u32(u8(level + more)) << (8 * (c % 4));
  }
  t = to;
  return true;
}

bool launch_entries(Ctx& ctx, EntryArgs a, int tiles, int layout, bool down, int tokens, u64 bytes, const std::string& shape) {
  const int entries = tokens * a.k, slots = a.slots();
  if (entries > direct_entries || slots > entry_warps || narrow_choice < 0) return false;
  if (layout_infos[layout].code == Code::n4 && !add_to_levels(a.p.table, -64)) return false;
  const int slabs = slab_count(a.units), most = device_of(ctx).max_smem() - entry_static_smem;
  if (down && tokens * tiles <= device_of(ctx).sms())  // more warps where a block has a multiprocessor of its own
    while (2 * a.split * slots <= entry_warps && 2 * a.split <= std::min(slabs, a.units)) a.split *= 2;
  const EntryKernels e = entry_kernels(layout, a.units, slots, a.split);
  const auto kernel = down ? e.down : e.glu;
  const u64 smem = down ? e.down_smem + (a.h ? act_q8_bytes(a.n, slots) : 0) : e.glu_smem;
  if (!kernel || smem > u64(most)) return false;
  static bool allowed[std::size(layout_infos)][2] = {};
  if (!std::exchange(allowed[layout][down], true)) allow_smem(kernel, size_t(most));
  LaunchShape s;
  s.grid = dim3(unsigned(tiles), unsigned(down ? tokens : entries)), s.block = dim3(unsigned(32 * (down ? slots * a.split : slabs)));
  s.smem = smem, s.cols = entries, s.name = layout_infos[layout].name, s.shape = shape, s.bytes = bytes;
  launch(ctx, kernel, s, a);
  return true;
}

namespace {

constexpr int joined_tokens = 4, most_made = 16384;  // numbers that a block of `down` quantises

bool is_tiles(const Weight& w) { return !is_rows(w) && w.layout_id != layout_half && !in_file(w); }

// Gate and up of the shared expert together with the routers' rows.
bool shared_with_rows(Ctx& ctx, const ExpertsUp& a, std::span<const Kernels::Product> rows) {
  const Weight& gate = *a.shared_gate.w;
  const Act& act = *a.shared_gate.a;
  if (!is_tiles(gate) || !interleaved(gate, *a.shared_up) || act.cols > joined_tokens || rows.size() > mv_rows) return false;
  check_act(gate, act);
  MvArgs m = pair_args(gate, *a.shared_up, act, a.kind, a.shared_h, gate.rows);
  u64 bytes = gate.bytes + a.shared_up->bytes;
  i64 outputs = 2 * gate.rows;
  for (const Kernels::Product& q : rows) {
    if (!is_rows(*q.w) || q.w->rows > 1024) return false;
    check_act(*q.w, *q.a);
    m.rows[m.n_rows++] = rows_args(*q.w, *q.a, q.y, q.ldy, q.add).p;
    bytes += q.w->bytes, outputs += q.w->rows;
  }
  launch_mv(ctx, m, gate.layout_id, act.layout, 1, bytes, shape_of(ctx, outputs, gate.cols, act.cols));
  return true;
}

// Gate and up of the experts that each block chooses itself.
bool glu_with_route(Ctx& ctx, const ExpertsUp& a) {
  const Weight &gate = *a.gate.w, &up = *a.up;
  const Act& act = *a.gate.a;
  const int experts = int(a.router.w->rows);
  if (!is_tiles(gate) || !interleaved(gate, up) || act.cols > joined_tokens || a.k > 32 || experts > most_routed) return false;
  check_act(gate, act);
  const MvArgs m = pair_args(gate, up, act, a.kind, a.h, gate.rows);
  EntryArgs e = entry_args(m, a.k);
  e.route.logits = a.logits, e.route.experts = experts, e.route.scale = a.scale == 0 ? 1.0f : a.scale;
  e.route.ids = a.ids, e.route.weights = a.weights;
  return launch_entries(ctx, e, m.tiles, gate.layout_id, false, act.cols, u64(a.k) * (gate.bytes + up.bytes) / u64(gate.experts),
                        shape_of(ctx, 2 * gate.rows, gate.cols, act.cols * a.k));
}

void up(Ctx& ctx, const ExpertsUp& a) {
  const ExpertsUp::Input &r = a.router, &s = a.shared_router;
  const Kernels::Product both[2] = {{r.w, r.a, a.logits, r.w->rows, false}, {s.w, s.a, a.shared_logit, 1, false}};
  const std::span<const Kernels::Product> rows(both, s.w ? 2 : 1);
  if (!a.shared_gate.w || !shared_with_rows(ctx, a, rows)) {
    matmul(ctx, rows);
    if (a.shared_gate.w) glu(ctx, *a.shared_gate.w, *a.shared_up, *a.shared_gate.a, a.kind, a.shared_h);
  }
  if (glu_with_route(ctx, a)) return;
  route(ctx, a.logits, int(r.w->rows), a.k, a.gate.a->cols, a.scale, a.ids, a.weights);
  moe_glu(ctx, *a.gate.w, *a.up, *a.gate.a, a.ids, a.k, a.kind, a.h);
}

bool down(Ctx& ctx, const ExpertsDown& a) {
  const Weight& w = *a.down;
  const int n = int(w.cols), slots = a.k + (a.shared ? 1 : 0);
  const bool q8 = w.act == ActLayout::q8_32 || w.act == ActLayout::q8_128 || w.act == ActLayout::q8_256 || w.act == ActLayout::q8_per128;
  if (!is_tiles(w) || !q8 || n % 4 || a.cols > joined_tokens || slots * n > most_made) return false;
  const Act none{w.act, n, a.cols * a.k, nullptr};
  const Units units(w.layout_id, w.rows, w.cols);
  EntryArgs e{};
  e.p = mv_product(w, none, a.x, w.rows, false);
  e.units = int(units.units), e.k = a.k, e.split = 1, e.ids = a.ids, e.weights = a.weights;
  e.h = a.h, e.n = n, e.layout = w.act;
  e.shared.y = a.y, e.shared.gate = a.gate;
  u64 bytes = u64(a.k) * w.bytes / u64(w.experts);
  if (const Weight* s = a.shared) {
    if (s->layout_id != w.layout_id || s->type != w.type || s->rows != w.rows || s->cols != w.cols || s->act != w.act) return false;
    e.shared.w = static_cast<const u8*>(s->data), e.shared.h = a.shared_h, e.shared.scale = s->scale, e.shared.bias = s->bias;
    bytes += s->bytes;
  }
  return launch_entries(ctx, e, int(units.tiles), w.layout_id, true, a.cols, bytes, shape_of(ctx, w.rows, w.cols, a.cols * slots));
}

}  // namespace

const JoinedExperts* joined_experts() {
  static const JoinedExperts joined{up, down};
  return &joined;
}

}  // namespace fewbit::kernel::cuda

// Measured on an H200 (nvcc 13.0, 30 Nov 2026), qwen35-35b-a3b in IQ2_XS, one token: 16 launches a layer 450 tok/s, these 9: 504.  What the
// launches repeat costs, timed alone: the choice 1.9 us of gate and up, quantising and the shared expert 3.9 us of down.
