// Which of two layouts a type gets: ternary weights as 2-bit codes (2.125 bits with their scales) or in base 3 (1.75).
//
// Base 3 has fewer bytes but takes more instructions, so the memory's speed against the multiprocessors' decides: the first question
// about such a type times the product of one column in both, on weights that the L2 cache does not hold.  A hundredth counts as a tie,
// and goes to the smaller layout.  Results do not depend on the choice.
#include <algorithm>
#include <cstdlib>
#include <map>

#include "kernel/cuda/common.cuh"
#include "kernel/cuda/layout.h"
#include "kernel/cuda/ops.h"

namespace fewbit::kernel::cuda {

int dense_choice = 0;

namespace {

constexpr Type example = Type::PTQ1_0;  // all such types have the same two layouts
constexpr i64 rows = 34816, cols = 5120;
constexpr int rounds = 5;

struct Measured {
  f64 us[2] = {};  // [dense]; 0: not measured
};
Device* current = nullptr;                 // of dense_on()
std::map<std::string, Measured> measured;  // by device

__global__ void random_bits_kernel(u32* p, u64 n) {
  for (u64 i = u64(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += u64(gridDim.x) * blockDim.x) {
    u64 x = (i + 1) * 0x9e3779b97f4a7c15ull;
    x ^= x >> 29, x *= 0xbf58476d1ce4e5b9ull;
    p[i] = u32(x >> 32);
  }
}

Measured measure(Device& device) {
  Measured m;
  auto& d = static_cast<fewbit::cuda::CudaDevice&>(device);
  int index = 0, l2 = 0;
  FEWBIT_CUDA_CHECK(cudaGetDevice(&index));
  FEWBIT_CUDA_CHECK(cudaDeviceGetAttribute(&l2, cudaDevAttrL2CacheSize, index));
  const u64 bytes = Units(type_layout(example).layout, rows, cols).bytes();
  const u64 copies = 1 + (2 * u64(l2) + bytes - 1) / bytes;
  auto memory = device.allocate(copies * bytes), vectors = device.allocate(act_bytes(ActLayout::q8_128, int(cols), 1) + rows * 4);
  if (!memory.ok() || !vectors.ok()) return m;
  const Act act{ActLayout::q8_128, int(cols), 1, vectors->as<u8>() + rows * 4};
  random_bits_kernel<<<unsigned(d.sms() * 8), 256, 0, d.cuda_stream()>>>(memory->as<u32>(), copies * bytes / 4);
  random_bits_kernel<<<1, 256, 0, d.cuda_stream()>>>(vectors->as<u32>(), vectors->bytes() / 4);
  FEWBIT_CUDA_CHECK(cudaGetLastError());
  Ctx ctx;
  ctx.device = &device;
  cudaEvent_t begin, end;
  FEWBIT_CUDA_CHECK(cudaEventCreate(&begin));
  FEWBIT_CUDA_CHECK(cudaEventCreate(&end));
  std::vector<f64> us[2];
  for (int round = 0; round < 1 + rounds; round++)
    for (int dense = 0; dense < 2; dense++) {
      Weight w;
      w.type = example, w.layout_id = type_layout(example, dense).layout, w.rows = rows, w.cols = cols;
      FEWBIT_CUDA_CHECK(cudaEventRecord(begin, d.cuda_stream()));
      for (u64 i = 0; i < copies; i++) {
        w.data = memory->as<u8>() + i * bytes;
        const Kernels::Product p{&w, &act, vectors->as<f32>(), rows, false};
        matmul(ctx, {&p, 1});
      }
      FEWBIT_CUDA_CHECK(cudaEventRecord(end, d.cuda_stream()));
      FEWBIT_CUDA_CHECK(cudaEventSynchronize(end));
      float ms = 0;
      FEWBIT_CUDA_CHECK(cudaEventElapsedTime(&ms, begin, end));
      if (round) us[dense].push_back(f64(ms) * 1e3 / f64(copies));
    }
  FEWBIT_CUDA_CHECK(cudaEventDestroy(begin));
  FEWBIT_CUDA_CHECK(cudaEventDestroy(end));
  for (int dense = 0; dense < 2; dense++) {
    std::sort(us[dense].begin(), us[dense].end());
    m.us[dense] = us[dense][rounds / 2];
  }
  return m;
}

int from_outside() {
  if (dense_choice) return dense_choice;
  const char* word = std::getenv("FEWBIT_CUDA_DENSE");
  return !word || !*word ? 0 : word[0] == '0' ? -1 : 1;
}

const Measured& ask() {
  static const Measured none;
  if (!current) return none;
  auto [at, fresh] = measured.try_emplace(current->id());
  if (fresh) at->second = measure(*current);
  return at->second;
}

}  // namespace

void dense_on(Device& device) { current = &device; }

bool dense_chosen(Type type) {
  if (!has_dense(type)) return false;
  if (const int choice = from_outside()) return choice > 0;
  return ask().us[1] < 1.01 * ask().us[0];
}

std::string dense_reason(Type type, bool dense) {
  if (!has_dense(type)) return "";
  if (dense) return " (the smaller)";
  if (from_outside()) return " (asked for)";
  const Measured& m = ask();
  if (m.us[0] == 0) return " (no memory to compare layouts)";
  char text[96];
  std::snprintf(text, sizeof text, " (%lldx%lld: t5 %.1f us, b2 %.1f us)", (long long)rows, (long long)cols, m.us[1], m.us[0]);
  return text;
}

}  // namespace fewbit::kernel::cuda
