// Attention over an f16 cache: against the definition, and the same bits in whatever company a column comes.  Memory of the cache that was
// never written holds NaN.
#include <algorithm>
#include <cstring>

#include "kernel/cuda/check/check.h"

namespace fewbit::kernel::cuda::check {

namespace {

struct Shape {
  int n_kv, rep, hd;
  bool plain;  // no norm, rotation or gate, and keys and values that f16 holds exactly: then only the order of sums differs
};
struct Share {
  int seq, cols;
};
using Call = std::vector<Share>;

// Sequences with a past, and inputs for `cols` columns more of each.
class Sequences {
 public:
  Sequences(Rig& rig, Random& random, const Shape& s, std::vector<int> past, int cols) : rig_(rig), s_(s), past_(past), cols_(cols) {
    const int longest = *std::max_element(past.begin(), past.end()) + cols;
    n_q_ = s.n_kv * s.rep, q_stride_ = s.plain ? s.hd : 2 * s.hd, ldq_ = n_q_ * q_stride_ + 4, ldk_ = s.n_kv * s.hd;
    max_pages_ = (longest + 63) / 64 + 1, n_rot_ = s.hd / 4 * 2;
    for (size_t i = 0; i < past.size(); i++) {
      const size_t n = size_t(past[i] + cols);
      q_.push_back(random.normals(n * size_t(ldq_), 2)), k_.push_back(random.normals(n * size_t(ldk_))),
          v_.push_back(random.normals(n * size_t(ldk_)));
      if (s.plain)
        for (auto* m : {&k_.back(), &v_.back()})
          for (f32& x : *m) x = std::round(x * 256) / 256;
    }
    q_norm_ = random.normals(size_t(s.hd)), k_norm_ = random.normals(size_t(s.hd));
    rope_.resize(size_t(longest) * size_t(n_rot_));
    for (int p = 0; p < longest; p++)
      for (int i = 0; i < n_rot_ / 2; i++) {
        const f64 angle = p * std::pow(1e4, -2.0 * i / n_rot_);
        rope_[(size_t(p) * size_t(n_rot_ / 2) + size_t(i)) * 2] = f32(std::cos(angle));
        rope_[(size_t(p) * size_t(n_rot_ / 2) + size_t(i)) * 2 + 1] = f32(std::sin(angle));
      }
    for (int q = 0; q < int(past.size()); q++)
      for (int p = 0; p < max_pages_; p++) pages_.push_back((p * int(past.size()) + q) * 7 % (int(past.size()) * max_pages_));
    while (int(past.size()) * max_pages_ % 7 == 0) {  // 7 would not reach every page
      max_pages_++, pages_.clear();
      for (int q = 0; q < int(past.size()); q++)
        for (int p = 0; p < max_pages_; p++) pages_.push_back((p * int(past.size()) + q) * 7 % (int(past.size()) * max_pages_));
    }
    bytes_ = size_t(past.size()) * size_t(max_pages_) * size_t(s.n_kv) * 64 * size_t(s.hd) * 2;
    gk_ = rig.buffer(bytes_), gv_ = rig.buffer(bytes_);
    g_q_norm_ = rig.up(q_norm_), g_k_norm_ = rig.up(k_norm_), g_rope_ = rig.up(rope_), g_pages_ = rig.up(pages_);
  }

  // Outputs of the columns behind the past, by sequence.
  std::vector<f32> play(const std::vector<Call>& calls) {
    const std::vector<u8> nan(bytes_, 0xff);
    rig_.gpu->upload(gk_.data(), nan.data(), bytes_), rig_.gpu->upload(gv_.data(), nan.data(), bytes_);
    std::vector<int> at(past_.size(), 0);
    std::vector<std::vector<f32>> out(past_.size());
    for (int i = 0; i < int(past_.size()); i++)
      for (int left = past_[size_t(i)]; left > 0; left -= 512) step({{i, std::min(left, 512)}}, at, nullptr);
    for (const Call& call : calls) step(call, at, &out);
    std::vector<f32> all;
    for (size_t i = 0; i < out.size(); i++) all.insert(all.end(), out[i].begin(), out[i].end());
    return all;
  }
  // The definition's, with what the last play() left of the past.
  std::vector<f32> reference() {
    hk_.resize(bytes_), hv_.resize(bytes_);
    rig_.gpu->download(hk_.data(), gk_.data(), bytes_), rig_.gpu->download(hv_.data(), gv_.data(), bytes_);
    std::vector<f32> all;
    for (int i = 0; i < int(past_.size()); i++) {
      Inputs in = inputs({{i, cols_}}, past_);
      std::vector<f32> out(size_t(cols_ * n_q_ * s_.hd));
      Batch b = in.batch;
      b.pos = in.pos.data(), b.seq = in.seq.data(), b.first = in.first.data(), b.page_table = in.pages.data();
      AttentionArgs a = args(in);
      a.q = in.q.data(), a.k = in.k.data(), a.v = in.v.data(), a.out = out.data();
      if (!s_.plain) a.q_norm = q_norm_.data(), a.k_norm = k_norm_.data(), a.rope = rope_.data();
      a.cache.k = hk_.data(), a.cache.v = hv_.data();
      rig_.ref.k->attention(rig_.ref, b, a);
      all.insert(all.end(), out.begin(), out.end());
    }
    return all;
  }

