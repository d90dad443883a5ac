// Norm, rotation, quantisation, router and the small steps; attention and DeltaNet.
#include <algorithm>
#include <cstring>

#include "kernel/cuda/act_layout.h"
#include "kernel/cuda/check/check.h"

namespace fewbit::kernel::cuda::check {

namespace {

// The norm of many columns, whole activations with their image: two of them in one call are left to the kernel for any number of columns,
// and one column alone is made by the one for few.
void check_many_columns(Rig& rig) {
  Random random(11);
  struct Case {
    int n, cols, block;
    bool normed, permute, plain;
    ActLayout layout;
  };
  const ActLayout a = ActLayout::q8_128, b = ActLayout::q8_256;
  for (const Case& t : {Case{5120, 130, 1024, true, false, true, a}, Case{5120, 33, 1024, true, false, false, b},
                        Case{6144, 70, 1024, false, true, false, a}, Case{17408, 40, 1024, false, false, false, a},
                        Case{640, 129, 1, true, false, true, b}, Case{896, 35, 1, false, false, false, a}}) {
    const int n = t.n, cols = t.cols, ld = n + 4;
    std::vector<f32> x = random.normals(size_t(ld) * size_t(cols)), signs(size_t(n), 1.0f);
    const std::vector<f32> w = random.normals(size_t(n));
    auto spoil = [&](int c, int begin, int count, auto&& what) {
      for (int i = begin; i < begin + count; i++) what(x[size_t(c) * size_t(ld) + size_t(i)], i);
    };
    spoil(0, 0, n, [](f32& v, int) { v = 0; });
    spoil(1, 128, 160, [](f32& v, int) { v = 0; });
    spoil(2, 0, n, [](f32& v, int i) { v = i % 3 ? 1.0f : -1.0f; });  // magnitudes alike: their sum wants larger units
    spoil(3, 0, n, [](f32& v, int i) { v = f32(i * 7 % 255 - 127) * 0.5f; });
    spoil(4, 0, n, [](f32& v, int) { v *= 1e-39f; });
    spoil(5, 0, n, [](f32& v, int) { v *= 1e-32f; });
    spoil(6, 0, n, [](f32& v, int) { v *= 1e34f; });
    spoil(7, 256, 128, [](f32& v, int i) { v *= i % 32 ? 1e-6f : 1e3f; });
    spoil(8, n - 3, 1, [](f32& v, int) { v = INFINITY; });
    spoil(9, 5, 1, [](f32& v, int) { v = NAN; });
    for (f32& s : signs) s = random.below(2) ? 1.0f : -1.0f;
    Buffer dx = rig.up(x), dw = rig.up(w), dsigns = rig.up(signs);
    Rotation r;
    r.block = t.block, r.signs = t.block > 1 ? dsigns.as<f32>() : nullptr;
    if (t.permute) r.perm_k_heads = 16, r.perm_rep = 3, r.perm_width = 128;
    struct Made {
      std::vector<u8> act;
      std::vector<f32> plain;
    };
    auto make = [&](int first, int count, bool twice) {
      const u64 bytes = rig.ctx.k->act_bytes(t.layout, n, count);
      Buffer q = rig.up(std::vector<u8>(bytes)), other = rig.buffer(bytes), p = rig.buffer(u64(n) * u64(count) * 4);
      Act act{t.layout, n, count, q.data()}, second{t.layout, n, count, other.data()};
      const Kernels::ActOut outs[2] = {{&act, &r}, {&second, &r}};
      rig.ctx.k->norm(rig.ctx, dx.as<f32>() + i64(first) * ld, ld, n, count, t.normed ? dw.as<f32>() : nullptr, 1e-6f,
                      t.plain ? p.as<f32>() : nullptr, {outs, size_t(twice ? 2 : 1)});
      return Made{rig.down<u8>(q.data(), bytes), t.plain ? rig.down<f32>(p.data(), size_t(n) * size_t(count)) : std::vector<f32>()};
    };
    const Made wide = make(0, cols, false), any = make(0, cols, true);
    const std::string name = std::to_string(n) + "x" + std::to_string(cols) + " block " + std::to_string(t.block);
    size_t different = 0;
    for (size_t i = 0; i < wide.act.size(); i++) different += wide.act[i] != any.act[i];
    rig.report("norm.wide", name, different == 0, f64(different));
    std::vector<f32> alone;
    different = 0;
    for (int c = 0; c < 12; c++) {
      const Made one = make(c, 1, false);
      alone.insert(alone.end(), one.plain.begin(), one.plain.end());
      for (int u = 0; u < act_units(n); u++) {
        const u8 *from = one.act.data() + act_block_at(act_units(n), 0, u), *to = wide.act.data() + act_block_at(act_units(n), c, u);
        for (int k = 0; k < 128; k++) different += from[act_q_at(0, k)] != to[act_q_at(c % 8, k)];
        different += std::memcmp(from + act_d_of(0, 0), to + act_d_of(c % 8, 0), 32) != 0;
        different += std::memcmp(from + act_whole_of(0), to + act_whole_of(c % 8), 32) != 0;
      }
    }
    rig.report("norm.wide.alone", name, different == 0, f64(different));
    rig.same_bits("norm.wide.plain", name, alone, {wide.plain.begin(), wide.plain.begin() + i64(alone.size())});
  }
}

}  // namespace

void check_steps(Rig& rig) {
  check_many_columns(rig);
  Random random(5);
  const Kernels &k = *rig.ctx.k, &r = *rig.ref.k;

  // The quantiser without a transform: bit for bit the definition, sums included, zeros and non-finite groups too.
  for (int n : {32, 64, 576, 1024, 5120}) {
    const int cols = 9;
    std::vector<f32> x = random.normals(size_t(n) * cols);
    for (int i = 0; i < 32; i++) x[size_t(n) + i] = 0;
    x[size_t(2 * n) + 5] = INFINITY;
    x[size_t(3 * n) + 7] = NAN;
    for (ActLayout layout : {ActLayout::q8_32, ActLayout::q8_128, ActLayout::q8_256, ActLayout::q8_per128, ActLayout::token8}) {
      if (layout == ActLayout::token8) x[size_t(2 * n) + 5] = x[size_t(3 * n) + 7] = 1;
      TwoActs a = make_act(rig, x, n, cols, layout);
      std::vector<f64> want(x.size());
      Act w{layout, n, cols, want.data()};
      const Kernels::ActOut out{&w, nullptr};
      r.norm(rig.ref, x.data(), n, n, cols, nullptr, 0, nullptr, {&out, 1});
      f64 diff = 0;
      for (size_t i = 0; i < x.size(); i++)
        if (!(std::isnan(want[i]) && std::isnan(a.values[i])) && a.values[i] != want[i])
          diff = std::max(diff, std::isnan(want[i]) || std::isnan(a.values[i])
                                    ? INFINITY
                                    : std::fabs(a.values[i] - want[i]) / (std::fabs(want[i]) + 1e-9));
      rig.report("act", "n " + std::to_string(n) + " layout " + std::to_string(int(layout)), diff < 1e-6, diff);
      const std::vector<u8> raw = rig.down<u8>(a.memory.data(), a.memory.bytes());
      int bad = 0;
      for (int c = 0; c < cols; c++)
        for (int g = 0; g < (n + 31) / 32; g++) {
          const u8* block = raw.data() + act_block_at(act_units(n), c, g / 4);
          int s[2] = {0, 0};
          for (int i = 0; i < 32; i++) s[i / 16] += i8(block[act_q_at(c % 8, g % 4 * 32 + i)]);
          i16 got[2];
          std::memcpy(got, block + act_sum_of(c % 8, g % 4), 4);
          bad += got[0] != s[0] || got[1] != s[1];
        }
      rig.report("act.sums", "n " + std::to_string(n), bad == 0, bad);
    }
  }
  // Norm and rotations, with plain and f32 outputs.
  for (int n : {64, 576, 1024, 5120, 6144, 17408}) {
    for (int block : {0, 1, 2, 16, 64, 512, 1024, 4096}) {
      if (block && n % block) continue;
      const int cols = 3, ld = n + 8;
      const std::vector<f32> x = random.normals(size_t(ld) * cols, 3), w = random.normals(size_t(n));
      std::vector<f32> signs(size_t(n), 1.0f);
      for (f32& s : signs) s = random.below(2) ? 1.0f : -1.0f;
      const bool permute = block == 1024 && n == 6144;
      Buffer dx = rig.up(x), dw = rig.up(w), dsigns = rig.up(signs);
      Rotation gr, hr;
      gr.block = hr.block = block, gr.signs = dsigns.as<f32>(), hr.signs = signs.data();
      if (permute) gr.perm_k_heads = hr.perm_k_heads = 16, gr.perm_rep = hr.perm_rep = 3, gr.perm_width = hr.perm_width = 128;
      Buffer dplain = rig.buffer(size_t(n) * cols * 4), df = rig.buffer(size_t(n) * cols * 4),
             dq = rig.buffer(k.act_bytes(ActLayout::q8_32, n, cols));
      Act gf{ActLayout::f32, n, cols, df.data()}, gq{ActLayout::q8_32, n, cols, dq.data()};
      const Kernels::ActOut outs[2] = {{&gf, block ? &gr : nullptr}, {&gq, block ? &gr : nullptr}};
      k.norm(rig.ctx, dx.as<f32>(), ld, n, cols, permute ? nullptr : dw.as<f32>(), 1e-6f, dplain.as<f32>(), {outs, 2});
      std::vector<f32> plain(size_t(n) * cols);
      std::vector<f64> values(plain.size());
      Act hf{ActLayout::f32, n, cols, values.data()};
      const Kernels::ActOut hout{&hf, block ? &hr : nullptr};
      r.norm(rig.ref, x.data(), ld, n, cols, permute ? nullptr : w.data(), 1e-6f, plain.data(), {&hout, 1});
      const std::string name = "n " + std::to_string(n) + " block " + std::to_string(block);
      rig.compare("norm", name, rig.down<f32>(dplain.data(), plain.size()), plain, 1e-6);
      const std::vector<f32> want(values.begin(), values.end());
      rig.compare("norm.rotated", name, rig.down<f32>(df.data(), want.size()), want, 1e-6);
      const std::vector<u8> raw = rig.down<u8>(dq.data(), dq.bytes());
      std::vector<f32> q(want.size());
      for (int c = 0; c < cols; c++)
        for (int i = 0; i < n; i++) {
          const u8* b = raw.data() + act_block_at(act_units(n), c, i / 128);
          f32 d;
          std::memcpy(&d, b + act_d_of(c % 8, i % 128 / 32), 4);
          q[size_t(c) * n + i] = d * i8(b[act_q_at(c % 8, i % 128)]);
        }
      rig.compare("norm.q8", name, q, want, 8e-3);
    }
  }
  // Router.
  for (int experts : {8, 60, 256}) {
    const int cols = 13, top = experts == 8 ? 2 : 8;
    std::vector<f32> logits = random.normals(size_t(experts) * cols, 2);
    logits[3] = logits[5] = logits[1] = 9;  // ties
    Buffer dl = rig.up(logits), dids = rig.buffer(size_t(cols) * top * 4), dw = rig.buffer(size_t(cols) * top * 4);
    std::vector<i32> ids(size_t(cols) * top);
    std::vector<f32> w(ids.size());
    k.route(rig.ctx, dl.as<f32>(), experts, top, cols, 1.5f, dids.as<i32>(), dw.as<f32>());
    r.route(rig.ref, logits.data(), experts, top, cols, 1.5f, ids.data(), w.data());
    const std::vector<i32> got = rig.down<i32>(dids.data(), ids.size());
    rig.report("route.ids", std::to_string(experts), got == ids, 0);
    rig.compare("route.weights", std::to_string(experts), rig.down<f32>(dw.data(), w.size()), w, 1e-6);
    for (const f32 bad : {NAN, INFINITY}) {  // its column's weights carry it; the other columns stay
      std::vector<f32> spoilt = logits;
      spoilt[size_t(experts) / 2] = bad;
      dl = rig.up(spoilt);
      k.route(rig.ctx, dl.as<f32>(), experts, top, cols, 1.5f, dids.as<i32>(), dw.as<f32>());
      const std::vector<i32> now = rig.down<i32>(dids.data(), ids.size());
      const std::vector<f32> by = rig.down<f32>(dw.data(), w.size());
      bool carried = true;
      for (int j = 0; j < top; j++) carried &= by[size_t(j)] != by[size_t(j)] && now[size_t(j)] >= 0 && now[size_t(j)] < experts;
      rig.report("route", std::to_string(experts) + ", not finite", carried && std::equal(now.begin() + top, now.end(), ids.begin() + top),
                 0);
    }
  }
  {
    const int n = 515, cols = 5;
    std::vector<f32> x = random.normals(size_t(n) * cols), y = random.normals(size_t(n) * cols), gate = random.normals(size_t(cols));
    Buffer dx = rig.up(x), dy = rig.up(y), dg = rig.up(gate);
    for (int with = 0; with < 2; with++) {
      k.add_gated(rig.ctx, dx.as<f32>(), dy.as<f32>(), with ? dg.as<f32>() : nullptr, n, cols);
      r.add_gated(rig.ref, x.data(), y.data(), with ? gate.data() : nullptr, n, cols);
      rig.compare("add_gated", std::to_string(with), rig.down<f32>(dx.data(), x.size()), x, 1e-6);
    }
    const std::vector<i32> index = {4, 0, 0, 3};
    Buffer di = rig.up(index), dt = rig.buffer(size_t(n) * 4 * 4);
    std::vector<f32> to(size_t(n) * 4);
    k.gather(rig.ctx, dx.as<f32>(), di.as<i32>(), 4, n, dt.as<f32>());
    r.gather(rig.ref, rig.down<f32>(dx.data(), x.size()).data(), index.data(), 4, n, to.data());
    rig.same_bits("gather", "4", rig.down<f32>(dt.data(), to.size()), to);
    for (Glu kind : {Glu::silu, Glu::relu2}) {
      Buffer dh = rig.buffer(x.size() * 4);
      std::vector<f32> h(x.size());
      k.act_mul(rig.ctx, dx.as<f32>(), dy.as<f32>(), kind, i64(x.size()), dh.as<f32>());
      const std::vector<f32> now = rig.down<f32>(dx.data(), x.size());
      r.act_mul(rig.ref, now.data(), y.data(), kind, i64(x.size()), h.data());
      rig.compare("act_mul", std::to_string(int(kind)), rig.down<f32>(dh.data(), h.size()), h, 1e-6);
    }
  }
  for (int n : {5, 1000, 248320}) {
    const int cols = 3;
    std::vector<f32> l = random.normals(size_t(n) * cols);
    l[size_t(n) + 1] = l[size_t(n) + 3] = 77;
    Buffer dl = rig.up(l), di = rig.buffer(cols * 4);
    std::vector<i32> ids(cols);
    k.argmax(rig.ctx, dl.as<f32>(), n, cols, di.as<i32>());
    r.argmax(rig.ref, l.data(), n, cols, ids.data());
    rig.report("argmax", std::to_string(n), rig.down<i32>(di.data(), ids.size()) == ids, 0);
    for (const f32 bad : {NAN, INFINITY, -INFINITY}) {  // nobody looks at logits that stay on the GPU
      std::vector<f32> spoilt = l;
      spoilt[size_t(n) + size_t(n) / 2] = bad;
      ids[1] = -1;
      dl = rig.up(spoilt);
      k.argmax(rig.ctx, dl.as<f32>(), n, cols, di.as<i32>());
      rig.report("argmax", std::to_string(n) + ", not finite", rig.down<i32>(di.data(), ids.size()) == ids, 0);
    }
  }
}

namespace {

// Sequences with a past, in pages that are not in order.
struct Steps {
  std::vector<i32> pos, seq, first, slot, pages;
  int max_pages, max_pos = 0;
};
Steps steps_of(const std::vector<int>& past, const std::vector<int>& cols, int max_pages) {
  Steps s;
  s.max_pages = max_pages;
  const int seqs = int(past.size());
  for (int i = 0; i < seqs; i++) {
    s.first.push_back(int(s.pos.size()));
    for (int c = 0; c < cols[size_t(i)]; c++)
      s.pos.push_back(past[size_t(i)] + c), s.seq.push_back(i), s.max_pos = std::max(s.max_pos, past[size_t(i)] + c);
    s.slot.push_back(seqs - 1 - i);
    for (int p = 0; p < max_pages; p++) s.pages.push_back((p * seqs + i) * 7 % (seqs * max_pages));
  }
  s.first.push_back(int(s.pos.size()));
  return s;
}
struct DeviceSteps {
  Buffer pos, seq, first, slot, pages;
  Batch batch, host;
};
DeviceSteps upload(Rig& rig, const Steps& s) {
  DeviceSteps d;
  d.pos = rig.up(s.pos), d.seq = rig.up(s.seq), d.first = rig.up(s.first), d.slot = rig.up(s.slot), d.pages = rig.up(s.pages);
  Batch b;
  b.cols = int(s.pos.size()), b.seqs = int(s.slot.size()), b.max_pos = s.max_pos, b.max_pages = s.max_pages;
  for (int i = 0; i < b.seqs; i++) b.max_seq_cols = std::max(b.max_seq_cols, s.first[size_t(i) + 1] - s.first[size_t(i)]);
  d.host = d.batch = b;
  d.batch.pos = d.pos.as<i32>(), d.batch.seq = d.seq.as<i32>(), d.batch.first = d.first.as<i32>(), d.batch.slot = d.slot.as<i32>(),
  d.batch.page_table = d.pages.as<i32>();
  d.host.pos = s.pos.data(), d.host.seq = s.seq.data(), d.host.first = s.first.data(), d.host.slot = s.slot.data(),
  d.host.page_table = s.pages.data();
  return d;
}

struct AttentionCase {
  int n_q, n_kv, hd, n_rot;
  bool neox, gated, norms;
  Type k_type, v_type;
  std::vector<int> past, cols;
};

void attention_case(Rig& rig, Random& random, const AttentionCase& t) {
  int longest = 0;
  for (size_t i = 0; i < t.past.size(); i++) longest = std::max(longest, t.past[i] + t.cols[i]);
  const int page_tokens = 64, max_pages = longest / page_tokens + 2, seqs = int(t.past.size());
  const int q_stride = t.gated ? 2 * t.hd : t.hd, ldq = t.n_q * q_stride + 4, ldk = t.n_kv * t.hd, ldv = ldk + 8;
  const u64 k_bytes = u64(seqs) * max_pages * t.n_kv * page_tokens * row_bytes(t.k_type, t.hd),
            v_bytes = u64(seqs) * max_pages * t.n_kv * page_tokens * row_bytes(t.v_type, t.hd);
  std::vector<u8> hk(k_bytes), hv(v_bytes);
  Buffer dk = rig.buffer(k_bytes), dv = rig.buffer(v_bytes);
  const std::vector<f32> qn = random.normals(size_t(t.hd)), kn = random.normals(size_t(t.hd));
  std::vector<f32> rope(size_t(longest + 1) * t.n_rot);
  for (int p = 0; p <= longest; p++)
    for (int i = 0; i < t.n_rot / 2; i++) {
      const f64 angle = p * std::pow(1e4, -2.0 * i / t.n_rot);
      rope[(size_t(p) * (t.n_rot / 2) + i) * 2] = f32(std::cos(angle)),
                                             rope[(size_t(p) * (t.n_rot / 2) + i) * 2 + 1] = f32(std::sin(angle));
    }
  Buffer dqn = rig.up(qn), dkn = rig.up(kn), drope = rig.up(rope);
  auto args = [&](bool gpu, const f32* q, const f32* k, const f32* v, f32* out) {
    AttentionArgs a;
    a.q = q, a.k = k, a.v = v, a.ldq = ldq, a.ldk = ldk, a.ldv = ldv, a.n_q = t.n_q, a.n_kv = t.n_kv, a.head_dim = t.hd,
    a.q_stride = q_stride, a.gated = t.gated;
    if (t.norms) a.q_norm = gpu ? dqn.as<f32>() : qn.data(), a.k_norm = gpu ? dkn.as<f32>() : kn.data();
    a.eps = 1e-6f, a.scale = 1 / std::sqrt(f32(t.hd)), a.n_rot = t.n_rot, a.neox = t.neox;
    a.rope = gpu ? drope.as<f32>() : rope.data();
    a.cache = {gpu ? dk.data() : hk.data(), gpu ? dv.data() : hv.data(), t.k_type, t.v_type, page_tokens};
    a.out = out;
    return a;
  };
  auto run = [&](const Steps& s, const std::vector<f32>& q, const std::vector<f32>& k, const std::vector<f32>& v, bool both) {
    DeviceSteps d = upload(rig, s);
    const size_t n = s.pos.size() * size_t(t.n_q) * t.hd;
    Buffer bq = rig.up(q), bk = rig.up(k), bv = rig.up(v), bo = rig.buffer(n * 4);
    rig.ctx.k->attention(rig.ctx, d.batch, args(true, bq.as<f32>(), bk.as<f32>(), bv.as<f32>(), bo.as<f32>()));
    std::vector<f32> want(n);
    if (both) rig.ref.k->attention(rig.ref, d.host, args(false, q.data(), k.data(), v.data(), want.data()));
    return std::pair(rig.down<f32>(bo.data(), n), want);
  };
  // The past in one go, then the step, then the step once more column by column.
  const Steps past = steps_of(std::vector<int>(t.past.size(), 0), t.past, max_pages), now = steps_of(t.past, t.cols, max_pages);
  auto numbers = [&](size_t cols, int ld) { return random.normals(cols * size_t(ld)); };
  const std::string name = std::to_string(t.n_q) + "/" + std::to_string(t.n_kv) + "x" + std::to_string(t.hd) + " " + type_name(t.k_type) +
                           "/" + type_name(t.v_type) + " past " + std::to_string(t.past[0]) + " cols " + std::to_string(now.pos.size());
  const f64 limit = t.k_type == Type::F32 && t.v_type == Type::F32 ? 2e-6 : 2e-3;  // a rounding of the cache may fall the other way
  if (!past.pos.empty()) {
    const auto [got, want] = run(past, numbers(past.pos.size(), ldq), numbers(past.pos.size(), ldk), numbers(past.pos.size(), ldv), true);
    rig.compare("attention.past", name, got, want, limit);
    // From here on both continue with the GPU's cache.
    rig.gpu->download(hk.data(), dk.data(), k_bytes), rig.gpu->download(hv.data(), dv.data(), v_bytes);
  }
  const std::vector<f32> q = numbers(now.pos.size(), ldq), k = numbers(now.pos.size(), ldk), v = numbers(now.pos.size(), ldv);
  const auto [got, want] = run(now, q, k, v, true);
  rig.compare("attention", name, got, want, limit);
  std::vector<f32> single;
  for (size_t c = 0; c < now.pos.size(); c++) {
    Steps one;
    one.max_pages = max_pages, one.max_pos = now.pos[c], one.pos = {now.pos[c]}, one.seq = {0}, one.first = {0, 1}, one.slot = {0};
    one.pages.assign(now.pages.begin() + now.seq[c] * max_pages, now.pages.begin() + (now.seq[c] + 1) * max_pages);
    auto row = [&](const std::vector<f32>& m, int ld) { return std::vector<f32>(m.begin() + i64(c) * ld, m.begin() + i64(c + 1) * ld); };
    const std::vector<f32> o = run(one, row(q, ldq), row(k, ldk), row(v, ldv), false).first;
    single.insert(single.end(), o.begin(), o.end());
  }
  rig.same_bits("attention.alone", name, single, got);
}

void delta_case(Rig& rig, Random& random, int k_heads, int v_heads, int dim, bool tiled, const std::vector<int>& cols) {
  const int channels = (2 * k_heads + v_heads) * dim, seqs = int(cols.size()), conv = 4;
  const Steps s = steps_of(std::vector<int>(cols.size(), 0), cols, 1);
  const size_t n = s.pos.size();
  const int ldqkv = channels + 4, ldz = v_heads * dim, ldab = v_heads + 3;
  const std::vector<f32> qkv = random.normals(n * ldqkv), z = random.normals(n * ldz), alpha = random.normals(n * ldab),
                         beta = random.normals(n * ldab);
  const std::vector<f32> conv_w = random.normals(size_t(channels) * conv), dt = random.normals(size_t(v_heads)),
                         norm = random.normals(size_t(dim));
  std::vector<f32> a(static_cast<size_t>(v_heads));
  for (f32& x : a) x = -std::exp(random.normal());
  std::vector<f32> window = random.normals(size_t(seqs) * (conv - 1) * channels),
                   state = random.normals(size_t(seqs) * v_heads * dim * dim);
  Buffer bqkv = rig.up(qkv), bz = rig.up(z), balpha = rig.up(alpha), bbeta = rig.up(beta), bw = rig.up(conv_w), bdt = rig.up(dt),
         bnorm = rig.up(norm), ba = rig.up(a);
  auto call = [&](const Steps& st, size_t first, Buffer& bwindow, Buffer& bstate) {
    DeviceSteps d = upload(rig, st);
    Buffer bout = rig.buffer(st.pos.size() * ldz * 4);
    DeltaNetArgs g;
    g.qkv = bqkv.as<f32>() + first * ldqkv, g.z = bz.as<f32>() + first * ldz, g.alpha = balpha.as<f32>() + first * ldab,
    g.beta = bbeta.as<f32>() + first * ldab;
    g.ldqkv = ldqkv, g.ldz = ldz, g.ldab = ldab, g.k_heads = k_heads, g.v_heads = v_heads, g.dim = dim, g.conv = conv, g.tiled = tiled;
    g.conv_w = bw.as<f32>(), g.dt = bdt.as<f32>(), g.a = ba.as<f32>(), g.norm = bnorm.as<f32>(), g.eps = 1e-6f;
    g.conv_state = bwindow.as<f32>(), g.state = bstate.as<f32>(), g.out = bout.as<f32>();
    rig.ctx.k->delta_net(rig.ctx, d.batch, g);
    return rig.down<f32>(bout.data(), st.pos.size() * ldz);
  };
  Buffer bwindow = rig.up(window), bstate = rig.up(state), cwindow = rig.up(window), cstate = rig.up(state);
  const std::vector<f32> got = call(s, 0, bwindow, bstate);
  // Column by column from the same start.
  std::vector<f32> alone(got.size());
  for (size_t c = 0; c < n; c++) {
    Steps one;
    one.max_pages = 1, one.pos = {0}, one.seq = {0}, one.first = {0, 1}, one.slot = {s.slot[size_t(s.seq[c])]}, one.pages = {0};
    const std::vector<f32> o = call(one, c, cwindow, cstate);
    std::copy(o.begin(), o.end(), alone.begin() + i64(c) * ldz);
  }
  const std::string name =
      std::to_string(k_heads) + "/" + std::to_string(v_heads) + "x" + std::to_string(dim) + " cols " + std::to_string(n);
  rig.same_bits("delta_net.alone", name, alone, got);
  rig.same_bits("delta_net.alone.state", name, rig.down<f32>(cstate.data(), state.size()), rig.down<f32>(bstate.data(), state.size()));
  rig.same_bits("delta_net.alone.window", name, rig.down<f32>(cwindow.data(), window.size()), rig.down<f32>(bwindow.data(), window.size()));
  DeltaNetArgs h;
  std::vector<f32> out(got.size());
  h.qkv = qkv.data(), h.z = z.data(), h.alpha = alpha.data(), h.beta = beta.data(), h.ldqkv = ldqkv, h.ldz = ldz, h.ldab = ldab;
  h.k_heads = k_heads, h.v_heads = v_heads, h.dim = dim, h.conv = conv, h.tiled = tiled, h.conv_w = conv_w.data(), h.dt = dt.data(),
  h.a = a.data(), h.norm = norm.data(), h.eps = 1e-6f;
  h.conv_state = window.data(), h.state = state.data(), h.out = out.data();
  const DeviceSteps d = upload(rig, s);
  rig.ref.k->delta_net(rig.ref, d.host, h);
  rig.compare("delta_net", name, got, out, 3e-6);
  rig.compare("delta_net.state", name, rig.down<f32>(bstate.data(), state.size()), state, 3e-6);
  rig.same_bits("delta_net.window", name, rig.down<f32>(bwindow.data(), window.size()), window);
}

}  // namespace

void check_sequence(Rig& rig, bool quick) {
  Random random(9);
  const Type f = Type::F32, h = Type::F16, q8 = Type::Q8_0, q4 = Type::Q4_0;
  attention_case(rig, random, {6, 2, 64, 64, false, false, false, f, f, {0, 3}, {5, 1}});
  attention_case(rig, random, {24, 4, 256, 64, true, true, true, f, f, {200, 0}, {1, 2}});
  attention_case(rig, random, {4, 4, 16, 16, true, false, false, f, f, {40}, {3}});
  if (!quick) {
    attention_case(rig, random, {24, 4, 256, 64, true, true, true, h, h, {300}, {1}});
    attention_case(rig, random, {24, 4, 256, 64, true, true, true, f, f, {130}, {20}});
    attention_case(rig, random, {16, 8, 128, 128, true, false, true, h, h, {260, 17, 1}, {8, 1, 3}});
    attention_case(rig, random, {9, 3, 64, 64, false, false, false, q8, q4, {150}, {12}});
    attention_case(rig, random, {20, 1, 96, 96, true, false, false, q4, q8, {64}, {2}});
    attention_case(rig, random, {12, 2, 256, 64, true, true, true, q8, q8, {129}, {1}});
  }
  delta_case(rig, random, 2, 6, 16, true, {5, 1});
  delta_case(rig, random, 16, 48, 128, true, {1});
  delta_case(rig, random, 16, 48, 128, true, {1, 1, 1, 1, 1, 1, 1});  // more heads than fit at once
  delta_case(rig, random, 2, 6, 128, true, {35, 3, 9});
  if (!quick) {
    delta_case(rig, random, 4, 8, 128, false, {3, 9, 1, 2});
    delta_case(rig, random, 2, 4, 64, true, {40});
    delta_case(rig, random, 2, 8, 128, false, {17});
    delta_case(rig, random, 2, 6, 32, false, {7});
  }
}

}  // namespace fewbit::kernel::cuda::check
