// The CUDA device: one GPU, one stream.  Included by .cu files only.
#pragma once
#include <cuda_runtime.h>

#include <utility>

#include "base/check.h"
#include "device/device.h"

// A failure of the driver other than out-of-memory leaves no usable context: stop.
#define FEWBIT_CUDA_CHECK(expr)                                                                                \
  do {                                                                                                         \
    const cudaError_t fewbit_e = (expr);                                                                       \
    FEWBIT_CHECK(fewbit_e == cudaSuccess, "%s: %s", cudaGetErrorName(fewbit_e), cudaGetErrorString(fewbit_e)); \
  } while (0)

namespace fewbit::cuda {

class CudaDevice final : public Device {
 public:
  CudaDevice(int index, const cudaDeviceProp& prop, u64 most);  // most: bytes that it may allocate
  ~CudaDevice() override;
  DeviceKind kind() const override { return DeviceKind::cuda; }
  std::string id() const override { return "cuda:" + std::to_string(index_); }
  std::string name() const override { return name_; }
  u64 memory_total() const override;
  u64 memory_free() const override;
  Result<Buffer> allocate(u64 bytes) override;
  void release(void* data, u64 bytes) override;
  void upload(void* to, const void* from_host, u64 bytes) override;
  void download(void* to_host, const void* from, u64 bytes) override;
  void copy(void* to, const void* from, u64 bytes) override;
  void zero(void* to, u64 bytes) override;
  void synchronize() override;
  bool begin_record() override;
  std::unique_ptr<Graph> end_record() override;
  void* stream() override { return stream_; }

  cudaStream_t cuda_stream() const { return stream_; }
  int sms() const { return sms_; }              // multiprocessors
  int arch() const { return arch_; }            // 90 for sm_90
  int max_smem() const { return smem_; }        // bytes of shared memory a block may ask for
  bool early_launch() const { return early_; }  // programmatic dependent launch (sm_90 and later)
  // Off where a kernel's weights are made by its predecessor: kernels read weights ahead.  Returns what it was.
  bool set_early_launch(bool on) { return std::exchange(early_, on); }

 private:
  int index_, sms_, arch_, smem_;
  bool early_;
  u64 most_, allocated_ = 0;  // bytes: the limit that FEWBIT_CUDA_MEMORY_MAX sets; in use
  std::string name_;
  cudaStream_t stream_ = nullptr;
  u8* pinned_ = nullptr;  // ring through which small transfers go
  u64 pinned_at_ = 0;
};

}  // namespace fewbit::cuda
