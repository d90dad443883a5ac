// The bytes of a file in front of its data section, checked as the reader would check them.
#pragma once
#include <span>
#include <vector>

#include "gguf/gguf.h"

namespace fewbit::gguf {

struct Layout {
  std::vector<u8> head;      // header, key/values, tensor infos, padding up to the data section
  std::vector<u64> sizes;    // bytes of each tensor, without padding
  std::vector<u64> offsets;  // from the start of the data section
  u64 alignment = 32;
  u64 file_bytes = 0;  // the last tensor padded
};

// alignment 0: what the metadata says, else 32.  Errors name the key or tensor.
Result<Layout> serialize(const std::vector<KeyValue>& metadata, std::span<const Writer::TensorInfo> tensors, u64 alignment);

}  // namespace fewbit::gguf
