// Run-time view of the tensor formats: what a block's bytes mean, and making them from floats.  spec: formats.md.
//
// A tensor is rows of n0 elements; a row is a whole number of blocks.  One exception: I2_S keeps one scale for the whole tensor
// behind the codes, so whole tensors go through decode_tensor / encode_tensor and tensor_bytes knows the difference.
#pragma once
#include <optional>
#include <span>
#include <string_view>

#include "base/result.h"
#include "base/types.h"
#include "format/list.h"

namespace fewbit {

// The ids of GGUF tensor entries (formats.md section 2).  Q2_0_LEGACY128 is no id of any file: it is id 42 in its old group-128 layout,
// read only when asked for.
enum class Type : u32 {
#define FEWBIT_X(F, id) F = id,
  FEWBIT_FORMATS(FEWBIT_X)
#undef FEWBIT_X
};

struct FormatInfo {
  Type type;
  const char* name;       // "PQ2_0"
  int block;              // elements per block
  int bytes;              // bytes per block
  bool weights;           // usable as the weights of a model (not an activation-only or plain integer type)
  bool has_encoder;       // encode_row works
  bool needs_importance;  // the encoder insists on an importance vector (IQ2_XXS, IQ2_XS, IQ1_S)

  f64 bits_per_weight() const { return 8.0 * bytes / block; }
};

// nullptr if the type is not known.
const FormatInfo* find_format(Type type);
const FormatInfo* find_format(std::string_view name);
std::span<const FormatInfo> all_formats();
// For types that are known to be there (checked when the file was read).
const FormatInfo& format_info(Type type);
inline const char* type_name(Type type) { return format_info(type).name; }
// One line on an id that we do not read: who uses it ("IQ4_KS of ik_llama.cpp"), or "unknown".
std::string_view foreign_type_name(u32 id);

// BytePtr of n elements (n a multiple of the block), without I2_S's tail.
inline u64 row_bytes(Type type, i64 n) { return u64(n) / u64(format_info(type).block) * u64(format_info(type).bytes); }
// BytePtr of a tensor of `rows` rows of n0 elements, including I2_S's scale and padding.  Nothing if it overflows or does not divide.
std::optional<u64> tensor_bytes(Type type, u64 n0, u64 rows);

// blocks -> floats, bit for bit as formats.md.  Sizes must agree (checked).  Not for I2_S.
void decode_row(Type type, std::span<const u8> blocks, std::span<f32> out);
// The same for a whole tensor, I2_S included.
void decode_tensor(Type type, std::span<const u8> bytes, std::span<f32> out);
// Element ranges [row * n0, (row + 1) * n0) of a tensor, I2_S included.
void decode_tensor_row(Type type, std::span<const u8> tensor, i64 row, i64 n0, std::span<f32> out);

// floats -> blocks: the reference algorithm where formats.md gives one.  `importance`: one weight per element of the row, or empty.
// Errors: non-finite input, scale that overflows f16, no importance where the type insists.  Not for I2_S.
Status encode_row(Type type, std::span<const f32> x, std::span<const f32> importance, std::span<u8> blocks);
// A whole tensor of rows of n0 elements, I2_S included.  `importance` (n0) is shared by the rows.
Status encode_tensor(Type type, std::span<const f32> x, i64 n0, std::span<const f32> importance, std::span<u8> bytes);

// Checking mode (formats.md section 1): non-finite scales, forbidden codes.  The error names the block.
Status check_blocks(Type type, std::span<const u8> bytes);

}  // namespace fewbit
