#include "device/cpu/cpu_device.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <string>

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
    void* p = MAP_FAILED;
    if (bytes <= m.total) p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) {
      return Error{Code::out_of_memory, fmt::format("cpu: cannot allocate {} MiB: {} MiB of memory, {} MiB of it free", bytes >> 20,
                                                    m.total >> 20, m.available >> 20)};
    }
    // Large buffers are streamed through (weights, KV, state): fewer address translations with 2 MiB pages.
    if (bytes >= (u64(8) << 20)) madvise(p, bytes, MADV_HUGEPAGE);
    return Buffer(this, p, bytes);
  }
  void release(void* data, u64 bytes) override {
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
