// Products with weights: every type, shapes that leave ragged ends everywhere, every width.
#include <memory>
#include <optional>

#include "kernel/layout/random_blocks.h"
#include "kernel/verify_cases.h"

namespace fewbit::kernel {

void spoil_inputs(Fault fault, std::vector<f32>& x, i64 n, i64 cols) {
  auto at = [&](i64 c, i64 i) -> f32& { return x[size_t(c * n + i)]; };
  if (fault == Fault::stale_column) {
    for (i64 i = 0; i < n; i++) at(cols - 1, i) = cols > 1 ? at(cols - 2, i) : at(0, (i + 7) % n) + 1;
  }
  if (fault == Fault::skipped_tail) {
    const i64 tail = n > 32 ? 32 : (n + 1) / 2;
    for (i64 c = 0; c < cols; c++)
      for (i64 i = n - tail; i < n; i++) at(c, i) = 0;
  }
}

namespace {

struct Tensor {
  Type type;
  i64 n, rows, experts;
  std::vector<u8> bytes;
  std::vector<f32> scale, bias;
  Tensor(Type t, i64 n_, i64 rows_, i64 experts_, u64 seed, bool extreme) : type(t), n(n_), rows(rows_), experts(experts_) {
    cpu::RandomBlocks random(seed);
    bytes.resize(size_t(*tensor_bytes(t, u64(n), u64(rows * experts))));
    random.fill(t, bytes.data(), codes());
    if (extreme) extremes(random);
    if (t == Type::I2_S) store_le(bytes.data() + codes(), 0.37f);
  }
  u64 codes() const { return u64(rows * experts) * row_bytes(type, n); }
  HostTensor host() const {
    HostTensor h;
    h.name = std::string("verify.") + type_name(type);
    h.type = type;
    h.cols = n;
    h.rows = rows;
    h.experts = experts;
    h.data = bytes;
    return h;
  }

