#include "device/cuda/cuda_device.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "device/cuda/environment.h"

namespace fewbit::cuda {

namespace {

constexpr u64 ring_bytes = 1 << 20, small_transfer = ring_bytes / 4;

__global__ void probe_kernel() {}

// What an allocation takes of the memory: the driver gives large ones out in pages of 2 MiB.
u64 taken(u64 bytes) {
  constexpr u64 page = 2 << 20;
  return bytes > page / 2 ? (bytes + page - 1) / page * page : bytes;
}

std::string mib(u64 bytes) { return std::to_string(bytes >> 20) + " MiB"; }

// Why a call failed.  Without any driver the runtime says that the driver is too old.
std::string reason(cudaError_t e) {
  cudaGetLastError();
  if (e != cudaErrorInsufficientDriver) return cudaGetErrorString(e);
  int driver = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || !driver) return "no NVIDIA driver was found";
  auto version = [](int v) { return std::to_string(v / 1000) + "." + std::to_string(v % 1000 / 10); };
  return "the NVIDIA driver is for CUDA " + version(driver) + " at most, this build needs " + version(CUDART_VERSION);
}

Error unusable(int index, cudaError_t e) { return Error{Code::unsupported, "device 'cuda:" + std::to_string(index) + "': " + reason(e)}; }

std::string device_name(const cudaDeviceProp& p) { return std::string(p.name) + " (sm_" + std::to_string(p.major * 10 + p.minor) + ")"; }

class CudaGraph final : public Graph {
 public:
  CudaGraph(cudaGraphExec_t exec, cudaStream_t stream) : exec_(exec), stream_(stream) {}
  ~CudaGraph() override { cudaGraphExecDestroy(exec_); }
  void launch() override { FEWBIT_CUDA_CHECK(cudaGraphLaunch(exec_, stream_)); }

 private:
  cudaGraphExec_t exec_;
  cudaStream_t stream_;
};

}  // namespace

CudaDevice::CudaDevice(int index, const cudaDeviceProp& prop, u64 most)
    : index_(index),
      sms_(prop.multiProcessorCount),
      arch_(prop.major * 10 + prop.minor),
      smem_(int(prop.sharedMemPerBlockOptin)),
      most_(most),
      name_(device_name(prop)) {
  const char* off = std::getenv("FEWBIT_CUDA_EARLY_LAUNCH");
  early_ = arch_ >= 90 && !(off && off[0] == '0');
  FEWBIT_CUDA_CHECK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  FEWBIT_CUDA_CHECK(cudaMallocHost(reinterpret_cast<void**>(&pinned_), ring_bytes));
}

CudaDevice::~CudaDevice() {
  cudaStreamSynchronize(stream_);
  cudaFreeHost(pinned_);
  cudaStreamDestroy(stream_);
}

u64 CudaDevice::memory_total() const {
  size_t free = 0, total = 0;
  FEWBIT_CUDA_CHECK(cudaMemGetInfo(&free, &total));
  return std::min<u64>(total, most_);
}
u64 CudaDevice::memory_free() const {
  size_t free = 0, total = 0;
  FEWBIT_CUDA_CHECK(cudaMemGetInfo(&free, &total));
  return std::min<u64>(free, most_ - std::min(most_, allocated_));
}

Result<Buffer> CudaDevice::allocate(u64 bytes) {
  void* p = nullptr;
  const cudaError_t e = taken(bytes) > most_ - std::min(most_, allocated_) ? cudaErrorMemoryAllocation : cudaMalloc(&p, bytes ? bytes : 1);
  if (e == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return Error{Code::out_of_memory,
                 id() + ": " + mib(bytes) + " asked for, " + mib(memory_free()) + " of " + mib(memory_total()) + " free"};
  }
  FEWBIT_CUDA_CHECK(e);
  allocated_ += taken(bytes);
  zero(p, bytes);
  return Buffer(this, p, bytes);
}

void CudaDevice::release(void* data, u64 bytes) {
  FEWBIT_CUDA_CHECK(cudaStreamSynchronize(stream_));
  allocated_ -= taken(bytes);
  FEWBIT_CUDA_CHECK(cudaFree(data));
}

void CudaDevice::upload(void* to, const void* from_host, u64 bytes) {
  if (!bytes) return;
  if (bytes > small_transfer) {  // pageable: returns when the source has been read
    FEWBIT_CUDA_CHECK(cudaMemcpyAsync(to, from_host, bytes, cudaMemcpyHostToDevice, stream_));
    FEWBIT_CUDA_CHECK(cudaStreamSynchronize(stream_));
    return;
  }
  if (pinned_at_ + bytes > ring_bytes) {
    FEWBIT_CUDA_CHECK(cudaStreamSynchronize(stream_));
    pinned_at_ = 0;
  }
  u8* at = pinned_ + pinned_at_;
  std::memcpy(at, from_host, bytes);
  pinned_at_ += (bytes + 63) & ~u64(63);
  FEWBIT_CUDA_CHECK(cudaMemcpyAsync(to, at, bytes, cudaMemcpyHostToDevice, stream_));
}

