// FEWBIT_CHECK: a broken invariant of ours stops the program, in release builds too.  Never use it on file content or requests.
#pragma once
#include <cstdio>
#include <cstdlib>

#define FEWBIT_CHECK(cond, ...)                                                           \
  do {                                                                                    \
    if (!(cond)) [[unlikely]] {                                                           \
      std::fprintf(stderr, "fewbit: %s:%d: check failed: %s", __FILE__, __LINE__, #cond); \
      __VA_OPT__(std::fprintf(stderr, ": " __VA_ARGS__);)                                 \
      std::fputc('\n', stderr);                                                           \
      std::abort();                                                                       \
    }                                                                                     \
  } while (0)

#ifdef NDEBUG
#define FEWBIT_ASSERT(cond, ...) ((void)0)
#else
#define FEWBIT_ASSERT(cond, ...) FEWBIT_CHECK(cond __VA_OPT__(, ) __VA_ARGS__)
#endif
