// y[r][c] = sum over K of w[r] x[c] for tiles of 16 rows in layout R16 (layout/r16.h): 1..8 columns straight from the packed codes,
// and wider panels from codes that were spread to bytes once per tile.
//
// Float order: layout/integer_form.h, one accumulator per row and column.  The integer sums start at -zero * (sum of q), so raw codes
// are multiplied and the zero point costs nothing.  Included inside a namespace per set, after simd.h.

template <int n, class Fn>
static inline __attribute__((always_inline)) void unroll(Fn&& fn) {
  [&]<int... i>(std::integer_sequence<int, i...>) __attribute__((always_inline)) { (fn(std::integral_constant<int, i>{}), ...); }
  (std::make_integer_sequence<int, n>{});
}

#undef FEWBIT_INLINE
#define FEWBIT_INLINE inline __attribute__((always_inline))
#undef FEWBIT_UNROLL
#if defined(__clang__)
#define FEWBIT_UNROLL _Pragma("clang loop unroll(full)")
#else
#define FEWBIT_UNROLL _Pragma("GCC unroll 16")
#endif

#include "kernel/cpu/r16_codes.inl"
#include "kernel/cpu/r16_tiles.inl"

#include "kernel/cpu/r16_file.inl"

// ---- the product ---------------------------------------------------------------------------------------------------------------

static constexpr bool few_registers = lanes < 16;

// The integer sums of C columns with R row vectors over `steps` quads.
template <class S, int steps, int C, int R>
struct Sums {
  Sum<S::largest, steps, S::eighths, S::run> sum[C][R];
  FEWBIT_INLINE void begin(const i32* start) {
    FEWBIT_UNROLL
    for (int c = 0; c < C; c++) FEWBIT_UNROLL
    for (int r = 0; r < R; r++) sum[c][r].begin(start + c);
  }
  FEWBIT_INLINE void pairs(int r, I bits, const i32* of) {
    FEWBIT_UNROLL
    for (int c = 0; c < C; c++) sum[c][r].pairs(bits, of + c);
  }
  template <int v>
  FEWBIT_INLINE void step(const I* codes, const i8* quads, const i32* start, const I* factor) {
    FEWBIT_UNROLL
    for (int c = 0; c < C; c++) FEWBIT_UNROLL
    for (int r = 0; r < R; r++) {
      if constexpr (S::run != 0)
        sum[c][r].template step<v>(codes[r], quads + 4 * c, start + v / S::run * C + c, factor[r]);
      else
        sum[c][r].template step<v>(codes[r], quads + 4 * c, nullptr, factor[r]);
    }
  }
  FEWBIT_INLINE I end(int c, int r, const i32* start) const { return sum[c][r].end(start ? start + c : nullptr); }
};
#if FEWBIT_SET == FEWBIT_NEON_I8MM
// By matrix products: two rows x two columns x two quads in one instruction.
template <class S, int steps, int C, int R>
requires(C % 2 == 0 && steps % 2 == 0) struct Sums<S, steps, C, R> {
  I sum[C / 2][R][2];  // rows 2 i and 2 i + 1 of a vector: {row 0 column 0, row 0 column 1, row 1 column 0, row 1 column 1}
  I last[R];           // codes of the quad before
  FEWBIT_INLINE void begin(const i32* start) {
    for (int c = 0; c < C; c += 2) {
      const int32x2_t two = vld1_s32(start + c);
      for (int r = 0; r < R; r++) sum[c / 2][r][0] = sum[c / 2][r][1] = vcombine_s32(two, two);
    }
  }
  FEWBIT_INLINE void pairs(int r, I bits, const i32* of) {
    for (int c = 0; c < C; c += 2) {
      I p[2];
      for (int i = 0; i < 2; i++) p[i] = vpaddlq_s16(vmulq_s16(vreinterpretq_s16_s32(bits), vreinterpretq_s16_s32(operand(of + c + i))));
      sum[c / 2][r][0] = vaddq_s32(sum[c / 2][r][0], vzip1q_s32(p[0], p[1]));
      sum[c / 2][r][1] = vaddq_s32(sum[c / 2][r][1], vzip2q_s32(p[0], p[1]));
    }
  }
  template <int v>
  FEWBIT_INLINE void step(const I* codes, const i8* quads, const i32*, const I*) {
    if constexpr (v % 2 == 0) {
      for (int r = 0; r < R; r++) last[r] = codes[r];
    } else {
      for (int c = 0; c < C; c += 2) {
        const int32x2_t x = vreinterpret_s32_s8(vld1_s8(quads + 4 * c - 4 * C)), y = vreinterpret_s32_s8(vld1_s8(quads + 4 * c));
        const int8x16_t q = vreinterpretq_s8_s32(vcombine_s32(vzip1_s32(x, y), vzip2_s32(x, y)));
        for (int r = 0; r < R; r++) {
          sum[c / 2][r][0] = vmmlaq_s32(sum[c / 2][r][0], vreinterpretq_s8_s32(vzip1q_s32(last[r], codes[r])), q);
          sum[c / 2][r][1] = vmmlaq_s32(sum[c / 2][r][1], vreinterpretq_s8_s32(vzip2q_s32(last[r], codes[r])), q);
        }
      }
    }
  }
  FEWBIT_INLINE I end(int c, int r, const i32*) const {
    const I *s = sum[c / 2][r], a = s[0], b = s[1];
    return c % 2 ? vuzp2q_s32(a, b) : vuzp1q_s32(a, b);
  }
};
#endif

