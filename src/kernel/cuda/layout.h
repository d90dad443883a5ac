// Device layouts of weights: a handful, whatever the file's format.  A file format becomes one of them losslessly at load (pack.h).
//
// A matrix (experts, rows, cols) is cut into units of 16 rows x 128 inputs, stored [expert][row tile][unit] so that the units of a row
// tile follow each other along K.  A unit is its codes, then its scales.  The codes lie in the order in which the lanes of a warp take
// them into the A registers of mma.m16n8k32 (u8 or s8): lane = 4 g + t (g = lane / 4, t = lane % 4) owns rows g and g + 8, and of
// k-step j (32 inputs) the inputs 4t .. 4t+3 (lo) and 16 + 4t .. (hi):
//
//   register x = h + 2 f        h: 0 = row g, 1 = row g + 8        f: 0 = lo, 1 = hi        byte b: input 32 j + 16 f + 4 t + b
//
// Codes          bytes/unit
//   q1  1 bit       256   lane's 8 bytes:  word f, byte b, bit 4 h + j                       level = 2 c - 1
//   b2  2 bits      512   lane's 16 bytes: word x, byte b, bits 2 j ..                       level = c - 1, or c (Q2_K)
//   t5  base 3      416   lane's 13 bytes, 8 codes of a row in 13 bits (below)               level = c - 1
//   t3  3 bits      768   16 bytes: word j, nibble 4 h + b, bits 2 f .. (low two bits); at 512, 8 bytes: word j / 2, same nibble,
//                         bit 2 (j % 2) + f (third bit)                                      level = table[c], 8 signed bytes
//   d2  2 bits + 1  544   low two bits as in t3; at 512 + 4 g + 2 (t / 2), byte h, bit 2 j + f: the third bit of 8 inputs, those of two
//                         lanes                                                            level = table[c], 8 signed bytes (IQ1_M)
//   n4  4 bits     1024   word w = 2 j + f at 512 (w / 4) + 16 lane + 4 (w % 4), nibble 4 h + b   level = table[c], 16 signed bytes
//   b8  8 bits     2048   word x at 512 j + 16 lane + 4 x, byte b                            level = c as a signed byte
//
// t5: with c(j, f) the code of input 32 j + 16 f + 4 t + b,
//   five   3 + 81 c(3, 0) + 27 c(3, 1) + 9 c(1, 0) + 3 c(2, 0) + c(0, 0)     8 bits   word h of 8 lane, byte b
//   three  3 + 9 c(1, 1) + 3 c(2, 1) + c(0, 1)                               5 bits   of row g: word at 256 + 4 lane, byte b, upper bits;
//          of row g + 8: the three bits below, and above them byte 384 + lane, bits 6 - 2 b ..
//   The order of the digits and of the bits and the 3 are what the decoder wants (base3.cuh).
//
// Scales (each starts with row g, then row g + 8, for g = 0..7)       w = d sub level - dmin min
//   g128  f16 d                                                     32
//   g64   f16 d[2]                                                  64
//   g32   f16 or bf16 d[4]                                         128
//   g32m  f16 d[4], f16 m[4]: w = d level + m                      256
//   k16   i8 sub[8]; then f16 d                                    160   (sub per 16)
//   k16m  u8 sub | min << 4 [8]; then f16 d, dmin                  192
//   k32   i8 sub[4]; then f16 d                                     96
//   k32d  u8 sub | sign << 7 [4]; then f16 d: level = 8 (c - 1) + sign    96   (IQ1_S)
//   k32m  u8 sub[4]; u8 min[4]; then f16 d, dmin                   192
//
// The number of row tiles is even (kernels take two at a time).  Rows beyond the matrix and inputs beyond cols have code 0 and scale 0.  A
// pair (gate, up) is laid out as one matrix whose tile has 8 rows of gate (the g rows) and the same 8 rows of up (the g + 8 rows), so that
// one lane ends with both.
#pragma once
#include "format/format.h"
#include "format/portable.h"

