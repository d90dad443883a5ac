// Code between target_begin.inl and target_end.inl is compiled for the set that FEWBIT_VEC names: 512 (AVX-512 F, BW, DQ, VL), 256 (AVX2,
// FMA, F16C), 128 (the baseline).  With FEWBIT_VNNI defined, 512 has VNNI and VBMI too, 256 AVX-VNNI, and 128 on ARM the dot products;
// with FEWBIT_I8MM also the 8-bit matrix products.
// A pragma, not a flag for the file: inline functions of standard headers, which come first, keep the baseline, so the linker cannot
// hand an older machine a newer machine's copy of them.
#if defined(FEWBIT_EMULATED)
// tests/build_emulated.sh simde: the baseline has to do, the intrinsics are plain code.
#elif FEWBIT_VEC == 512 && defined(FEWBIT_VNNI)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi"))), \
                             apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi")
#endif
#elif FEWBIT_VEC == 512
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl")
#endif
#elif FEWBIT_VEC == 256 && defined(FEWBIT_VNNI)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c,avxvnni"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c,avxvnni")
#endif
#elif FEWBIT_VEC == 256
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
#endif
#elif FEWBIT_VEC == 128 && defined(FEWBIT_I8MM)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("dotprod,i8mm"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("arch=armv8.2-a+dotprod+i8mm")
#endif
#elif FEWBIT_VEC == 128 && defined(FEWBIT_VNNI)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("dotprod"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("arch=armv8.2-a+dotprod")
#endif
#endif
