#include "kernel/cuda/layout.h"

#include <cstdlib>
#include <string_view>

#include "kernel/cuda/half_layout.h"
#include "kernel/cuda/matmul_half.h"
#include "kernel/cuda/ops.h"
#include "kernel/cuda/pack.h"

namespace fewbit::kernel::cuda {

int half_choice = 0;

bool half_wanted(const HostTensor& t) {
  static const char* const word = std::getenv("FEWBIT_CUDA_HALF");
  const bool on = half_choice > 0 || (half_choice == 0 && !(word && word == std::string_view("0")));
  if (!on || (t.type != Type::F16 && t.type != Type::BF16) || t.cols % 8 || t.rows * t.cols < half_least_weights) return false;
  // Experts go by ids, even where there is one; routers stay f32 at any size: they decide.
  const bool router = t.name.find("ffn_gate_inp") != std::string::npos;
  return t.experts == 1 && !t.name.ends_with("_exps.weight") && !router;
}

namespace {
constexpr u64 bytes8(int a, int b, int c, int d, int e, int f, int g, int h) {
  return u64(u8(a)) | u64(u8(b)) << 8 | u64(u8(c)) << 16 | u64(u8(d)) << 24 | u64(u8(e)) << 32 | u64(u8(f)) << 40 | u64(u8(g)) << 48 |
         u64(u8(h)) << 56;
}
}  // namespace

TypeLayout type_layout(Type type, bool dense) {
  TypeLayout t;
  switch (type) {
#define FEWBIT_X(F, c, s)        \
  case Type::F:                  \
    t.layout = layout_##c##_##s; \
    break;
    FEWBIT_CUDA_TARGETS(FEWBIT_X)
#undef FEWBIT_X
    case Type::F32:
      t.layout = layout_rows_f32;
      break;
    case Type::F16:
      t.layout = layout_rows_f16;
      break;
    case Type::BF16:
      t.layout = layout_rows_bf16;
      break;
    default:
      return t;
  }
  switch (type) {
    case Type::Q1_0:
      break;
    case Type::Q2_K:
      break;
    case Type::IQ1_S:
      t.factor = 0.125f, t.zero = 1;
      break;
    case Type::IQ1_M:
      t.factor = 0.125f, t.table[0] = bytes8(-9, -1, 7, 0, -7, 1, 9, 0);
      break;
    case Type::IQ2_XXS:
    case Type::IQ2_XS:
    case Type::IQ2_S:
      t.factor = 0.125f, t.table[0] = bytes8(8, 25, 43, 0, -8, -25, -43, 0);
      break;
    case Type::Q3_K:
      t.table[0] = bytes8(-4, -3, -2, -1, 0, 1, 2, 3);
      break;
    case Type::Q4_0:
      t.table[0] = bytes8(-8, -7, -6, -5, -4, -3, -2, -1), t.table[1] = bytes8(0, 1, 2, 3, 4, 5, 6, 7);
      break;
    case Type::Q4_K:
      t.table[0] = bytes8(0, 1, 2, 3, 4, 5, 6, 7), t.table[1] = bytes8(8, 9, 10, 11, 12, 13, 14, 15);
      break;
    case Type::IQ4_NL:
    case Type::IQ4_XS:
      t.table[0] = codebook::iq4nl_0, t.table[1] = codebook::iq4nl_1;
      break;
    case Type::MXFP4:
      t.table[0] = codebook::fp4_e2m1_doubled_0, t.table[1] = codebook::fp4_e2m1_doubled_1, t.bf16 = true;
      break;
    case Type::IQ3_XXS:
      t.factor = 0.5f;  // levels are even: half of them
      t.table[0] = bytes8(2, 6, 10, 14, 18, 22, 26, 31), t.table[1] = bytes8(-2, -6, -10, -14, -18, -22, -26, -31);
      break;
    case Type::IQ3_S:
      t.table[0] = bytes8(1, 3, 5, 7, 9, 11, 13, 15), t.table[1] = bytes8(-1, -3, -5, -7, -9, -11, -13, -15);
      break;
    default:
      t.zero = 1;  // ternary and 2-bit codes
  }
  switch (dense ? type : Type::F32) {
#define FEWBIT_X(F, c, s)        \
  case Type::F:                  \
    t.layout = layout_##c##_##s; \
    break;
    FEWBIT_CUDA_DENSE_TARGETS(FEWBIT_X)
#undef FEWBIT_X
    default:
      break;
  }
  return t;
}

}  // namespace fewbit::kernel::cuda
