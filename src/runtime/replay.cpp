#include "runtime/replay.h"

#include <algorithm>
#include <bit>

namespace fewbit::runtime {

int position_bucket(int max_pos, int n_ctx) {
  u32 tokens = u32(std::max(max_pos + 1, 64)), power = std::bit_ceil(tokens);
  // Between powers of two one step more: at most a third of the grid is idle.
  if (tokens <= power / 4 * 3) power = power / 4 * 3;
  return std::min(int(power), n_ctx) - 1;
}

Replay::Entry* Replay::entry(const StepShape& shape) {
  if (device_.kind() == DeviceKind::cpu) return nullptr;
  auto it = entries_.find(shape);
  if (it == entries_.end()) {
    if (entries_.size() >= max_entries) entries_.clear();
    it = entries_.emplace(shape, Entry()).first;
  }
  return &it->second;
}

size_t Replay::graphs() const {
  return size_t(std::count_if(entries_.begin(), entries_.end(), [](const auto& e) { return e.second.graph != nullptr; }));
}

}  // namespace fewbit::runtime
