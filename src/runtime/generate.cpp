#include "runtime/generate.h"

#include <fmt/format.h>

#include "base/clock.h"

namespace fewbit::runtime {

Result<GenerateResult> generate(Engine& engine, SequenceId seq, std::span<const Token> prompt, Sampler& sampler, const GenerateOptions& o,
                                const std::function<void(const std::string&)>& emit) {
  const int n_ctx = engine.options().n_ctx, ubatch = engine.options().ubatch;
  if (prompt.empty()) return Error{Code::invalid_argument, "the prompt gives no tokens"};
  if (engine.length(seq) + i64(prompt.size()) > n_ctx) {
    return Error{Code::invalid_argument,
                 fmt::format("the prompt needs {} positions, the context has {} (-c)", engine.length(seq) + i64(prompt.size()), n_ctx)};
  }
  const text::Tokenizer* tokenizer = engine.tokenizer();
  if (!tokenizer) return Error{Code::unsupported, engine.tokenizer_problem()};

  GenerateResult r;
  text::Stream stream(*tokenizer, o.stop, o.special);
  auto show = [&](const std::string& s) {
    if (s.empty()) return;
    r.text += s;
    if (emit) emit(s);
  };
  auto cancelled = [&] { return o.cancel && o.cancel->load(); };
  for (Token t : prompt) sampler.accept(t);

  f64 t0 = now_s();
  std::span<const f32> logits;
  for (size_t at = 0; at < prompt.size() && !cancelled(); at += size_t(ubatch)) {  // in passes, so that Ctrl-C is heard
    const size_t end = std::min(prompt.size(), at + size_t(ubatch));
    StepItem item{seq, {prompt.begin() + i64(at), prompt.begin() + i64(end)}, {}};
    if (end == prompt.size()) item.want = {int(end - at) - 1};
    auto out = engine.step({&item, 1});
    if (!out.ok() && out.error().code == Code::cancelled) break;
    FEWBIT_TRY(logits, std::move(out));
    FEWBIT_OK(engine.finite());
    r.prompt_tokens = int(end);
  }
  r.prefill_s = now_s() - t0;
  t0 = now_s();
  StepItem item{seq, {0}, {0}};
  while (true) {
    if (cancelled()) {
      r.reason = StopReason::cancelled;
      break;
    }
    if (o.max_tokens >= 0 && int(r.tokens.size()) >= o.max_tokens) {
      r.reason = StopReason::length;
      break;
    }
    const Token next = sampler.sample(logits);
    sampler.accept(next);
    r.tokens.push_back(next);
    if (!o.ignore_end && tokenizer->is_end_of_generation(next)) {
      r.reason = StopReason::end_of_turn;
      break;
    }
    show(stream.push(next));
    if (stream.stopped()) {
      r.reason = StopReason::stop_string;
      break;
    }
    if (o.max_tokens >= 0 && int(r.tokens.size()) >= o.max_tokens) {
      r.reason = StopReason::length;
      break;
    }
    if (engine.length(seq) + 1 > n_ctx) {
      r.reason = StopReason::context;
      break;
    }
    item.tokens[0] = next;
    auto out = engine.step({&item, 1});
    if (!out.ok() && out.error().code == Code::cancelled) continue;  // the loop's head says the rest
    FEWBIT_TRY(logits, std::move(out));
    FEWBIT_OK(engine.finite());
  }
  r.decode_s = now_s() - t0;
  if (!stream.stopped()) show(stream.finish());
  return r;
}

}  // namespace fewbit::runtime
