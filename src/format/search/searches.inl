// Everything that is compiled once per instruction set, and its table.
// The order matters: each builds on the ones above.
#include "format/search/lanes.inl"

#include "format/search/fit.inl"

#include "format/search/k_quants.inl"

#include "format/search/nl.inl"

#include "format/search/lattice.inl"

#include "format/search/ternary.inl"

static constexpr Searches table{
#define FEWBIT_X(F) [](const f32* x, const f32* q, i64 n, u8* out) { encode_search(F{}, x, q, n, out); },
    FEWBIT_SEARCHED_FORMATS(FEWBIT_X)
#undef FEWBIT_X
};
