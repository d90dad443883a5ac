// Bytes choose an architecture and what to change in a toy model of it; the result is refused in one line or loads.
#include "base/fuzz.h"
#include "model/mutations.h"

using namespace fewbit;

static Device& device() {
  static std::unique_ptr<Device> d = std::move(*open_device("cpu", {.threads = 1}));
  return *d;
}

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  fuzz::write_seeds_if_asked([](auto write) {
    for (u8 a = 0; a < std::size(model::toy_architectures); a++) {
      std::vector<u8> bytes(32);
      for (size_t i = 0; i < bytes.size(); i++) bytes[i] = u8(i * 37 + a);
      bytes[0] = 0;
      bytes[1] = a;
      write(model::toy_architectures[a], bytes);
    }
  });
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  model::Choices c(std::span<const u8>(data, size));
  std::vector<u8> bytes = model::mutated_toy(c).bytes();
  model::load_mutated(bytes, device());
  return 0;
}
