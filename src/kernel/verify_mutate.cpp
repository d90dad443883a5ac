#include "kernel/verify_mutate.h"

#include <cmath>
#include <cstring>
#include <utility>

#include "kernel/layout/integer_form.h"

namespace fewbit::kernel {

const char* fault_name(Fault f) {
  static constexpr const char* names[] = {"none",           "swapped fields",  "wrong sign bit", "dropped correction", "off-by-one scale",
                                          "wrong grid row", "swapped nibbles", "stale column",   "skipped tail",       "skipped row"};
  return names[int(f)];
}

namespace {

using cpu::IntegerBlock;

template <class F>
constexpr int codes_offset() {
  if constexpr (requires { F::codes_at; })
    return F::codes_at;
  else
    return 0;
}
template <class F>
constexpr bool two_bit = requires {
  F::planes;
}
&&[] {
  if constexpr (requires { F::planes; })
    return F::planes == 4;
  else
    return false;
}();
template <class F>
constexpr bool is_base3 = std::is_same_v<F, TQ1_0> || std::is_same_v<F, PTQ1_0>;

u8 reversed_fields(u8 b) { return u8(b >> 6 | (b >> 2 & 0x0c) | (b << 2 & 0x30) | b << 6); }
u8 swapped_nibbles(u8 b) { return u8(b >> 4 | b << 4); }
u8 reversed_bits(u8 b) {
  u8 r = 0;
  for (int i = 0; i < 8; i++) r = u8(r | (b >> i & 1) << (7 - i));
  return r;
}

// Applies `change` to one byte of [at, at + n) that it really changes.
template <class Fn>
bool change_one(u8* at, int n, Fn&& change) {
  for (int i = 0; i < n; i++) {
    const u8 old = at[i];
    at[i] = change(old);
    if (at[i] != old) return true;
  }
  return false;
}

// Applies `change` to all of [at, at + n): whether any was changed.
template <class Fn>
bool change_all(u8* at, int n, Fn&& change) {
  bool any = false;
  for (int i = 0; i < n; i++) {
    const u8 old = at[i];
    at[i] = change(old);
    any = any || at[i] != old;
  }
  return any;
}

// How much the weights of a block change.
template <class F>
f64 change(const u8* a, const u8* b) {
  if constexpr (HasValue<F>) {
    return std::fabs(f64(F::value(a)) - f64(F::value(b)));
  } else {
    const IntegerBlock<F> x(a), y(b);
    f64 sum = 0;
    for (int e = 0; e < F::block; e++) sum += std::fabs(f64(x.value(e)) - f64(y.value(e)));
    return sum;
  }
}

template <class F>
bool change_block(Fault fault, u8* b, const u8* next) {
  u8* codes = b + codes_offset<F>();
  switch (fault) {
    case Fault::swapped_fields:
      if constexpr (HasValue<F>)
        return false;  // done on pairs of elements
      else if constexpr (std::is_same_v<F, Q1_0>)
        return change_one(codes, 16, reversed_bits);
      else if constexpr (two_bit<F>)
        return change_all(codes, 8, reversed_fields);  // in one byte, inputs that round to the same number could hide it
      else {
        for (int i = 0; i < 8; i++)
          if (codes[2 * i] != codes[2 * i + 1]) return std::swap(codes[2 * i], codes[2 * i + 1]), true;
        return false;
      }
    case Fault::wrong_sign:
      if constexpr (HasValue<F>)
        b[F::bytes - 1] ^= 0x80;
      else if constexpr (std::is_same_v<F, Q1_0>)
        codes[3] ^= 0x10;
      else if constexpr (requires { F::signs_at; })
        b[F::signs_at] ^= 1;
      else if constexpr (std::is_same_v<F, IQ2_XXS>)
        codes[4] ^= 1;
      else if constexpr (std::is_same_v<F, IQ2_XS>)
        codes[1] ^= 2;
      else if constexpr (std::is_same_v<F, IQ1_S>)
        b[F::high_at + 1] ^= 0x80;
      else if constexpr (std::is_same_v<F, IQ1_M>)
        b[F::high_at] ^= 8;
      else if constexpr (std::is_same_v<F, MXFP4> || std::is_same_v<F, NVFP4>)
        return change_one(codes, 16, [](u8 c) { return u8(c % 8 ? c ^ 8 : c); });
      else if constexpr (std::is_same_v<F, I2_S>)
        return change_one(codes, 16, [](u8 c) { return u8((c & 3) == 1 ? c : c ^ 2); });
      else if constexpr (requires { F::scale_at; })
        b[F::scale_at + 1] ^= 0x80;
      else
        return false;
      return true;
    case Fault::scale_off_by_one:
      if constexpr (std::is_same_v<F, IQ1_M>)
        return std::swap(b[F::scales_at], b[F::scales_at + 2]), true;
      else if constexpr (std::is_same_v<F, NVFP4>)
        return std::swap(b[F::scales_at], b[F::scales_at + 1]), true;
      else if constexpr (std::is_same_v<F, MXFP4>)
        return std::memcpy(b, next, 1), true;
      else if constexpr (requires { F::scale_at; })
        return std::memcpy(b + F::scale_at, next + F::scale_at, 2), true;
      else
        return false;
    case Fault::wrong_grid_row:
      if constexpr (HasValue<F>)
        return b[F::bytes - 2] ^= 0x40, true;
      else if constexpr (is_base3<F>)
        return change_one(codes, 8, [](u8 c) { return u8(c >= 128 ? c - 100 : c + 100); });
      else
        return codes[0] ^= 1, true;
    case Fault::swapped_nibbles:
      if constexpr (HasValue<F>)
        return false;
      else
        return change_one(codes, 16, swapped_nibbles);
    default:
      return false;
  }
}

template <class F>
bool mutate(Fault fault, std::span<u8> bytes, i64 n, i64 rows) {
  if constexpr (HasValue<F>) {
    if (fault == Fault::swapped_fields && n > 1) {
      for (int i = 0; i < F::bytes; i++) std::swap(bytes[size_t(i)], bytes[size_t(F::bytes + i)]);
      return change<F>(bytes.data(), bytes.data() + F::bytes) > 0;
    }
  }
  // The block of the first row that the fault changes most.
  const i64 blocks = n / F::block, all = blocks * rows;
  i64 best = -1;
  f64 most = 0;
  auto spoil = [&](i64 i) { return change_block<F>(fault, bytes.data() + i * F::bytes, bytes.data() + (i + 1) % all * F::bytes); };
  for (i64 i = 0; i < blocks; i++) {
    u8* b = bytes.data() + i * F::bytes;
    u8 old[F::bytes];
    std::memcpy(old, b, F::bytes);
    const f64 by = spoil(i) ? change<F>(old, b) : 0;
    std::memcpy(b, old, F::bytes);
    if (by > most) most = by, best = i;
  }
  return best >= 0 && spoil(best);
}

template <class F>
bool dropped(std::span<const u8> tensor, i64 row, i64 n, std::span<f64> extra) {
  if constexpr (HasValue<F>) {
    return false;
  } else {
    constexpr f64 zero = [] {
      if constexpr (requires { F::zero; })
        return f64(F::zero);
      else
        return std::is_same_v<F, Q1_0> ? 1.0 : 0.0;
    }();
    if (zero == 0 && !cpu::has_min<F>) return false;
    const f64 scale = std::is_same_v<F, I2_S> ? f64(f32_at(tensor.data() + tensor.size() - 32)) : 1.0;
    const u8* b = tensor.data() + u64(row) * u64(n / F::block) * F::bytes;
    for (i64 i = 0; i < n / F::block; i++, b += F::bytes) {
      const IntegerBlock<F> w(b);
      for (int e = 0; e < F::block; e++) {
        const int g = e / (F::block / IntegerBlock<F>::groups);
        extra[size_t(i * F::block + e)] = scale * f64(w.d) * f64(w.sub[g]) * zero + f64(w.dmin) * f64(w.min[g]);
      }
    }
    return true;
  }
}

}  // namespace

bool mutate_blocks(Fault fault, Type type, std::span<u8> bytes, i64 n, i64 rows) {
  switch (type) {
#define FEWBIT_X(F, id) \
  case Type::F:         \
    return mutate<F>(fault, bytes, n, rows);
    FEWBIT_WEIGHT_FORMATS(FEWBIT_X)
#undef FEWBIT_X
    default:
      return false;
  }
}

bool dropped_correction(Type type, std::span<const u8> tensor, i64 row, i64 n, std::span<f64> extra) {
  switch (type) {
#define FEWBIT_X(F, id) \
  case Type::F:         \
    return dropped<F>(tensor, row, n, extra);
    FEWBIT_WEIGHT_FORMATS(FEWBIT_X)
#undef FEWBIT_X
    default:
      return false;
  }
}

}  // namespace fewbit::kernel
