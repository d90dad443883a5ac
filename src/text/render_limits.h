// Bounds on rendering a chat template, which comes from a file and is not trusted.
#pragma once
#include <cstddef>
#include <ctime>
#include <optional>

namespace fewbit::text {

struct RenderLimits {
  std::size_t steps = 10'000'000;                  // evaluated nodes and elements; copying text counts a step per 64 bytes
  int depth = 1'000;                               // nested evaluation: expressions, blocks, macro calls, nested values
  std::size_t text_bytes = std::size_t{64} << 20;  // the prompt, and every string on the way to it
  std::size_t heap_bytes = std::size_t{256} << 20;
  std::optional<std::time_t> now;  // what strftime_now reads; unset: the clock
};

}  // namespace fewbit::text
