// Gated DeltaNet on a CPU (models.md 8.5): convolution and unit length per head, then the recurrence, then norm and gate.
//
// The columns of a sequence go through every step in order, so how a prompt is cut changes no bit.  Threads share (sequence, head)
// in the first phase and (sequence, V head, 16-row blocks of its state) in the second.
#include <algorithm>
#include <cmath>
#include <vector>

#include "base/bits.h"
#include "kernel/cpu/ops.h"

namespace fewbit::kernel::cpu {
namespace {

struct Job {
  const Steps& s;
  const Batch& b;
  const DeltaNetArgs& a;
  i64 channels, ldy;
  f32 *y, *decay, *beta;  // (cols, ldy), (cols, v_heads) twice

  // Convolution of one head's channels over the columns of one sequence, then what belongs to the head alone.
  void convolve(int seq, int head) const {
    const int first = b.first[seq], n = b.first[seq + 1] - first, keep = a.conv - 1;
    const i64 ch = i64(head) * a.dim;
    f32* old = a.conv_state + (i64(b.slot[seq]) * keep) * channels + ch;  // rows `channels` apart, oldest first
    auto input = [&](int t) { return t >= 0 ? a.qkv + (first + t) * a.ldqkv + ch : old + (keep + t) * channels; };
    static thread_local std::vector<const f32*> in;
    in.clear();
    for (int t = -keep; t < n; t++) in.push_back(input(t));
    s.conv_silu(y + first * ldy + ch, ldy, in.data(), a.conv_w + ch * a.conv, a.conv, n, a.dim);
    for (int t = 0; t < n; t++) {
      f32* to = y + (first + t) * ldy + ch;
      if (head < 2 * a.k_heads) {
        f64 length = std::sqrt(f64(s.sum_squares(to, a.dim)));
        f64 by = length > f64(a.eps) ? length : f64(a.eps);
        if (std::isnan(length)) by = length;
        s.scale(to, to, f32(head < a.k_heads ? 1.0 / (by * std::sqrt(f64(a.dim))) : 1.0 / by), nullptr, a.dim);
      } else {
        const int h = head - 2 * a.k_heads;
        const i64 at = i64(first + t) * a.v_heads + h;
        const f64 x = f64(a.alpha[(first + t) * a.ldab + h]) + f64(a.dt[h]);
        decay[at] = f32(std::exp(f64(a.a[h]) * (x > 20 ? x : std::log1p(std::exp(x)))));
        beta[at] = f32(1.0 / (1.0 + std::exp(-f64(a.beta[(first + t) * a.ldab + h]))));
      }
    }
    for (int i = 0; i < keep; i++) {  // row i becomes input n - keep + i, which is never an earlier row
      const f32* from = input(n - keep + i);
      std::copy(from, from + a.dim, old + i * channels);
    }
  }

  // Rows [row, row + count) of one head's state.
  void recur(int seq, int head, int row, int count) const {
    const int first = b.first[seq], n = b.first[seq + 1] - first;
    const int kh = a.tiled ? head % a.k_heads : head / (a.v_heads / a.k_heads);
    DeltaBlock d;
    d.dim = a.dim;
    d.cols = n;
    d.q = y + first * ldy + i64(kh) * a.dim;
    d.k = d.q + i64(a.k_heads) * a.dim;
    d.ldqk = d.ldv = ldy;
    d.decay = decay + i64(first) * a.v_heads + head;
    d.beta = beta + i64(first) * a.v_heads + head;
    d.ldg = a.v_heads;
    d.ldo = i64(a.v_heads) * a.dim;
    for (int r = row; r < row + count; r += 16) {
      d.state = a.state + ((i64(b.slot[seq]) * a.v_heads + head) * a.dim + r) * a.dim;
      d.v = y + first * ldy + (i64(2 * a.k_heads) + head) * a.dim + r;
      d.out = a.out + first * d.ldo + i64(head) * a.dim + r;
      s.delta(d);
    }
  }

  void norm_gate(int col, int head) const {
    f32* o = a.out + (i64(col) * a.v_heads + head) * a.dim;
    f32 inv = f32(1.0 / std::sqrt(f64(s.sum_squares(o, a.dim)) / a.dim + f64(a.eps)));
    s.gated_norm(o, o, inv, a.norm, a.z + col * a.ldz + i64(head) * a.dim, a.dim);
  }
};

}  // namespace

void delta_net(const Steps& s, Ctx& ctx, const Batch& b, const DeltaNetArgs& a) {
  FEWBIT_CHECK(a.dim > 0 && a.dim % 16 == 0 && a.conv >= 1 && a.conv <= 16 && a.k_heads > 0 && a.v_heads % a.k_heads == 0,
               "DeltaNet heads %d / %d of %d (multiple of 16), %d taps (at most 16)", a.k_heads, a.v_heads, a.dim, a.conv);
  Arena arena(ctx);
  Job j{s, b, a, i64(2 * a.k_heads + a.v_heads) * a.dim, 0, nullptr, nullptr, nullptr};
  j.ldy = j.channels + 16;  // not a multiple of 4 KiB: the columns of a head would share a few sets of the cache
  j.y = arena.floats(b.cols * j.ldy);
  j.decay = arena.floats(i64(b.cols) * a.v_heads);
  j.beta = arena.floats(i64(b.cols) * a.v_heads);
  const u64 state = u64(a.v_heads) * u64(a.dim) * u64(a.dim) * sizeof(f32);
  Record record(ctx, "delta_net", 2 * u64(b.seqs) * state, "%d / %d heads of %d, %d columns", a.k_heads, a.v_heads, a.dim, b.cols);

  const int heads = 2 * a.k_heads + a.v_heads;
  parallel(ctx, i64(b.seqs) * heads, std::max<i64>(1, i64(b.seqs) * heads / (threads(ctx) * 4)), [&](i64 begin, i64 end, int) {
    for (i64 i = begin; i < end; i++) j.convolve(int(i / heads), int(i % heads));
  });
  const i64 tasks = i64(b.seqs) * a.v_heads;
  if (tasks >= 4 * threads(ctx) || a.dim == 16 || threads(ctx) == 1) {
    parallel(ctx, tasks, 1, [&](i64 begin, i64 end, int) {
      for (i64 i = begin; i < end; i++) {
        const int seq = int(i / a.v_heads), head = int(i % a.v_heads);
        j.recur(seq, head, 0, a.dim);
        for (int c = b.first[seq]; c < b.first[seq + 1]; c++) j.norm_gate(c, head);
      }
    });
    return;
  }
  const int blocks = a.dim / 16;
  parallel(ctx, tasks * blocks, 1, [&](i64 begin, i64 end, int) {
    for (i64 i = begin; i < end; i++) {
      const i64 t = i / blocks;
      j.recur(int(t / a.v_heads), int(t % a.v_heads), int(i % blocks) * 16, 16);
    }
  });
  parallel(ctx, i64(b.cols) * a.v_heads, 16, [&](i64 begin, i64 end, int) {
    for (i64 i = begin; i < end; i++) j.norm_gate(int(i / a.v_heads), int(i % a.v_heads));
  });
}

}  // namespace fewbit::kernel::cpu
