// The searches with AVX2: eight groups at a time.  No multiply-add is fused (-ffp-contract=off): the bits are the definition's.
#include <cmath>
#include <cstring>

#include "base/cpu_features.h"
#include "format/encode_math.h"
#include "format/search/lattice.h"
#include "format/search/search.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define LANES 8
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2")
#endif
namespace fewbit::search_avx2 {
#include "format/search/searches.inl"
}  // namespace fewbit::search_avx2
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

namespace fewbit {
const Searches* searches_avx2() { return cpu_features().avx2 ? &search_avx2::table : nullptr; }
}  // namespace fewbit
#else
namespace fewbit {
const Searches* searches_avx2() { return nullptr; }
}  // namespace fewbit
#endif
