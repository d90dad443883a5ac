// Where bytes live and how they move.  A Device is one CPU or one GPU; everything enqueued on it runs in order.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/thread_pool.h"
#include "base/types.h"

namespace fewbit {

enum class DeviceKind { cpu, cuda, metal };

class Device;

// Memory of a device, given back on destruction.  Contents are zero after allocation.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Device* device, void* data, u64 bytes) : device_(device), data_(data), bytes_(bytes) {}
  Buffer(Buffer&& o) noexcept { *this = std::move(o); }
  Buffer& operator=(Buffer&& o) noexcept {
    std::swap(device_, o.device_);
    std::swap(data_, o.data_);
    std::swap(bytes_, o.bytes_);
    return *this;
  }
  ~Buffer();
  void* data() const { return data_; }
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  u64 bytes() const { return bytes_; }

 private:
  Device* device_ = nullptr;
  void* data_ = nullptr;
  u64 bytes_ = 0;
};

// A recorded sequence of device work that can be launched again (a CUDA graph); on a CPU there is none.
class Graph {
 public:
  virtual ~Graph() = default;
  virtual void launch() = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual DeviceKind kind() const = 0;
  virtual std::string id() const = 0;    // "cpu", "cuda:0"
  virtual std::string name() const = 0;  // "Intel(R) Xeon(R) ... (avx2 avx512 avx512_vnni)", "NVIDIA H200 (sm_90)"
  virtual u64 memory_total() const = 0;
  virtual u64 memory_free() const = 0;

  // Aligned to 256 bytes, zeroed.  Error: out_of_memory with the numbers.
  virtual Result<Buffer> allocate(u64 bytes) = 0;
  virtual void release(void* data, u64 bytes) = 0;
  virtual void upload(void* to, const void* from_host, u64 bytes) = 0;    // in order; the source may be reused on return
  virtual void download(void* to_host, const void* from, u64 bytes) = 0;  // in order; complete on return
  virtual void copy(void* to, const void* from, u64 bytes) = 0;           // within the device, in order
  virtual void zero(void* to, u64 bytes) = 0;
  virtual void synchronize() = 0;

  // Recording: what is enqueued between begin and end is not run but kept.  end_record returns nullptr where there are no graphs,
  // and begin_record returns false there (the caller then just enqueues every time).
  virtual bool begin_record() { return false; }
  virtual std::unique_ptr<Graph> end_record() { return nullptr; }

  virtual ThreadPool* pool() { return nullptr; }  // CPU only
  virtual void* stream() { return nullptr; }      // cudaStream_t
};

struct DeviceOptions {
  int threads = 0;  // CPU: 0 = one per usable core
};

// "cpu", "cuda", "cuda:1", "metal", "auto" (a GPU if there is one, else the CPU).  One clear line if it is not there.
Result<std::unique_ptr<Device>> open_device(const std::string& spec, const DeviceOptions& options = {});

// What `fewbit devices` lists.
struct DeviceInfo {
  std::string id, name, note;  // note: why it cannot be used, if so
  u64 memory_total = 0, memory_free = 0;
};
std::vector<DeviceInfo> list_devices();

namespace cuda {  // device/cuda/*.cu, or device/cuda/absent.cpp in a build without CUDA
Result<std::unique_ptr<Device>> open(int index);
std::vector<DeviceInfo> list();
}  // namespace cuda

}  // namespace fewbit
