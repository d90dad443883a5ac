#include "kernel/cpu/ops.h"

#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>

#include "base/bits.h"
#include "base/clock.h"
#include "kernel/exact/exact.h"
#include "kernel/layout/activation.h"

namespace fewbit::kernel::cpu {

f32* local(int slot, i64 n) {
  struct Free {
    void operator()(f32* p) const { ::operator delete[](p, std::align_val_t(64)); }
  };
  struct Block {
    std::unique_ptr<f32[], Free> data;
    i64 size = 0;
  };
  static thread_local Block blocks[24];
  FEWBIT_CHECK(slot >= 0 && slot < 24);
  Block& b = blocks[slot];
  if (b.size < n) {
    b.size = round_up(n + n / 4, 1024);
    b.data.reset(static_cast<f32*>(::operator new[](size_t(b.size) * sizeof(f32), std::align_val_t(64))));
  }
  return b.data.get();
}

f32* Arena::floats(i64 n) {
  u64 bytes = u64(round_up(n * 4, 256));
  if (bytes <= left_) {
    f32* p = reinterpret_cast<f32*>(at_);
    at_ += bytes;
    left_ -= bytes;
    return p;
  }
  return local(slot_++, n);
}

Record::Record(Ctx& ctx, const char* kernel, u64 bytes, const char* format, ...) : ctx_(ctx) {
  if (!ctx.launches) return;
  char shape[160];
  va_list args;
  va_start(args, format);
  std::vsnprintf(shape, sizeof shape, format, args);
  va_end(args);
  index_ = ctx.launches->size();
  ctx.launches->push_back({kernel, shape, bytes, 0});
  start_ = now_s();
}
Record::~Record() {
  if (ctx_.launches) (*ctx_.launches)[index_].time_us = (now_s() - start_) * 1e6;
}

void rotate(const Steps& s, f32* to, const f32* x, const Rotation& r, int n, bool inverse) {
  FEWBIT_CHECK(r.block > 0 && (r.block & (r.block - 1)) == 0 && n % r.block == 0, "rotation in blocks of %d over %d", r.block, n);
  if (inverse) {
    std::memcpy(to, x, size_t(n) * sizeof(f32));
    s.fwht(to, n, r.block);
    if (r.signs) s.signs(to, to, r.signs, n);
    return;
  }
  if (r.perm_k_heads == 0) {
    s.signs(to, x, r.signs, n);
  } else {
    const int width = r.perm_width, rep = r.perm_rep;
    FEWBIT_CHECK(i64(r.perm_k_heads) * rep * width == n, "head order %d x %d x %d over %d", r.perm_k_heads, rep, width, n);
    for (int head = 0; head < r.perm_k_heads * rep; head++) {
      int from = head % rep * r.perm_k_heads + head / rep;
      s.signs(to + head * width, x + from * width, r.signs ? r.signs + head * width : nullptr, width);
    }
  }
  s.fwht(to, n, r.block);
}

void norm(const Steps& s, WriteAct write, Ctx& ctx, const f32* x, i64 ldx, int n, int cols, const f32* w, f32 eps, f32* plain,
          std::span<const Kernels::ActOut> outs) {
  Record record(ctx, w ? "norm" : "act", 0, "%d x %d", n, cols);
  for (const Kernels::ActOut& o : outs)
    FEWBIT_CHECK(o.act->n == n && o.act->cols == cols, "activation %d x %d for %d x %d", o.act->n, o.act->cols, n, cols);
  parallel(ctx, cols, 1, [&](i64 begin, i64 end, int) {
    f32 *normed = local(0, n), *rotated = local(1, n);
    for (i64 c = begin; c < end; c++) {
      const f32* h = x + c * ldx;
      if (w) {
        f32 inv = f32(1.0 / std::sqrt(f64(s.sum_squares(h, n)) / n + f64(eps)));
        f32* to = plain ? plain + c * n : normed;
        s.scale(to, h, inv, w, n);
        h = to;
      } else if (plain) {
        std::memmove(plain + c * n, h, size_t(n) * sizeof(f32));
      }
      for (size_t i = 0; i < outs.size(); i++) {
        const Kernels::ActOut& o = outs[i];
        if (!o.rotation) {
          write(*o.act, int(c), h);
          continue;
        }
        if (i == 0 || outs[i - 1].rotation != o.rotation) rotate(s, rotated, h, *o.rotation, n, false);
        write(*o.act, int(c), rotated);
      }
    }
  });
}

void route(const Steps& s, Ctx& ctx, const f32* logits, int experts, int k, int cols, f32 scale, i32* ids, f32* weights) {
  Record record(ctx, "route", 0, "%d of %d x %d", k, experts, cols);
  FEWBIT_CHECK(k >= 1 && k <= experts, "%d of %d experts", k, experts);
  parallel(ctx, cols, 16, [&](i64 begin, i64 end, int) {
    f32* p = local(0, experts);
    for (i64 c = begin; c < end; c++) {
      std::memcpy(p, logits + c * experts, size_t(experts) * sizeof(f32));
      f32 total = s.softmax(p, p[s.argmax(p, experts)], experts), chosen = 0;
      for (int e = 0; e < experts; e++) p[e] = p[e] / total;
      for (int j = 0; j < k; j++) {
        int best = -1;  // chosen ones are marked -1; a NaN is taken only when nothing else is left
        for (int e = 0; e < experts; e++) {
          if (p[e] == -1) continue;
          if (best < 0 || p[e] > p[best] || (std::isnan(p[best]) && !std::isnan(p[e]))) best = e;
        }
        ids[c * k + j] = best;
        weights[c * k + j] = p[best];
        chosen += p[best];
        p[best] = -1;
      }
      f32 by = chosen > 0x1p-14f ? chosen : 0x1p-14f;
      for (int j = 0; j < k; j++) {
        f32 v = weights[c * k + j] / by;
        weights[c * k + j] = scale != 0 && scale != 1 ? v * scale : v;
      }
    }
  });
}

namespace {

void add_gated(const Steps& s, Ctx& ctx, f32* x, const f32* y, const f32* gate, int n, int cols) {
  Record record(ctx, "add_gated", 0, "%d x %d", n, cols);
  parallel(ctx, cols, 8, [&](i64 begin, i64 end, int) {
    for (i64 c = begin; c < end; c++) {
      f32 f = 1;
      if (gate) s.gate(&f, gate + c, 1);
      s.add_scaled(x + c * n, y + c * n, f, n);
    }
  });
}

void act_mul(const Steps& s, Ctx& ctx, const f32* gate, const f32* up, Glu kind, i64 count, f32* h) {
  Record record(ctx, "act_mul", 0, "%lld", static_cast<long long>(count));
  parallel(ctx, div_up(count, 4096), 1, [&](i64 begin, i64 end, int) {
    i64 a = begin * 4096, b = end * 4096 < count ? end * 4096 : count;
    s.glu(h + a, gate + a, up + a, kind == Glu::relu2, b - a);
  });
}

void gather(Ctx& ctx, const f32* from, const i32* index, int count, int n, f32* to) {
  for (int i = 0; i < count; i++) std::memcpy(to + i64(i) * n, from + i64(index[i]) * n, size_t(n) * sizeof(f32));
  (void)ctx;
}

// Large vocabularies in pieces, so that one column uses all threads.
void argmax(const Steps& s, Ctx& ctx, const f32* logits, int n, int cols, i32* ids) {
  Record record(ctx, "argmax", 0, "%d x %d", n, cols);
  constexpr int piece = 16384;
  const i64 pieces = div_up(n, piece);
  i32* best = reinterpret_cast<i32*>(local(0, pieces * cols));
  parallel(ctx, pieces * cols, 1, [&](i64 begin, i64 end, int) {
    for (i64 i = begin; i < end; i++) {
      i64 c = i / pieces, at = i % pieces * piece;
      best[i] = i32(at + s.argmax(logits + c * n + at, n - at < piece ? n - at : piece));
    }
  });
  for (int c = 0; c < cols; c++) {
    const f32* x = logits + i64(c) * n;
    i32 top = best[c * pieces];
    for (i64 p = 1; p < pieces; p++) {
      i32 b = best[c * pieces + p];
      if (x[b] > x[top] || (std::isnan(x[top]) && !std::isnan(x[b]))) top = b;
    }
    ids[c] = top;
  }
}

void write_fast(const Act& act, int col, const f32* x) {
  static const QuantizeFn q8_32 = quantize_q8_32();
  u8* record = static_cast<u8*>(act.data) + u64(col) * act_record_bytes(act.n);
  switch (act.layout) {
    case ActLayout::f32:
      std::memcpy(static_cast<f32*>(act.data) + i64(col) * act.n, x, size_t(act.n) * sizeof(f32));
      return;
    case ActLayout::q8_32:
      return q8_32(x, act.n, record);
    case ActLayout::token8:
      return quantize_token8(x, act.n, record);
    case ActLayout::q8_128:
    case ActLayout::q8_256:
    case ActLayout::q8_per128:
    case ActLayout::f16:
      FEWBIT_CHECK(false, "activation layout %d", int(act.layout));
      return;
  }
}

template <const Steps& S(), WriteAct Write>
void fill(Kernels& t) {
  t.norm = [](Ctx& c, const f32* x, i64 ldx, int n, int cols, const f32* w, f32 eps, f32* plain, std::span<const Kernels::ActOut> outs) {
    norm(S(), Write, c, x, ldx, n, cols, w, eps, plain, outs);
  };
  t.act_mul = [](Ctx& c, const f32* gate, const f32* up, Glu kind, i64 count, f32* h) { act_mul(S(), c, gate, up, kind, count, h); };
  t.attention = [](Ctx& c, const Batch& b, const AttentionArgs& a) { attention(S(), c, b, a); };
  t.delta_net = [](Ctx& c, const Batch& b, const DeltaNetArgs& a) { delta_net(S(), c, b, a); };
  t.route = [](Ctx& c, const f32* logits, int experts, int k, int cols, f32 scale, i32* ids, f32* weights) {
    route(S(), c, logits, experts, k, cols, scale, ids, weights);
  };
  t.add_gated = [](Ctx& c, f32* x, const f32* y, const f32* gate, int n, int cols) { add_gated(S(), c, x, y, gate, n, cols); };
  t.gather = gather;
  t.argmax = [](Ctx& c, const f32* logits, int n, int cols, i32* ids) { argmax(S(), c, logits, n, cols, ids); };
}
template <const Steps& S()>
void fill(Kernels& t, Path path) {
  if (path == Path::exact) {
    fill<S, exact::write_act>(t);
  } else {
    fill<S, write_fast>(t);
  }
}
const Steps& scalar_set() { return steps_scalar; }
#if defined(__x86_64__)
const Steps& avx2_set() { return steps_avx2; }
const Steps& avx512_set() { return steps_avx512; }
#endif

}  // namespace

void fill_steps(Kernels& table, Isa isa, Path path) {
#if defined(__x86_64__)
  if (&steps(isa) == &steps_avx512) return fill<avx512_set>(table, path);
  if (&steps(isa) == &steps_avx2) return fill<avx2_set>(table, path);
#endif
  (void)isa;
  fill<scalar_set>(table, path);
}

}  // namespace fewbit::kernel::cpu
