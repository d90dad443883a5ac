// Recorded steps.  On a device with graphs the launches of a small step are recorded once per shape and then replayed as one; everything
// that changes from step to step (tokens, positions, pages) lies in device arrays whose addresses do not change.
#pragma once
#include <map>
#include <memory>

#include "device/device.h"

namespace fewbit::runtime {

// What the launches of a step depend on.
struct StepShape {
  int cols = 0, seqs = 0, max_seq_cols = 0, max_pos = 0, wanted = 0;
  bool in_order = false, argmax = false;
  auto operator<=>(const StepShape&) const = default;
};

// Largest position as recorded: rounded up, so that a growing sequence does not need a graph per token.
int position_bucket(int max_pos, int n_ctx);

class Replay {
 public:
  explicit Replay(Device& device) : device_(device) {}

  // Runs `enqueue`, or replays what it enqueued before for this shape.  A shape is recorded when it comes a second time.
  template <class F>
  void run(const StepShape& shape, F&& enqueue) {
    Entry* e = shape.cols <= max_cols ? entry(shape) : nullptr;
    if (e && e->graph) return e->graph->launch();
    if (e && e->seen++ == 1 && device_.begin_record()) {
      enqueue();
      e->graph = device_.end_record();
      if (e->graph) return e->graph->launch();
    }
    enqueue();
  }
  size_t graphs() const;

 private:
  static constexpr int max_cols = 64;  // wider steps are not bound by launches
  static constexpr size_t max_entries = 512;
  struct Entry {
    int seen = 0;
    std::unique_ptr<Graph> graph;
  };
  Entry* entry(const StepShape& shape);
  Device& device_;
  std::map<StepShape, Entry> entries_;
};

}  // namespace fewbit::runtime
