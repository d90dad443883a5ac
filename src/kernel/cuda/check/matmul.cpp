// matmul, glu, experts, embedding: every type against the definition, and bitwise the same column at every width.
#include <utility>

#include "kernel/cuda/check/matrix.h"
#include "kernel/cuda/layout.h"
#include "kernel/cuda/ops.h"

namespace fewbit::kernel::cuda::check {

namespace {

const Type types[] = {Type::Q1_0,   Type::Q2_0,    Type::PQ2_0,  Type::PTQ1_0, Type::TQ1_0,   Type::TQ2_0, Type::I2_S, Type::IQ1_S,
                      Type::IQ1_M,  Type::IQ2_XXS, Type::IQ2_XS, Type::IQ2_S,  Type::IQ3_XXS, Type::IQ3_S, Type::Q2_K, Type::Q3_K,
                      Type::Q4_0,   Type::Q4_1,    Type::Q5_0,   Type::Q5_1,   Type::Q8_0,    Type::Q4_K,  Type::Q5_K, Type::Q6_K,
                      Type::IQ4_NL, Type::IQ4_XS,  Type::MXFP4,  Type::F16,    Type::BF16,    Type::F32};

constexpr f64 bound = 4e-6;  // f32 sums of exact integers

void products(Rig& rig, Random& random, Type type, i64 rows, i64 cols, bool extras, const std::vector<int>& widths) {
  std::vector<Buffer> owned, none;
  Matrix m = matrix(random, type, rows, cols, 1, extras), g = matrix(random, type, rows, cols, 1, false);
  const Weight w = place_on(rig.ctx, {view(m)}, GroupUse::separate, owned)[0],
               rw = place_on(rig.ref, {view(m)}, GroupUse::separate, none)[0];
  const std::vector<Weight> pair = place_on(rig.ctx, {view(m), view(g)}, GroupUse::glu, owned),
                            rpair = place_on(rig.ref, {view(m), view(g)}, GroupUse::glu, none);
  const int most = *std::max_element(widths.begin(), widths.end());
  const std::vector<f32> x = random.normals(size_t(cols) * most);
  std::vector<f32> first;  // column 0 .. of the widest call, for the bitwise comparison
  std::vector<f32> first_glu;
  for (size_t i = widths.size(); i-- > 0;) {
    const int n = widths[i];
    const std::vector<f32> part(x.begin(), x.begin() + cols * n);
    TwoActs a = make_act(rig, part, int(cols), n, w.act);
    const bool add = extras && n % 2;
    std::vector<f32> y = random.normals(size_t(rows) * n), before = y;
    if (!add) std::fill(y.begin(), y.end(), NAN);
    Buffer dy = rig.up(y);
    const Kernels::Product p{&w, &a.gpu, dy.as<f32>(), rows, add}, rp{&rw, &a.ref, y.data(), rows, add};
    rig.ctx.k->matmul(rig.ctx, {&p, 1});
    rig.ref.k->matmul(rig.ref, {&rp, 1});
    const std::vector<f32> got = rig.down<f32>(dy.data(), y.size());
    rig.compare("matmul", label(type, rows, cols, n) + (extras ? " scale bias" : "") + (add ? " add" : ""), got, y, bound);
    if (!add) {
      if (first.empty()) first = got;
      rig.same_bits("matmul.width", label(type, rows, cols, n), got, std::vector<f32>(first.begin(), first.begin() + i64(got.size())));
    }
    std::vector<f32> h(size_t(rows) * n, NAN);
    Buffer dh = rig.up(h);
    const Glu kind = extras ? Glu::relu2 : Glu::silu;
    rig.ctx.k->glu(rig.ctx, pair[0], pair[1], a.gpu, kind, dh.as<f32>());
    rig.ref.k->glu(rig.ref, rpair[0], rpair[1], a.ref, kind, h.data());
    const std::vector<f32> got_h = rig.down<f32>(dh.data(), h.size());
    rig.compare("glu", label(type, rows, cols, n), got_h, h, 4 * bound);
    if (first_glu.empty()) first_glu = got_h;
    rig.same_bits("glu.width", label(type, rows, cols, n), got_h,
                  std::vector<f32>(first_glu.begin(), first_glu.begin() + i64(got_h.size())));
  }
}

// Several products of one input in one call, of which one has f32 weights.
void together(Rig& rig, Random& random, Type type) {
  std::vector<Buffer> owned, none;
  const i64 cols = 512;
  Matrix a = matrix(random, type, 80, cols, 1, false), b = matrix(random, type, 33, cols, 1, true),
         c = matrix(random, Type::BF16, 48, cols, 1, false);
  const Weight w[3] = {place_on(rig.ctx, {view(a)}, GroupUse::separate, owned)[0],
                       place_on(rig.ctx, {view(b)}, GroupUse::separate, owned)[0],
                       place_on(rig.ctx, {view(c)}, GroupUse::separate, owned)[0]};
  const Weight rw[3] = {place_on(rig.ref, {view(a)}, GroupUse::separate, none)[0],
                        place_on(rig.ref, {view(b)}, GroupUse::separate, none)[0],
                        place_on(rig.ref, {view(c)}, GroupUse::separate, none)[0]};
  for (int n : {1, 3}) {
    const std::vector<f32> x = random.normals(size_t(cols) * n);
    TwoActs q = make_act(rig, x, int(cols), n, act_of(rig, type)), f = make_act(rig, x, int(cols), n, ActLayout::f32);
    std::vector<f32> y[3];
    Buffer dy[3];
    std::vector<Kernels::Product> p, rp;
    for (int i = 0; i < 3; i++) {
      y[i].assign(size_t(w[i].rows + 7) * n, 0);
      dy[i] = rig.up(y[i]);
      p.push_back({&w[i], i == 2 ? &f.gpu : &q.gpu, dy[i].as<f32>(), w[i].rows + 7, false});
      rp.push_back({&rw[i], i == 2 ? &f.ref : &q.ref, y[i].data(), w[i].rows + 7, false});
    }
    rig.ctx.k->matmul(rig.ctx, p);
    rig.ref.k->matmul(rig.ref, rp);
    for (int i = 0; i < 3; i++)
      rig.compare("matmul.together", label(w[i].type, w[i].rows, cols, n), rig.down<f32>(dy[i].data(), y[i].size()), y[i], bound);
  }
}

// Two matrices of float rows times many columns in one call: each column as alone.
void rows_of_many(Rig& rig, Random& random, Type type, i64 rows, i64 cols, int n) {
  std::vector<Buffer> owned;
  const i64 ldy = rows + 3;
  Matrix a = matrix(random, type, rows, cols, 1, true), b = matrix(random, type, 5, cols, 1, false);
  const Weight w[2] = {place_on(rig.ctx, {view(a)}, GroupUse::separate, owned)[0],
                       place_on(rig.ctx, {view(b)}, GroupUse::separate, owned)[0]};
  const std::vector<f32> x = random.normals(size_t(cols) * size_t(n)), before = random.normals(size_t(ldy) * size_t(n));
  Buffer dx = rig.up(x), many[2] = {rig.up(before), rig.up(before)}, alone[2] = {rig.up(before), rig.up(before)};
  auto multiply = [&](int first, int count, Buffer(&y)[2]) {
    const Act act{ActLayout::f32, int(cols), count, dx.as<f32>() + i64(first) * cols};
    const Kernels::Product p[2] = {{&w[0], &act, y[0].as<f32>() + i64(first) * ldy, ldy, true},
                                   {&w[1], &act, y[1].as<f32>() + i64(first) * ldy, ldy, false}};
    rig.ctx.k->matmul(rig.ctx, {p, 2});
  };
  multiply(0, n, many);
  for (int c = 0; c < n; c++) multiply(c, 1, alone);
  for (int i = 0; i < 2; i++)
    rig.same_bits("matmul.rows.alone", label(type, w[i].rows, cols, n), rig.down<f32>(alone[i].data(), before.size()),
                  rig.down<f32>(many[i].data(), before.size()));
}

// Products of different inputs in one call: as each alone.
void of_two_inputs(Rig& rig, Random& random, Type type) {
  std::vector<Buffer> owned;
  const i64 rows = 4304, cols = 512;
  Matrix a = matrix(random, type, rows, cols, 1, false), b = matrix(random, type, rows, cols, 1, false);
  const Weight w[2] = {place_on(rig.ctx, {view(a)}, GroupUse::separate, owned)[0],
                       place_on(rig.ctx, {view(b)}, GroupUse::separate, owned)[0]};
  for (int n : {1, 8}) {
    const ActLayout layout = rig.ctx.k->act_layout(a.tensor);
    TwoActs x[2] = {make_act(rig, random.normals(size_t(cols) * n), int(cols), n, layout),
                    make_act(rig, random.normals(size_t(cols) * n), int(cols), n, layout)};
    const std::vector<f32> none(size_t(rows) * n, NAN);
    Buffer both[2] = {rig.up(none), rig.up(none)};
    const Kernels::Product p[2] = {{&w[0], &x[0].gpu, both[0].as<f32>(), rows, false}, {&w[1], &x[1].gpu, both[1].as<f32>(), rows, false}};
    rig.ctx.k->matmul(rig.ctx, {p, 2});
    for (int i = 0; i < 2; i++) {
      Buffer alone = rig.up(none);
      const Kernels::Product q{&w[i], &x[i].gpu, alone.as<f32>(), rows, false};
      rig.ctx.k->matmul(rig.ctx, {&q, 1});
      rig.same_bits("matmul.two_inputs", label(type, rows, cols, n), rig.down<f32>(both[i].data(), none.size()),
                    rig.down<f32>(alone.data(), none.size()));
    }
  }
}

void experts(Rig& rig, Random& random, Type type, int n_experts, int k, int cols) {
  std::vector<Buffer> owned, none;
  const bool ragged = format_info(type).block <= 32;                              // rows and inputs that fill no tile
  const bool deep = type == Type::IQ3_XXS || (type == Type::PQ2_0 && cols < 40);  // slabs of more than four units
  const i64 hidden = ragged ? 320 : deep ? 3072 : 512, ff = type == Type::IQ2_XS ? 768 : ragged ? 160 : 256;
  Matrix g = matrix(random, type, ff, hidden, n_experts, false), u = matrix(random, type, ff, hidden, n_experts, true),
         d = matrix(random, type, hidden, ff, n_experts, false);
  u.bias.clear();
  const std::vector<Weight> pair = place_on(rig.ctx, {view(g), view(u)}, GroupUse::glu, owned),
                            rpair = place_on(rig.ref, {view(g), view(u)}, GroupUse::glu, none);
  const Weight down = place_on(rig.ctx, {view(d)}, GroupUse::separate, owned)[0],
               rdown = place_on(rig.ref, {view(d)}, GroupUse::separate, none)[0];
  std::vector<i32> ids(size_t(cols) * k);
  std::vector<f32> weights(ids.size());
  for (int c = 0; c < cols; c++)
    for (int j = 0; j < k; j++)
      ids[size_t(c * k + j)] = (random.below(3) ? c * 7 : 0) % n_experts, weights[size_t(c * k + j)] = std::fabs(random.normal());
  for (int c = 0; c < cols; c++)  // different experts in a column
    for (int j = 0; j < k; j++) ids[size_t(c * k + j)] = (ids[size_t(c * k)] + j * (1 + c % 3)) % n_experts;
  Buffer dids = rig.up(ids), dweights = rig.up(weights);
  TwoActs a = make_act(rig, random.normals(size_t(hidden) * cols), int(hidden), cols, act_of(rig, type));
  std::vector<f32> h(ids.size() * size_t(ff), NAN);
  Buffer dh = rig.up(h);
  rig.ctx.k->moe_glu(rig.ctx, pair[0], pair[1], a.gpu, dids.as<i32>(), k, Glu::silu, dh.as<f32>());
  rig.ref.k->moe_glu(rig.ref, rpair[0], rpair[1], a.ref, ids.data(), k, Glu::silu, h.data());
  const std::vector<f32> got = rig.down<f32>(dh.data(), h.size());
  const std::string name = label(type, ff, hidden, cols) + " top " + std::to_string(k);
  rig.compare("moe_glu", name, got, h, 4 * bound);
  auto by_matvec = [&](auto&& work) {  // with the kernel of matvec.cuh
    const int wide = std::exchange(wide_choice, -1), narrow = std::exchange(narrow_choice, -1);
    work();
    wide_choice = wide, narrow_choice = narrow;
  };
  Buffer dg = rig.up(std::vector<f32>(h.size(), NAN));
  by_matvec([&] { rig.ctx.k->moe_glu(rig.ctx, pair[0], pair[1], a.gpu, dids.as<i32>(), k, Glu::silu, dg.as<f32>()); });
  rig.same_bits("moe_glu.width", name, rig.down<f32>(dg.data(), h.size()), got);
  TwoActs b = make_act(rig, got, int(ff), cols * k, act_of(rig, type));
  std::vector<f32> x = random.normals(size_t(hidden) * cols);
  Buffer dx = rig.up(x), dz = rig.up(x);
  rig.ctx.k->moe_down(rig.ctx, down, b.gpu, dids.as<i32>(), dweights.as<f32>(), k, dx.as<f32>());
  by_matvec([&] { rig.ctx.k->moe_down(rig.ctx, down, b.gpu, dids.as<i32>(), dweights.as<f32>(), k, dz.as<f32>()); });
  rig.same_bits("moe_down.width", name, rig.down<f32>(dz.data(), x.size()), rig.down<f32>(dx.data(), x.size()));
  rig.ref.k->moe_down(rig.ref, rdown, b.ref, ids.data(), weights.data(), k, x.data());
  rig.compare("moe_down", name, rig.down<f32>(dx.data(), x.size()), x, 4 * bound);
}

void embedding(Rig& rig, Random& random, Type type) {
  std::vector<Buffer> owned, none;
  const i64 rows = 37, cols = 1024;
  Matrix m = matrix(random, type, rows, cols, 1, false);
  const Weight w = place_on(rig.ctx, {view(m)}, GroupUse::table, owned)[0], rw = place_on(rig.ref, {view(m)}, GroupUse::table, none)[0];
  std::vector<i32> ids = {0, 36, 17, 5, 5};
  std::vector<f32> signs(cols), x(ids.size() * cols), y = x;
  for (f32& s : signs) s = random.below(2) ? 1.0f : -1.0f;
  Buffer dids = rig.up(ids), dsigns = rig.up(signs), dx = rig.up(x);
  rig.ctx.k->embed(rig.ctx, w, dids.as<i32>(), int(ids.size()), nullptr, dx.as<f32>());
  rig.ref.k->embed(rig.ref, rw, ids.data(), int(ids.size()), nullptr, x.data());
  rig.same_bits("embed", type_name(type), rig.down<f32>(dx.data(), x.size()), x);
  Rotation r, rr;
  r.block = rr.block = 256, r.signs = dsigns.as<f32>(), rr.signs = signs.data();
  rig.ctx.k->embed(rig.ctx, w, dids.as<i32>(), int(ids.size()), &r, dx.as<f32>());
  rig.ref.k->embed(rig.ref, rw, ids.data(), int(ids.size()), &rr, y.data());
  rig.compare("embed.rotated", type_name(type), rig.down<f32>(dx.data(), y.size()), y, 1e-6);
}

// Two kernels, chosen by `choice`, against each other, bit for bit: where matrices are too large for the reference.
void same_by_both(Rig& rig, Random& random, const char* op, Type type, i64 rows, i64 cols, const std::vector<int>& widths, int& choice,
                  int other_choice) {
  std::vector<Buffer> owned;
  Matrix m = matrix(random, type, rows, cols, 1, true), g = matrix(random, type, rows, cols, 1, false);
  const Weight one = place_on(rig.ctx, {view(m)}, GroupUse::separate, owned)[0],
               other = place_on(rig.ctx, {view(g)}, GroupUse::separate, owned)[0];
  const std::vector<Weight> pair = place_on(rig.ctx, {view(m), view(g)}, GroupUse::glu, owned);
  for (int n : widths) {
    TwoActs a = make_act(rig, random.normals(size_t(cols) * n), int(cols), n, one.act);
    const std::vector<f32> before = random.normals(size_t(rows) * n);
    std::vector<f32> got[2][3];
    for (int i = 0; i < 2; i++) {
      choice = i ? other_choice : -1;
      Buffer y = rig.up(before), z = rig.up(before), h = rig.up(before);
      const Kernels::Product p[2] = {{&one, &a.gpu, y.as<f32>(), rows, true}, {&other, &a.gpu, z.as<f32>(), rows, false}};
      rig.ctx.k->matmul(rig.ctx, {p, 2});
      rig.ctx.k->glu(rig.ctx, pair[0], pair[1], a.gpu, Glu::silu, h.as<f32>());
      got[i][0] = rig.down<f32>(y.data(), before.size()), got[i][1] = rig.down<f32>(z.data(), before.size());
      got[i][2] = rig.down<f32>(h.data(), before.size());
    }
    choice = 0;
    for (int k = 0; k < 3; k++)
      rig.same_bits(op, label(type, rows, cols, n) + (k == 2 ? " glu" : k ? " second" : " add"), got[1][k], got[0][k]);
  }
}
void wide(Rig& rig, Random& random, Type type, i64 rows, i64 cols, const std::vector<int>& widths) {
  same_by_both(rig, random, "wide", type, rows, cols, widths, wide_choice, 1);
}
// The kernels for large matrices and few columns against the general one.
void narrow(Rig& rig, Random& random, Type type) {
  if (act_of(rig, type) == ActLayout::f32) return;
  const i64 block = std::max<i64>(format_info(type).block, 128);
  for (i64 cols : {block, 9 * block, i64(11264 / 2)})  // few units, slabs of different lengths, eight slabs
    same_by_both(rig, random, "narrow", type, 4304, cols, {1, 2, 8}, narrow_choice, 0);
  same_by_both(rig, random, "narrow", type, 35000, block, {1, 3, 8}, narrow_choice, 0);
}

// Does it with each layout of the type.
template <class F>
void for_layouts(Type type, F&& work) {
  const bool two = has_dense(type);
  dense_choice = two ? -1 : 0;
  work();
  if (two) dense_choice = 1, work();
  dense_choice = 0;
}

// Both layouts of a type give the same bits: products at each width, pairs, experts.
void layouts(Rig& rig, Random& random, Type type, i64 rows, i64 cols, const std::vector<int>& widths) {
  Matrix m = matrix(random, type, rows, cols, 8, false), g = matrix(random, type, rows, cols, 8, false);
  HostTensor first = view(m), second = view(g);
  first.experts = second.experts = 1;
  for (int n : widths) {
    TwoActs a = make_act(rig, random.normals(size_t(cols) * n), int(cols), n, act_of(rig, type));
    std::vector<i32> ids(size_t(n) * 4);
    for (size_t i = 0; i < ids.size(); i++) ids[i] = i32((i / 4 * 3 + i % 4) % 8);
    Buffer dids = rig.up(ids);
    TwoActs b = make_act(rig, random.normals(size_t(cols) * n * 4), int(cols), n * 4, act_of(rig, type));
    Buffer weights = rig.up(random.normals(ids.size()));
    std::vector<f32> got[2][4];
    for (int dense = 0; dense < 2; dense++) {
      dense_choice = dense ? 1 : -1;
      std::vector<Buffer> owned;
      const Weight one = place_on(rig.ctx, {first}, GroupUse::separate, owned)[0];
      rig.report("layouts.placed", label(type, rows, cols, n), one.layout_id == type_layout(type, dense).layout, one.layout_id);
      const std::vector<Weight> pair = place_on(rig.ctx, {first, second}, GroupUse::glu, owned),
                                experts = place_on(rig.ctx, {view(m), view(g)}, GroupUse::glu, owned);
      const Weight down = place_on(rig.ctx, {view(m)}, GroupUse::separate, owned)[0];
      const size_t count = size_t(rows) * n;
      Buffer y = rig.up(std::vector<f32>(count, NAN)), h = rig.up(std::vector<f32>(count, NAN)),
             e = rig.up(std::vector<f32>(4 * count, NAN)), x = rig.up(std::vector<f32>(count, 1));
      const Kernels::Product p{&one, &a.gpu, y.as<f32>(), rows, false};
      rig.ctx.k->matmul(rig.ctx, {&p, 1});
      rig.ctx.k->glu(rig.ctx, pair[0], pair[1], a.gpu, Glu::silu, h.as<f32>());
      rig.ctx.k->moe_glu(rig.ctx, experts[0], experts[1], a.gpu, dids.as<i32>(), 4, Glu::silu, e.as<f32>());
      got[dense][0] = rig.down<f32>(y.data(), count), got[dense][1] = rig.down<f32>(h.data(), count);
      rig.ctx.k->moe_down(rig.ctx, down, b.gpu, dids.as<i32>(), weights.as<f32>(), 4, x.as<f32>());
      got[dense][2] = rig.down<f32>(e.data(), 4 * count), got[dense][3] = rig.down<f32>(x.data(), count);
    }
    dense_choice = 0;
    const char* of[4] = {"", " glu", " experts' glu", " experts' down"};
    for (int i = 0; i < 4; i++) rig.same_bits("layouts", label(type, rows, cols, n) + of[i], got[1][i], got[0][i]);
  }
}

}  // namespace

void check_layouts(Rig& rig) {
  Random random(14);
  for (Type type : {Type::PTQ1_0, Type::TQ1_0}) {
    layouts(rig, random, type, 80, 2304, {1, 5, 8, 40});
    layouts(rig, random, type, 4304, 768, {1, 2, 8, 100});
  }
  layouts(rig, random, Type::PTQ1_0, 4304, 6144, {1, 4});
  dense_choice = 1;
  products(rig, random, Type::PTQ1_0, 35000, 256, false, {1, 3, 8});
  dense_choice = 0;
}

void check_decode(Rig& rig) {
  Random random(12);
  for (Type type : {Type::PQ2_0, Type::Q1_0})
    for (i64 cols : {256, 1024, 5120, 17408}) products(rig, random, type, 4304, cols, cols == 1024, {1, 8});
  for (Type type : {Type::PQ2_0, Type::Q1_0, Type::Q2_0}) products(rig, random, type, 35000, 256, false, {1, 3, 8});
  for (Type type : types) narrow(rig, random, type);
}

void check_experts(Rig& rig, bool quick) {
  Random random(13);
  check_joined(rig, quick);
  if (quick) wide_choice = -1;  // racecheck misunderstands the wide kernel (bench/cuda.sh)
  for (Type type : {Type::IQ2_XS, Type::PQ2_0, Type::Q2_K, Type::IQ3_XXS, Type::F16})
    for (int cols : {1, 3, 40}) experts(rig, random, type, 8, quick && cols == 40 ? 2 : 4, cols);
  wide_choice = 0;
  if (quick) return;
  for (Type type : {Type::Q1_0, Type::Q2_0, Type::IQ1_S, Type::IQ3_S, Type::Q4_0, Type::Q4_K, Type::IQ4_NL, Type::Q8_0, Type::MXFP4})
    for (int cols : {1, 40}) experts(rig, random, type, 8, 4, cols);
  experts(rig, random, Type::IQ3_XXS, 8, 4, 8);
  for (Type type : {Type::PQ2_0, Type::IQ3_S}) experts(rig, random, type, 300, 8, 200);  // groups in plenty, experts without a column
}

void check_wide(Rig& rig, bool quick) {
  Random random(12);
  if (quick) {
    for (Type type : {Type::PQ2_0, Type::IQ2_XS, Type::Q4_K, Type::Q8_0, Type::Q6_K}) wide(rig, random, type, 200, 768, {64});
    for (Type type : {Type::IQ2_XS, Type::Q2_K, Type::Q8_0}) experts(rig, random, type, 8, 2, 40);
    return;
  }
  for (Type type : types) {
    if (act_of(rig, type) == ActLayout::f32) continue;
    for_layouts(type, [&] {
      wide(rig, random, type, 200, 256, {64, 300});
      wide(rig, random, type, 4400, 1280, {512});
      if (format_info(type).block >= 128) wide(rig, random, type, 300, 17408, {100, 257});
    });
  }
}

void check_matmul(Rig& rig, bool quick) {
  Random random(11);
  if (quick) {  // the kernel of one column
    for (Type type : {Type::PQ2_0, Type::Q1_0, Type::Q2_K, Type::IQ2_XS}) products(rig, random, type, 4304, 256, false, {1});
  } else {
    check_decode(rig);
  }
  for (Type type : types) {
    const i64 block = format_info(type).block;
    for_layouts(type, [&] {
      products(rig, random, type, 45, block >= 128 ? 3 * block : std::max<i64>(8, 5 * block) / 8 * 8, true, {1, 3, 8});
      if (quick) return;
      products(rig, random, type, 129, 2304, false, {1, 2, 3, 4, 5, 6, 7, 8, 9, 17});
      wide_choice = 1;
      products(rig, random, type, 288, 1280, false, {1, 8, 33, 140, 300});
      products(rig, random, type, 96, 256, false, {1, 33, 512});  // fewer units than slabs
      products(rig, random, type, 96, 6144, false, {1, 129});     // the slabs of a long row
      wide_choice = 0;
      embedding(rig, random, type);
    });
  }
  if (!quick) check_layouts(rig);
  embedding(rig, random, Type::PQ2_0);
  for (Type type : {Type::PQ2_0, Type::Q1_0, Type::IQ3_XXS, Type::Q4_K, Type::Q6_K}) together(rig, random, type);
  for (Type type : {Type::F32, Type::F16, Type::BF16}) {
    rows_of_many(rig, random, type, 48, 5120, 37);
    rows_of_many(rig, random, type, 70, 1000, 34);
  }
  for (Type type : {Type::PQ2_0, Type::Q1_0, Type::IQ2_XXS, Type::IQ1_M, Type::Q2_K, Type::Q4_0}) of_two_inputs(rig, random, type);
  check_experts(rig, quick);
}

}  // namespace fewbit::kernel::cuda::check
