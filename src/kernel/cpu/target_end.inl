// Ends what target_begin.inl began.
#if defined(FEWBIT_EMULATED)
#elif FEWBIT_VEC != 128 || defined(FEWBIT_VNNI) || defined(FEWBIT_I8MM)
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