void CudaDevice::download(void* to_host, const void* from, u64 bytes) {
  if (!bytes) return;
  if (bytes > small_transfer || pinned_at_ + bytes > ring_bytes) {
    FEWBIT_CUDA_CHECK(cudaMemcpyAsync(to_host, from, bytes, cudaMemcpyDeviceToHost, stream_));
    FEWBIT_CUDA_CHECK(cudaStreamSynchronize(stream_));
    return;
  }
  u8* at = pinned_ + pinned_at_;
  FEWBIT_CUDA_CHECK(cudaMemcpyAsync(at, from, bytes, cudaMemcpyDeviceToHost, stream_));
  FEWBIT_CUDA_CHECK(cudaStreamSynchronize(stream_));
  std::memcpy(to_host, at, bytes);
  pinned_at_ = 0;  // everything before has run
}

void CudaDevice::copy(void* to, const void* from, u64 bytes) {
  if (bytes) FEWBIT_CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream_));
}
void CudaDevice::zero(void* to, u64 bytes) {
  if (bytes) FEWBIT_CUDA_CHECK(cudaMemsetAsync(to, 0, bytes, stream_));
}
void CudaDevice::synchronize() { FEWBIT_CUDA_CHECK(cudaStreamSynchronize(stream_)); }

bool CudaDevice::begin_record() {
  FEWBIT_CUDA_CHECK(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
  return true;
}

std::unique_ptr<Graph> CudaDevice::end_record() {
  cudaGraph_t graph = nullptr;
  FEWBIT_CUDA_CHECK(cudaStreamEndCapture(stream_, &graph));
  cudaGraphExec_t exec = nullptr;
  FEWBIT_CUDA_CHECK(cudaGraphInstantiate(&exec, graph, 0));
  FEWBIT_CUDA_CHECK(cudaGraphDestroy(graph));
  return std::make_unique<CudaGraph>(exec, stream_);
}

Result<std::unique_ptr<Device>> open(int index) {
  int n = 0;
  if (cudaError_t e = cudaGetDeviceCount(&n); e != cudaSuccess) return unusable(index, e);
  if (index >= n)
    return Error{Code::not_found, "device 'cuda:" + std::to_string(index) + "': this machine has " + std::to_string(n) + " CUDA devices"};
  cudaDeviceProp prop;
  if (cudaError_t e = cudaGetDeviceProperties(&prop, index); e != cudaSuccess) return unusable(index, e);
  if (cudaError_t e = cudaSetDevice(index); e != cudaSuccess) return unusable(index, e);
  probe_kernel<<<1, 1>>>();
  cudaError_t e = cudaGetLastError();
  if (e == cudaSuccess) e = cudaDeviceSynchronize();
  if (e == cudaErrorNoKernelImageForDevice || e == cudaErrorInvalidKernelImage) {
    return Error{Code::unsupported, "device 'cuda:" + std::to_string(index) + "': this build has no code for " + device_name(prop) +
                                        " (see FEWBIT_CUDA_ARCHS)"};
  }
  if (e != cudaSuccess) return unusable(index, e);
  if (const std::string wrong = environment_error(); !wrong.empty()) return Error{Code::invalid_argument, wrong};
  const f64 gib = memory_limit_gib();
  return std::unique_ptr<Device>(std::make_unique<CudaDevice>(index, prop, gib > 0 ? u64(gib * f64(1 << 30)) : ~u64(0)));
}

std::vector<DeviceInfo> list() {
  std::vector<DeviceInfo> all;
  int n = 0;
  if (const cudaError_t e = cudaGetDeviceCount(&n); e != cudaSuccess) {
    DeviceInfo none;
    none.id = "cuda", none.note = reason(e);
    all.push_back(std::move(none));
    return all;
  }
  for (int i = 0; i < n; i++) {
    DeviceInfo info;
    info.id = "cuda:" + std::to_string(i);
    cudaDeviceProp prop;
    if (cudaError_t e = cudaGetDeviceProperties(&prop, i); e != cudaSuccess) {
      info.note = reason(e);
    } else {
      info.name = device_name(prop);
      size_t free = 0, total = 0;
      if (cudaSetDevice(i) == cudaSuccess && cudaMemGetInfo(&free, &total) == cudaSuccess)
        info.memory_total = total, info.memory_free = free;
      if (prop.major < 8) info.note = "sm_80 or later is needed";
    }
    all.push_back(std::move(info));
  }
  return all;
}

}  // namespace fewbit::cuda
