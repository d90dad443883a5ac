// eval: one forward pass over given tokens (logits of every position), and a greedy continuation with the cache in use.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "app/cli/common.h"
#include "app/cli/values.h"
#include "base/new_file.h"

namespace fewbit::cli {

using runtime::StepItem;
using text::Token;

struct EvalCommand {
  ModelOptions model;
  std::string tokens, prompt, logits, act;
  int greedy = 0, ubatch = 0;
  bool json = false;
};

// The ids in numbers, or of the text.
static Result<std::vector<Token>> input_tokens(const runtime::Prepared& p, std::vector<Token> ids, const std::string& prompt) {
  if (!ids.empty()) return ids;
  if (!p.tokenizer) return Error{Code::unsupported, p.tokenizer_problem + "; use --tokens"};
  ids = p.tokenizer->encode(prompt, {.add_special = true, .parse_special = true});
  if (ids.empty()) return Error{Code::invalid_argument, "-p: the text gives no tokens"};
  return ids;
}

static Token best(std::span<const f32> logits) { return Token(std::max_element(logits.begin(), logits.end()) - logits.begin()); }

static Status eval_command(EvalCommand& o) {
  if (o.tokens.empty() && o.prompt.empty()) usage("eval: --tokens IDS or -p TEXT is required");
  const bool keep = !o.logits.empty();
  o.model.engine.act_int8 = o.act == "int8";
  std::vector<Token> tokens;
  if (!o.tokens.empty())
    for (i64 id : parse_ints("--tokens", o.tokens, 0, INT32_MAX)) tokens.push_back(Token(id));
  std::string bad_id;
  // The context holds what we were given, and no pass is wider.
  o.model.engine.positions = [&](const runtime::Prepared& p) -> Result<i64> {
    FEWBIT_TRY(tokens, input_tokens(p, std::move(tokens), o.prompt));
    for (Token t : tokens)
      if (t >= p.n_vocab) bad_id = fmt::format("--tokens: {} is not in the vocabulary: 0 to {}", t, p.n_vocab - 1);
    return i64(tokens.size()) + std::max(0, o.greedy - 1);
  };
  if (o.ubatch == 0) o.model.engine.ubatch = 1024;
  if (keep) o.model.engine.logits_bytes = u64(256) << 20;
  auto plan = o.model.prepare();
  if (!bad_id.empty()) usage(bad_id);
  FEWBIT_TRY(runtime::Prepared prepared, std::move(plan));
  prepared.options.positions = nullptr;
  std::optional<NewFile> file;
  if (keep) {
    FEWBIT_OK(keep_apart("--logits", o.logits, prepared.options.model));
    FEWBIT_TRY(file, NewFile::create(o.logits));
  }
  FEWBIT_TRY(auto engine, ModelOptions::load(std::move(prepared)));
  FEWBIT_TRY(auto seq, engine->new_sequence());
  const size_t vocab = size_t(engine->info().vocab), n = tokens.size();
  size_t piece = o.ubatch ? size_t(o.ubatch) : n;
  if (keep) {  // how tokens are fed changes no bit: as many at a time as there is memory for their logits
    piece = std::min(piece, size_t(engine->options().logits));
    const std::string head = npy_head(i64(n), i64(vocab));
    FEWBIT_OK(file->reserve(head.size() + n * vocab * sizeof(f32)));
    FEWBIT_OK(file->write(head.data(), head.size()));
  }
  std::span<const f32> last;
  for (size_t at = 0; at < n; at += piece) {
    StepItem item{seq, {tokens.begin() + long(at), tokens.begin() + long(std::min(n, at + piece))}, {}};
    if (keep) {
      item.want.resize(item.tokens.size());
      std::iota(item.want.begin(), item.want.end(), 0);
    } else if (at + piece >= n) {
      item.want = {int(item.tokens.size()) - 1};
    }
    auto out = engine->step({&item, 1});
    if (!out.ok() && out.error().code == Code::cancelled) return check_cancel(fmt::format("after {} of {} tokens", at, n));
    FEWBIT_TRY(std::span<const f32> logits, std::move(out));
    FEWBIT_OK(engine->finite());
    if (keep) FEWBIT_OK(file->write(logits.data(), logits.size_bytes()));
    if (at + piece >= n) last = logits.last(vocab);
  }
  const Token after = best(last);
  const f32 logit = last[size_t(after)];
  Json greedy = Json::array();
  Token next = after;
  for (int i = 0; i < o.greedy; i++) {
    greedy.push_back(next);
    if (i + 1 == o.greedy) break;
    if (Status s = check_cancel(fmt::format("after {} of {} further tokens", i + 1, o.greedy)); !s.ok()) return s;
    StepItem item{seq, {next}, {0}};
    FEWBIT_TRY(auto ids, engine->step_argmax({&item, 1}));
    FEWBIT_OK(engine->finite());
    next = ids[0];
  }
  if (keep) FEWBIT_OK(file->publish());
  if (o.json) {
    Json out{{"tokens", tokens}, {"vocab", vocab}, {"argmax_last", after}};
    if (o.greedy) out["greedy"] = greedy;
    fmt::print("{}\n", out.dump());
  } else if (o.greedy) {
    fmt::print("{}\n", greedy.dump());
  } else if (!keep) {
    fmt::print("next token {} (logit {:.4f})\n", after, logit);
  }
  return {};
}

void add_eval(CLI::App& app, Run& run) {
  auto o = std::make_shared<EvalCommand>();
  o->model.add(app, true);
  auto* t = app.add_option("--tokens", o->tokens, "token ids with commas");
  app.add_option("-p,--prompt", o->prompt, "text instead of ids")->excludes(t);
  app.add_option("--logits", o->logits, "write float32 (tokens, vocabulary) as .npy");
  app.add_option("--greedy", o->greedy, "continue this many tokens")->check(whole(1, 1 << 20));
  app.add_option("--ubatch", o->ubatch, "feed the tokens this many at a time (1 = one by one, 0 = all at once)")->check(whole(0, 1 << 20));
  app.add_option("--act", o->act, "int8: round activations per token as BitNet's own code does")->check(CLI::IsMember({"int8"}));
  app.add_flag("--json", o->json, "one JSON document on standard output");
  run = [o]() { return eval_command(*o); };
}

}  // namespace fewbit::cli
