// Attention over an f16 cache for few columns: a block per (sequence, KV head, up to 32 queries, split).  Maths in attention_tensor.cuh.
//
// Rows    a tile is 8 queries: their hi in rows 0..7 of an mma and their lo in rows 8..15, so that one mma does both.
// Work    8 warps: of the scores a warp does 8 keys, of the values an eighth of the head.  Scores go from one to the other by way of shared
//         memory, where the keys stood.
// Early   a step begins behind a copy of its tokens and positions, so what former steps wrote into the cache is there before early_wait().
//
// Shared  keys (64, WIDTH) f16 | values likewise | queries (rows, hi and lo) | tops (rows, warps) | factors (rows) | a head's work
#include "kernel/cuda/attention_tensor.cuh"

namespace fewbit::kernel::cuda::attend {

namespace {

template <int WIDTH>
struct FewShape {
  static constexpr int row = WIDTH * 2, kv = split_keys * row, query = 2 * row;
  static constexpr int values = kv, queries = 2 * kv;
  static __host__ __device__ constexpr int tops(int tiles) { return queries + 8 * tiles * query; }
  static __host__ __device__ constexpr int factors(int tiles) { return tops(tiles) + 8 * tiles * 8 * 4; }
  static __host__ __device__ constexpr int work(int tiles) { return factors(tiles) + 8 * tiles * 4; }
  static __host__ __device__ constexpr int bytes(int tiles) { return work(tiles) + query; }
};

template <int WIDTH, int TILES, bool PREPARE>
__global__ void __launch_bounds__(256, TILES == 1 ? 3 : 2) few_kernel(const __grid_constant__ Args a) {
  using S = FewShape<WIDTH>;
  constexpr int pieces = WIDTH / 8, own = WIDTH / 64;  // own: mma columns of 8 dimensions of a warp
  extern __shared__ __align__(128) u8 shared[];
  f32* tops = reinterpret_cast<f32*>(shared + S::tops(TILES));
  f32* factors = reinterpret_cast<f32*>(shared + S::factors(TILES));
  const u32 base = shared_at(shared);
  early_launch();
  const AttentionArgs& at = a.at;
  const int hd = at.head_dim, tid = int(threadIdx.x), lane = tid % 32, warp = warp_index(), g = lane / 4, t = lane % 4;
  const int group = int(blockIdx.z), kv = int(blockIdx.y) / a.row_blocks, r0 = int(blockIdx.y) % a.row_blocks * a.block_rows;
  const int c0 = PREPARE || a.seqs == 1 ? group : a.first[group];
  const int columns = PREPARE ? 1 : a.seqs == 1 ? a.cols : a.first[group + 1] - c0;
  const int rows = min(a.block_rows, columns * a.rep - r0);
  if (rows <= 0) return early_wait();
  const int position = a.pos[c0 + (r0 + rows - 1) / a.rep], before = a.pos[c0], seq = a.seq[c0], all = position / split_keys + 1;
  const int split = int(blockIdx.x), k0 = split * split_keys, keys = min(split_keys, position + 1 - k0);
  if (split >= all) return early_wait();
  const u8* k_rows = cache_row(a, at.cache.k, a.k_row, seq, k0, kv);  // a page holds whole splits
  const u8* v_rows = cache_row(a, at.cache.v, a.v_row, seq, k0, kv);
  // Rows of former steps; of this one if `now`.  A page holds whole splits, so rows beyond the last are memory too; they become zeros.
  constexpr int apart = 256 / pieces;  // rows from one piece of a thread to its next
  const int my_row = tid / pieces, my_piece = tid % pieces, my_keys = my_piece * 8 < hd ? keys : 0;
  const u32 my_place = piece_at(base + u32(my_row * S::row), my_row, my_piece);
  auto copy_rows = [&](const u8* from, int to, bool now) {
    const __half* mine = reinterpret_cast<const __half*>(from) + my_row * hd + my_piece * 8;
#pragma unroll
    for (int i = 0; i < split_keys / apart; i++) {
      const int row = my_row + i * apart;
      if (now == (row < keys && k0 + row >= before))
        copy16(my_place + u32(to + i * apart * S::row), mine + i * apart * hd, row < my_keys ? 16 : 0);
    }
  };
  const bool old = k0 + split_keys <= before;  // all 64
  auto copy_early = [&](const u8* from, int to) {
    if (!old || hd != WIDTH) return copy_rows(from, to, false);
    const __half* mine = reinterpret_cast<const __half*>(from) + my_row * WIDTH + my_piece * 8;
#pragma unroll
    for (int i = 0; i < split_keys / apart; i++) copy16(my_place + u32(to + i * apart * S::row), mine + i * apart * WIDTH, 16);
  };
  copy_early(k_rows, 0);
  copies_commit();
  copy_early(v_rows, S::values);
  copies_commit();
  early_wait();

  if constexpr (PREPARE) {  // no other block's key or value is needed but the one this block stores
    const int jobs = rows + (split == all - 1 ? 2 : 0);
    for (int j = warp; j < jobs; j += 8) {
      if (j < rows) {
        u8* row = shared + S::queries + j * S::query;
        const f32 factor = prepare_query(a, c0, kv * a.rep + r0 + j, reinterpret_cast<f32*>(row), [&](int i, __half hi, __half lo) {
          u8* to = row + ((i / 8 & ~7) + ((i / 8 ^ j) & 7)) * 16 + i % 8 * 2;
          if (i < WIDTH) *reinterpret_cast<__half*>(to) = hi, *reinterpret_cast<__half*>(to + S::row) = lo;
        });
        if (lane == 0) factors[j] = factor;
      } else {
        const bool key = j == rows;
        f32 x[max_head_dim / 32];
        prepare_values(a, c0, key ? 1 : 2, kv, reinterpret_cast<f32*>(shared + S::work(TILES)), x);
        const int r = keys - 1;
        u8* row = shared + (key ? 0 : S::values) + r * S::row;
        __half* global = reinterpret_cast<__half*>(const_cast<u8*>(key ? k_rows : v_rows)) + r * hd;
#pragma unroll
        for (int jj = 0; jj < max_head_dim / 32; jj++) {
          const int i = lane + 32 * jj;
          const __half v = __float2half_rn(x[jj]);
          if (i < hd) global[i] = v;
          if (i < WIDTH) *reinterpret_cast<__half*>(row + ((i / 8 & ~7) + ((i / 8 ^ r) & 7)) * 16 + i % 8 * 2) = i < hd ? v : __half(0);
        }
      }
    }
  } else {
    for (int id = tid; id < rows * 2 * pieces; id += 256) {
      const int r = id / (2 * pieces), part = id / pieces % 2, piece = id % pieces, row = r0 + r;
      const i64 head = i64(c0 + row / a.rep) * at.n_q + kv * a.rep + row % a.rep;
      const bool there = piece * 8 < hd;
      copy16(piece_at(base + S::queries + u32(r * S::query + part * S::row), r, piece),
             a.q16 + (head * 2 + part) * hd + (there ? piece * 8 : 0), there ? 16 : 0);
      if (part == 0 && piece == 0) factors[r] = a.q_factor[head];
    }
    if (!old) copy_rows(k_rows, 0, true);
    copies_commit();
    if (!old) copy_rows(v_rows, S::values, true);
    copies_commit();
  }
  copies_wait<1>();  // all but values
  __syncthreads();

  // Scores of 8 keys.
  f32 sum[TILES][4] = {};
  const int key0 = 8 * warp;
  if (key0 < keys) {
    const u32 k_at = piece_at(base + u32((key0 + lane % 8) * S::row), lane, lane / 8),
              q_at = piece_at(base + S::queries + u32(lane % 8 * S::query + lane / 8 % 2 * S::row), lane, lane / 16);
#pragma unroll
    for (int i = 0; i < WIDTH / 32; i++) {
      u32 k[4];
      load_matrices(piece_on(k_at, 4 * i), k);
#pragma unroll
      for (int half = 0; half < 2; half++) {
#pragma unroll
        for (int tile = 0; tile < TILES; tile++) {
          u32 q[4];
          load_matrices(piece_on(q_at + u32(tile * 8 * S::query), 4 * i + 2 * half), q);
          mma16(sum[tile], q, k[2 * half], k[2 * half + 1]);
        }
      }
    }
  }
#pragma unroll
  for (int tile = 0; tile < TILES; tile++) {
    const int r = 8 * tile + g;
    const int last = PREPARE ? keys - 1 : a.pos[c0 + (r0 + min(r, rows - 1)) / a.rep] - k0;
#pragma unroll
    for (int i = 0; i < 2; i++) sum[tile][i] = key0 + 2 * t + i <= last ? sum[tile][i] + sum[tile][2 + i] : -INFINITY;
    f32 most = fmaxf(sum[tile][0], sum[tile][1]);
    most = fmaxf(most, __shfl_xor_sync(~0u, most, 1));
    most = fmaxf(most, __shfl_xor_sync(~0u, most, 2));
    if (t == 0) tops[r * 8 + warp] = most;
  }
  __syncthreads();
  // Weights, over the keys: tile (16, 64), hi above lo.
  f32 zero[TILES];
#pragma unroll
  for (int tile = 0; tile < TILES; tile++) {
    const int r = 8 * tile + g;
    const float4 x = *reinterpret_cast<const float4*>(tops + r * 8), y = *reinterpret_cast<const float4*>(tops + r * 8 + 4);
    const f32 most = fmaxf(fmaxf(fmaxf(x.x, x.y), fmaxf(x.z, x.w)), fmaxf(fmaxf(y.x, y.y), fmaxf(y.z, y.w))), factor = factors[r];
    zero[tile] = zero_of(most, factor);
    u32 hi, lo;
    halves_of(weight_of(sum[tile][0], factor, zero[tile]), weight_of(sum[tile][1], factor, zero[tile]), hi, lo);
    u8* to = shared + tile * 16 * 128 + g * 128 + (warp ^ g) * 16 + t * 4;
    *reinterpret_cast<u32*>(to) = hi, *reinterpret_cast<u32*>(to + 8 * 128) = lo;
  }
  copies_wait<0>();
  __syncthreads();

  // Values of an eighth of the head.
  u32 v[split_keys / 16][own][2];
  const int d0 = 8 * own * warp;
#pragma unroll
  for (int kk = 0; kk < split_keys / 16; kk++) {
    u32 m[4];
    if constexpr (own == 1) {
      if (kk % 2) continue;
      const int row = 16 * kk + lane;
      load_matrices_t(piece_at(base + S::values + u32(row * S::row), row, warp), m);
      v[kk][0][0] = m[0], v[kk][0][1] = m[1], v[kk + 1][0][0] = m[2], v[kk + 1][0][1] = m[3];
    } else {
#pragma unroll
      for (int n = 0; n < own; n += 2) {
        const int row = 16 * kk + lane % 16;
        load_matrices_t(piece_at(base + S::values + u32(row * S::row), row, own * warp + n + lane / 16), m);
        v[kk][n][0] = m[0], v[kk][n][1] = m[1], v[kk][n + 1][0] = m[2], v[kk][n + 1][1] = m[3];
      }
    }
  }
#pragma unroll
  for (int tile = 0; tile < TILES; tile++) {
    f32 o[own][4] = {}, l[4] = {};
    const u32 p_at = piece_at(base + u32(tile * 16 * 128 + lane % 16 * 128), lane, lane / 16);
#pragma unroll
    for (int kk = 0; kk < split_keys / 16; kk++) {
      u32 p[4];
      load_matrices(piece_on(p_at, 2 * kk), p);
#pragma unroll
      for (int n = 0; n < own; n++) mma16(o[n], p, v[kk][n][0], v[kk][n][1]);
      mma16(l, p, two_ones, two_ones);
    }
    const int r = 8 * tile + g, row = r0 + r, c = c0 + row / a.rep, h = kv * a.rep + row % a.rep;
    if (r >= rows || (!PREPARE && a.pos[c] < k0)) continue;
    const f32 mass = l[0] + l[2];
    if (a.splits == 1) {  // as a fold of one
      f32 top = -INFINITY;
      const Turn turned = turn(top, zero[tile]);
      const f32 share = share_of(folded(0, mass, turned));
      float2 gate[own];  // all before the first result is written: the compiler could not
#pragma unroll
      for (int n = 0; n < own; n++) gate[n] = gate_pair(a, c, h, min(d0 + 8 * n + 2 * t, hd - 2));
#pragma unroll
      for (int n = 0; n < own; n++) {
        const int d = d0 + 8 * n + 2 * t;
        const f32 x = folded(0, o[n][0] + o[n][2], turned), y = folded(0, o[n][1] + o[n][3], turned);
        if (d < hd) write_pair(a, c, h, d, x, y, share, gate[n]);
      }
    } else {
      const i64 part = (i64(c) * at.n_q + h) * a.splits + split;
#pragma unroll
      for (int n = 0; n < own; n++) {
        const int d = d0 + 8 * n + 2 * t;
        if (d < hd) *reinterpret_cast<float2*>(a.part + part * hd + d) = make_float2(o[n][0] + o[n][2], o[n][1] + o[n][3]);
      }
      if (warp == 0 && t == 0) reinterpret_cast<float2*>(a.part_heads)[part] = make_float2(zero[tile], mass);
    }
  }
}

template <int WIDTH, int TILES, bool PREPARE>
void launch_shape(Ctx& ctx, const Args& a, const LaunchShape& shape) {
  LaunchShape s = shape;
  s.smem = size_t(FewShape<WIDTH>::bytes(TILES));
  static const bool once = (allow_smem(few_kernel<WIDTH, TILES, PREPARE>, FewShape<WIDTH>::bytes(TILES)), true);
  (void)once;
  launch(ctx, few_kernel<WIDTH, TILES, PREPARE>, s, a);
}

}  // namespace

template <int WIDTH>
void launch_few(Ctx& ctx, Args& a, bool prepare) {
  const AttentionArgs& at = a.at;
  const int groups = prepare ? a.cols : a.seqs, most = (prepare ? 1 : a.most_cols) * a.rep;
  const int rows = prepare ? few_rows / 2 : few_rows;
  a.row_blocks = (most + rows - 1) / rows;
  const int tiles = (most + 8 * a.row_blocks - 1) / (8 * a.row_blocks);
  a.block_rows = 8 * tiles;
  LaunchShape s;
  s.grid = dim3(unsigned(a.splits), unsigned(at.n_kv * a.row_blocks), unsigned(groups)), s.block = dim3(256);
  s.cols = a.cols, s.name = "attention.few";
  if (tiles == 1)
    prepare ? launch_shape<WIDTH, 1, true>(ctx, a, s) : launch_shape<WIDTH, 1, false>(ctx, a, s);
  else if (tiles == 2)
    prepare ? launch_shape<WIDTH, 2, true>(ctx, a, s) : launch_shape<WIDTH, 2, false>(ctx, a, s);
  else
    launch_shape<WIDTH, 4, false>(ctx, a, s);
  if (a.splits > 1) launch_fold(ctx, a);
}
template void launch_few<64>(Ctx&, Args&, bool);
template void launch_few<128>(Ctx&, Args&, bool);
template void launch_few<256>(Ctx&, Args&, bool);

}  // namespace fewbit::kernel::cuda::attend

// Measured on an H200 (nvcc 13.0, 30 Nov 2026), 24 and 4 heads of 256, with the fold, at depth 64 / 1024 / 8192: 1 column 4.7 / 6.5 /
// 15.2 us; 8 columns of a sequence 10.3 / 16.8 / 55 us; of as many sequences 6.1 / 17.6 / 87 us.
// tried: up to 16 splits folded by the last block to arrive | 6.1 us at 1 column and depth 64 against 5.3 by a launch of its own
// tried: a run of splits in a block | 8 columns 10.5 / 16.4 / 40, 8 sequences 6.5 / 16.4 / 88, but 1 column 5.1 / 6.6 / 16.4 us
