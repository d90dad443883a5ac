// The few words that let C++, CUDA and Metal share a header of block descriptions and pure functions.
#pragma once

#if defined(__METAL_VERSION__)
#include <metal_stdlib>
#define FEWBIT_FN inline
#define FEWBIT_CONST constant constexpr
namespace fewbit {
using u8 = uchar;
using u16 = ushort;
using u32 = uint;
using i8 = char;
using i16 = short;
using i32 = int;
}  // namespace fewbit
#else
#include "base/types.h"
#if defined(__CUDACC__)
#define FEWBIT_FN __host__ __device__ inline
#else
#define FEWBIT_FN inline
#endif
#define FEWBIT_CONST static constexpr
#endif
