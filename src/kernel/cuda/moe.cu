// Experts: which kernel multiplies, and the sum over a column's experts.
#include <utility>

#include "kernel/cuda/gemm_experts.cuh"
#include "kernel/cuda/moe_few.cuh"
#include "kernel/cuda/ops.h"
#include "kernel/cuda/product.cuh"

namespace fewbit::kernel::cuda {

namespace {

// Entries of each expert, in groups of up to 8 columns, entries in ascending order.  One block of 32 warps; experts 512 at a time,
// entries 1024 at a time: a warp counts its own, so that an entry's place is the sum of counts before it.
struct GroupsArgs {
  const i32* ids;
  int entries, first, experts;  // those of experts [first, first + experts), counted from there
  i32* n_groups;
  MvGroup* groups;
};
constexpr int experts_at_once = 512;
__global__ void __launch_bounds__(1024) groups_kernel(GroupsArgs a) {
  __shared__ u16 count[32][experts_at_once];
  __shared__ i32 total[experts_at_once], first[experts_at_once], sums[16];
  early_launch();
  early_wait();
  const int tid = int(threadIdx.x), lane = tid % 32, warp = tid / 32;
  int base = 0;
  for (int e0 = 0; e0 < a.experts; e0 += experts_at_once) {
    // Pass 0 counts, pass 1 places.
    for (int pass = 0; pass < 2; pass++) {
      if (tid < experts_at_once) total[tid] = 0;
      __syncthreads();
      for (int c = 0; c < a.entries; c += 1024) {
        for (int e = lane; e < experts_at_once; e += 32) count[warp][e] = 0;
        __syncwarp();
        const int i = c + tid, id = i < a.entries ? a.ids[i] - a.first - e0 : -1;
        const bool mine = id >= 0 && id < experts_at_once && e0 + id < a.experts;
        const u32 same = __match_any_sync(~0u, mine ? id : -1 - lane);
        const int before = __popc(same & ((1u << lane) - 1));
        if (mine && before == 0) count[warp][id] = u16(__popc(same));
        __syncthreads();
        if (tid < experts_at_once) {
          int s = total[tid];
          for (int w = 0; w < 32; w++) {
            const int n = count[w][tid];
            count[w][tid] = u16(s);
            s += n;
          }
          total[tid] = s;
        }
        __syncthreads();
        if (pass && mine) {
          const int k = count[warp][id] + before;
          MvGroup& g = a.groups[base + first[id] + k / 8];
          g.entry[k % 8] = i;
        }
        __syncthreads();
      }
      if (pass) break;
      // Exclusive sums of the groups of each expert, and the groups' heads.
      const int n = tid < experts_at_once ? total[tid] : 0, groups = (n + 7) / 8;
      int s = groups;
      for (int m = 1; m < 32; m *= 2) {
        const int o = __shfl_up_sync(~0u, s, m);
        if (lane >= m) s += o;
      }
      if (lane == 31 && warp < 16) sums[warp] = s;
      __syncthreads();
      int at = s - groups;
      for (int w = 0; w < min(warp, 16); w++) at += sums[w];
      if (tid < experts_at_once) {
        first[tid] = at;
        for (int k = 0; k < groups; k++) a.groups[base + at + k].expert = e0 + tid, a.groups[base + at + k].n = min(8, n - 8 * k);
      }
      __syncthreads();
    }
    for (int w = 0; w < 16; w++) base += sums[w];
    __syncthreads();
  }
  if (tid == 0) *a.n_groups = base;
}

MvGroup* group_list(Ctx& ctx) { return reinterpret_cast<MvGroup*>(static_cast<u8*>(ctx.scratch) + 16); }  // behind their number

// Fills in the groups of the entries of experts [first, first + experts); returns an upper bound of their number.
int list_groups(Ctx& ctx, MvArgs& m, const i32* ids, int entries, int first, int experts) {
  const int bound = entries / 8 + std::min(experts, entries);
  FEWBIT_CHECK(16 + u64(bound) * sizeof(MvGroup) <= groups_bytes && split_room(ctx) >= groups_bytes,
               "scratch of %llu bytes for %d expert groups", (unsigned long long)ctx.scratch_bytes, bound);
  m.n_groups = static_cast<const i32*>(ctx.scratch), m.groups = group_list(ctx);
  LaunchShape s;
  s.grid = dim3(1), s.block = dim3(1024), s.cols = entries, s.name = "moe.groups";
  launch(ctx, groups_kernel, s, GroupsArgs{ids, entries, first, experts, static_cast<i32*>(ctx.scratch), group_list(ctx)});
  return bound;
}
int group_entries(Ctx& ctx, MvArgs& m, const i32* ids, int entries, int experts) {
  m.ids = ids, m.entries = entries;
  return entries <= direct_entries ? entries : list_groups(ctx, m, ids, entries, 0, experts);
}

// Experts that are packed for a moment stand in slots.
struct SlotsArgs {
  const i32* ids;  // slot i: the expert of entry first + i, a group of its own; nullptr: expert first + i
  int first, count;
  const f32* scale[2];  // (experts), or nullptr
  i32* expert;          // (count)
  f32* slot_scale[2];   // (count)
  MvGroup* groups;
  i32* n_groups;
};
__global__ void slots_kernel(SlotsArgs a) {
  early_launch();
  early_wait();
  for (int i = int(threadIdx.x); i < a.count; i += int(blockDim.x)) {
    const int expert = a.ids ? a.ids[a.first + i] : a.first + i;
    a.expert[i] = expert;
    for (int m = 0; m < 2; m++)
      if (a.scale[m]) a.slot_scale[m][i] = a.scale[m][expert];
    if (a.ids) a.groups[i].expert = i, a.groups[i].n = 1, a.groups[i].entry[0] = a.first + i;
  }
  if (a.ids && threadIdx.x == 0) *a.n_groups = a.count;
}

// Entries of experts that keep their file's bytes; m: the product (a pair with `up`), without groups.
void launch_in_file(Ctx& ctx, MvArgs m, const Weight& w, const Weight* up, ActLayout act, const i32* ids, int entries,
                    const std::string& shape) {
  constexpr int most = 1024;  // slots
  static_assert(3 * most * sizeof(f32) <= expand_lists && direct_entries <= most);
  const InOrder in_order(ctx);
  u8* lists = expand_area(ctx);
  u8* units = lists + expand_lists;
  const int layout = w.layout_id - layout_in_file;
  const int room = int(std::min<u64>(most, expand_bytes / m.p[0].expert_bytes));
  FEWBIT_CHECK(room > 0, "'%s': an expert of %llu bytes", w.name.c_str(), (unsigned long long)m.p[0].expert_bytes);
  const bool by_entry = entries <= direct_entries;
  PackSource src = source_of(w, 0, w.rows);
  if (up) src.data[1] = static_cast<const u8*>(up->data);
  m.ids = ids, m.entries = entries;
  SlotsArgs a{by_entry ? ids : nullptr,      0, 0, {m.p[0].scale[0], m.p[0].scale[1]}, reinterpret_cast<i32*>(lists), {}, group_list(ctx),
              static_cast<i32*>(ctx.scratch)};
  for (int h = 0; h < 2; h++) {
    a.slot_scale[h] = reinterpret_cast<f32*>(lists) + (1 + h) * most;
    if (a.scale[h]) m.p[0].scale[h] = a.slot_scale[h];
  }
  m.p[0].w = units;
  for (int all = by_entry ? entries : int(w.experts); a.first < all; a.first += room) {
    a.count = std::min(room, all - a.first);
    LaunchShape s;
    s.grid = dim3(1), s.block = dim3(128), s.cols = entries, s.name = "moe.slots";
    launch(ctx, slots_kernel, s, a);
    pack(ctx, w.type, w.layout_id - layout_in_file, src, m.tiles, m.units, units, {a.expert, a.count, src.row_bytes * src.rows});
    int groups = a.count;
    if (by_entry)
      m.groups = a.groups, m.n_groups = a.n_groups;
    else
      groups = list_groups(ctx, m, ids, entries, a.first, a.count);
    launch_mv(ctx, m, layout, act, groups, 0, shape);  // pack() counts the file's bytes
  }
}

// Many columns of experts, by the wide kernel where it is there; the activations of entry e: column first_col + e / act_div of `act`.
bool launch_experts(Ctx& ctx, const MvArgs& m, int layout, const Act& act, int first_col, const i32* ids, int entries, int experts,
                    u64 bytes, const std::string& shape) {
  const bool exact = act.layout == ActLayout::q8_128 || act.layout == ActLayout::q8_256;
  if (!exact || !act_has_image(act.cols) || device_of(ctx).arch() != 90 || wide_choice < 0) return false;
  ExpertArgs a{m.p[0], m.tiles, m.units, m.kind, half_bias_bits, ids, entries, experts, first_col, m.act_div};
  Levels levels = Levels::table;
  if (layout_infos[layout].code == Code::n4) {
    if (layout == layout_n4_g32 && plain_nibbles(m.p[0].table))
      levels = Levels::plain;
    else if (add_to_levels(a.p.table, 64))
      levels = Levels::near;
  }
  const ExpertEntry e = expert_entry(layout, levels);
  const int sms = device_of(ctx).sms(), groups = entries / expert_columns + std::min(experts, entries);
  if (!e.kernel || experts > most_wide_experts || (groups + sms - 1) / sms + 2 > expert_lists) return false;
  if (act_total_bytes(act.n, act.cols) >> 32) return false;
  static bool allowed[std::size(layout_infos)][3] = {};
  if (!std::exchange(allowed[layout][int(levels)], true)) allow_smem(e.kernel, e.smem);
  a.p.act = static_cast<const u8*>(act.data) + act_image_at(m.units, act.cols);
  LaunchShape s;
  s.grid = dim3(unsigned(std::min(sms, groups * ((m.tiles + e.tiles - 1) / e.tiles)))), s.block = dim3(unsigned(e.threads));
  s.smem = e.smem, s.cols = entries, s.name = "gemm.experts", s.shape = shape, s.bytes = bytes;
  launch(ctx, e.kernel, s, a);
  return true;
}

// x (cols, n) += sum over slots j in order of weights[c][j] * y[c * k + j]; n a multiple of W.
template <int W>
__global__ void __launch_bounds__(256) combine_kernel(const f32* y, const f32* weights, int k, int n, f32* x) {
  struct alignas(4 * W) Some {
    f32 v[W];
  };
  early_launch();
  early_wait();
  const int c = int(blockIdx.y), i = int(blockIdx.x * blockDim.x + threadIdx.x) * W;
  if (i >= n) return;
  Some& to = *reinterpret_cast<Some*>(x + i64(c) * n + i);
  const Some before = to;
  Some s{};
#pragma unroll 8
  for (int j = 0; j < k; j++) {
    const Some from = *reinterpret_cast<const Some*>(y + (i64(c) * k + j) * n + i);
    const f32 w = weights[c * k + j];
#pragma unroll
    for (int e = 0; e < W; e++) s.v[e] = __fmaf_rn(w, from.v[e], s.v[e]);
  }
#pragma unroll
  for (int e = 0; e < W; e++) s.v[e] += before.v[e];
  to = s;
}

}  // namespace

void moe_glu(Ctx& ctx, const Weight& gate, const Weight& up, const Act& a, const i32* ids, int k, Glu kind, f32* h) {
  check_act(gate, a);
  const int entries = a.cols * k;
  if (is_rows(gate)) {
    FEWBIT_CHECK(gate.layout_id == up.layout_id, "'%s' and '%s' differ in type", gate.name.c_str(), up.name.c_str());
    RowsArgs r = rows_args(gate, a, h, gate.rows, false);
    r.p.w[1] = up.data, r.p.scale[1] = up.scale, r.p.bias[1] = up.bias;
    r.kind = kind, r.ids = ids, r.entries = entries, r.act_div = k;
    launch_rows(ctx, r, entries, u64(k) * (gate.bytes + up.bytes) / u64(gate.experts));
    return;
  }
  const bool file = in_file(gate) && gate.layout_id == up.layout_id && gate.type == up.type;
  FEWBIT_CHECK(file || interleaved(gate, up), "experts '%s' and '%s' are no pair", gate.name.c_str(), up.name.c_str());
  const u64 bytes = u64(k) * (gate.bytes + up.bytes) / u64(gate.experts);
  const std::string shape = shape_of(ctx, 2 * gate.rows, gate.cols, entries);
  if (file) {
    MvArgs m = pair_args(packed_form(gate, nullptr, gate.rows, 0), up, a, kind, h, gate.rows);
    m.act_div = k;
    return launch_in_file(ctx, m, gate, &up, a.layout, ids, entries, shape);
  }
  MvArgs m = pair_args(gate, up, a, kind, h, gate.rows);
  m.act_div = k;
  EntryArgs few = entry_args(m, k);
  few.ids = ids;
  if (launch_entries(ctx, few, m.tiles, gate.layout_id, false, a.cols, bytes, shape)) return;
  if (launch_experts(ctx, m, gate.layout_id, a, 0, ids, entries, int(gate.experts), bytes, shape)) return;
  const int groups = group_entries(ctx, m, ids, entries, int(gate.experts));
  launch_mv(ctx, m, gate.layout_id, a.layout, groups, bytes, shape);
}

void moe_down(Ctx& ctx, const Weight& down, const Act& a, const i32* ids, const f32* weights, int k, f32* x) {
  check_act(down, a);
  const int cols = a.cols / k, n = int(down.rows);
  MvArgs m{};
  const Weight as_packed = in_file(down) ? packed_form(down, nullptr, down.rows, 0) : down;
  if (!is_rows(down)) {
    m.p[0] = mv_product(as_packed, a, x, n, false);
    const Units units(as_packed.layout_id, down.rows, down.cols);
    m.n = 1, m.tiles = int(units.tiles), m.units = int(units.units), m.act_div = 1;
    EntryArgs few = entry_args(m, k);
    few.ids = ids, few.weights = weights;
    if (!in_file(down) && launch_entries(ctx, few, m.tiles, down.layout_id, true, cols, u64(k) * down.bytes / u64(down.experts),
                                         shape_of(ctx, down.rows, down.cols, a.cols)))
      return;
  }
  const u64 per_col = u64(k) * u64(n) * 4;
  FEWBIT_CHECK(split_room(ctx) >= groups_bytes + per_col, "scratch of %llu bytes for one column of '%s'",
               (unsigned long long)ctx.scratch_bytes, down.name.c_str());
  const int chunk = int(std::min<u64>(u64(cols), (split_room(ctx) - groups_bytes) / per_col)) / 8 * 8;
  const int step = chunk ? chunk : int(std::min<u64>(u64(cols), (split_room(ctx) - groups_bytes) / per_col));
  f32* y = reinterpret_cast<f32*>(static_cast<u8*>(ctx.scratch) + groups_bytes);
  for (int c = 0; c < cols; c += step) {
    const int now = std::min(step, cols - c), entries = now * k;
    const u64 bytes = u64(k) * down.bytes / u64(down.experts);
    Act part = a;
    part.cols = entries;
    if (is_rows(down)) {
      part.data = static_cast<f32*>(a.data) + i64(c) * k * a.n;
      RowsArgs r = rows_args(down, part, y, n, false);
      r.ids = ids + c * k, r.entries = entries, r.act_div = 1;
      launch_rows(ctx, r, entries, bytes);
    } else {
      FEWBIT_CHECK(c * k % 8 == 0, "experts' columns in eights");
      part.data = static_cast<u8*>(a.data) + act_block_at(act_units(a.n), c * k, 0);
      m.p[0] = mv_product(as_packed, part, y, n, false);
      m.cols = entries;
      const std::string shape = shape_of(ctx, down.rows, down.cols, entries);
      if (in_file(down)) {
        launch_in_file(ctx, m, down, nullptr, a.layout, ids + c * k, entries, shape);
      } else if (!launch_experts(ctx, m, down.layout_id, a, c * k, ids + c * k, entries, int(down.experts), bytes, shape)) {
        const int groups = group_entries(ctx, m, ids + c * k, entries, int(down.experts));
        launch_mv(ctx, m, down.layout_id, a.layout, groups, bytes, shape);
      }
    }
    LaunchShape s;
    const int width = n % 4 ? 1 : 4;
    s.grid = dim3(unsigned((n / width + 255) / 256), unsigned(now)), s.block = dim3(256), s.cols = now, s.name = "moe.combine";
    launch(ctx, width == 4 ? combine_kernel<4> : combine_kernel<1>, s, y, weights + c * k, k, n, x + i64(c) * n);
  }
}

}  // namespace fewbit::kernel::cuda