 private:
  struct Inputs {
    std::vector<i32> pos, seq, first, pages;
    std::vector<f32> q, k, v;
    Batch batch;
  };
  Inputs inputs(const Call& call, const std::vector<int>& from) const {
    Inputs in;
    auto add = [](std::vector<f32>& to, const std::vector<f32>& m, int row, int ld, int n) {
      to.insert(to.end(), m.begin() + i64(row) * ld, m.begin() + i64(row + n) * ld);
    };
    for (const Share& s : call) {
      const size_t i = size_t(s.seq);
      in.first.push_back(int(in.pos.size()));
      for (int c = 0; c < s.cols; c++) in.pos.push_back(from[i] + c), in.seq.push_back(int(in.first.size()) - 1);
      in.pages.insert(in.pages.end(), pages_.begin() + i64(i) * max_pages_, pages_.begin() + i64(i + 1) * max_pages_);
      add(in.q, q_[i], from[i], ldq_, s.cols), add(in.k, k_[i], from[i], ldk_, s.cols), add(in.v, v_[i], from[i], ldk_, s.cols);
      in.batch.max_pos = std::max(in.batch.max_pos, from[i] + s.cols - 1), in.batch.max_seq_cols = std::max(in.batch.max_seq_cols, s.cols);
    }
    in.first.push_back(int(in.pos.size()));
    in.batch.cols = int(in.pos.size()), in.batch.seqs = int(call.size()), in.batch.max_pages = max_pages_;
    return in;
  }
  AttentionArgs args(const Inputs&) const {
    AttentionArgs a;
    a.ldq = ldq_, a.ldk = a.ldv = ldk_, a.n_q = n_q_, a.n_kv = s_.n_kv, a.head_dim = s_.hd, a.q_stride = q_stride_;
    a.gated = !s_.plain, a.eps = 1e-6f, a.scale = 1 / std::sqrt(f32(s_.hd)), a.n_rot = n_rot_;
    a.cache.page_tokens = 64;
    return a;
  }
  void step(const Call& call, std::vector<int>& at, std::vector<std::vector<f32>>* out) {
    Inputs in = inputs(call, at);
    Buffer pos = rig_.up(in.pos), seq = rig_.up(in.seq), first = rig_.up(in.first), pages = rig_.up(in.pages), q = rig_.up(in.q),
           k = rig_.up(in.k), v = rig_.up(in.v);
    const size_t row = size_t(n_q_ * s_.hd);
    Buffer o = rig_.buffer(in.pos.size() * row * 4);
    Batch b = in.batch;
    b.pos = pos.as<i32>(), b.seq = seq.as<i32>(), b.first = first.as<i32>(), b.page_table = pages.as<i32>();
    AttentionArgs a = args(in);
    a.q = q.as<f32>(), a.k = k.as<f32>(), a.v = v.as<f32>(), a.out = o.as<f32>();
    if (!s_.plain) a.q_norm = g_q_norm_.as<f32>(), a.k_norm = g_k_norm_.as<f32>(), a.rope = g_rope_.as<f32>();
    a.cache.k = gk_.data(), a.cache.v = gv_.data();
    rig_.ctx.k->attention(rig_.ctx, b, a);
    if (out) {
      const std::vector<f32> got = rig_.down<f32>(o.data(), in.pos.size() * row);
      size_t c = 0;
      for (const Share& s : call) {
        auto& to = (*out)[size_t(s.seq)];
        to.insert(to.end(), got.begin() + i64(c * row), got.begin() + i64((c + size_t(s.cols)) * row));
        c += size_t(s.cols);
      }
    }
    for (const Share& s : call) at[size_t(s.seq)] += s.cols;
  }

