// Unaligned little-endian loads and stores, and small integer helpers.
#pragma once
#include <cstring>
#include <limits>
#include <optional>

#include "base/types.h"

namespace fewbit {

template <class T>
inline T load_le(const void* p) {
  T v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
template <class T>
inline void store_le(void* p, T v) {
  std::memcpy(p, &v, sizeof v);
}

inline constexpr i64 div_up(i64 a, i64 b) { return (a + b - 1) / b; }
inline constexpr i64 round_up(i64 a, i64 b) { return div_up(a, b) * b; }

// a * b, a + b, or nothing if it does not fit.
inline std::optional<u64> checked_mul(u64 a, u64 b) {
  u64 r;
  return __builtin_mul_overflow(a, b, &r) ? std::nullopt : std::optional<u64>(r);
}
inline std::optional<u64> checked_add(u64 a, u64 b) {
  u64 r;
  return __builtin_add_overflow(a, b, &r) ? std::nullopt : std::optional<u64>(r);
}

}  // namespace fewbit
