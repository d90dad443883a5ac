// The one list of formats: X(name, id of GGUF tensor entries).  Each name is a struct of that name in format/name.h.
//
// A format struct has
//   block, bytes       elements and bytes of a block
//   group              elements that share a scale
//   scale(b, g)        the factor of group g of the block at b
//   level(b, e)        the integer that it multiplies; formats with a codebook: levels(b, k, grid), 8 signed bytes of elements 8k...
//   offset(b, g)       what is added (formats with a moving zero point only)
// so that a weight is scale * level [+ offset], each operation rounded once, exactly as formats.md.  Types without blocks (F16 ...)
// have value(b) instead.  Byte positions of the fields are constants named *_at.
#pragma once

// clang-format off
#define FEWBIT_WEIGHT_FORMATS(X)                                                                                                   \
  X(F32, 0) X(F16, 1) X(BF16, 30)                                                                                                  \
  X(Q4_0, 2) X(Q4_1, 3) X(Q5_0, 6) X(Q5_1, 7) X(Q8_0, 8)                                                                           \
  X(Q2_K, 10) X(Q3_K, 11) X(Q4_K, 12) X(Q5_K, 13) X(Q6_K, 14)                                                                      \
  X(IQ1_S, 19) X(IQ1_M, 29) X(IQ2_XXS, 16) X(IQ2_XS, 17) X(IQ2_S, 22) X(IQ3_XXS, 18) X(IQ3_S, 21) X(IQ4_NL, 20) X(IQ4_XS, 23)      \
  X(TQ1_0, 34) X(TQ2_0, 35) X(I2_S, 36) X(MXFP4, 39) X(NVFP4, 40)                                                                  \
  X(Q1_0, 41) X(Q2_0, 42) X(Q2_0_LEGACY128, 0x10000 + 42) X(PQ2_0, 142) X(PTQ1_0, 143)

// What activations become (never the type of a weight), and plain numbers.
#define FEWBIT_OTHER_FORMATS(X) \
  X(Q8_1, 9) X(Q8_K, 15)        \
  X(I8, 24) X(I16, 25) X(I32, 26) X(I64, 27) X(F64, 28)
// clang-format on

#define FEWBIT_FORMATS(X) FEWBIT_WEIGHT_FORMATS(X) FEWBIT_OTHER_FORMATS(X)
