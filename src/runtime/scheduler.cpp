#include "runtime/scheduler.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"

namespace fewbit::runtime {

Scheduler::Scheduler(Engine& engine, const SchedulerOptions& options) : engine_(engine), options_(options) {}

Scheduler::~Scheduler() {
  for (auto& j : running_) engine_.free_sequence(j->seq);
}

Result<RequestId> Scheduler::submit(Request r) {
  if (r.prompt.empty()) return Error{Code::invalid_argument, "the prompt is empty"};
  if (int n = int(r.prompt.size()); n > engine_.options().n_ctx)
    return Error{Code::invalid_argument, fmt::format("a prompt of {} tokens does not fit the context of {}", n, engine_.options().n_ctx)};
  for (Token t : r.prompt)
    if (t < 0 || t >= engine_.info().vocab)
      return Error{Code::invalid_argument, fmt::format("token {} is not in the vocabulary of {}", t, engine_.info().vocab)};
  FEWBIT_OK(r.sampling.check());
  SampleParams sampling = r.sampling;
  auto job = std::make_unique<Job>(Job{.id = next_++, .request = std::move(r), .sampler = Sampler(std::move(sampling)), .seq = {}});
  for (Token t : job->request.prompt) job->sampler.accept(t);
  waiting_.push_back(std::move(job));
  return waiting_.back()->id;
}

void Scheduler::cancel(RequestId id) {
  for (auto* list : {&waiting_, &running_})
    for (auto& j : *list)
      if (j->id == id && !j->ended) return finish(*j, StopReason::cancelled);
}

void Scheduler::finish(Job& job, StopReason reason) {
  job.ended = true;
  job.reason = reason;
}

void Scheduler::admit() {
  while (!waiting_.empty()) {
    auto seq = engine_.new_sequence();
    if (!seq.ok()) return;  // all in use: wait for one
    waiting_.front()->seq = *seq;
    running_.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
}

// What ended gives its sequence back; then it may tell, when nothing of it is needed here any more.
void Scheduler::sweep() {
  std::vector<std::unique_ptr<Job>> ended;
  for (auto* list : {&running_, &waiting_}) {
    for (auto it = list->begin(); it != list->end();) {
      if (!(*it)->ended) {
        ++it;
        continue;
      }
      engine_.free_sequence((*it)->seq);
      ended.push_back(std::move(*it));
      it = list->erase(it);
    }
  }
  for (auto& j : ended)
    if (j->request.on_done) j->request.on_done(j->reason);
}

void Scheduler::compose() {
  n_items_ = 0;
  of_item_.clear();
  auto item = [&](Job& j) -> StepItem& {
    if (items_.size() == n_items_) items_.emplace_back();
    StepItem& it = items_[n_items_++];
    of_item_.push_back(&j);
    it.seq = j.seq;
    it.tokens.clear();
    it.want.clear();
    return it;
  };
  int left = engine_.options().ubatch;
  for (auto& j : running_) {
    j->columns = 0;
    j->wants = false;
    if (j->fed < j->request.prompt.size() || left == 0) continue;
    item(*j).tokens.push_back(j->last);
    j->columns = 1;
    j->wants = true;
    left--;
  }
  int prefill = options_.prefill_columns > 0 ? std::min(left, options_.prefill_columns) : left;
  for (auto& j : running_) {
    const std::vector<Token>& prompt = j->request.prompt;
    if (j->fed == prompt.size() || prefill == 0) continue;
    size_t n = std::min(prompt.size() - j->fed, size_t(prefill));
    StepItem& it = item(*j);
    it.tokens.assign(prompt.begin() + i64(j->fed), prompt.begin() + i64(j->fed + n));
    j->fed += n;
    j->columns = int(n);
    j->wants = j->fed == prompt.size();
    prefill -= int(n);
  }
  for (size_t i = 0; i < n_items_; i++)
    if (of_item_[i]->wants) items_[i].want.push_back(of_item_[i]->columns - 1);
}

void Scheduler::choose(Job& j, Token token) {
  j.sampler.accept(token);
  j.last = token;
  j.made++;
  bool more = !j.request.on_token || j.request.on_token(token);
  if (j.ended) return;  // cancelled by its own callback
  const text::Tokenizer* t = engine_.tokenizer();
  if (!j.request.ignore_end && t && t->is_end_of_generation(token)) return finish(j, StopReason::end_of_turn);
  if (!more) return finish(j, StopReason::stop_string);
  if (j.request.max_tokens >= 0 && j.made >= j.request.max_tokens) return finish(j, StopReason::length);
  if (engine_.length(j.seq) >= engine_.options().n_ctx) return finish(j, StopReason::context);
}

Result<bool> Scheduler::step() {
  sweep();
  admit();
  for (auto& j : running_)
    if (j->request.max_tokens == 0) finish(*j, StopReason::length);
  sweep();
  if (running_.empty()) return !waiting_.empty();
  compose();
  std::span<const StepItem> items(items_.data(), n_items_);
  bool argmax = std::all_of(of_item_.begin(), of_item_.end(), [](const Job* j) { return !j->wants || j->sampler.is_argmax(); });
  if (argmax) {
    FEWBIT_TRY(std::span<const Token> ids, engine_.step_argmax(items));
    size_t at = 0;
    for (Job* j : of_item_)
      if (j->wants) choose(*j, ids[at++]);
  } else {
    FEWBIT_TRY(std::span<const f32> logits, engine_.step(items));
    size_t at = 0, vocab = size_t(engine_.info().vocab);
    for (Job* j : of_item_)
      if (j->wants) choose(*j, j->sampler.sample(logits.subspan(vocab * at++, vocab)));
  }
  if (Status s = engine_.finite(); !s.ok() && !warned_) {  // the other sequences go on
    warned_ = true;
    log::warn("{}", s.error().what);
  }
  sweep();
  return !running_.empty() || !waiting_.empty();
}

}  // namespace fewbit::runtime
