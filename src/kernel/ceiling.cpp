#include "kernel/ceiling.h"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "base/cpu_features.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace fewbit::kernel {

static f64 now() { return std::chrono::duration<f64>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// Sum of all words: every byte is read once.  Four streams a 4 KiB page apart would help single-threaded prefetching on some
// machines; a kernel walks one stream per thread, so one stream is what we report.
static u64 read_plain(const u8* p, size_t n) {
  u64 a = 0, b = 0, c = 0, d = 0;
  for (size_t i = 0; i + 32 <= n; i += 32) {
    u64 w[4];
    std::memcpy(w, p + i, 32);
    a += w[0], b += w[1], c += w[2], d += w[3];
  }
  return a + b + c + d;
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static u64 read_avx2(const u8* p, size_t n) {
  __m256i a = _mm256_setzero_si256(), b = a, c = a, d = a;
  for (size_t i = 0; i + 128 <= n; i += 128) {
    const __m256i* v = reinterpret_cast<const __m256i*>(p + i);
    a = _mm256_add_epi64(a, _mm256_loadu_si256(v));
    b = _mm256_add_epi64(b, _mm256_loadu_si256(v + 1));
    c = _mm256_add_epi64(c, _mm256_loadu_si256(v + 2));
    d = _mm256_add_epi64(d, _mm256_loadu_si256(v + 3));
  }
  a = _mm256_add_epi64(_mm256_add_epi64(a, b), _mm256_add_epi64(c, d));
  return u64(_mm256_extract_epi64(a, 0)) + u64(_mm256_extract_epi64(a, 1)) + u64(_mm256_extract_epi64(a, 2)) +
         u64(_mm256_extract_epi64(a, 3));
}
#endif

static u64 read_all(const u8* p, size_t n) {
#if defined(__x86_64__)
  if (cpu_features().avx2) return read_avx2(p, n);
#endif
  return read_plain(p, n);
}

static Result<Ceiling> measure_cpu(Device& device, f64 seconds) {
  ThreadPool& pool = *device.pool();
  // The last cache of a server can hold hundreds of megabytes: stay well above it, within a quarter of what is free.
  const u64 want = u64(1) << 30;
  const size_t bytes = size_t(std::min<u64>(want, device.memory_free() / 4)) / 4096 * 4096;
  FEWBIT_TRY(Buffer from, device.allocate(bytes));
  FEWBIT_TRY(Buffer to, device.allocate(bytes / 4));
  u8* a = from.as<u8>();
  u8* b = to.as<u8>();
  const size_t quarter = bytes / 4;
  pool.run([&](int t, int n) {
    const size_t lo = bytes / size_t(n) * size_t(t), len = bytes / size_t(n);
    std::memset(a + lo, t + 1, len);  // touch from the thread that will read
    const size_t lo2 = quarter / size_t(n) * size_t(t);
    std::memset(b + lo2, 1, quarter / size_t(n));
  });
  Ceiling c;
  std::atomic<u64> sink{0};
  const f64 end = now() + seconds;
  for (int pass = 0; pass < 3 || now() < end; pass++) {
    f64 t0 = now();
    pool.run([&](int t, int n) {
      const size_t len = bytes / size_t(n) / 128 * 128;
      sink += read_all(a + len * size_t(t), len);
    });
    f64 t1 = now();
    c.read_gb_s = std::max(c.read_gb_s, f64(bytes) / (t1 - t0) * 1e-9);
    t0 = now();
    pool.run([&](int t, int n) {
      const size_t len = quarter / size_t(n);
      std::memcpy(b + len * size_t(t), a + len * size_t(t), len);
    });
    t1 = now();
    c.copy_gb_s = std::max(c.copy_gb_s, 2.0 * f64(quarter) / (t1 - t0) * 1e-9);
  }
  const int calls = 2000;
  f64 best = 1e9;
  for (int rep = 0; rep < 5; rep++) {
    f64 t0 = now();
    for (int i = 0; i < calls; i++) pool.run([](int, int) {});
    best = std::min(best, (now() - t0) / calls);
  }
  c.barrier_us = best * 1e6;
  return c;
}

Result<Ceiling> measure_ceiling(Device& device, f64 seconds) {
  if (device.kind() == DeviceKind::cpu) return measure_cpu(device, seconds);
  if (device.kind() == DeviceKind::cuda) return cuda::measure_ceiling(device, seconds);
  return Error{Code::unsupported, "no bandwidth measurement for device " + device.id()};
}

}  // namespace fewbit::kernel
