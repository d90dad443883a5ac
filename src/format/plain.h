// Numbers without blocks: F32, F16, BF16, and the plain types that files may carry beside the weights.
#pragma once
#include "format/portable.h"

namespace fewbit {

struct F32 {
  FEWBIT_CONST int block = 1, bytes = 4;
  static FEWBIT_FN f32 value(BytePtr b) { return f32_at(b); }
};
struct F16 {
  FEWBIT_CONST int block = 1, bytes = 2;
  static FEWBIT_FN f32 value(BytePtr b) { return f16_at(b); }
};
struct BF16 {  // the upper half of an F32
  FEWBIT_CONST int block = 1, bytes = 2;
  static FEWBIT_FN f32 value(BytePtr b) { return f32_of_bits(u16_at(b) << 16); }
};
struct I8 {
  FEWBIT_CONST int block = 1, bytes = 1;
  static FEWBIT_FN f32 value(BytePtr b) { return f32(i8(b[0])); }
};
struct I16 {
  FEWBIT_CONST int block = 1, bytes = 2;
  static FEWBIT_FN f32 value(BytePtr b) { return f32(i16(u16_at(b))); }
};
struct I32 {
  FEWBIT_CONST int block = 1, bytes = 4;
  static FEWBIT_FN f32 value(BytePtr b) { return f32(i32(u32_at(b))); }
};
struct I64 {
  FEWBIT_CONST int block = 1, bytes = 8;
  static FEWBIT_FN f32 value(BytePtr b) { return f32(i64(u64(u32_at(b)) | u64(u32_at(b + 4)) << 32)); }
};
#if !defined(__METAL_VERSION__)  // Metal has no binary64
struct F64 {
  FEWBIT_CONST int block = 1, bytes = 8;
  static FEWBIT_FN f32 value(BytePtr b) { return f32(f64_of_bits(u64(u32_at(b)) | u64(u32_at(b + 4)) << 32)); }
};
#endif

}  // namespace fewbit
