// Attention over an f16 cache for many columns: a block per (sequence, KV head, tile of 64 rows).  Maths in attention_tensor.cuh.
//
// Rows    columns x query heads of the KV head, head fastest; a warp owns 16 of them: their sums, their softmax, and in registers what
//         is folded so far.
// Work    splits in order.  Keys and values come in units of up to 128 dimensions of a split's 64 rows through a ring; while one is used
//         the next ones are on their way.  The scores take the units of keys side by side; a split's values are summed 32 dimensions at a
//         time and folded at once.
// Blocks  the longest first, so that the last ones are short.
//
// Shared  in panels (attention_steps.cuh): queries (hi, then lo) | stages; at the end results instead of queries
#include <algorithm>

#include "kernel/cuda/attention_steps.cuh"

namespace fewbit::kernel::cuda::attend {

namespace {

constexpr int tile_rows = 64;

template <int WIDTH>
struct TilesShape {
  static constexpr int unit = WIDTH < 128 ? WIDTH : 128, units = WIDTH / unit;  // units: of keys, as many of values
  static constexpr int stage = unit / 64 * panel, low = WIDTH / 64 * panel, queries = 2 * low;
  static constexpr int bytes(int stages) { return queries + stages * stage; }
};

template <int WIDTH>
__global__ void __launch_bounds__(128, 2) tiles_kernel(const __grid_constant__ Args a, int stages) {
  using S = TilesShape<WIDTH>;
  constexpr int pieces = S::unit / 8, apart = 128 / pieces;  // apart: rows from one piece of a thread to its next
  extern __shared__ __align__(1024) u8 shared[];
  const u32 base = shared_at(shared), ring = base + S::queries;
  early_launch();
  early_wait();
  const AttentionArgs& at = a.at;
  const int hd = at.head_dim, tid = int(threadIdx.x), lane = tid % 32, warp = warp_index(), g = lane / 4, t = lane % 4,
            kv = int(blockIdx.y);

  // Which sequence, which of its tiles.
  int tile = int(gridDim.x - 1 - blockIdx.x), c0 = 0, all_rows = a.cols * a.rep;
  for (int s = 0; a.seqs > 1; s++) {
    if (s == a.seqs) return;
    c0 = a.first[s], all_rows = (a.first[s + 1] - c0) * a.rep;
    const int tiles = (all_rows + tile_rows - 1) / tile_rows;
    if (tile < tiles) break;
    tile -= tiles;
  }
  const int row0 = tile * tile_rows, rows = min(tile_rows, all_rows - row0), seq = a.seq[c0];
  const int last = a.pos[c0 + (row0 + rows - 1) / a.rep], all = last / split_keys + 1;

  {  // A warp brings hi and lo of its 16 rows; a lane knows where one of the 32 begins.
    const int my_row = row0 + min(16 * warp + lane / 2, rows - 1);
    const i64 mine = ((i64(c0 + my_row / a.rep) * at.n_q + kv * a.rep + my_row % a.rep) * 2 + lane % 2) * hd;
#pragma unroll 8
    for (int i = 0; i < 32; i++) {
      const __half* from = a.q16 + __shfl_sync(~0u, mine, i);
      const int r = 16 * warp + i / 2;
      const bool there = r < rows && lane * 8 < hd;
      if (lane < WIDTH / 8) copy16(base + u32(i % 2 * S::low) + panel_piece(r, lane), from + (there ? lane * 8 : 0), there ? 16 : 0);
    }
  }

  // Units in order: of each split keys, then values.  A page holds whole splits, so rows beyond the last are memory too; they become zeros.
  const i32* pages = a.page_table + i64(seq) * a.max_pages;
  const int per_page = at.cache.page_tokens / split_keys, last_page = (all - 1) / per_page;
  const int my_row = tid / pieces, my_piece = tid % pieces;
  const u32 my_place = ring + panel_piece(my_row, my_piece);
  int ask_unit = 0, ask_split = 0, ask_slot = 0, in_page = 0, at_page = 0, page = pages[0], next_page = pages[min(1, last_page)];
  auto ask = [&] {
    if (ask_split < all) {
      const bool values = ask_unit >= S::units;
      const int d0 = (values ? ask_unit - S::units : ask_unit) * S::unit + my_piece * 8,
                keys = d0 < hd ? min(split_keys, last + 1 - ask_split * split_keys) : 0;
      const i64 row = (i64(page) * at.n_kv + kv) * at.cache.page_tokens + in_page * split_keys + my_row;
      const __half* from = static_cast<const __half*>(values ? at.cache.v : at.cache.k) + row * hd + d0;
      const u32 to = my_place + u32(ask_slot * S::stage);
      if (hd == WIDTH && keys == split_keys) {
#pragma unroll
        for (int i = 0; i < split_keys / apart; i++) copy16(to + u32(i * apart * 128), from + i * apart * WIDTH, 16);
      } else {
#pragma unroll
        for (int i = 0; i < split_keys / apart; i++)
          copy16(to + u32(i * apart * 128), from + i * apart * hd, my_row + i * apart < keys ? 16 : 0);
      }
      if (++ask_unit == 2 * S::units) {
        ask_unit = 0, ask_split++;
        if (++in_page == per_page) in_page = 0, page = next_page, next_page = pages[min(++at_page + 1, last_page)];
      }
    }
    copies_commit();
    ask_slot = ask_slot + 1 == stages ? 0 : ask_slot + 1;
  };
  for (int i = 1; i < stages; i++) ask();

  // Of the warp's rows the lane has g and g + 8.
  int position[2];
  f32 factor[2];
  f32 out[WIDTH / 2] = {}, top[2] = {-INFINITY, -INFINITY}, mass[2] = {};
#pragma unroll
  for (int i = 0; i < 2; i++) {
    const int row = row0 + min(16 * warp + g + 8 * i, rows - 1), c = c0 + row / a.rep;
    position[i] = a.pos[c], factor[i] = a.q_factor[i64(c) * at.n_q + kv * a.rep + row % a.rep];
  }
  const int first_row = min(16 * warp, rows - 1), last_row = min(16 * warp + 15, rows - 1);
  const int first_position = a.pos[c0 + (row0 + first_row) / a.rep], last_position = a.pos[c0 + (row0 + last_row) / a.rep];
  int slot = 0;
  // The next unit is there, and its slot's predecessor has been used by all: that slot is filled again.
  auto take = [&] {
    if (stages == 3)
      copies_wait<1>();
    else
      copies_wait<0>();
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
    __syncthreads();
    ask();
    const u32 unit = ring + u32(slot * S::stage);
    slot = slot + 1 == stages ? 0 : slot + 1;
    return unit;
  };

#pragma unroll 1
  for (int split = 0; split < all; split++) {
    const int k0 = split * split_keys;
    const bool live = by_warpgroup || k0 <= last_position;  // a warpgroup multiplies together
    u32 hi[split_keys / 16][4], lo[split_keys / 16][4];
    Turn turns[2] = {};
    {
      f32 sum[32], low[32];  // 4 n + i: keys 8 n + 2 t + i % 2 of row g + i / 2 * 8
#pragma unroll
      for (int unit = 0; unit < S::units; unit++) {
        const u32 keys = take();
        if (live) add_scores<S::unit>(sum, low, base + u32(unit * S::stage), S::low, keys, unit);
      }
      if (live) {
        f32 most[2] = {-INFINITY, -INFINITY}, zero[2];
        const bool masked = k0 + split_keys - 1 > first_position;
#pragma unroll
        for (int i = 0; i < 32; i++) {
          sum[i] += low[i];
          if (masked && k0 + i / 4 * 8 + 2 * t + i % 2 > position[i / 2 % 2]) sum[i] = -INFINITY;
          most[i / 2 % 2] = fmaxf(most[i / 2 % 2], sum[i]);
        }
#pragma unroll
        for (int i = 0; i < 2; i++) {
          most[i] = fmaxf(most[i], __shfl_xor_sync(~0u, most[i], 1));
          most[i] = fmaxf(most[i], __shfl_xor_sync(~0u, most[i], 2));
          zero[i] = zero_of(most[i], factor[i]), turns[i] = turn(top[i], zero[i]);
        }
#pragma unroll
        for (int n = 0; n < split_keys / 8; n++)
#pragma unroll
          for (int i = 0; i < 2; i++)
            halves_of(weight_of(sum[4 * n + 2 * i], factor[i], zero[i]), weight_of(sum[4 * n + 2 * i + 1], factor[i], zero[i]),
                      hi[n / 2][n % 2 * 2 + i], lo[n / 2][n % 2 * 2 + i]);
        f32 l[4] = {}, l_low[4] = {};
#pragma unroll
        for (int kk = 0; kk < split_keys / 16; kk++) mma16(l, hi[kk], two_ones, two_ones), mma16(l_low, lo[kk], two_ones, two_ones);
#pragma unroll
        for (int i = 0; i < 2; i++) mass[i] = folded(mass[i], l[2 * i] + l_low[2 * i], turns[i]);
      }
    }
#pragma unroll
    for (int unit = 0; unit < S::units; unit++) {
      const u32 values = take();
      if (live) fold_values<S::unit>(out + unit * S::unit / 2, hi, lo, values, turns);
    }
  }
  copies_wait<0>();

  // Results go where the queries stood (number d of row r at d ^ 8 (r % 4)) and leave in whole lines.
  __syncthreads();
  f32* results = reinterpret_cast<f32*>(shared) + 16 * warp * WIDTH;
#pragma unroll
  for (int i = 0; i < 2; i++) {
    const f32 share = share_of(mass[i]);
#pragma unroll
    for (int n = 0; n < WIDTH / 8; n++)
      *reinterpret_cast<float2*>(results + (g + 8 * i) * WIDTH + ((8 * n + 2 * t) ^ g % 4 * 8)) =
          make_float2(result_of(out[4 * n + 2 * i], share), result_of(out[4 * n + 2 * i + 1], share));
  }
  __syncwarp();
  const int out_row = row0 + min(16 * warp + lane % 16, rows - 1), my_c = c0 + out_row / a.rep, my_h = kv * a.rep + out_row % a.rep;
  const i64 my_out = (i64(my_c) * at.n_q + my_h) * hd, my_gate = my_c * at.ldq + i64(my_h) * at.q_stride + (at.gated ? hd : 0);
#pragma unroll 1
  for (int r0 = 0; r0 < min(16, rows - 16 * warp); r0 += 4) {
    f32 gate[4][WIDTH / 32];  // all before the first result is written: the compiler could not
#pragma unroll
    for (int r = 0; r < 4; r++) {
      const f32* gates = at.q + __shfl_sync(~0u, my_gate, r0 + r);
#pragma unroll
      for (int j = 0; j < WIDTH / 32; j++) gate[r][j] = gates[min(lane + 32 * j, hd - 1)];
    }
#pragma unroll
    for (int r = 0; r < 4; r++) {
      f32* to = at.out + __shfl_sync(~0u, my_out, r0 + r);
#pragma unroll
      for (int j = 0; j < WIDTH / 32; j++) {
        const int d = lane + 32 * j;
        if (d < hd && 16 * warp + r0 + r < rows) to[d] = gated_result(a, results[(r0 + r) * WIDTH + (d ^ r * 8)], gate[r][j]);
      }
    }
  }
}

}  // namespace

template <int WIDTH>
void launch_tiles(Ctx& ctx, Args& a) {
  using S = TilesShape<WIDTH>;
  const int stages = S::bytes(3) + 1024 <= device_of(ctx).max_smem() ? 3 : 2;
  static const bool once = (allow_smem(tiles_kernel<WIDTH>, size_t(S::bytes(stages))), true);
  (void)once;
  LaunchShape s;
  s.grid = dim3(unsigned((a.cols * a.rep + tile_rows - 1) / tile_rows + a.seqs - 1), unsigned(a.at.n_kv)), s.block = dim3(128);
  s.smem = size_t(S::bytes(stages)), s.name = "attention.tiles";
  s.cols = std::max(a.cols, early_columns + 1);  // beside the predecessor's blocks they would come two to a multiprocessor
  launch(ctx, tiles_kernel<WIDTH>, s, a, stages);
}
template void launch_tiles<64>(Ctx&, Args&);
template void launch_tiles<128>(Ctx&, Args&);
template void launch_tiles<256>(Ctx&, Args&);

}  // namespace fewbit::kernel::cuda::attend

// Measured on an H200 (nvcc 13.0, 30 Nov 2026), 24 and 4 heads of 256, with the norms and rotations, at depth 64 / 1024 / 8192:
// 512 columns 68 / 128 / 565 us; 64 columns 24 / 64 / 359.
// tried: early launch of the tiles | 64 columns 28 / 89 / 548 us: two blocks on one multiprocessor while others are empty
// tried: mma.sync with ldmatrix, as before Hopper | 105 / 209 / 976 us at 512 columns
// tried: each 32 dimensions folded before the next are multiplied | 77 / 137 / 576 against 75 / 132 / 550 us
// tried: rows found by a division each, gates of two rows at a time | 75 / 132 / 549 us
// tried: the next unit asked for while the tensor cores work | 68 / 127 / 577 us
// without the fence between copies and wgmma it would be 67 / 125 / 562 us
