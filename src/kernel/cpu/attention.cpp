// Attention on a CPU: norm, rotation and storing of the new keys and values, then the softmax over splits of positions.
//
// A task is (columns of one sequence, KV head); it walks the splits in order and merges each into the running softmax.  When there
// are too few tasks for the threads (a few sequences in decode at depth), the splits of a task become tasks of their own, and their
// results are merged in the same order afterwards: same operations, same bits.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <tuple>

#include "base/bits.h"
#include "kernel/cpu/ops.h"

namespace fewbit::kernel::cpu {
namespace {

constexpr int max_rows = 32;      // query rows of a task: whole columns, at least one
constexpr int round_splits = 32;  // splits per round when they are tasks
constexpr int split_cols = 16;    // with more columns there are tasks enough

struct Tile {
  int seq, first, cols;  // columns [first, first + cols)
};

struct Job {
  const Steps& s;
  Ctx& ctx;
  const Batch& b;
  const AttentionArgs& a;
  int group, hd;
  i64 k_row, v_row;  // bytes
  f32* q;            // (n_kv, cols, group, hd)

  u8* kv_row(void* base, i64 row_bytes, int seq, int kv_head, int pos) const {
    const int pt = a.cache.page_tokens;
    i64 page = b.page_table[i64(seq) * b.max_pages + pos / pt];
    return static_cast<u8*>(base) + ((page * a.n_kv + kv_head) * pt + pos % pt) * row_bytes;
  }
  const f32* rows_of(int kv_head, int col) const { return q + (i64(kv_head) * b.cols + col) * group * hd; }

  void norm_rope(f32* x, const f32* w, int pos) const {
    if (w) s.scale(x, x, f32(1.0 / std::sqrt(f64(s.sum_squares(x, hd)) / hd + f64(a.eps))), w, hd);
    if (a.rope) s.rope(x, a.rope + i64(pos) * a.n_rot, a.n_rot, a.neox);
  }

  // One head of one column: queries to `q`, keys and values to the cache.
  void prepare(int col, int head, f32* tmp) const {
    const int pos = b.pos[col], seq = b.seq[col];
    if (head < a.n_q) {
      f32* to = const_cast<f32*>(rows_of(head / group, col)) + i64(head % group) * hd;
      std::memcpy(to, a.q + col * a.ldq + i64(head) * a.q_stride, size_t(hd) * sizeof(f32));
      norm_rope(to, a.q_norm, pos);
      s.scale(to, to, a.scale, nullptr, hd);
    } else if (head < a.n_q + a.n_kv) {
      const int h = head - a.n_q;
      std::memcpy(tmp, a.k + col * a.ldk + i64(h) * hd, size_t(hd) * sizeof(f32));
      norm_rope(tmp, a.k_norm, pos);
      s.store_kv(a.cache.k_type, kv_row(a.cache.k, k_row, seq, h, pos), tmp, hd);
    } else {
      const int h = head - a.n_q - a.n_kv;
      s.store_kv(a.cache.v_type, kv_row(a.cache.v, v_row, seq, h, pos), a.v + col * a.ldv + i64(h) * hd, hd);
    }
  }

  // Split `index` of a tile: m, l (rows), acc (rows, hd).  Returns the first row that sees any of it.
  int one_split(const Tile& t, int kv_head, int index, f32* m, f32* l, f32* acc, f32* scores, int* valid) const {
    const u8 *k[split / 16], *v[split / 16], *next[2];
    const int rows = t.cols * group, base = index * split;
    for (int c = 0; c < t.cols; c++) {
      int n = std::clamp(b.pos[t.first + c] + 1 - base, 0, split);
      for (int g = 0; g < group; g++) valid[c * group + g] = n;
    }
    int first = 0;
    while (valid[first] == 0) first++;
    for (int i = 0; i < valid[rows - 1]; i += 16) {
      k[i / 16] = kv_row(a.cache.k, k_row, t.seq, kv_head, base + i);
      v[i / 16] = kv_row(a.cache.v, v_row, t.seq, kv_head, base + i);
    }
    const bool more = b.pos[t.first + t.cols - 1] >= base + split + 32;
    for (int i = 0; more && i < 2; i++) next[i] = kv_row(a.cache.k, k_row, t.seq, kv_head, base + split + 16 * i);
    AttendTile tile;
    tile.q = rows_of(kv_head, t.first) + i64(first) * hd;
    tile.rows = rows - first;
    tile.head_dim = hd;
    tile.valid = valid + first;
    tile.k = k;
    tile.v = v;
    tile.next = more ? next : nullptr;
    tile.scores = scores;
    tile.floats = local(3, 32 * i64(hd));
    tile.m = m + first;
    tile.l = l + first;
    tile.acc = acc + i64(first) * hd;
    s.attend(tile, a.cache.k_type, a.cache.v_type);
    return first;
  }

