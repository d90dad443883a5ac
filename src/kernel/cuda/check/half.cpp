// Large F16 and BF16 matrices: f16 tiles against the definition, every width and both kernels bit for bit, BF16 rows that f16 cannot hold.
#include <algorithm>
#include <cstring>

#include "kernel/cuda/check/matrix.h"
#include "kernel/cuda/half_layout.h"
#include "kernel/cuda/ops.h"

namespace fewbit::kernel::cuda::check {

namespace {

// With each 16 inputs the tensor core cuts the sum off towards zero, by less than 2^-23 of it: no rounding to nearest that averages out.
f64 bound_of(i64 cols) { return f64((cols + 15) / 16) * 0x1p-23; }

struct Results {
  std::vector<f32> add, plain, glu;
};

// choices: of the kernel (wide_choice).
void products(Rig& rig, Random& random, Type type, i64 rows, i64 cols, const std::vector<int>& widths, bool reference,
              const std::vector<int>& choices = {-1, 0, 1}) {
  std::vector<Buffer> owned, none;
  Matrix m = matrix(random, type, rows, cols, 1, true), g = matrix(random, type, rows, cols, 1, false);
  const Weight one = place_on(rig.ctx, {view(m)}, GroupUse::separate, owned)[0],
               other = place_on(rig.ctx, {view(g)}, GroupUse::separate, owned)[0];
  const std::vector<Weight> pair = place_on(rig.ctx, {view(m), view(g)}, GroupUse::glu, owned);
  for (const Weight* w : {&one, &other, &pair[0], &pair[1]}) {
    if (w->act == ActLayout::f16 && std::string(w->layout) == "half") continue;
    rig.report("half.layout", label(type, rows, cols, 0), false, 0);
  }
  const std::vector<f32> x = random.normals(size_t(cols) * widths[0]), before = random.normals(size_t(rows) * widths[0]);
  Results first;  // of the widest call, by the mat-vec
  for (int n : widths)
    for (int choice : choices) {
      wide_choice = choice;
      const size_t count = size_t(rows) * n;
      TwoActs a = make_act(rig, std::vector<f32>(x.begin(), x.begin() + cols * n), int(cols), n, one.act);
      Buffer y = rig.up(std::vector<f32>(before.begin(), before.begin() + i64(count))), z = rig.up(std::vector<f32>(count, NAN)),
             h = rig.up(std::vector<f32>(count, NAN));
      const Kernels::Product p[2] = {{&one, &a.gpu, y.as<f32>(), rows, true}, {&other, &a.gpu, z.as<f32>(), rows, false}};
      rig.ctx.k->matmul(rig.ctx, {p, 2});
      rig.ctx.k->glu(rig.ctx, pair[0], pair[1], a.gpu, n % 2 ? Glu::relu2 : Glu::silu, h.as<f32>());
      const Results got = {rig.down<f32>(y.data(), count), rig.down<f32>(z.data(), count), rig.down<f32>(h.data(), count)};
      if (first.add.empty()) first = got;
      const std::string name = label(type, rows, cols, n) + (choice < 0 ? " mat-vec" : choice ? " wide" : "");
      auto head = [&](const std::vector<f32>& v) { return std::vector<f32>(v.begin(), v.begin() + i64(count)); };
      rig.same_bits("half.width", name + " add", got.add, head(first.add));
      rig.same_bits("half.width", name, got.plain, head(first.plain));
      if (n % 2 == widths[0] % 2) rig.same_bits("half.width", name + " glu", got.glu, head(first.glu));
      if (!reference || choice >= 0) continue;
      const std::vector<Weight> r = place_on(rig.ref, {view(m), view(g)}, GroupUse::glu, none);
      Results want = {before, std::vector<f32>(count), std::vector<f32>(count)};
      want.add.resize(count);
      const Kernels::Product q[2] = {{&r[0], &a.ref, want.add.data(), rows, true}, {&r[1], &a.ref, want.plain.data(), rows, false}};
      rig.ref.k->matmul(rig.ref, {q, 2});
      rig.ref.k->glu(rig.ref, r[0], r[1], a.ref, n % 2 ? Glu::relu2 : Glu::silu, want.glu.data());
      rig.compare("half", name + " add", got.add, want.add, bound_of(cols));
      rig.compare("half", name, got.plain, want.plain, bound_of(cols));
      rig.compare("half", name + " glu", got.glu, want.glu, 4 * bound_of(cols));
    }
  wide_choice = 0;
}

// Rows of the table, bit for bit; `far`: a row with numbers that f16 cannot hold, so that the matrix stays rows.
void embedding(Rig& rig, Random& random, Type type, bool far) {
  std::vector<Buffer> owned, none;
  const i64 rows = 2081, cols = 1032;
  Matrix m = matrix(random, type, rows, cols, 1, false);
  auto put = [&](i64 row, i64 col, u16 bits) { std::memcpy(m.data.data() + (row * cols + col) * 2, &bits, 2); };
  if (type == Type::BF16) {  // 1 and the lowest bits that f16 holds beside it; the largest numbers that there are
    for (i64 row : {i64(7), rows - 1}) std::memset(m.data.data() + row * cols * 2, 0, size_t(cols) * 2);
    put(7, 5, 0x3f80), put(7, 6, (127 - 39) << 7), put(7, 7, 0x8000 | (127 - 32) << 7 | 127), put(7, 9, 0x8000);
    put(rows - 1, cols - 1, 0xff7f), put(rows - 1, 0, 0x7f00);
    if (far) put(7, 8, (127 - 40) << 7);
  } else if (far) {
    return;
  }
  const Weight w = place_on(rig.ctx, {view(m)}, GroupUse::table, owned)[0], r = place_on(rig.ref, {view(m)}, GroupUse::table, none)[0];
  rig.report("half.exact", type_name(type), (std::string(w.layout) == "rows") == far, 0);
  std::vector<i32> ids = {0, 7, 2080, 15, 16, 9};
  std::vector<f32> x(ids.size() * size_t(cols)), want = x;
  Buffer di = rig.up(ids), dx = rig.up(x);
  rig.ctx.k->embed(rig.ctx, w, di.as<i32>(), int(ids.size()), nullptr, dx.as<f32>());
  rig.ref.k->embed(rig.ref, r, ids.data(), int(ids.size()), nullptr, want.data());
  rig.same_bits("half.embed", std::string(type_name(type)) + (far ? " rows" : ""), rig.down<f32>(dx.data(), x.size()), want);
}

// Activations as the definition rounds them: a column of every size, zeros, one that is not finite.
void activations(Rig& rig, Random& random) {
  for (int cols : {1, 13, 300}) {
    const int n = 392;
    std::vector<f32> x = random.normals(size_t(n) * cols);
    for (int c = 0; c < cols; c++)
      for (int i = 0; i < n; i++) {
        f32& v = x[size_t(c) * n + i];
        v = c == 3 ? 0 : std::ldexp(v, (c * 7) % 60 - 30 - (i % 5 == 4 ? 12 : 0));
      }
    if (cols > 5) x[size_t(5) * n + 17] = INFINITY;
    const TwoActs got = make_act(rig, x, n, cols, ActLayout::f16);
    std::vector<f64> want(x.size());
    Act ref{ActLayout::f16, n, cols, want.data()};
    const Kernels::ActOut out{&ref, nullptr};
    rig.ref.k->norm(rig.ref, x.data(), n, n, cols, nullptr, 0, nullptr, {&out, 1});
    rig.same_bits("half.act", std::to_string(cols), std::vector<f32>(got.values.begin(), got.values.end()),
                  std::vector<f32>(want.begin(), want.end()));
  }
}

}  // namespace

void check_half(Rig& rig, bool quick) {
  Random random(14);
  half_choice = 1;
  activations(rig, random);
  for (Type type : {Type::F16, Type::BF16}) {
    if (quick) {
      products(rig, random, type, 2081, 1032, {33, 8, 1}, false, {-1});  // racecheck misunderstands the wide kernel (bench/cuda.sh)
      continue;
    }
    products(rig, random, type, 2081, 1032, {65, 33, 9, 1}, true);
    products(rig, random, type, 2070, 1280, {520, 512, 300, 256, 130, 128, 64, 32, 16, 8, 6, 4, 2}, false);
    products(rig, random, type, 270, 17408, {257, 129, 17, 7, 5, 3, 1}, false);  // blocks without a tile
    products(rig, random, type, 17408, 512, {512, 2}, false);                    // tiles that two pairs of blocks share
    for (bool far : {false, true}) embedding(rig, random, type, far);
  }
  half_choice = 0;
}

void check_half_wide(Rig& rig) {
  Random random(14);
  half_choice = 1;
  products(rig, random, Type::F16, 2081, 1032, {33}, false, {1});
  half_choice = 0;
}

}  // namespace fewbit::kernel::cuda::check
