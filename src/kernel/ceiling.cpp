#include "kernel/ceiling.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <set>
#include <string>

#include "base/clock.h"
#include "base/cpu_features.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace fewbit::kernel {

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

// Of all caches of the last level, in bytes; 0 where the system does not say.
static u64 last_cache() {
  u64 sum = 0;
#if defined(__linux__)
  std::set<std::string> seen;
  for (int cpu = 0; cpu < 4096; cpu++) {
    const std::string folder = "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/cache/index3/";
    std::ifstream size(folder + "size"), shared(folder + "shared_cpu_list");
    u64 kib = 0;
    std::string cores;
    if (!(size >> kib) || !(shared >> cores)) break;
    if (seen.insert(cores).second) sum += kib * 1024;
  }
#endif
  return sum;
}

u64 ceiling_bytes(Device& device) {
  if (device.kind() == DeviceKind::cuda) return cuda::ceiling_bytes(device);
  const u64 cache = last_cache();
  const u64 enough = std::clamp<u64>((cache * 7 / 2) >> 20 << 20, u64(cache ? 128 : 1024) << 20, u64(4) << 30);
  return std::min<u64>(enough, device.memory_free() / 4) / 4096 * 4096;
}

static Result<Ceiling> measure_cpu(Device& device, f64 seconds, const std::atomic<bool>* cancel) {
  ThreadPool& pool = *device.pool();
  const size_t bytes = size_t(ceiling_bytes(device)), half = bytes / 2;
  FEWBIT_TRY(Buffer memory, device.allocate(bytes));
  u8* a = memory.as<u8>();
  pool.run([&](int t, int n) {
    const size_t len = bytes / size_t(n);
    std::memset(a + len * size_t(t), t + 1, len);  // touched by the thread that will read
  });
  Ceiling c;
  std::atomic<u64> sink{0};
  const f64 end = now_s() + seconds;
  for (int pass = 0; pass < 3 || now_s() < end; pass++) {
    if (cancel && *cancel) return Error{Code::cancelled, "cancelled"};
    f64 t0 = now_s();
    pool.run([&](int t, int n) {
      const size_t len = bytes / size_t(n) / 128 * 128;
      sink += read_all(a + len * size_t(t), len);
    });
    f64 t1 = now_s();
    c.read_gb_s = std::max(c.read_gb_s, f64(bytes) / (t1 - t0) * 1e-9);
    t0 = now_s();
    pool.run([&](int t, int n) {
      const size_t len = half / size_t(n);
      std::memcpy(a + half + len * size_t(t), a + len * size_t(t), len);
    });
    t1 = now_s();
    c.copy_gb_s = std::max(c.copy_gb_s, 2.0 * f64(half) / (t1 - t0) * 1e-9);
  }
  const int calls = 2000;
  f64 best = 1e9;
  for (int rep = 0; rep < 5; rep++) {
    f64 t0 = now_s();
    for (int i = 0; i < calls; i++) pool.run([](int, int) {});
    best = std::min(best, (now_s() - t0) / calls);
  }
  c.barrier_us = best * 1e6;
  return c;
}

Result<Ceiling> measure_ceiling(Device& device, f64 seconds, const std::atomic<bool>* cancel) {
  if (device.kind() == DeviceKind::cpu) return measure_cpu(device, seconds, cancel);
  if (device.kind() == DeviceKind::cuda) return cuda::measure_ceiling(device, seconds);
  return Error{Code::unsupported, "no bandwidth measurement for device " + device.id()};
}

}  // namespace fewbit::kernel
