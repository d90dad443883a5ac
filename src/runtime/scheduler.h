// Many requests, one engine: continuous batching.  Every step decodes one token of each running request and fills what is left of the batch
// with prompts, in order of arrival, so that a long prompt never stops the others.  A column's result does not depend on the batch it is
// in, so a request's answer is the same whoever else is there.  One thread drives it.
#pragma once
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "runtime/engine.h"
#include "runtime/generate.h"
#include "runtime/sampler.h"

namespace fewbit::runtime {

struct Request {
  std::vector<Token> prompt;
  SampleParams sampling;
  int max_tokens = -1;      // -1: until the model stops or the context is full
  bool ignore_end = false;  // go on after end-of-turn tokens
  // Every token as it is chosen (the end-of-turn token too); false ends the request, as a stop string does.
  std::function<bool(Token)> on_token;
  std::function<void(StopReason)> on_done;
};

using RequestId = u64;

struct SchedulerOptions {
  int prefill_columns = 0;  // of one step at most; 0: what ubatch leaves
};

class Scheduler {
 public:
  explicit Scheduler(Engine& engine, const SchedulerOptions& options = {});
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;

  // Error: an empty prompt, one that leaves no room in the context, bad sampling parameters.
  Result<RequestId> submit(Request request);
  // Ends it with StopReason::cancelled, at once; nothing if it is not there any more.
  void cancel(RequestId id);
  // One batch.  False when there is nothing left to do.  Callbacks are called from here; they may submit and cancel.
  Result<bool> step();

  size_t waiting() const { return waiting_.size(); }
  size_t running() const { return running_.size(); }

 private:
  struct Job {
    RequestId id = 0;
    Request request;
    Sampler sampler;
    SequenceId seq;
    size_t fed = 0;  // tokens of the prompt in the sequence
    int made = 0;
    Token last = -1;     // chosen, not yet in the sequence
    int columns = 0;     // of this step
    bool wants = false;  // ... its last one's logits
    bool ended = false;
    StopReason reason = StopReason::length;
  };
  void admit();
  void compose();
  void choose(Job& job, Token token);
  void finish(Job& job, StopReason reason);
  void sweep();

  Engine& engine_;
  SchedulerOptions options_;
  std::deque<std::unique_ptr<Job>> waiting_, running_;  // in order of arrival
  std::vector<StepItem> items_;                         // kept: the token loop allocates nothing
  std::vector<Job*> of_item_;
  size_t n_items_ = 0;
  RequestId next_ = 1;
  bool warned_ = false;  // of numbers that are not finite: once
};

}  // namespace fewbit::runtime
