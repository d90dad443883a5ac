#include "format/encode.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "format/decode.h"
#include "format/format.h"

namespace fewbit {
namespace {

template <class F>
void encode_as([[maybe_unused]] const f32* x, [[maybe_unused]] const f32* q, [[maybe_unused]] i64 n, [[maybe_unused]] u8* out) {
  if constexpr (has_encoder<F>() && !HasTail<F>) encode(F{}, x, q, n, out);
}

// Largest bit pattern of the magnitudes: ordered as the values are, and no float operation that a compiler could not reorder.
u32 largest_bits(std::span<const f32> x) {
  u32 m = 0;
  for (f32 v : x) m = std::max(m, std::bit_cast<u32>(v) & 0x7fffffff);
  return m;
}

// Blocks with an f16 scale cannot come near this (65504 * 32 * 127 is 2.7e8), and no sum of the searches overflows below it.
constexpr f32 too_large = 0x1p30f;

Status check_input(const FormatInfo& f, std::span<const f32> x, std::span<const f32> importance) {
  if (!f.has_encoder) return Error{Code::unsupported, fmt::format("{}: this type cannot be written", f.name)};
  const bool f32_range = f.block == 1 || f.type == Type::MXFP4 || f.type == Type::Q8_K || f.type == Type::NVFP4 || f.type == Type::I2_S;
  if (largest_bits(x) >= std::bit_cast<u32>(f32_range ? INFINITY : too_large))
    for (size_t i = 0; i < x.size(); i++)
      if (!std::isfinite(x[i]) || (!f32_range && std::abs(x[i]) >= too_large))
        return Error{Code::invalid_argument,
                     fmt::format("{}: element {} is {}{}", f.name, i, x[i], std::isfinite(x[i]) ? ", too large for the type" : "")};
  if (importance.empty()) {
    if (f.needs_importance) return Error{Code::invalid_argument, fmt::format("{}: needs an importance matrix", f.name)};
  } else {
    for (size_t i = 0; i < importance.size(); i++)
      if (!std::isfinite(importance[i]) || importance[i] < 0)
        return Error{Code::invalid_argument, fmt::format("{}: importance {} is {}", f.name, i, importance[i])};
  }
  return {};
}

}  // namespace

Status encode_row(Type type, std::span<const f32> x, std::span<const f32> importance, std::span<u8> blocks) {
  const FormatInfo& f = format_info(type);
  FEWBIT_CHECK(type != Type::I2_S, "I2_S has no rows of its own");
  FEWBIT_CHECK(x.size() % size_t(f.block) == 0 && blocks.size() == row_bytes(type, i64(x.size())), "%s: %zu bytes for %zu elements", f.name,
               blocks.size(), x.size());
  FEWBIT_CHECK(importance.empty() || importance.size() == x.size(), "%zu weights for %zu elements", importance.size(), x.size());
  FEWBIT_OK(check_input(f, x, importance));
  const f32* q = importance.empty() ? nullptr : importance.data();
  switch (type) {
#define FEWBIT_X(F, id)                                      \
  case Type::F:                                              \
    encode_as<F>(x.data(), q, i64(x.size()), blocks.data()); \
    break;
    FEWBIT_FORMATS(FEWBIT_X)
#undef FEWBIT_X
  }
  if (auto s = check_blocks(type, blocks); !s.ok())
    return Error{Code::invalid_argument, fmt::format("{}: the values are too large for the type", s.error().what)};
  return {};
}

Status encode_tensor(Type type, std::span<const f32> x, i64 n0, std::span<const f32> importance, std::span<u8> bytes) {
  const FormatInfo& f = format_info(type);
  FEWBIT_CHECK(n0 > 0 && i64(x.size()) % n0 == 0 && n0 % f.block == 0, "%s: %zu elements in rows of %lld", f.name, x.size(), (long long)n0);
  const i64 rows = i64(x.size()) / n0;
  FEWBIT_CHECK(bytes.size() == *tensor_bytes(type, u64(n0), u64(rows)), "%s: %zu bytes for %zu elements", f.name, bytes.size(), x.size());
  if (type == Type::I2_S) {
    FEWBIT_OK(check_input(f, x, {}));
    encode_i2_s(x.data(), i64(x.size()), bytes.data());
    return {};
  }
  const u64 row = row_bytes(type, n0);
  for (i64 r = 0; r < rows; r++)
    if (auto s = encode_row(type, x.subspan(u64(r * n0), u64(n0)), importance, bytes.subspan(u64(r) * row, row)); !s.ok())
      return Error{s.error().code, fmt::format("row {}: {}", r, s.error().what)};
  return {};
}

}  // namespace fewbit