 private:
  // Scales of every size that a file may hold: the largest, subnormal ones, both zeros.
  template <class F>
  void extremes(cpu::RandomBlocks& random) {
    if constexpr (requires { F::scale_at; }) {
      static constexpr u16 d[] = {0x7bff, 0xfbff, 0x0001, 0x8001, 0x0000, 0x8000, 0x0400, 0x3c00};
      for (u64 at = 0; at < codes(); at += F::bytes) store_le(&bytes[at + F::scale_at], d[random.rng() % 8]);
    }
  }
  void extremes(cpu::RandomBlocks& random) {
    switch (type) {
#define FEWBIT_X(F, id) \
  case Type::F:         \
    return extremes<F>(random);
      FEWBIT_WEIGHT_FORMATS(FEWBIT_X)
#undef FEWBIT_X
      default:
        break;
    }
  }
};

std::vector<f32> inputs(i64 n, i64 cols, u64 seed) {
  cpu::RandomBlocks random(seed);
  std::vector<f32> x;
  x.resize(size_t(n * cols));
  // Away from zero: an input that is rounded to zero would hide a fault of its weight.
  for (f32& v : x) v = random.normal(), v += std::copysign(0.1f, v);
  return x;
}

// So that products come out near 1, where an activation function neither saturates nor is straight.
void tame(std::vector<f32>& x, const Tensor& t) {
  std::vector<f32> w;
  w.resize(size_t(t.n));
  decode_tensor_row(t.type, t.bytes, 0, t.n, w);
  f64 squares = 1e-12;
  for (f32 v : w) squares += f64(v) * f64(v);
  for (f32& v : x) v = f32(f64(v) / std::sqrt(squares));
}

// Only the faults that this tensor can have.
void keep_possible(std::vector<Fault>& faults, const Tensor& t) {
  std::erase_if(faults, [&](Fault f) {
    std::vector<u8> copy = t.bytes;
    return f < Fault::stale_column && !mutate_blocks(f, t.type, copy, t.n, t.rows * t.experts);
  });
}

struct Shape {
  i64 rows, n;
  int cols;
  bool extreme = false, scaled = false, add = false;
};

// Type and shape of the weight alone decide.
ActLayout layout_of(const CaseRequest& request, Type type, const Shape& s, i64 experts = 1) {
  HostTensor h;
  h.type = type, h.cols = s.n, h.rows = s.rows, h.experts = experts;
  return request.table->act_layout(h);
}

std::string text(const Shape& s, const char* more = "") {
  return std::to_string(s.rows) + "x" + std::to_string(s.n) + (s.extreme ? " extreme" : "") + (s.scaled ? " scale bias" : "") +
         (s.add ? " add" : "") + more;
}

const std::vector<Fault> weight_faults = {Fault::swapped_fields,   Fault::wrong_sign,     Fault::dropped_correction,
                                          Fault::scale_off_by_one, Fault::wrong_grid_row, Fault::swapped_nibbles,
                                          Fault::stale_column,     Fault::skipped_tail,   Fault::skipped_row};

std::vector<Fault> faults_of(Type type, const Tensor& t) {
  std::vector<Fault> v;
  for (Fault f : weight_faults) {
    std::vector<u8> copy = t.bytes;
    std::vector<f64> extra;
    extra.resize(size_t(t.n));
    if (f == Fault::dropped_correction ? dropped_correction(type, t.bytes, 0, t.n, extra)
                                       : f >= Fault::stale_column || mutate_blocks(f, type, copy, t.n, t.rows * t.experts))
      v.push_back(f);
  }
  return v;
}

// What the reference's result would be without zero points or minima: sum over k of extra * x added to each output.
void drop_correction(const Tensor& t, ActLayout layout, const std::vector<f32>& x, i64 cols, const Kernels& ref, std::vector<f32>& y) {
  // The reference's own rounding of inputs, through a product with an identity matrix.
  (void)layout;
  (void)ref;
  std::vector<f64> extra;
  extra.resize(size_t(t.n));
  for (i64 r = 0; r < t.rows; r++) {
    dropped_correction(t.type, t.bytes, r, t.n, extra);
    for (i64 c = 0; c < cols; c++) {
      f64 sum = 0;
      for (i64 k = 0; k < t.n; k++) sum += extra[size_t(k)] * f64(x[size_t(c * t.n + k)]);
      y[size_t(c * t.rows + r)] += f32(sum);
    }
  }
}

// A tensor as the side under a fault gets it.
HostTensor spoiled(Fault fault, const Tensor& t, std::vector<u8>& copy) {
  HostTensor h = t.host();
  if (fault != Fault::none && fault != Fault::dropped_correction && fault < Fault::stale_column) {
    copy = t.bytes;
    mutate_blocks(fault, t.type, copy, t.n, t.rows * t.experts);
    h.data = copy;
  }
  return h;
}

Case matmul_case(const CaseRequest& request, Type type, const Shape& s) {
  Case c;
  c.op = "matmul";
  c.type = type_name(type);
  c.shape = text(s);
  c.columns = s.cols;
  const ActLayout layout = layout_of(request, type, s);
  auto make = [type, s] { return Tensor(type, s.n, s.rows, 1, u64(s.n * 131 + s.rows), s.extreme); };
  if (!s.extreme && !request.quick) c.faults = faults_of(type, make());
  // At start-up both sides share what one of them made; `verify` has too many cases to keep their tensors.
  struct Made {
    Tensor t;
    std::vector<f32> x, before, bias;
  };
  auto kept = request.quick ? std::make_shared<std::optional<Made>>() : nullptr;
  c.run = [=](Side& side, Fault fault) {
    CaseResult r;
    std::optional<Made> own;
    std::optional<Made>& made = kept ? *kept : own;
    if (!made) {
      made.emplace(Made{make(), inputs(s.n, s.cols, 17), inputs(s.add ? s.rows : 0, s.cols, 23), inputs(s.scaled ? s.rows : 0, 1, 5)});
    }
    const Tensor& t = made->t;
    const std::vector<f32>& bias = made->bias;
    std::vector<u8> copy;
    HostTensor h = spoiled(fault, t, copy);
    const std::vector<f32> scale = {0.7f};
    if (s.scaled) h.scale = scale.data(), h.bias = bias.data();
    auto w = side.place({&h, 1}, GroupUse::separate);
    if (!w.ok()) return r.missing = w.error().what, r;
    Weight& weight = (*w)[0];
    if (weight.scale == scale.data()) weight.scale = side.upload(scale);  // tables of a device bring them up themselves
    if (s.scaled && weight.bias == bias.data()) weight.bias = side.upload(bias);
    r.kernel = weight.kernel;
    std::vector<f32> x = made->x;
    spoil_inputs(fault, x, s.n, s.cols);
    const Act a = side.act_of(layout, x, int(s.n), s.cols);
    const Output y = side.output(u64(s.rows * s.cols) * 4, s.add ? made->before.data() : nullptr);
    side.scratch(s.cols, int(s.n));
    if (fault == Fault::skipped_row) weight.rows--;
    const Kernels::Product p{&weight, &a, y.as<f32>(), s.rows, s.add};
    if (weight.rows > 0) side.k.matmul(side.ctx, {&p, 1});
    side.synchronize();
    r.guards = side.read(y, r.out);
    if (fault == Fault::dropped_correction) drop_correction(t, layout, made->x, s.cols, side.k, r.out);
    return r;
  };
  return c;
}

Case glu_case(const CaseRequest& request, Type gate, Type up, const Shape& s, Glu kind) {
  Case c;
  c.op = "glu";
  c.type = gate == up ? type_name(gate) : std::string(type_name(gate)) + "+" + type_name(up);
  c.shape = text(s, kind == Glu::silu ? "" : " relu2");
  c.columns = s.cols;
  const ActLayout layout = layout_of(request, gate, s);
  c.faults = {Fault::wrong_sign, Fault::stale_column, Fault::skipped_tail};
  if (kind == Glu::relu2) c.faults.erase(c.faults.begin());  // half of the rows are zero
  keep_possible(c.faults, Tensor(up, s.n, s.rows, 1, 4, false));
  c.run = [=](Side& side, Fault fault) {
    CaseResult r;
    const Tensor g(gate, s.n, s.rows, 1, 3, false), u(up, s.n, s.rows, 1, 4, false);
    std::vector<u8> copy;
    const HostTensor h[2] = {g.host(), spoiled(fault, u, copy)};
    auto w = side.place(h, GroupUse::glu);
    if (!w.ok()) return r.missing = w.error().what, r;
    r.kernel = (*w)[0].kernel;
    std::vector<f32> x = inputs(s.n, s.cols, 18);
    tame(x, g);
    spoil_inputs(fault, x, s.n, s.cols);
    const Act a = side.act_of(layout, x, int(s.n), s.cols);
    const Output y = side.output(u64(s.rows * s.cols) * 4);
    side.scratch(s.cols, int(s.n));
    side.k.glu(side.ctx, (*w)[0], (*w)[1], a, kind, y.as<f32>());
    side.synchronize();
    r.guards = side.read(y, r.out);
    return r;
  };
  return c;
}

// Expert ids: some experts many times, some never.
std::vector<i32> ids_of(i64 cols, int k, i64 experts) {
  std::vector<i32> ids;
  for (i64 c = 0; c < cols; c++)
    for (int j = 0; j < k; j++) ids.push_back(i32((c % 3 == 0 ? j : c * 7 + j * 3) % (experts - 1)));
  return ids;
}

Case moe_case(const CaseRequest& request, Type type, const Shape& s, int k, bool down) {
  Case c;
  const i64 experts = 5;
  c.op = down ? "moe_down" : "moe_glu";
  c.type = type_name(type);
  c.shape = text(s, " 5 experts");
  c.columns = s.cols;
  const ActLayout layout = layout_of(request, type, s, experts);
  c.faults = {Fault::wrong_sign, Fault::stale_column, Fault::skipped_tail};
  keep_possible(c.faults, Tensor(type, s.n, s.rows, experts, 16, false));
  c.run = [=](Side& side, Fault fault) {
    CaseResult r;
    const Tensor a(type, s.n, s.rows, experts, 16, false), b(type, s.n, s.rows, experts, 17, false);
    std::vector<u8> copy;
    HostTensor h[2] = {spoiled(fault, a, copy), b.host()};
    const std::vector<f32> scale = {0.5f, 1.5f, -1.0f, 2.0f, 0.25f};
    if (s.scaled) h[0].scale = h[1].scale = scale.data();
    auto w = side.place(std::span(h, down ? 1 : 2), down ? GroupUse::separate : GroupUse::glu);
    if (!w.ok()) return r.missing = w.error().what, r;
    r.kernel = (*w)[0].kernel;
    for (Weight& x : *w)
      if (x.scale == scale.data()) x.scale = side.upload(scale);
    const i64 entries = i64(s.cols) * k, in_cols = down ? entries : s.cols;
    std::vector<f32> x = inputs(s.n, in_cols, 20);
    tame(x, a);
    spoil_inputs(fault, x, s.n, in_cols);
    const Act act = side.act_of(layout, x, int(s.n), int(in_cols));
    const i32* ids = side.upload(ids_of(s.cols, k, experts));
    side.scratch(s.cols, int(std::max(s.rows, s.n)), 1, 64, 256, k);
    const std::vector<f32> before = inputs(s.rows, s.cols, 29);
    const Output y = down ? side.output(u64(s.rows * s.cols) * 4, before.data()) : side.output(u64(s.rows * entries) * 4);
    if (down)
      side.k.moe_down(side.ctx, (*w)[0], act, ids, side.upload(inputs(k, s.cols, 31)), k, y.as<f32>());
    else
      side.k.moe_glu(side.ctx, (*w)[0], (*w)[1], act, ids, k, Glu::silu, y.as<f32>());
    side.synchronize();
    r.guards = side.read(y, r.out);
    return r;
  };
  return c;
}

Case embed_case(Type type, i64 n, i64 rows, bool rotated) {
  Case c;
  c.op = "embed";
  c.type = type_name(type);
  c.shape = std::to_string(rows) + "x" + std::to_string(n) + (rotated ? " rotated" : "");
  c.columns = 5;
  c.faults = {Fault::wrong_sign, Fault::wrong_grid_row, Fault::scale_off_by_one, Fault::stale_column};
  keep_possible(c.faults, Tensor(type, n, rows, 1, 9, false));
  c.run = [=](Side& side, Fault fault) {
    CaseResult r;
    const Tensor t(type, n, rows, 1, 9, false);
    std::vector<u8> copy;
    const HostTensor h = spoiled(fault, t, copy);
    auto w = side.place({&h, 1}, GroupUse::table);
    if (!w.ok()) return r.missing = w.error().what, r;
    r.kernel = (*w)[0].kernel;
    std::vector<f32> signs = inputs(n, 1, 3);
    for (f32& v : signs) v = v < 0 ? -1.0f : 1.0f;
    Rotation rotation;
    rotation.block = 32;
    rotation.signs = side.upload(signs);
    std::vector<i32> ids = {i32(rows - 1), 0, i32(rows / 2), 0, 1};
    if (fault == Fault::stale_column) ids[4] = ids[3];
    const Output x = side.output(u64(n) * 5 * 4);
    side.scratch(5, int(n));
    side.k.embed(side.ctx, (*w)[0], side.upload(ids), 5, rotated ? &rotation : nullptr, x.as<f32>());
    side.synchronize();
    r.guards = side.read(x, r.out);
    return r;
  };
  return c;
}

}  // namespace

void weight_cases(const CaseRequest& q, std::vector<Case>& cases) {
  std::vector<Type> types;
  for (const FormatInfo& f : all_formats())
    if (f.weights) types.push_back(f.type);
  for (Type t : types) {
    const i64 block = std::max(format_info(t).block, 32);
    const i64 odd = block == 32 ? 18 * block : 5 * block;  // not a multiple of 256 where the type allows
    if (q.quick) {
      cases.push_back(matmul_case(q, t, {17, block, 1}));
      cases.push_back(matmul_case(q, t, {3, block, 9}));
      continue;
    }
    for (int cols : {1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 16, 33}) cases.push_back(matmul_case(q, t, {37, odd, cols}));
    for (int cols : {1, 8, 20}) {
      cases.push_back(matmul_case(q, t, {1, block, cols}));
      cases.push_back(matmul_case(q, t, {64, 1024, cols, false, true, true}));
      cases.push_back(matmul_case(q, t, {23, 3 * block, cols, true}));
    }
    for (int cols : {1, 6, 14}) {
      cases.push_back(glu_case(q, t, t, {35, odd, cols}, cols == 6 ? Glu::relu2 : Glu::silu));
      cases.push_back(moe_case(q, t, {21, odd, cols, false, cols == 6}, 2, false));
      cases.push_back(moe_case(q, t, {21, odd, cols, false, cols == 6}, 2, true));
    }
    // Large enough for kernels that only large matrices have: f16 activations on CUDA.
    const Shape large = {2081, 1032, 1};
    if (block == 32 && layout_of(q, t, large) != layout_of(q, t, {37, odd, 1})) {
      for (int cols : {1, 7, 8, 21, 40}) cases.push_back(matmul_case(q, t, {large.rows, large.n, cols, false, cols == 7, cols == 21}));
      for (int cols : {1, 40}) cases.push_back(glu_case(q, t, t, {large.rows, large.n, cols}, cols == 1 ? Glu::relu2 : Glu::silu));
      cases.push_back(embed_case(t, large.n, large.rows, false));
    }
    cases.push_back(embed_case(t, odd, 33, false));
    cases.push_back(embed_case(t, odd, 33, true));
  }
  if (!q.quick) cases.push_back(glu_case(q, Type::PQ2_0, Type::Q4_0, {35, 640, 3}, Glu::silu));
}

}  // namespace fewbit::kernel
