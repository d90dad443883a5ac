#include "device/cpu/cpu_device.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <mutex>
#include <string>
#include <vector>

#include "base/bits.h"
#include "base/cpu_features.h"

namespace fewbit::cpu {
namespace {

// Memory that this process may have: the machine's, or less in a container with a limit.
struct Memory {
  u64 total = 0, available = 0;
};

u64 read_number(const char* path) {  // 0 if absent or "max"
  std::ifstream in(path);
  u64 n = 0;
  return in >> n ? n : 0;
}

Memory memory() {
  Memory m;
  std::ifstream in("/proc/meminfo");
  for (std::string key, unit; in >> key;) {
    u64 kib = 0;
    if (!(in >> kib)) break;
    std::getline(in, unit);
    if (key == "MemTotal:") m.total = kib * 1024;
    if (key == "MemAvailable:") m.available = kib * 1024;
  }
  if (m.total == 0) m.total = u64(sysconf(_SC_PHYS_PAGES)) * u64(sysconf(_SC_PAGESIZE));
  if (m.available == 0) m.available = m.total;
  for (auto [limit, used] : {std::pair{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"},
                             std::pair{"/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"}}) {
    u64 max = read_number(limit), now = read_number(used);
    if (max == 0 || max >= m.total) continue;
    m.total = max;
    m.available = std::min(m.available, max > now ? max - now : 0);
  }
  return m;
}

// Memory that begins on a 2 MiB page and asks for such pages: fewer address translations in what is streamed (weights, KV, state).  The
// system aligns only lengths that are whole large pages, if any: of the 8.1 MiB of keys of a layer at depth 4096, a quarter lay in 4 KiB
// pages, and attention took 6 % longer.  Null where the system gives no memory.
void* map_large(u64 bytes) {
  constexpr u64 large = u64(2) << 20;
  const u64 length = u64(round_up(i64(bytes), 4096));
  void* p = mmap(nullptr, length + large, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return nullptr;
  const u64 before = (large - reinterpret_cast<uintptr_t>(p) % large) % large;
  u8* data = static_cast<u8*>(p) + before;
  if (before > 0) munmap(p, before);
  munmap(data + length, large - before);
  madvise(data, length, MADV_HUGEPAGE);
  return data;
}

// Buffers of a small model's weights, one after the other in regions of 2 MiB pages: streaming them crosses few pages, within a buffer
// and from each to the next.  A region is given back with its last buffer; what is released before is unmapped inside it.
class Regions {
 public:
  static constexpr u64 most = u64(8) << 20;
  static bool holds(u64 bytes) { return bytes >= u64(64) << 10 && bytes < most; }

  // Null where the system gives no memory.
  void* take(u64 bytes) {
    bytes = rounded(bytes);
    const std::lock_guard lock(mutex_);
    if (regions_.empty() || regions_.back().used + bytes > size) {
      void* p = map_large(size);
      if (!p) return nullptr;
      regions_.push_back({static_cast<u8*>(p)});
    }
    Region& r = regions_.back();
    u8* p = r.data + r.used;
    r.used += bytes;
    r.live += bytes;
    return p;
  }
  void give_back(void* data, u64 bytes) {
    bytes = rounded(bytes);
    const std::lock_guard lock(mutex_);
    const auto r = std::find_if(regions_.begin(), regions_.end(), [&](const Region& x) { return data >= x.data && data < x.data + size; });
    FEWBIT_CHECK(r != regions_.end() && r->live >= bytes, "%llu bytes that no region holds", static_cast<unsigned long long>(bytes));
    r->live -= bytes;
    if (r->live > 0) {
      madvise(data, bytes, MADV_DONTNEED);
      return;
    }
    FEWBIT_CHECK(munmap(r->data, size) == 0, "munmap of %llu bytes", static_cast<unsigned long long>(size));
    regions_.erase(r);
  }

 private:
  static constexpr u64 size = u64(64) << 20;
  struct Region {
    u8* data;
    u64 used = 0, live = 0;
  };
  static u64 rounded(u64 bytes) { return u64(round_up(i64(bytes), 4096)); }
  std::mutex mutex_;
  std::vector<Region> regions_;
};

class CpuDevice final : public Device {
 public:
  explicit CpuDevice(int threads) : pool_(threads) {}

  DeviceKind kind() const override { return DeviceKind::cpu; }
  std::string id() const override { return "cpu"; }
  std::string name() const override { return fmt::format("{} ({})", cpu_features().name, cpu_features().sets()); }
  u64 memory_total() const override { return memory().total; }
  u64 memory_free() const override { return memory().available; }

  // Anonymous pages: zero, page aligned, and without cost until they are touched.
  Result<Buffer> allocate(u64 bytes) override {
    if (bytes == 0) return Buffer();
    Memory m = memory();
    void* p = nullptr;
    if (Regions::holds(bytes)) {
      p = regions_.take(bytes);
    } else if (bytes >= Regions::most && bytes <= m.total) {
      p = map_large(bytes);
    } else if (bytes <= m.total) {
      p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (p == MAP_FAILED) p = nullptr;
    }
    if (!p) {
      return Error{Code::out_of_memory, fmt::format("cpu: cannot allocate {} MiB: {} MiB of memory, {} MiB of it free", bytes >> 20,
                                                    m.total >> 20, m.available >> 20)};
    }
    return Buffer(this, p, bytes);
  }
  void release(void* data, u64 bytes) override {
    if (Regions::holds(bytes)) return regions_.give_back(data, bytes);
    FEWBIT_CHECK(munmap(data, bytes) == 0, "munmap of %llu bytes", static_cast<unsigned long long>(bytes));
  }
  void upload(void* to, const void* from, u64 bytes) override { copy(to, from, bytes); }
  void download(void* to, const void* from, u64 bytes) override { copy(to, from, bytes); }
  void copy(void* to, const void* from, u64 bytes) override {
    if (bytes) std::memmove(to, from, bytes);
  }
  void zero(void* to, u64 bytes) override {
    if (bytes) std::memset(to, 0, bytes);
  }
  void synchronize() override {}
  ThreadPool* pool() override { return &pool_; }

 private:
  ThreadPool pool_;
  Regions regions_;
};

}  // namespace

Result<std::unique_ptr<Device>> open(const DeviceOptions& options) {
  return std::unique_ptr<Device>(std::make_unique<CpuDevice>(options.threads));
}

std::vector<DeviceInfo> list() {
  Memory m = memory();
  return {{"cpu", fmt::format("{} ({}), {} cores", cpu_features().name, cpu_features().sets(), usable_cores()), "", m.total, m.available}};
}

}  // namespace fewbit::cpu
