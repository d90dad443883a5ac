// The searches with the instructions that every processor of the architecture has (SSE2, NEON), and the choice.
#include <cmath>
#include <cstring>

#include "base/cpu_features.h"
#include "format/encode.h"
#include "format/encode_math.h"
#include "format/search/lattice.h"
#include "format/search/search.h"

#define LANES 4

namespace fewbit {
namespace search_baseline {
#include "format/search/searches.inl"
}  // namespace search_baseline

const Searches searches_baseline = search_baseline::table;

const Searches& searches() {
  static const Searches* best = searches_avx2() ? searches_avx2() : &searches_baseline;
  return *best;
}

#define FEWBIT_X(F) \
  void encode(F, const f32* x, const f32* q, i64 n, u8* out) { searches().F(x, q, n, out); }
FEWBIT_X(Q2_K)
FEWBIT_X(Q3_K)
FEWBIT_X(Q4_K)
FEWBIT_X(Q5_K)
FEWBIT_X(Q6_K)
FEWBIT_X(IQ4_NL)
FEWBIT_X(IQ4_XS)
FEWBIT_X(IQ2_XXS)
FEWBIT_X(IQ2_XS)
FEWBIT_X(IQ2_S)
FEWBIT_X(IQ3_XXS)
FEWBIT_X(IQ3_S)
FEWBIT_X(IQ1_S)
FEWBIT_X(IQ1_M)
#undef FEWBIT_X

}  // namespace fewbit
