// Checking mode (formats.md section 1): what a block may hold but must not.
#include <fmt/format.h>

#include "format/decode.h"
#include "format/format.h"

namespace fewbit {
namespace {

bool finite_f16(u32 h) { return (h & 0x7c00) != 0x7c00; }
bool finite_f32(u32 w) { return (w & 0x7f800000) != 0x7f800000; }

// What is wrong with a block, or nullptr.
template <class F>
const char* fault(BytePtr b) {
  if constexpr (requires { F::scale_at; })
    if (!finite_f16(u16_at(b + F::scale_at))) return "scale d is not finite";
  if constexpr (requires { F::min_at; })
    if (!finite_f16(u16_at(b + F::min_at))) return "scale m is not finite";
  return nullptr;
}
template <>
const char* fault<F32>(BytePtr b) {
  return finite_f32(u32_at(b)) ? nullptr : "value is not finite";
}
template <>
const char* fault<F16>(BytePtr b) {
  return finite_f16(u16_at(b)) ? nullptr : "value is not finite";
}
template <>
const char* fault<BF16>(BytePtr b) {
  return finite_f32(u16_at(b) << 16) ? nullptr : "value is not finite";
}
template <>
const char* fault<F64>(BytePtr b) {
  return (u32_at(b + 4) & 0x7ff00000) != 0x7ff00000 ? nullptr : "value is not finite";
}
template <>
const char* fault<IQ1_M>(BytePtr b) {
  return finite_f16(IQ1_M::scale_bits(b)) ? nullptr : "scale d is not finite";
}
template <>
const char* fault<MXFP4>(BytePtr b) {
  return b[MXFP4::exponent_at] != 255 ? nullptr : "scale exponent 255 is not a number";
}
template <>
const char* fault<NVFP4>(BytePtr b) {
  return u32_at(b + NVFP4::scales_at) & 0x80808080u ? "scale byte has its sign bit set" : nullptr;
}
template <>
const char* fault<Q8_K>(BytePtr b) {
  return finite_f32(u32_at(b + Q8_K::f32_scale_at)) ? nullptr : "scale d is not finite";
}
template <>
const char* fault<I2_S>(BytePtr b) {
  u32 both = 0;  // bits 2p and 2p + 1 of a byte both set
  for (int i = 0; i < I2_S::bytes; i += 4) {
    u32 w = u32_at(b + i);
    both |= w & w >> 1 & 0x55555555u;
  }
  return both ? "code 3 is invalid" : nullptr;
}

template <class F>
Status check(std::span<const u8> bytes, const char* name) {
  for (size_t i = 0; i < bytes.size() / F::bytes; i++)
    if (const char* what = fault<F>(bytes.data() + i * F::bytes))
      return Error{Code::bad_file, fmt::format("{} block {}: {}", name, i, what)};
  return {};
}

}  // namespace

Status check_blocks(Type type, std::span<const u8> bytes) {
  const FormatInfo& f = format_info(type);
  const size_t tail = type == Type::I2_S ? I2_S::tail : 0;
  if (bytes.size() < tail || (bytes.size() - tail) % size_t(f.bytes) != 0)
    return Error{Code::bad_file, fmt::format("{}: {} bytes are not whole blocks of {}", f.name, bytes.size(), f.bytes)};
  if (tail && !finite_f32(u32_at(bytes.data() + bytes.size() - tail)))
    return Error{Code::bad_file, "I2_S: the tensor's scale is not finite"};
  const auto blocks = bytes.first(bytes.size() - tail);
  switch (type) {
#define FEWBIT_X(F, id) \
  case Type::F:         \
    return check<F>(blocks, f.name);
    FEWBIT_FORMATS(FEWBIT_X)
#undef FEWBIT_X
  }
  return {};
}

}  // namespace fewbit