namespace fewbit::kernel::cuda {

enum class Code : u8 { q1, b2, t3, n4, b8, t5, d2 };
enum class Scale : u8 { g128, g64, g32, g32m, k16, k16m, k32, k32d, k32m };

FEWBIT_FN constexpr int code_bytes(Code c) {
  return c == Code::q1   ? 256
         : c == Code::b2 ? 512
         : c == Code::t5 ? 416
         : c == Code::t3 ? 768
         : c == Code::d2 ? 544
         : c == Code::n4 ? 1024
                         : 2048;
}
FEWBIT_FN constexpr int scale_bytes(Scale s) {
  return s == Scale::g128                      ? 32
         : s == Scale::g64                     ? 64
         : s == Scale::g32                     ? 128
         : s == Scale::g32m                    ? 256
         : s == Scale::k16                     ? 160
         : s == Scale::k16m                    ? 192
         : s == Scale::k32 || s == Scale::k32d ? 96
                                               : 192;
}
FEWBIT_FN constexpr bool has_min(Scale s) { return s == Scale::g32m || s == Scale::k16m || s == Scale::k32m; }

inline constexpr int unit_rows = 16, unit_k = 128;

// X(index, codes, scales)
#define FEWBIT_CUDA_LAYOUTS(X) \
  X(0, q1, g128)               \
  X(1, b2, g128)               \
  X(2, b2, g64)                \
  X(3, b2, k16m)               \
  X(4, b2, k32d)               \
  X(5, t3, k16)                \
  X(6, t3, k32)                \
  X(7, n4, g32)                \
  X(8, n4, k32)                \
  X(9, n4, k32m)               \
  X(10, b8, g32)               \
  X(11, b8, g32m)              \
  X(12, b8, k16)               \
  X(13, b8, k32m)              \
  X(14, t5, g128)              \
  X(15, d2, k16)

enum LayoutId : int {
#define FEWBIT_X(i, c, s) layout_##c##_##s = i,
  FEWBIT_CUDA_LAYOUTS(FEWBIT_X)
#undef FEWBIT_X
      layout_rows_f32 = 32,  // plain rows, multiplied with f32 activations
  layout_rows_f16,
  layout_rows_bf16,
  layout_half,  // large F16 and BF16 matrices: f16 tiles, times f16 activations (half_layout.h)
};

struct LayoutInfo {
  const char* name;  // "b2.g128"
  Code code;
  Scale scale;
  int unit_bytes;
};
// Index: LayoutId below 16.
inline constexpr LayoutInfo layout_infos[] = {
#define FEWBIT_X(i, c, s) {#c "." #s, Code::c, Scale::s, code_bytes(Code::c) + scale_bytes(Scale::s)},
    FEWBIT_CUDA_LAYOUTS(FEWBIT_X)
#undef FEWBIT_X
};

// What a file format becomes: its layout, a factor on d, what a code means.
struct TypeLayout {
  int layout = -1;    // -1: no kernel
  f32 factor = 1;     // on d and dmin, a power of two
  u64 table[2] = {};  // t3, d2: table[0]; n4: both
  bool bf16 = false;  // g32 scales are bf16
  int zero = 0;       // b2, t5: level = c - zero
};
// dense: the smallest layout, where there are two (ternary types: base 3 or 2-bit codes).
TypeLayout type_layout(Type type, bool dense = false);
inline bool has_dense(Type type) { return type_layout(type, true).layout != type_layout(type).layout; }

// Shape of a matrix in units.
struct Units {
  i64 tiles = 0, units = 0;
  int unit_bytes = 0;
  Units() = default;
  Units(int layout, i64 rows, i64 cols)
      : tiles((rows + 2 * unit_rows - 1) / (2 * unit_rows) * 2),
        units((cols + unit_k - 1) / unit_k),
        unit_bytes(layout_infos[layout].unit_bytes) {}
  u64 bytes() const { return u64(tiles) * u64(units) * u64(unit_bytes); }
};

// The parts of K that are summed apart and then in order: slab s of n takes units [slab_begin(s), slab_begin(s + 1)).  Their number and
// borders depend on K alone; every kernel follows them, so the float order does too.
inline constexpr int max_slabs = 8;
FEWBIT_FN constexpr int slab_count(int units) { return units <= 40 ? 4 : 8; }
FEWBIT_FN constexpr int slab_begin(int units, int s) { return units * s / slab_count(units); }

// The numbers of t5 start at this; what each digit is worth, by f (0: in `five`) and k-step.
inline constexpr int base3_least = 3;
FEWBIT_FN constexpr u32 base3_worth(int f, int j) { return j == 0 ? 1 : j == 1 ? 9 : j == 2 ? 3 : f ? 27 : 81; }

// Code of row i (0..15) and input k (0..127) of a unit.
FEWBIT_FN u32 unit_code(Code code, const u8* unit, int i, int k) {
  const int g = i % 8, h = i / 8, j = k / 32, f = k / 16 % 2, t = k % 16 / 4, b = k % 4, lane = 4 * g + t, x = h + 2 * f;
  switch (code) {
    case Code::q1:
      return unit[lane * 8 + f * 4 + b] >> (4 * h + j) & 1;
    case Code::b2:
      return unit[lane * 16 + x * 4 + b] >> (2 * j) & 3;
    case Code::t3:
    case Code::d2: {
      const int n = 4 * h + b;
      const u32 lo = unit[lane * 16 + j * 4 + n / 2] >> (4 * (n % 2) + 2 * f) & 3;
      const u32 hi = code == Code::t3 ? unit[512 + lane * 8 + j / 2 * 4 + n / 2] >> (4 * (n % 2) + j % 2 * 2 + f) & 1
                                      : unit[512 + 4 * g + t / 2 * 2 + h] >> (2 * j + f) & 1;
      return lo | hi << 2;
    }
    case Code::n4: {
      const int w = 2 * j + f, n = 4 * h + b;
      return unit[w / 4 * 512 + lane * 16 + w % 4 * 4 + n / 2] >> (4 * (n % 2)) & 15;
    }
    case Code::t5: {
      u32 v;
      if (f == 0 || j == 3) {
        v = unit[lane * 8 + h * 4 + b];
      } else {
        v = unit[256 + lane * 4 + b];
        v = h ? (v & 7) | (unit[384 + lane] >> (6 - 2 * b) & 3u) << 3 : v >> 3;
      }
      return (v - base3_least) / base3_worth(f, j) % 3;
    }
    default:
      return unit[j * 512 + lane * 16 + x * 4 + b];
  }
}

// Level of a code; `sign` (k32d): of the group of 32.
FEWBIT_FN i32 code_level(Code code, Scale scale, u32 c, u64 table0, u64 table1, int zero, bool sign) {
  if (code == Code::q1) return 2 * i32(c) - 1;
  if (scale == Scale::k32d) return 8 * (i32(c) - 1) + (sign ? -1 : 1);
  if (code == Code::b2 || code == Code::t5) return i32(c) - zero;
  if (code == Code::b8) return i8(c);
  return byte_of(table0, table1, c);
}

// Scales of row i, input k of a unit.
struct UnitScale {
  f32 d, sub, dmin, min;  // w = d sub level - dmin min
  bool sign;
};
FEWBIT_FN f32 bf16_bits(u32 h) { return f32_of_bits(h << 16); }
FEWBIT_FN UnitScale unit_scale(Scale scale, const u8* s, int i, int k, bool bf16) {  // s: behind the codes
  const int g = i % 8, h = i / 8, r = 2 * g + h, j = k / 32;
  UnitScale u{0, 1, 0, 0, false};
  switch (scale) {
    case Scale::g128:
      u.d = f16_at(s + 2 * r);
      break;
    case Scale::g64:
      u.d = f16_at(s + 4 * r + k / 64 * 2);
      break;
    case Scale::g32:
      u.d = bf16 ? bf16_bits(u16_at(s + 8 * r + 2 * j)) : f16_at(s + 8 * r + 2 * j);
      break;
    case Scale::g32m:
      u.d = f16_at(s + 16 * r + 2 * j), u.dmin = -f16_at(s + 16 * r + 8 + 2 * j), u.min = 1;
      break;
    case Scale::k16:
      u.sub = f32(i8(s[8 * r + k / 16])), u.d = f16_at(s + 128 + 2 * r);
      break;
    case Scale::k16m:
      u.sub = f32(s[8 * r + k / 16] & 15), u.min = f32(s[8 * r + k / 16] >> 4), u.d = f16_at(s + 128 + 4 * r),
      u.dmin = f16_at(s + 130 + 4 * r);
      break;
    case Scale::k32:
      u.sub = f32(i8(s[4 * r + j])), u.d = f16_at(s + 64 + 2 * r);
      break;
    case Scale::k32d:
      u.sub = f32(s[4 * r + j] & 127), u.sign = s[4 * r + j] >> 7, u.d = f16_at(s + 64 + 2 * r);
      break;
    default:
      u.sub = f32(s[4 * r + j]), u.min = f32(s[64 + 4 * r + j]), u.d = f16_at(s + 128 + 4 * r), u.dmin = f16_at(s + 130 + 4 * r);
  }
  return u;
}

// The weight itself, bit for bit what the file's block decodes to (products are exact; one subtraction where there is a minimum).
FEWBIT_FN f32 unit_value(Code code, Scale scale, const u8* unit, int i, int k, const TypeLayout& type, f32 tensor_scale) {
  const UnitScale s = unit_scale(scale, unit + code_bytes(code), i, k, type.bf16);
  const f32 factor = type.factor * tensor_scale;
  const i32 level = code_level(code, scale, unit_code(code, unit, i, k), type.table[0], type.table[1], type.zero, s.sign);
  f32 v = s.d * factor * s.sub * f32(level);
  if (has_min(scale)) v = v + -(s.dmin * factor * s.min);
  return v;
}

}  // namespace fewbit::kernel::cuda