  void merge_row(bool start, f32* m, f32* l, f32* acc, f32 m2, f32 l2, const f32* acc2) const {
    if (!start) return s.merge(m, l, acc, m2, l2, acc2, hd);
    *m = m2;
    *l = l2;
    std::memcpy(acc, acc2, size_t(hd) * sizeof(f32));
  }

  void finish(int col, int head, f32 l, const f32* acc) const {
    f32* to = a.out + (i64(col) * a.n_q + head) * hd;
    s.scale(to, acc, 1.0f / l, nullptr, hd);
    if (a.gated) s.gate(to, a.q + col * a.ldq + i64(head) * a.q_stride + hd, hd);
  }

  int splits(const Tile& t) const { return b.pos[t.first + t.cols - 1] / split + 1; }

  // All splits of a tile, merged as they come.
  void whole(const Tile& t, int kv_head) const {
    const int rows = t.cols * group;
    f32 *m = local(0, 6 * rows), *l = m + rows, *m2 = l + rows, *l2 = m2 + rows;
    int* valid = reinterpret_cast<int*>(l2 + rows);
    f32 *acc = local(1, 2 * i64(rows) * hd), *acc2 = acc + i64(rows) * hd, *scores = local(2, i64(rows) * split);
    for (int i = 0; i < splits(t); i++) {
      for (int r = one_split(t, kv_head, i, m2, l2, acc2, scores, valid); r < rows; r++) {
        merge_row(i == 0, m + r, l + r, acc + i64(r) * hd, m2[r], l2[r], acc2 + i64(r) * hd);
      }
    }
    for (int r = 0; r < rows; r++) finish(t.first + r / group, kv_head * group + r % group, l[r], acc + i64(r) * hd);
  }
};

// Splits as tasks, a round of them at a time; `part` holds (tile, KV head, split of the round) blocks of rows x (hd + 2).
void by_splits(const Job& j, const std::vector<Tile>& tiles, Arena& arena) {
  const i64 n_tiles = i64(tiles.size()), rows = i64(tiles[0].cols) * j.group, hd = j.hd;  // tiles[0] is the widest
  int most = 0;
  for (const Tile& t : tiles) most = std::max(most, j.splits(t));
  const int round = std::min(most, round_splits);
  const i64 tasks = n_tiles * j.a.n_kv, block = rows * (hd + 2);
  f32 *part = arena.floats(tasks * round * block), *state = arena.floats(tasks * block);
  for (int begin = 0; begin < most; begin += round) {
    parallel(j.ctx, tasks * round, 1, [&](i64 from, i64 to, int) {
      f32* scores = local(2, rows * split);
      int* valid = reinterpret_cast<int*>(local(0, rows));
      for (i64 i = from; i < to; i++) {
        const Tile& t = tiles[size_t(i / round / j.a.n_kv)];
        const int index = begin + int(i % round);
        if (index >= j.splits(t)) continue;
        f32 *m = part + i * block, *l = m + rows, *acc = l + rows;
        j.one_split(t, int(i / round % j.a.n_kv), index, m, l, acc, scores, valid);
      }
    });
    parallel(j.ctx, tasks * rows, 4, [&](i64 from, i64 to, int) {
      for (i64 i = from; i < to; i++) {
        const i64 task = i / rows, r = i % rows;
        const Tile& t = tiles[size_t(task / j.a.n_kv)];
        if (r >= t.cols * j.group) continue;
        const int col = t.first + int(r) / j.group, mine = j.b.pos[col] / split + 1;
        f32 *m = state + task * block + r, *l = m + rows, *acc = state + task * block + 2 * rows + r * hd;
        for (int s = begin; s < std::min(begin + round, mine); s++) {
          const f32* p = part + (task * round + s - begin) * block;
          j.merge_row(s == 0, m, l, acc, p[r], p[rows + r], p + 2 * rows + r * hd);
        }
        if (begin + round >= mine && begin < mine) j.finish(col, int(task % j.a.n_kv) * j.group + int(r) % j.group, *l, acc);
      }
    });
  }
}

i64 kv_row_bytes(Type type, int n) { return i64(row_bytes(type, n)); }

}  // namespace

void attention(const Steps& s, Ctx& ctx, const Batch& b, const AttentionArgs& a) {
  const int hd = a.head_dim, pt = a.cache.page_tokens;
  const int unit =
      a.cache.k_type == Type::Q8_0 || a.cache.k_type == Type::Q4_0 || a.cache.v_type == Type::Q8_0 || a.cache.v_type == Type::Q4_0 ? 32
                                                                                                                                   : 16;
  FEWBIT_CHECK(hd > 0 && hd <= max_head_dim && hd % unit == 0 && pt > 0 && pt % 16 == 0,
               "heads of %d (multiple of %d), pages of %d (multiple of 16)", hd, unit, pt);
  FEWBIT_CHECK(a.n_kv > 0 && a.n_q % a.n_kv == 0 && a.n_rot <= hd, "%d heads over %d KV heads, %d of %d rotated", a.n_q, a.n_kv, a.n_rot,
               hd);
  Arena arena(ctx);
  Job j{s,
        ctx,
        b,
        a,
        a.n_q / a.n_kv,
        hd,
        kv_row_bytes(a.cache.k_type, hd),
        kv_row_bytes(a.cache.v_type, hd),
        arena.floats(i64(b.cols) * a.n_q * hd)};

  const int heads = a.n_q + 2 * a.n_kv;
  u64 positions = 0;
  for (int q = 0; q < b.seqs; q++) positions += b.first[q + 1] > b.first[q] ? u64(b.pos[b.first[q + 1] - 1]) + 1 : 0;
  Record record(ctx, "attention", positions * u64(a.n_kv) * u64(j.k_row + j.v_row), "%d x %d heads of %d, %d columns to %d", a.n_q, a.n_kv,
                hd, b.cols, b.max_pos);
  parallel(ctx, i64(b.cols) * heads, std::max<i64>(4, i64(b.cols) * heads / (threads(ctx) * 8)), [&](i64 begin, i64 end, int) {
    f32* tmp = local(0, hd);
    for (i64 i = begin; i < end; i++) j.prepare(int(i / heads), int(i % heads), tmp);
  });

  static thread_local std::vector<Tile> tiles;
  tiles.clear();
  const int width = std::max(1, max_rows / j.group);
  int most = 1;
  for (int q = 0; q < b.seqs; q++) {
    for (int c = b.first[q]; c < b.first[q + 1]; c += width) tiles.push_back({q, c, std::min(width, b.first[q + 1] - c)});
    if (b.first[q + 1] > b.first[q]) most = std::max(most, b.pos[b.first[q + 1] - 1] / split + 1);
  }
  if (tiles.empty()) return;
  const i64 tasks = i64(tiles.size()) * a.n_kv;
  if (threads(ctx) > 1 && most > 1 && b.cols <= split_cols && tasks < 4 * threads(ctx)) {
    // The widest first; not stable_sort, which allocates.
    std::sort(tiles.begin(), tiles.end(),
              [](const Tile& x, const Tile& y) { return std::tuple(-x.cols, x.seq, x.first) < std::tuple(-y.cols, y.seq, y.first); });
    return by_splits(j, tiles, arena);
  }
  const std::vector<Tile>& list = tiles;
  parallel(ctx, tasks, 1, [&](i64 begin, i64 end, int) {
    for (i64 i = tasks - end; i < tasks - begin; i++) j.whole(list[size_t(i / a.n_kv)], int(i % a.n_kv));  // the longest first
  });
}

u64 steps_scratch_bytes(int max_cols, int max_n, int n_q_heads, int head_dim, int max_context) {
  const i64 splits = std::min(div_up(std::max(max_context, 1), split), i64(round_splits));
  const i64 part_cols = std::min(max_cols, split_cols);
  const i64 attend = i64(max_cols) * n_q_heads * head_dim + part_cols * n_q_heads * i64(head_dim + 2) * (splits + 1);
  const i64 delta = i64(max_cols) * (max_n + 16 + 2 * 1024);  // convolved channels, decay and beta
  return u64(std::max(attend, delta)) * sizeof(f32) + 4096;
}

}  // namespace fewbit::kernel::cpu
