// floats -> blocks, one function per format (inside this module).  Found by overloading on the description:
//
//   encode(F{}, x, q, n, out)    x: n finite floats, n a multiple of F::block     q: n weights >= 0, or nullptr     out: n / F::block
//   blocks
//
// Every operation rounds once, in the order of formats.md sections 4 and 5: the results are equal to the bit to the reference's.
#pragma once
#include "format/formats.h"

namespace fewbit {

#define FEWBIT_ENCODER(F) void encode(F, const f32* x, const f32* q, i64 n, u8* out)
// encode_float.cpp
FEWBIT_ENCODER(F32);
FEWBIT_ENCODER(F16);
FEWBIT_ENCODER(BF16);
// encode_round.cpp: a closed formula; weights are ignored
FEWBIT_ENCODER(Q8_0);
FEWBIT_ENCODER(Q8_1);
FEWBIT_ENCODER(Q8_K);
FEWBIT_ENCODER(Q1_0);
FEWBIT_ENCODER(Q2_0);
FEWBIT_ENCODER(PQ2_0);
FEWBIT_ENCODER(TQ1_0);
FEWBIT_ENCODER(TQ2_0);
FEWBIT_ENCODER(PTQ1_0);
// encode_fp4.cpp: weights are ignored
FEWBIT_ENCODER(MXFP4);
FEWBIT_ENCODER(NVFP4);
// encode_q4.cpp: a closed formula, a search when there are weights
FEWBIT_ENCODER(Q4_0);
FEWBIT_ENCODER(Q4_1);
FEWBIT_ENCODER(Q5_0);
FEWBIT_ENCODER(Q5_1);
// search/: least weighted error, with or without weights
FEWBIT_ENCODER(Q2_K);
FEWBIT_ENCODER(Q3_K);
FEWBIT_ENCODER(Q4_K);
FEWBIT_ENCODER(Q5_K);
FEWBIT_ENCODER(Q6_K);
FEWBIT_ENCODER(IQ4_NL);
FEWBIT_ENCODER(IQ4_XS);
FEWBIT_ENCODER(IQ2_XXS);
FEWBIT_ENCODER(IQ2_XS);
FEWBIT_ENCODER(IQ2_S);
FEWBIT_ENCODER(IQ3_XXS);
FEWBIT_ENCODER(IQ3_S);
FEWBIT_ENCODER(IQ1_S);
FEWBIT_ENCODER(IQ1_M);
#undef FEWBIT_ENCODER

// A whole tensor; returns nothing that could fail (its scale is an f32).
void encode_i2_s(const f32* x, i64 n, u8* out);

template <class F>
consteval bool has_encoder() {
  return requires(const f32* x, u8* out) { encode(F{}, x, x, i64(0), out); }
  || requires { F::tail; };
}

}  // namespace fewbit
