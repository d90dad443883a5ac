// Code between target_begin.inl and target_end.inl is compiled for the set that FEWBIT_VEC names: 512 (AVX-512 F, BW, DQ, VL), 256 (AVX2,
// FMA, F16C), 128 (the baseline).  A pragma, not a flag for the file: inline functions of standard headers, which come first, keep
// the baseline, so the linker cannot hand an older machine a newer machine's copy of them.
#if FEWBIT_VEC == 512
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl")
#endif
#elif FEWBIT_VEC == 256
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
#endif
#endif
