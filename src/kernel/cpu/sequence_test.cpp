// Attention and DeltaNet of every instruction set against the double definition: several sequences, ragged windows, paged caches of
// every type; and the same bits however the tokens are fed and however many threads there are.
#include <numeric>

#include "kernel/exact/exact.h"
#include "kernel/ref/ref.h"
#include "kernel/testing/rig.h"

namespace fewbit::kernel {
namespace {

using testing::Bench;
using testing::distance;
using testing::Guarded;
using testing::Random;

// Sequences that grow by windows; each step is one Batch.
struct Feed {
  std::vector<int> lengths;  // columns of each sequence in this step
  std::vector<int> at;       // positions before it
};
struct Columns {
  std::vector<i32> pos, seq, first{0}, slot, table;
  Batch batch;
};
Columns columns(const Feed& f, int page_tokens, int max_len, bool reversed_pages) {
  Columns c;
  const int n = int(f.lengths.size()), pages = int(div_up(max_len, page_tokens));
  for (int s = 0; s < n; s++) {
    for (int i = 0; i < f.lengths[size_t(s)]; i++) c.pos.push_back(f.at[size_t(s)] + i), c.seq.push_back(s);
    c.first.push_back(i32(c.pos.size()));
    c.slot.push_back(n - 1 - s);
    for (int p = 0; p < pages; p++) c.table.push_back(reversed_pages ? n * pages - 1 - (s * pages + p) : s * pages + p);
  }
  c.batch = {.cols = int(c.pos.size()),
             .seqs = n,
             .pos = c.pos.data(),
             .seq = c.seq.data(),
             .first = c.first.data(),
             .slot = c.slot.data(),
             .page_table = c.table.data(),
             .max_pages = pages};
  for (i32 p : c.pos) c.batch.max_pos = std::max(c.batch.max_pos, p);
  return c;
}

// Columns per step, threads.
constexpr std::pair<int, int> feeds[] = {{1, 1}, {3, 1}, {8, 2}, {64, 2}, {150, 2}};

struct AttentionCase {
  int n_q, n_kv, hd, n_rot;
  bool neox, gated, norm;
  Type k, v;
};

// Runs `steps` of windows over all sequences and returns the outputs of each (sequence, position): (seq, max_len, n_q * hd).
std::vector<f32> run_attention(const Kernels* table, int threads, const AttentionCase& a, const std::vector<Feed>& steps, int max_len,
                               bool reversed, bool scratch = true) {
  Bench b(table, threads);
  const int seqs = int(steps[0].lengths.size()), pt = 32, gap = a.gated ? 2 : 1;
  std::vector<u8> mem(scratch ? table->scratch_bytes(300, 0, 64, a.n_q, a.hd, max_len) : 0);
  b.ctx.scratch = mem.data();
  b.ctx.scratch_bytes = mem.size();
  const i64 pages = seqs * div_up(max_len, pt), rows = pages * a.n_kv * pt;
  // Stale numbers in the cache must not matter: NaN everywhere.
  std::vector<u8> k(row_bytes(a.k, a.hd) * u64(rows), 0xff), v(row_bytes(a.v, a.hd) * u64(rows), 0xff);
  const i64 ldq = i64(a.n_q) * a.hd * gap + 3, ldk = i64(a.n_kv) * a.hd + 1;
  std::vector<f32> rope(size_t(max_len * a.n_rot)), wq, wk;
  for (int p = 0; p < max_len; p++) {
    for (int i = 0; i < a.n_rot / 2; i++) {
      f64 angle = p * std::pow(10000.0, -2.0 * i / a.n_rot);
      rope[size_t(p * a.n_rot + 2 * i)] = f32(std::cos(angle));
      rope[size_t(p * a.n_rot + 2 * i + 1)] = f32(std::sin(angle));
    }
  }
  Random weights(7);
  wq = weights.normals(size_t(a.hd), 2);
  wk = weights.normals(size_t(a.hd), 2);
  std::vector<f32> result(size_t(seqs) * size_t(max_len) * size_t(a.n_q * a.hd));
  for (const Feed& f : steps) {
    Columns c = columns(f, pt, max_len, reversed);
    std::vector<f32> q(size_t(c.batch.cols * ldq)), kx(size_t(c.batch.cols * ldk)), vx(size_t(c.batch.cols * ldk));
    for (int col = 0; col < c.batch.cols; col++) {  // a column's numbers depend on its sequence and position alone
      Random r(unsigned(c.seq[size_t(col)] * 10007 + c.pos[size_t(col)]));
      for (i64 i = 0; i < ldq; i++) q[size_t(col * ldq + i)] = r.normal();
      for (i64 i = 0; i < ldk; i++) kx[size_t(col * ldk + i)] = r.normal(), vx[size_t(col * ldk + i)] = r.normal();
    }
    Guarded<f32> out(size_t(c.batch.cols * a.n_q * a.hd));
    AttentionArgs args{.q = q.data(),
                       .k = kx.data(),
                       .v = vx.data(),
                       .ldq = ldq,
                       .ldk = ldk,
                       .ldv = ldk,
                       .n_q = a.n_q,
                       .n_kv = a.n_kv,
                       .head_dim = a.hd,
                       .q_stride = a.hd * gap,
                       .gated = a.gated,
                       .q_norm = a.norm ? wq.data() : nullptr,
                       .k_norm = a.norm ? wk.data() : nullptr,
                       .eps = 1e-6f,
                       .scale = f32(1 / std::sqrt(f64(a.hd))),
                       .n_rot = a.n_rot,
                       .neox = a.neox,
                       .rope = a.n_rot ? rope.data() : nullptr,
                       .cache = {k.data(), v.data(), a.k, a.v, pt},
                       .out = out.data()};
    b.k->attention(b.ctx, c.batch, args);
    EXPECT_TRUE(out.intact());
    for (int col = 0; col < c.batch.cols; col++) {
      const i64 at = (i64(c.seq[size_t(col)]) * max_len + c.pos[size_t(col)]) * a.n_q * a.hd;
      std::copy(out.begin() + col * a.n_q * a.hd, out.begin() + (col + 1) * a.n_q * a.hd, result.begin() + at);
    }
  }
  return result;
}

const AttentionCase cases[] = {
    {3, 1, 64, 64, false, false, false, Type::F32, Type::F32}, {4, 2, 128, 128, true, false, true, Type::F16, Type::F16},
    {6, 1, 256, 64, true, true, true, Type::F16, Type::F16},   {5, 5, 80, 80, true, false, false, Type::F32, Type::F16},
    {4, 4, 64, 64, true, false, true, Type::Q8_0, Type::Q8_0}, {8, 2, 96, 32, false, true, true, Type::Q8_0, Type::Q4_0},
    {7, 1, 32, 0, true, false, false, Type::Q4_0, Type::Q4_0}, {40, 1, 16, 16, true, false, false, Type::F16, Type::F32},
};

TEST(Sequence, AttentionMatchesTheDefinition) {
  const std::vector<Feed> steps = {{{37, 1, 150}, {0, 0, 0}}, {{1, 140, 1}, {37, 1, 150}}, {{1, 1, 1}, {38, 141, 151}}};
  int i = 0;
  for (const AttentionCase& a : cases) {
    const std::vector<f32> want = run_attention(ref::table(), 1, a, steps, 160, true);
    for (Isa isa : testing::sets()) {
      SCOPED_TRACE(fmt::format("{} case {}", isa_name(isa), i));
      std::vector<f32> got = run_attention(exact::table(isa), 2, a, steps, 160, true);
      // Quantised rows may fall on the other side of a rounding boundary: one step of one element.
      const bool coarse = a.k == Type::Q8_0 || a.k == Type::Q4_0;
      EXPECT_LT(distance(got, want), coarse ? 2e-2 : a.k == Type::F16 ? 1e-3 : 3e-6);
    }
    i++;
  }
}

TEST(Sequence, AttentionGivesTheSameBitsHoweverItIsFed) {
  const int len = 150;  // two splits
  auto window = [&](int w) {
    std::vector<Feed> steps;
    for (int at = 0; at < len; at += w) steps.push_back({{std::min(w, len - at), std::min(w, len - at)}, {at, at}});
    return steps;
  };
  for (Isa isa : testing::sets()) {
    for (const AttentionCase& a : cases) {
      std::vector<f32> want = run_attention(exact::table(isa), 1, a, {{{len, len}, {0, 0}}}, len, false);
      for (auto [w, threads] : feeds) {
        std::vector<f32> got = run_attention(exact::table(isa), threads, a, window(w), len, true, w != 3);
        EXPECT_EQ(std::memcmp(got.data(), want.data(), want.size() * 4), 0) << isa_name(isa) << " window " << w << " threads " << threads;
      }
    }
  }
}

struct DeltaCase {
  int k_heads, v_heads, dim, conv;
  bool tiled;
};
std::vector<f32> run_delta(const Kernels* table, int threads, const DeltaCase& d, const std::vector<Feed>& steps, int max_len,
                           std::vector<f32>* states) {
  Bench b(table, threads);
  const int seqs = int(steps[0].lengths.size());
  const i64 channels = i64(2 * d.k_heads + d.v_heads) * d.dim, width = i64(d.v_heads) * d.dim, ldu = channels + 5, ldz = width + 2,
            ldab = d.v_heads + 1;
  Random weights(11);
  std::vector<f32> conv_w = weights.normals(size_t(channels * d.conv), 0.5f), dt = weights.normals(size_t(d.v_heads)), a(size_t(d.v_heads)),
                   norm = weights.normals(size_t(d.dim));
  for (f32& x : a) x = -std::exp(weights.normal());
  Guarded<f32> window(size_t(seqs * (d.conv - 1) * channels)), state(size_t(seqs * width * d.dim));
  std::vector<f32> result(size_t(seqs) * size_t(max_len) * size_t(width));
  for (const Feed& f : steps) {
    Columns c = columns(f, 16, max_len, false);
    std::vector<f32> u(size_t(c.batch.cols * ldu)), z(size_t(c.batch.cols * ldz)), al(size_t(c.batch.cols * ldab)), be(al.size());
    for (int col = 0; col < c.batch.cols; col++) {
      Random r(unsigned(c.seq[size_t(col)] * 10007 + c.pos[size_t(col)]));
      for (i64 i = 0; i < ldu; i++) u[size_t(col * ldu + i)] = r.normal();
      for (i64 i = 0; i < ldz; i++) z[size_t(col * ldz + i)] = r.normal();
      for (i64 i = 0; i < ldab; i++) al[size_t(col * ldab + i)] = r.normal(4), be[size_t(col * ldab + i)] = r.normal();
    }
    Guarded<f32> out(size_t(c.batch.cols * width));
    DeltaNetArgs args{.qkv = u.data(),
                      .z = z.data(),
                      .alpha = al.data(),
                      .beta = be.data(),
                      .ldqkv = ldu,
                      .ldz = ldz,
                      .ldab = ldab,
                      .k_heads = d.k_heads,
                      .v_heads = d.v_heads,
                      .dim = d.dim,
                      .conv = d.conv,
                      .tiled = d.tiled,
                      .conv_w = conv_w.data(),
                      .dt = dt.data(),
                      .a = a.data(),
                      .norm = norm.data(),
                      .eps = 1e-6f,
                      .conv_state = window.data(),
                      .state = state.data(),
                      .out = out.data()};
    b.k->delta_net(b.ctx, c.batch, args);
    EXPECT_TRUE(out.intact());
    for (int col = 0; col < c.batch.cols; col++) {
      const i64 at = (i64(c.seq[size_t(col)]) * max_len + c.pos[size_t(col)]) * width;
      std::copy(out.begin() + col * width, out.begin() + (col + 1) * width, result.begin() + at);
    }
  }
  EXPECT_TRUE(window.intact() && state.intact());
  states->assign(state.begin(), state.end());
  states->insert(states->end(), window.begin(), window.end());
  return result;
}
const DeltaCase delta_cases[] = {
    {2, 6, 64, 4, true}, {2, 6, 32, 4, false}, {1, 1, 128, 2, true}, {3, 3, 16, 1, true}, {16, 48, 16, 4, true}};

TEST(Sequence, DeltaNetMatchesTheDefinition) {
  const std::vector<Feed> steps = {{{5, 1, 66}, {0, 0, 0}}, {{1, 2, 1}, {5, 1, 66}}, {{1, 1, 30}, {6, 3, 67}}};
  for (Isa isa : testing::sets()) {
    for (const DeltaCase& d : delta_cases) {
      SCOPED_TRACE(fmt::format("{} heads {} dim {} conv {}", isa_name(isa), d.v_heads, d.dim, d.conv));
      std::vector<f32> s0, s1;
      std::vector<f32> want = run_delta(ref::table(), 1, d, steps, 100, &s0), got = run_delta(exact::table(isa), 3, d, steps, 100, &s1);
      EXPECT_LT(distance(got, want), 3e-5);  // the norm divides by the length of o, which may be small
      EXPECT_LT(distance(s1, s0), 3e-6);
    }
  }
}

TEST(Sequence, DeltaNetGivesTheSameBitsHoweverItIsFed) {
  const int len = 70;
  for (Isa isa : testing::sets()) {
    for (const DeltaCase& d : delta_cases) {
      std::vector<f32> s0, s1, want = run_delta(exact::table(isa), 1, d, {{{len, len}, {0, 0}}}, len, &s0);
      for (auto [w, threads] : feeds) {
        std::vector<Feed> steps;
        for (int at = 0; at < len; at += w) steps.push_back({{std::min(w, len - at), std::min(w, len - at)}, {at, at}});
        std::vector<f32> got = run_delta(exact::table(isa), threads, d, steps, len, &s1);
        EXPECT_EQ(std::memcmp(got.data(), want.data(), want.size() * 4), 0) << isa_name(isa) << " window " << w << " threads " << threads;
        EXPECT_EQ(std::memcmp(s0.data(), s1.data(), s0.size() * 4), 0);
      }
    }
  }
}

}  // namespace
}  // namespace fewbit::kernel