// Tiles follow each other in memory, and what is this far ahead is asked for: the processor's own prefetching stops at every page.
static constexpr int ahead = 8192;

// C columns, R row vectors at once.
template <class S, int C, int R>
static void walk(const u8* tile, int, i64 n, const Panel& p, f32* out) {
  static_assert(16 % (R * lanes) == 0);
  constexpr bool inside = S::span <= S::unit;  // spans end inside units
  constexpr int halves = S::halves ? 2 : 1;
  constexpr int parts = S::mixed ? 1 : halves;  // sums per group
  constexpr int starts = S::run ? (8 + S::run - 1) / S::run : parts;
  constexpr int at_once = C == 1 && parts == 1 ? S::together() : 1;  // groups
  constexpr bool streamed = !S::in_cache;
  const S s(tile, n);
  if (streamed)
    for (i64 i = 0; i < s.codes_at; i += 64) prefetch(tile + ahead + i);
  for (int r0 = 0; r0 < 16; r0 += R * lanes) {
    F acc[C][R];
    FEWBIT_UNROLL
    for (int c = 0; c < C; c++) FEWBIT_UNROLL
    for (int r = 0; r < R; r++) acc[c][r] = zero();
    const i8* q = p.q;
    const f32* a = p.a;
    const i32* start = p.start;
    const f32* as = p.as;
    const i32* pairs = p.pairs;
    const u8* unit = tile + s.codes_at + 4 * r0;
    i64 group = 0;
    for (i64 b = 0; b < s.blocks; b++) {
      F t[C][R], m[C][R];
      if constexpr (!inside) {
        FEWBIT_UNROLL
        for (int c = 0; c < C; c++) FEWBIT_UNROLL
        for (int r = 0; r < R; r++) t[c][r] = m[c][r] = zero();
      }
      auto finish = [&](i64 span) __attribute__((always_inline)) {
        FEWBIT_UNROLL
        for (int r = 0; r < R; r++) {
          const F d = s.d(span, r0 + r * lanes);
          FEWBIT_UNROLL
          for (int c = 0; c < C; c++) acc[c][r] = fma(d, t[c][r], acc[c][r]);
          if constexpr (S::mins) {
            const F dmin = s.minus_dmin(span, r0 + r * lanes);
            FEWBIT_UNROLL
            for (int c = 0; c < C; c++) acc[c][r] = fma(dmin, m[c][r], acc[c][r]);
          }
        }
      };
      for (int u = 0; u < S::block / S::unit; u++) {
        if (streamed && r0 == 0) {
          // Written out twice: GCC 12 takes a function that only prefetches for one without effect, and leaves it out.
          FEWBIT_UNROLL
          for (int i = 0; i < S::unit_bytes; i += 64) prefetch(unit + ahead + i);
        }
        unroll<S::groups / at_once>([&](auto turn) __attribute__((always_inline)) {
          // Without it the compiler keeps a unit's codes from one group to the next, and spills sums to do so.
          if constexpr (few_registers) asm volatile("" ::: "memory");
          constexpr int steps = 8 / parts;
          F x[at_once][C][R];
          unroll<parts>([&](auto h) __attribute__((always_inline)) {
            Sums<S, steps, C, R> sums[at_once];
            I factor[at_once][R];
            unroll<at_once>([&](auto w) __attribute__((always_inline)) {
              sums[w].begin(start + (w * starts + h) * C);
              if constexpr (S::eighths) {
                FEWBIT_UNROLL
                for (int r = 0; r < R; r++) sums[w].pairs(r, s.minus_bits(group * 2 + h, r0 + r * lanes), pairs + h * C);
              }
              FEWBIT_UNROLL
              for (int r = 0; r < R; r++) {
                if constexpr (S::pair_subs)
                  factor[w][r] = s.template sub_pair<turn * at_once + w>(group + w, r0 + r * lanes);
                else
                  factor[w][r] = all_ones16();
              }
            });
            unroll<steps>([&](auto v) __attribute__((always_inline)) {
              unroll<at_once>([&](auto w) __attribute__((always_inline)) {
                I codes[R];
                FEWBIT_UNROLL
                for (int r = 0; r < R; r++) codes[r] = S::template code<turn * at_once + w, h * steps + v>(unit + 4 * r * lanes);
                sums[w].template step<v>(codes, q + (w * 8 + h * steps + v) * C * 4, start + w * starts * C, factor[w]);
              });
            });
            unroll<at_once>([&](auto w) __attribute__((always_inline)) {
              constexpr int f = turn * at_once + w;
              FEWBIT_UNROLL
              for (int r = 0; r < R; r++) {
                F sub;
                if constexpr (S::has_sub && !S::pair_subs)
                  sub = s.template sub<(f * parts + h) % 2>((group + w) * parts + h, r0 + r * lanes);
                FEWBIT_UNROLL
                for (int c = 0; c < C; c++) {
                  const I sum = sums[w].end(c, r, S::zero_point && !S::run ? start + (w * starts + h) * C : nullptr);
                  if constexpr (!S::has_sub || S::pair_subs) {
                    x[w][c][r] = to_f(sum);
                  } else {
                    x[w][c][r] = h == 0 ? mul(sub, to_f(sum)) : fma(sub, to_f(sum), x[w][c][r]);
                  }
                }
                if constexpr (S::shifted) {
                  const F of_sum = s.template sum_factor<f % 2>(group + w, r0 + r * lanes);
                  FEWBIT_UNROLL
                  for (int c = 0; c < C; c++) x[w][c][r] = fma(of_sum, all(as[w * halves * C + c]), x[w][c][r]);
                }
              }
            });
          });
          unroll<at_once>([&](auto w) __attribute__((always_inline)) {
            constexpr int f = turn * at_once + w;
            constexpr bool first = inside && f * 32 % S::span == 0;
            if constexpr (S::mins) {
              unroll<halves>([&](auto h) __attribute__((always_inline)) {
                FEWBIT_UNROLL
                for (int r = 0; r < R; r++) {
                  const F min = s.template min_of<f, h>(group, r0 + r * lanes);
                  FEWBIT_UNROLL
                  for (int c = 0; c < C; c++) {
                    const F total = all(as[h * C + c]);
                    m[c][r] = first && h == 0 ? (S::has_sub ? mul(min, total) : total) : fma(min, total, m[c][r]);
                  }
                }
              });
            }
            FEWBIT_UNROLL
            for (int c = 0; c < C; c++) {
              const F scale = all(a[c]);
              FEWBIT_UNROLL
              for (int r = 0; r < R; r++) t[c][r] = first ? mul(scale, x[w][c][r]) : fma(scale, x[w][c][r], t[c][r]);
            }
            a += C;
            as += halves * C;
            group++;
            if constexpr (inside && (f + 1) * 32 % S::span == 0) finish(b * (S::block / S::span) + f * 32 / S::span);
          });
          q += 32 * C * at_once;
          start += starts * C * at_once;
          if constexpr (S::eighths) pairs += parts * C;
        });
        unit += S::unit_bytes;
      }
      if constexpr (!inside) finish(b);
    }
    FEWBIT_UNROLL
    for (int c = 0; c < C; c++) FEWBIT_UNROLL
    for (int r = 0; r < R; r++) store_f(out + c * 16 + r0 + r * lanes, acc[c][r]);
  }
}

