// Everything that is not a product with weights: norms, activations, attention, the gated delta rule, routing, small steps.
#include <algorithm>

#include "kernel/verify_cases.h"

namespace fewbit::kernel {
namespace {

struct Noise {
  std::mt19937_64 rng;
  explicit Noise(u64 seed) : rng(seed) {}
  std::vector<f32> normals(i64 n, f32 scale = 1) {
    std::vector<f32> v;
    v.resize(size_t(n));
    std::normal_distribution<f32> d(0, scale);
    for (f32& x : v) x = d(rng);
    return v;
  }
};

CaseResult read(Side& side, const Output& y, const char* kernel) {
  CaseResult r;
  side.synchronize();
  r.kernel = kernel;
  r.guards = side.read(y, r.out);
  return r;
}

// h = RMSNorm(x) w, plain.
Case norm_case(const char* name, int n, int cols, bool weighted) {
  Case c{"norm", "F32", std::to_string(n) + (weighted ? " weighted" : " plain"), cols, {}, {}};
  c.faults = {Fault::stale_column, Fault::skipped_row};
  if (n > 1) c.faults.insert(c.faults.end(), {Fault::skipped_tail, Fault::wrong_sign, Fault::scale_off_by_one});
  c.run = [=](Side& side, Fault fault) {
    Noise noise{u64(n)};
    const i64 ld = n + 5;
    std::vector<f32> x = noise.normals(ld * cols, 3), w = noise.normals(n);
    spoil_inputs(fault, x, ld, cols);
    if (fault == Fault::skipped_tail)
      for (int c2 = 0; c2 < cols; c2++) x[size_t(c2 * ld + n - 1)] = 0;
    if (fault == Fault::wrong_sign) x[size_t(n / 2)] = -x[size_t(n / 2)];
    if (fault == Fault::scale_off_by_one)
      weighted ? std::rotate(w.begin(), w.begin() + 1, w.end()) : std::rotate(x.begin(), x.begin() + 1, x.end());
    const Output y = side.output(u64(n) * u64(cols) * 4);
    side.scratch(cols, n);
    const int done = fault == Fault::skipped_row ? cols - 1 : cols;
    if (done > 0) side.k.norm(side.ctx, side.upload(x), ld, n, done, weighted ? side.upload(w) : nullptr, 1e-6f, y.as<f32>(), {});
    return read(side, y, name);
  };
  return c;
}

// What an activation became, rotated or not: read through a product with an identity matrix, which is exact.
Case act_case(const char* name, ActLayout layout, int n, int cols, int block, int k_heads, int rep) {
  Case c{"act",
         layout == ActLayout::f32 ? "f32" : "q8_32",
         std::to_string(n) + (block ? " rotated by " + std::to_string(block) : ""),
         cols,
         {},
         {}};
  c.faults = {Fault::stale_column, Fault::skipped_tail, Fault::wrong_sign, Fault::scale_off_by_one};
  if (block) c.faults.push_back(Fault::swapped_fields);
  c.run = [=](Side& side, Fault fault) {
    CaseResult r;
    Noise noise{u64(n + block)};
    std::vector<f32> x = noise.normals(i64(n) * cols), w = noise.normals(n), signs = noise.normals(n);
    for (f32& s : signs) s = s < 0 ? -1.0f : 1.0f;
    spoil_inputs(fault, x, n, cols);
    if (fault == Fault::wrong_sign) block ? signs[3] = -signs[3] : x[3] = -x[3];
    if (fault == Fault::scale_off_by_one) std::rotate(w.begin(), w.begin() + 1, w.end());
    Rotation rotation;
    rotation.block = fault == Fault::swapped_fields ? block / 2 : block;
    rotation.signs = side.upload(signs);
    rotation.perm_k_heads = k_heads;
    rotation.perm_rep = rep;
    rotation.perm_width = k_heads ? n / (k_heads * rep) : 0;
    // Identity: F32 ones, or Q8_0 blocks of scale 1.
    const Type type = layout == ActLayout::f32 ? Type::F32 : Type::Q8_0;
    std::vector<u8> bytes(row_bytes(type, n) * u64(n));
    for (int i = 0; i < n; i++) {
      u8* row = bytes.data() + u64(i) * row_bytes(type, n);
      if (type == Type::F32)
        store_le(row + 4 * i, 1.0f);
      else {
        for (int b = 0; b < n / 32; b++) store_le(row + 34 * b, u16(0x3c00));
        row[34 * (i / 32) + 2 + i % 32] = 1;
      }
    }
    HostTensor h;
    h.name = "identity";
    h.type = type;
    h.cols = h.rows = n;
    h.data = bytes;
    auto placed = side.place({&h, 1}, GroupUse::separate);
    if (!placed.ok()) return r.missing = placed.error().what, r;
    const Act a = side.act(layout, n, cols);
    side.scratch(cols, n);
    const Kernels::ActOut out{const_cast<Act*>(&a), block ? &rotation : nullptr};
    side.k.norm(side.ctx, side.upload(x), n, n, cols, side.upload(w), 1e-6f, nullptr, {&out, 1});
    const Output y = side.output(u64(n) * u64(cols) * 4);
    const Kernels::Product p{&(*placed)[0], &a, y.as<f32>(), n, false};
    side.k.matmul(side.ctx, {&p, 1});
    return read(side, y, name);
  };
  return c;
}

Case act_mul_case(const char* name, i64 count, Glu kind) {
  Case c{"act_mul", "F32", std::to_string(count) + (kind == Glu::silu ? " silu" : " relu2"), 1, {}, {}};
  if (count > 1) c.faults = {Fault::wrong_sign, Fault::skipped_tail, Fault::scale_off_by_one};
  c.run = [=](Side& side, Fault fault) {
    Noise noise{u64(count)};
    std::vector<f32> g = noise.normals(count, 4), u = noise.normals(count);
    if (count > 2) g[0] = 100, g[size_t(count / 2)] = -100;
    spoil_inputs(fault, u, count, 1);
    if (fault == Fault::wrong_sign) u[0] = -u[0];
    if (fault == Fault::scale_off_by_one) std::rotate(u.begin(), u.begin() + 1, u.end());
    const Output y = side.output(u64(count) * 4);
    side.k.act_mul(side.ctx, side.upload(g), side.upload(u), kind, count, y.as<f32>());
    return read(side, y, name);
  };
  return c;
}

struct HeadShape {
  int n_q, n_kv, dim, n_rot;
  bool neox, gated, normed;
  Type k, v;
};

// Three sequences: a prompt in two pieces with another already decoding beside it, a last one of one token.
Case attention_case(const char* name, const HeadShape& s) {
  Case c{"attention",
         std::string(type_name(s.k)) + "/" + type_name(s.v),
         std::to_string(s.n_q) + "/" + std::to_string(s.n_kv) + "x" + std::to_string(s.dim),
         0,
         {},
         {}};
  c.columns = 41;
  c.faults = {Fault::stale_column, Fault::wrong_sign, Fault::scale_off_by_one, Fault::swapped_fields};
  c.run = [=](Side& side, Fault fault) {
    const int page = 64, max_len = 128, pages = 2, seqs = 3;
    const int steps[2][3] = {{37, 3, 1}, {20, 1, 1}};
    Noise noise{u64(s.dim)};
    const i64 q_gap = s.gated ? 2 * s.dim : s.dim, ldq = s.n_q * q_gap, ldk = i64(s.n_kv) * s.dim;
    std::vector<f32> q_norm = noise.normals(s.dim), k_norm = noise.normals(s.dim), rope;
    for (int p = 0; p < max_len; p++)
      for (int i = 0; i < s.n_rot / 2; i++) {
        const f64 angle = p * std::pow(1e4, -2.0 * i / s.n_rot);
        rope.push_back(f32(std::cos(angle))), rope.push_back(f32(std::sin(angle)));
      }
    const u64 rows = u64(seqs * pages * s.n_kv * page);
    AttentionArgs a;
    a.ldq = ldq, a.ldk = a.ldv = ldk;
    a.n_q = s.n_q, a.n_kv = s.n_kv, a.head_dim = s.dim, a.q_stride = int(q_gap), a.gated = s.gated;
    if (s.normed || s.n_rot == 0) a.q_norm = side.upload(q_norm), a.k_norm = side.upload(k_norm);
    a.eps = 1e-6f, a.scale = f32(1 / std::sqrt(f64(s.dim + (fault == Fault::scale_off_by_one)))), a.n_rot = s.n_rot, a.neox = s.neox;
    a.rope = s.n_rot ? side.upload(rope) : nullptr;
    a.cache.k_type = s.k, a.cache.v_type = s.v, a.cache.page_tokens = page;
    a.cache.k = side.room(rows * row_bytes(s.k, s.dim));
    a.cache.v = side.room(rows * row_bytes(s.v, s.dim));
    side.scratch(64, int(std::max(ldq, ldk)), s.n_q, s.dim, max_len);
    CaseResult all;
    int at[3] = {0, 50, 90};
    // The second and third sequence begin with what earlier steps left: feed it in one step first.
    for (int step = -1; step < 2; step++) {
      std::vector<i32> pos, seq, first{0}, slot, table;
      for (int i = 0; i < seqs; i++) {
        const int n = step < 0 ? at[i] : steps[step][i], from = step < 0 ? 0 : at[i];
        for (int j = 0; j < n; j++) pos.push_back(from + j), seq.push_back(i);
        first.push_back(i32(pos.size()));
        slot.push_back(i);
        for (int p = 0; p < pages; p++) table.push_back(seqs * pages - 1 - (i * pages + p));
        if (step >= 0) at[i] += n;
      }
      const i64 cols = i64(pos.size());
      std::vector<f32> q = noise.normals(cols * ldq), k = noise.normals(cols * ldk), v = noise.normals(cols * ldk);
      if (step == 1) {
        spoil_inputs(fault, q, ldq, cols);
        if (fault == Fault::wrong_sign) k[1] = k[1] < 0 ? 3.0f : -3.0f;
        if (fault == Fault::swapped_fields) std::swap(v[0], v[1]);
      }
      Batch b;
      b.cols = int(cols), b.seqs = seqs, b.max_pages = pages;
      b.max_pos = *std::max_element(pos.begin(), pos.end());
      for (int i = 0; i < seqs; i++) b.max_seq_cols = std::max(b.max_seq_cols, first[size_t(i + 1)] - first[size_t(i)]);
      b.pos = side.upload(pos), b.seq = side.upload(seq), b.first = side.upload(first), b.slot = side.upload(slot),
      b.page_table = side.upload(table);
      a.q = side.upload(q), a.k = side.upload(k), a.v = side.upload(v);
      const Output y = side.output(u64(cols * s.n_q * s.dim) * 4);
      a.out = y.as<f32>();
      side.k.attention(side.ctx, b, a);
      CaseResult r = read(side, y, name);
      all.kernel = r.kernel;
      all.guards = all.guards && r.guards;
      if (step >= 0) all.out.insert(all.out.end(), r.out.begin(), r.out.end());
    }
    return all;
  };
  return c;
}

Case delta_case(const char* name, int k_heads, int v_heads, int dim, bool tiled) {
  Case c{"delta_net", "F32", std::to_string(k_heads) + "/" + std::to_string(v_heads) + "x" + std::to_string(dim) + (tiled ? " tiled" : ""),
         0,           {},    {}};
  c.columns = 12;
  c.faults = {Fault::stale_column, Fault::wrong_sign, Fault::scale_off_by_one, Fault::swapped_fields};
  c.run = [=](Side& side, Fault fault) {
    Noise noise{u64(dim + v_heads)};
    const int conv = 4, slots = 3;
    const i64 channels = i64(dim) * (2 * k_heads + v_heads), inner = i64(dim) * v_heads;
    std::vector<f32> w = noise.normals(channels * conv, 0.5f), dt = noise.normals(v_heads), decay = noise.normals(v_heads),
                     norm = noise.normals(dim);
    for (f32& x : decay) x = -std::fabs(x);
    if (fault == Fault::scale_off_by_one) std::rotate(dt.begin(), dt.begin() + 1, dt.end()), dt[0] += 0.1f;
    DeltaNetArgs a;
    a.ldqkv = channels + 3, a.ldz = inner + 1, a.ldab = v_heads + 2;
    a.k_heads = k_heads, a.v_heads = v_heads, a.dim = dim, a.conv = conv, a.tiled = tiled, a.eps = 1e-6f;
    a.conv_w = side.upload(w), a.dt = side.upload(dt), a.a = side.upload(decay), a.norm = side.upload(norm);
    a.conv_state = static_cast<f32*>(side.room(u64(slots * (conv - 1) * channels) * 4));
    a.state = static_cast<f32*>(side.room(u64(slots * inner * dim) * 4));
    side.scratch(64, int(channels), v_heads, dim, 256);
    CaseResult all;
    const int steps[3][2] = {{9, 2}, {1, 1}, {1, 11}};
    for (int step = 0; step < 3; step++) {
      const int n0 = steps[step][0], n1 = steps[step][1], cols = n0 + n1;
      std::vector<i32> first = {0, n0, cols}, slot = {2, 0}, seq, pos;
      for (int i = 0; i < cols; i++) seq.push_back(i < n0 ? 0 : 1), pos.push_back(i);
      std::vector<f32> qkv = noise.normals(cols * a.ldqkv), z = noise.normals(cols * a.ldz), alpha = noise.normals(cols * a.ldab),
                       beta = noise.normals(cols * a.ldab);
      if (step == 2) {
        spoil_inputs(fault, qkv, a.ldqkv, cols);
        if (fault == Fault::wrong_sign) qkv[size_t(a.ldqkv)] = -qkv[size_t(a.ldqkv)];
        if (fault == Fault::swapped_fields) std::swap(alpha[size_t(a.ldab)], beta[size_t(a.ldab)]);
      }
      Batch b;
      b.cols = cols, b.seqs = 2, b.max_seq_cols = std::max(n0, n1);
      b.pos = side.upload(pos), b.seq = side.upload(seq), b.first = side.upload(first), b.slot = side.upload(slot);
      a.qkv = side.upload(qkv), a.z = side.upload(z), a.alpha = side.upload(alpha), a.beta = side.upload(beta);
      const Output y = side.output(u64(cols) * u64(inner) * 4);
      a.out = y.as<f32>();
      side.k.delta_net(side.ctx, b, a);
      CaseResult r = read(side, y, name);
      all.kernel = r.kernel;
      all.guards = all.guards && r.guards;
      all.out.insert(all.out.end(), r.out.begin(), r.out.end());
    }
    return all;
  };
  return c;
}

Case route_case(const char* name, int experts, int k, int cols, f32 scale) {
  Case c{"route", "F32", "top " + std::to_string(k) + " of " + std::to_string(experts), cols, {}, {}};
  c.faults = {Fault::wrong_sign, Fault::swapped_fields, Fault::scale_off_by_one};
  if (cols > 1) c.faults.push_back(Fault::stale_column);
  c.run = [=](Side& side, Fault fault) {
    Noise noise{u64(experts + k)};
    std::vector<f32> x = noise.normals(i64(experts) * cols, 2);
    x[1] = x[2] = 5;  // a tie
    spoil_inputs(fault, x, experts, cols);
    if (fault == Fault::wrong_sign) x[1] = -x[1];
    if (fault == Fault::swapped_fields) std::swap(x[0], x[1]);
    const Output ids = side.output(u64(k) * u64(cols) * 4), w = side.output(u64(k) * u64(cols) * 4);
    side.k.route(side.ctx, side.upload(x), experts, k, cols, fault == Fault::scale_off_by_one ? scale * 1.5f + 0.5f : scale, ids.as<i32>(),
                 w.as<f32>());
    CaseResult r = read(side, w, name);
    std::vector<i32> chosen;
    r.guards = side.read(ids, chosen) && r.guards;
    for (i32 i : chosen) r.out.push_back(f32(i));
    return r;
  };
  return c;
}

Case add_gated_case(const char* name, int n, int cols, bool gated) {
  Case c{"add_gated", "F32", std::to_string(n) + (gated ? " gated" : ""), cols, {}, {}};
  c.faults = {Fault::stale_column, Fault::skipped_tail, Fault::wrong_sign};
  c.run = [=](Side& side, Fault fault) {
    Noise noise{u64(n)};
    const std::vector<f32> before = noise.normals(i64(n) * cols);
    std::vector<f32> y = noise.normals(i64(n) * cols), gate = noise.normals(cols);
    spoil_inputs(fault, y, n, cols);
    if (fault == Fault::wrong_sign) gated ? gate[0] = -gate[0] : y[0] = -y[0];
    const Output x = side.output(u64(n) * u64(cols) * 4, before.data());
    side.k.add_gated(side.ctx, x.as<f32>(), side.upload(y), gated ? side.upload(gate) : nullptr, n, cols);
    return read(side, x, name);
  };
  return c;
}

Case gather_case(const char* name, int n) {
  Case c{"gather", "F32", std::to_string(n), 4, {}, {}};
  c.faults = {Fault::stale_column, Fault::wrong_sign};
  c.run = [=](Side& side, Fault fault) {
    std::vector<f32> x = Noise(u64(n)).normals(i64(n) * 7);
    std::vector<i32> index = {6, 0, 3, 6};
    if (fault == Fault::stale_column) index[2] = 0;
    if (fault == Fault::wrong_sign) x[size_t(3 * n)] = -x[size_t(3 * n)];
    const Output y = side.output(u64(n) * 4 * 4);
    side.k.gather(side.ctx, side.upload(x), side.upload(index), 4, n, y.as<f32>());
    return read(side, y, name);
  };
  return c;
}

Case argmax_case(const char* name, int n, int cols) {
  Case c{"argmax", "F32", std::to_string(n), cols, {}, {}};
  c.faults = {Fault::wrong_sign};
  if (cols > 1) c.faults.push_back(Fault::stale_column);
  c.run = [=](Side& side, Fault fault) {
    side.scratch(cols, n);
    std::vector<f32> x = Noise(u64(n)).normals(i64(n) * cols);
    for (int i = 0; i < cols; i++) x[size_t(i * n + (i * 5 + n / 2) % n)] = x[size_t(i * n + n - 1)] = 9;  // a tie
    spoil_inputs(fault, x, n, cols);
    if (fault == Fault::wrong_sign) x[size_t(n / 2)] = -9;
    const Output y = side.output(u64(cols) * 4);
    side.k.argmax(side.ctx, side.upload(x), n, cols, y.as<i32>());
    CaseResult r;
    side.synchronize();
    r.kernel = name;
    std::vector<i32> ids;
    r.guards = side.read(y, ids);
    for (i32 i : ids) r.out.push_back(f32(i));
    return r;
  };
  return c;
}

}  // namespace

void step_cases(const CaseRequest& q, std::vector<Case>& cases) {
  const char* name = q.table->name;
  auto add = [&](Case c) { cases.push_back(std::move(c)); };
  if (q.quick) {
    add(norm_case(name, 100, 2, true));
    add(act_mul_case(name, 50, Glu::silu));
    add(attention_case(name, {2, 1, 32, 32, true, false, true, Type::F16, Type::F16}));
    add(delta_case(name, 1, 2, 16, true));
    add(route_case(name, 8, 2, 2, 0));
    add(argmax_case(name, 100, 2));
    return;
  }
  for (int n : {1, 37, 576, 5120})
    for (bool weighted : {false, true}) add(norm_case(name, n, n == 576 ? 1 : 4, weighted));
  HostTensor q8_0;
  q8_0.type = Type::Q8_0;
  const ActLayout quantised = q.table->act_layout(q8_0);
  for (ActLayout layout : {ActLayout::f32, quantised}) {
    add(act_case(name, layout, 96, 3, 0, 0, 0));
    add(act_case(name, layout, 384, 2, 128, 0, 0));
    add(act_case(name, layout, 384, 5, 64, 2, 3));
    if (quantised == ActLayout::f32) break;
  }
  for (Glu kind : {Glu::silu, Glu::relu2})
    for (i64 count : {1, 37, 4096}) add(act_mul_case(name, count, kind));
  for (Type kv : {Type::F32, Type::F16, Type::Q8_0, Type::Q4_0}) {
    add(attention_case(name, {4, 2, 64, 64, true, false, true, kv, kv}));
    add(attention_case(name, {6, 1, 128, 32, false, true, true, kv, kv}));
    add(attention_case(name, {3, 3, 32, 32, true, false, false, kv, Type::F16}));
    add(attention_case(name, {6, 1, 256, 64, true, true, true, kv, kv}));
  }
  add(delta_case(name, 2, 4, 32, true));
  add(delta_case(name, 2, 6, 128, false));
  add(delta_case(name, 4, 4, 64, true));
  for (int cols : {1, 5}) {
    add(route_case(name, 8, 2, cols, 0));
    add(route_case(name, 128, 8, cols, 2.5f));
    add(route_case(name, 256, 8, cols, 0));
    for (int n : {37, 5120}) add(argmax_case(name, n, cols));
    for (bool gated : {false, true}) add(add_gated_case(name, cols == 1 ? 37 : 2048, cols, gated));
  }
  for (int n : {37, 2048}) add(gather_case(name, n));
}

}  // namespace fewbit::kernel
