#include "format/decode.h"

#include "format/format.h"

namespace fewbit {
namespace {

template <class F>
void decode_blocks(BytePtr b, f32* out, i64 n_blocks) {
  for (i64 i = 0; i < n_blocks; i++) decode_block<F>(b + i * F::bytes, out + i * F::block);
}

// A piece of an I2_S tensor whose scale is known.
void decode_i2_s(BytePtr b, f32 scale, f32* out, i64 n_blocks) {
  for (i64 i = 0; i < n_blocks; i++)
    for (int e = 0; e < I2_S::block; e++) out[i * I2_S::block + e] = scale * f32(I2_S::level(b + i * I2_S::bytes, e));
}

}  // namespace

void decode_row(Type type, std::span<const u8> blocks, std::span<f32> out) {
  const FormatInfo& f = format_info(type);
  FEWBIT_CHECK(type != Type::I2_S, "I2_S has no rows of its own");
  FEWBIT_CHECK(out.size() % size_t(f.block) == 0 && blocks.size() == row_bytes(type, i64(out.size())), "%s: %zu bytes for %zu elements",
               f.name, blocks.size(), out.size());
  const i64 n_blocks = i64(out.size()) / f.block;
  switch (type) {
#define FEWBIT_X(F, id)                                                                      \
  case Type::F:                                                                              \
    if constexpr (!HasTail<F>) return decode_blocks<F>(blocks.data(), out.data(), n_blocks); \
    break;
    FEWBIT_FORMATS(FEWBIT_X)
#undef FEWBIT_X
  }
}

void decode_tensor(Type type, std::span<const u8> bytes, std::span<f32> out) {
  if (type != Type::I2_S) return decode_row(type, bytes, out);
  const size_t codes = out.size() / I2_S::block * I2_S::bytes;
  FEWBIT_CHECK(out.size() % I2_S::block == 0 && bytes.size() == codes + I2_S::tail, "I2_S: %zu bytes for %zu elements", bytes.size(),
               out.size());
  decode_i2_s(bytes.data(), f32_at(bytes.data() + codes), out.data(), i64(out.size()) / I2_S::block);
}

void decode_tensor_row(Type type, std::span<const u8> tensor, i64 row, i64 n0, std::span<f32> out) {
  const FormatInfo& f = format_info(type);
  FEWBIT_CHECK(row >= 0 && n0 > 0 && n0 % f.block == 0 && i64(out.size()) == n0, "%s: row %lld of %lld elements into %zu", f.name,
               (long long)row, (long long)n0, out.size());
  const u64 bytes = row_bytes(type, n0), begin = u64(row) * bytes;
  const u64 tail = type == Type::I2_S ? I2_S::tail : 0;
  FEWBIT_CHECK(tensor.size() >= tail && begin + bytes <= tensor.size() - tail, "%s: row %lld of %llu bytes in a tensor of %zu", f.name,
               (long long)row, (unsigned long long)bytes, tensor.size());
  if (type != Type::I2_S) return decode_row(type, tensor.subspan(begin, bytes), out);
  decode_i2_s(tensor.data() + begin, f32_at(tensor.data() + tensor.size() - tail), out.data(), n0 / I2_S::block);
}

}  // namespace fewbit