  Rig& rig_;
  Shape s_;
  std::vector<int> past_;
  int cols_, n_q_, q_stride_, ldq_, ldk_, max_pages_, n_rot_;
  size_t bytes_;
  std::vector<std::vector<f32>> q_, k_, v_;
  std::vector<f32> q_norm_, k_norm_, rope_;
  std::vector<i32> pages_;
  std::vector<u8> hk_, hv_;
  Buffer gk_, gv_, g_q_norm_, g_k_norm_, g_rope_, g_pages_;
};

// Every sequence's columns in calls of `width`, one sequence after the other.
std::vector<Call> alone(int seqs, int cols, int width) {
  std::vector<Call> calls;
  for (int i = 0; i < seqs; i++)
    for (int c = 0; c < cols; c += width) calls.push_back({{i, std::min(width, cols - c)}});
  return calls;
}
// The same with all sequences in each call; sequence i begins with `width` + i columns.
std::vector<Call> together(int seqs, int cols, int width, bool ragged) {
  std::vector<int> left(size_t(seqs), cols);
  std::vector<Call> calls;
  for (int n = 0;; n++) {
    Call call;
    for (int i = 0; i < seqs; i++)
      if (const int w = std::min(left[size_t(i)], n || !ragged ? width : width + i); w) call.push_back({i, w}), left[size_t(i)] -= w;
    if (call.empty()) return calls;
    calls.push_back(call);
  }
}

void attention_shape(Rig& rig, Random& random, const Shape& s, const std::vector<int>& past, int cols, const std::vector<int>& widths,
                     bool with_reference) {
  const std::string name = std::to_string(s.n_kv * s.rep) + "/" + std::to_string(s.n_kv) + "x" + std::to_string(s.hd) +
                           (s.plain ? " plain" : "") + " past " + std::to_string(past[0]) + " seqs " + std::to_string(past.size()) +
                           " cols " + std::to_string(cols);
  Sequences sequences(rig, random, s, past, cols);
  const int seqs = int(past.size());
  const std::vector<f32> one = sequences.play(alone(seqs, cols, 1));
  if (with_reference) rig.compare("attention.f16", name, one, sequences.reference(), s.plain ? 2e-6 : 1e-3);
  for (int width : widths) {
    rig.same_bits("attention.width", name + " width " + std::to_string(width), sequences.play(alone(seqs, cols, width)), one);
    if (seqs > 1 && width * seqs <= 512)
      for (bool ragged : {false, true})
        rig.same_bits("attention.company", name + " width " + std::to_string(width) + (ragged ? " ragged" : ""),
                      sequences.play(together(seqs, cols, width, ragged)), one);
  }
}

}  // namespace

void check_attention(Rig& rig, bool quick) {
  Random random(17);
  if (quick) {
    attention_shape(rig, random, {1, 6, 256, false}, {60}, 11, {3, 11}, true);
    attention_shape(rig, random, {2, 2, 80, true}, {63, 0}, 5, {1, 5}, true);
    return;
  }
  for (bool plain : {true, false})
    for (int rep : {1, 3, 6, 8, 16})
      for (int hd : {64, 80, 96, 128, 192, 256})
        if (plain || rep == 6 || hd == 256)
          attention_shape(rig, random, {2, rep, hd, plain}, {63, 0, 129}, 12, {1, 2, 4, 7, 8, 9, 12}, true);
  for (int past : {1, 62, 64, 65, 1000, 1100}) attention_shape(rig, random, {4, 6, 256, false}, {past}, 9, {2, 3, 4, 5, 6, 7, 8, 9}, true);
  attention_shape(rig, random, {4, 6, 256, false}, {5, 1, 700, 0, 64, 63, 2, 3, 4, 1023, 9}, 3, {1, 2, 3}, true);  // more than 8 sequences
  attention_shape(rig, random, {1, 6, 256, false}, {9000}, 10, {2, 8, 10}, true);  // folds in several rounds
  attention_shape(rig, random, {4, 6, 256, false}, {0}, 520, {8, 64, 512, 520}, false);
  attention_shape(rig, random, {2, 8, 128, false}, {130, 7}, 200, {64, 100, 200}, false);
}

}  // namespace fewbit::kernel::cuda::check