// ---- tables --------------------------------------------------------------------------------------------------------------------

template <class S>
static constexpr PanelSpec panel_spec(int zero) {
  PanelSpec p;
  p.quads = true;
  p.groups = S::groups;
  for (int f = 0; f < S::groups; f++) p.shift[f] = i8(S::shift(f));
  p.zero = zero;
  p.halves = S::halves;
  p.mixed = S::mixed;
  p.run = S::run;
  p.sums = S::mins ? PanelSums::scaled : S::shifted ? PanelSums::plain : PanelSums::none;
  p.pairs = S::eighths;
  return p;
}

// Row vectors at once: one column leaves registers for both halves of a tile.
static constexpr int vectors_at_once(int cols) {
  return lanes == 4 ? (cols <= 2 ? 4 : cols <= 4 ? 2 : 1) : cols == 1 && lanes == 8 ? 2 : 1;
}
static constexpr bool by_two = lanes == 8 && !wide_lanes;         // wide panels of two row vectors: a broadcast quad serves twice
static constexpr int widest = lanes == 16 ? 12 : by_two ? 3 : 6;  // columns of a wide panel: what the registers hold

// Formats that are only companions of the low-bit ones have fewer widths; missing ones are rounded up.
template <class T>
static constexpr bool every_width = !(std::is_same_v<T, Q4_1> || std::is_same_v<T, Q5_0> || std::is_same_v<T, Q5_1> ||
                                      std::is_same_v<T, Q5_K> || std::is_same_v<T, IQ4_NL> || std::is_same_v<T, MXFP4>);

