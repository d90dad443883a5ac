#include "kernel/int8_peak.h"

#include <algorithm>
#include <atomic>

#include "base/clock.h"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace fewbit::kernel {
namespace {

constexpr i64 steps = 20000;  // of one call of a loop below

struct Loop {
  Isa set;
  f64 ops;       // of one call
  i32 (*run)();  // the sum keeps the compiler from dropping the work
};

// Twelve sums hide the latency of every instruction used here (at most 5 cycles, at most 2 a cycle).
constexpr int sums = 12;
#define FEWBIT_UNROLL _Pragma("GCC unroll 12")  // else the sums lie in memory

#if defined(__x86_64__)

// The factors pass through an empty asm: they stay in registers, and the compiler can neither fold nor hoist the products.
#define FEWBIT_UNKNOWN(v) asm volatile("" : "+x"(v))

// Only the additions, of one cycle, form chains here; with twelve sums the products find no registers.
constexpr int short_sums = 6;

__attribute__((target("avx2"))) i32 run_avx2() {
  __m256i a = _mm256_set1_epi8(1), b = a, s[short_sums] = {};
  for (i64 i = 0; i < steps; i++) {
    FEWBIT_UNROLL for (__m256i& x : s) {
      FEWBIT_UNKNOWN(a);
      x = _mm256_add_epi16(x, _mm256_maddubs_epi16(a, b));
    }
  }
  for (const __m256i& x : s) a = _mm256_xor_si256(a, x);
  return _mm256_extract_epi32(a, 0);
}

__attribute__((target("avxvnni"))) i32 run_avx_vnni() {
  __m256i a = _mm256_set1_epi8(1), b = a, s[sums] = {};
  for (i64 i = 0; i < steps; i++) {
    FEWBIT_UNROLL for (__m256i& x : s) x = _mm256_dpbusd_avx_epi32(x, a, b);
    FEWBIT_UNKNOWN(a);
  }
  for (const __m256i& x : s) a = _mm256_xor_si256(a, x);
  return _mm256_extract_epi32(a, 0);
}

__attribute__((target("avx512f,avx512vnni"))) i32 run_avx512_vnni() {
  __m512i a = _mm512_set1_epi32(0x01010101), b = a, s[sums] = {};
  for (i64 i = 0; i < steps; i++) {
    FEWBIT_UNROLL for (__m512i& x : s) x = _mm512_dpbusd_epi32(x, a, b);
    FEWBIT_UNKNOWN(a);
  }
  for (const __m512i& x : s) a = _mm512_xor_si512(a, x);
  i32 words[16];
  _mm512_storeu_si512(words, a);
  return words[0];
}

constexpr Loop loops[] = {
    {Isa::avx2, 64.0 * short_sums* steps, run_avx2},
    {Isa::avx_vnni, 64.0 * sums* steps, run_avx_vnni},
    {Isa::avx512_vnni, 128.0 * sums* steps, run_avx512_vnni},
};

#elif defined(__aarch64__)

#define FEWBIT_UNKNOWN(v) asm volatile("" : "+w"(v))

__attribute__((target("arch=armv8.2-a+dotprod"))) i32 run_dotprod() {
  int8x16_t a = vdupq_n_s8(1), b = a;
  int32x4_t s[sums] = {};
  for (i64 i = 0; i < steps; i++) {
    FEWBIT_UNROLL for (int32x4_t& x : s) x = vdotq_s32(x, a, b);
    FEWBIT_UNKNOWN(a);
  }
  i32 sum = 0;
  for (const int32x4_t& x : s) sum ^= vaddvq_s32(x);
  return sum;
}

__attribute__((target("arch=armv8.2-a+i8mm"))) i32 run_i8mm() {
  int8x16_t a = vdupq_n_s8(1), b = a;
  int32x4_t s[sums] = {};
  for (i64 i = 0; i < steps; i++) {
    FEWBIT_UNROLL for (int32x4_t& x : s) x = vmmlaq_s32(x, a, b);
    FEWBIT_UNKNOWN(a);
  }
  i32 sum = 0;
  for (const int32x4_t& x : s) sum ^= vaddvq_s32(x);
  return sum;
}

constexpr Loop loops[] = {
    {Isa::neon_dotprod, 32.0 * sums* steps, run_dotprod},
    {Isa::neon_i8mm, 64.0 * sums* steps, run_i8mm},
};

#endif

}  // namespace

std::vector<Int8Peak> measure_int8_peak(ThreadPool& pool, f64 seconds) {
  std::vector<Int8Peak> peaks;
  std::atomic<i32> sink{0};
  for (const Loop& loop : loops) {
    if (!cpu_features().has(loop.set)) continue;
    f64 best = 0;
    const f64 end = now_s() + seconds;
    for (int pass = 0; pass < 3 || now_s() < end; pass++) {
      const f64 t0 = now_s();
      pool.run([&](int, int) { sink += loop.run(); });
      best = std::max(best, loop.ops * pool.size() / (now_s() - t0));
    }
    peaks.push_back({loop.set, best * 1e-9});
  }
  return peaks;
}

}  // namespace fewbit::kernel
