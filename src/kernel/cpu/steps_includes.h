// Everything that steps.inl needs from outside, included before the target pragma.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/bits.h"
#include "base/check.h"
#include "base/half.h"
#include "kernel/cpu/steps.h"

#if defined(__x86_64__)
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push  // GCC 12 warns of its own _mm512_undefined_ps()
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
#endif