// The wide kernels of format T, from the file's rows.  The narrowest serve weights that stay as they lie in the file; packed ones are
// spread for more columns only.
template <class T>
static constexpr WeightKernels wide_entry() {
  WeightKernels k{};
  k.spread = spread_file<T>;
  k.spread_bytes = spread_bytes<T>;
  k.max_wide = widest;
  k.wide_spec = panel_spec<SpreadOf<T>>(wide_zero<T>);
  using S = SpreadOf<T>;
  if constexpr (lanes == 16) {
    k.wide[1] = walk<S, 1, 1>;
    k.wide[2] = walk<S, 2, 1>;
    k.wide[4] = walk<S, 4, 1>;
    k.wide[6] = walk<S, 6, 1>;
    k.wide[8] = walk<S, 8, 1>;
    k.wide[10] = walk<S, 10, 1>;
    k.wide[12] = walk<S, 12, 1>;
  } else if constexpr (by_two) {
    k.wide[1] = walk<S, 1, 2>;
    k.wide[2] = walk<S, 2, 2>;
    k.wide[3] = walk<S, 3, 2>;
  } else {
    constexpr int at_once = lanes == 4 ? 2 : 1;
#if FEWBIT_SET != FEWBIT_NEON_I8MM
    k.wide[1] = walk<S, 1, 2>;
    k.wide[5] = walk<S, 5, at_once>;
#endif
    k.wide[2] = walk<S, 2, 2>;
    k.wide[4] = walk<S, 4, at_once>;
    k.wide[6] = walk<S, 6, at_once>;
  }
  return k;
}

