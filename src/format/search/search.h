// The searched encoders, compiled once per instruction set.  All sets give the same bytes; the processor decides which runs.
#pragma once
#include "format/formats.h"

namespace fewbit {

#define FEWBIT_SEARCHED_FORMATS(X) \
  X(Q4_0)                          \
  X(Q4_1)                          \
  X(Q5_0)                          \
  X(Q5_1) X(Q2_K) X(Q3_K) X(Q4_K) X(Q5_K) X(Q6_K) X(IQ4_NL) X(IQ4_XS) X(IQ2_XXS) X(IQ2_XS) X(IQ2_S) X(IQ3_XXS) X(IQ3_S) X(IQ1_S) X(IQ1_M)

struct Searches {
#define FEWBIT_X(F) void (*F)(const f32* x, const f32* q, i64 n, u8* out);
  FEWBIT_SEARCHED_FORMATS(FEWBIT_X)
#undef FEWBIT_X
};

extern const Searches searches_baseline;  // what every processor of the architecture runs
const Searches* searches_avx2();          // nullptr where it is not compiled in or not there
const Searches& searches();               // the widest

}  // namespace fewbit