template <class T>
static constexpr WeightKernels packed_entry(Type type, std::array<const char*, 2> layout, std::array<const char*, 2> name) {
  WeightKernels k = wide_entry<T>();
  k.type = type;
  k.layout = layout[mixes<T>];
  k.name = name[mixes<T>];
  k.tile_bytes = [](i64 n) { return R16<T>(n).bytes; };
  if constexpr (packs_planes<T>)
    k.pack = pack_planes<T>;
  else
    k.pack = pack_tile<T, mixes<T>>;
  k.unpack = unpack_row<T, mixes<T>>;
  k.max_narrow = 8;
  k.narrow_spec = panel_spec<Packed<T>>(Packed<T>::zero_point);
  k.narrow[2] = walk<Packed<T>, 2, vectors_at_once(2)>;
  k.narrow[4] = walk<Packed<T>, 4, vectors_at_once(4)>;
  if constexpr (every_width<T>) k.narrow[6] = walk<Packed<T>, 6, vectors_at_once(6)>;
  k.narrow[8] = walk<Packed<T>, 8, vectors_at_once(8)>;
#if FEWBIT_SET != FEWBIT_NEON_I8MM  // which multiplies pairs of columns and has odd widths from FEWBIT_NEON_DOTPROD
  k.narrow[1] = walk<Packed<T>, 1, vectors_at_once(1)>;
  if constexpr (every_width<T>) {
    k.narrow[3] = walk<Packed<T>, 3, vectors_at_once(3)>;
    k.narrow[5] = walk<Packed<T>, 5, vectors_at_once(5)>;
    k.narrow[7] = walk<Packed<T>, 7, vectors_at_once(7)>;
  }
#endif
  k.spread = spread_packed<Packed<T>, SpreadOf<T>>;
  return k;
}

#define FEWBIT_X(F, codes)                                     \
  packed_entry<F>(Type::F, {codes ".r16", codes ".mixed.r16"}, \
                  {"gemv." #F "/" FEWBIT_SET_NAME "." codes ".r16", "gemv." #F "/" FEWBIT_SET_NAME "." codes ".mixed.r16"}),
static constexpr WeightKernels packed_list[] = {FEWBIT_R16_FORMATS(FEWBIT_X)};
#undef FEWBIT_X

#ifndef FEWBIT_WIDE_FORMATS
#define FEWBIT_WIDE_FORMATS FEWBIT_WEIGHT_FORMATS
#endif
template <class F>
static constexpr WeightKernels wide_or_none(const char* name) {
  if constexpr (HasValue<F>) {
    return {};
  } else {
    WeightKernels k = wide_entry<F>();
    k.name = name;
    k.first_wide = 1;
    return k;
  }
}
static constexpr WeightKernels wide_of(Type type) {
  switch (type) {
#define FEWBIT_X(F, id) \
  case Type::F:         \
    return wide_or_none<F>("gemv." #F "/" FEWBIT_SET_NAME ".file");
    FEWBIT_WIDE_FORMATS(FEWBIT_X)
#undef FEWBIT_X
    default:
      break;
  }
  return {};
}

// tried: sums that start at the bits of 1.5 * 2^23, so that one fused product by sub replaces conversion and product (AVX-512 VNNI, 12
//        columns): IQ2_XS 0.90 x, Q4_K 0.98 x
// tried: wide panels of 4 columns x 2 row vectors instead of 3 x 2 (AVX2): Q4_K 0.99 x; of 6 x 1: 0.91 x
// tried: asking for a unit's lines group by group instead of all at its start (AVX2, IQ2_XS, 1 column): 1.05 x in cache, 0.95 x from memory
