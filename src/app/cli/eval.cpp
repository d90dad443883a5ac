// eval: one forward pass over given tokens (logits of every position), and a greedy continuation with the cache in use.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "app/cli/common.h"

namespace fewbit::cli {

using runtime::Engine;
using runtime::StepItem;
using text::Token;

static Result<std::vector<Token>> input_tokens(const Engine& engine, const std::string& ids, const std::string& prompt) {
  std::vector<Token> tokens;
  if (!ids.empty()) {
    for (i64 id : parse_ints("--tokens", ids, 0, engine.info().vocab - 1)) tokens.push_back(Token(id));
    return tokens;
  }
  if (!engine.tokenizer()) return Error{Code::unsupported, engine.tokenizer_problem() + "; use --tokens"};
  tokens = engine.tokenizer()->encode(prompt, {.add_special = true, .parse_special = true});
  if (tokens.empty()) return Error{Code::invalid_argument, "-p: the text gives no tokens"};
  return tokens;
}

void add_eval(CLI::App& app, Run& run) {
  struct Options {
    ModelOptions model;
    std::string tokens, prompt, logits, act;
    int greedy = 0, ubatch = 0;
    bool json = false;
  };
  auto o = std::make_shared<Options>();
  o->model.add(app, true);
  auto* t = app.add_option("--tokens", o->tokens, "token ids with commas");
  app.add_option("-p,--prompt", o->prompt, "text instead of ids")->excludes(t);
  app.add_option("--logits", o->logits, "write float32 (tokens, vocabulary) as .npy");
  app.add_option("--greedy", o->greedy, "continue this many tokens")->check(CLI::Range(1, 1 << 20));
  app.add_option("--ubatch", o->ubatch, "feed the tokens this many at a time (1 = one by one, 0 = all at once)")
      ->check(CLI::Range(0, 1 << 20));
  app.add_option("--act", o->act, "int8: round activations per token as BitNet's own code does")->check(CLI::IsMember({"int8"}));
  app.add_flag("--json", o->json, "one JSON document on standard output");
  run = [o]() -> Status {
    if (o->tokens.empty() && o->prompt.empty()) usage("eval: --tokens IDS or -p TEXT is required");
    o->model.engine.act_int8 = o->act == "int8";
    // The context must hold what we were given: ids can be counted before the model is there, a text cannot have more tokens than bytes.
    i64 need = (o->tokens.empty() ? i64(o->prompt.size()) + 2 : std::count(o->tokens.begin(), o->tokens.end(), ',') + 1) + o->greedy;
    if (o->model.engine.n_ctx == 0) o->model.engine.n_ctx = int(need);
    if (o->ubatch == 0) o->model.engine.ubatch = int(std::clamp<i64>(need, 1, 1024));
    FEWBIT_TRY(auto engine, o->model.load());
    FEWBIT_TRY(std::vector<Token> tokens, input_tokens(*engine, o->tokens, o->prompt));
    FEWBIT_TRY(auto seq, engine->new_sequence());
    const size_t vocab = size_t(engine->info().vocab), n = tokens.size();
    const size_t piece = o->ubatch ? size_t(o->ubatch) : n;
    const bool keep = !o->logits.empty();
    std::vector<f32> all, last;
    if (keep) all.reserve(n * vocab);
    for (size_t at = 0; at < n; at += piece) {
      StepItem item{seq, {tokens.begin() + long(at), tokens.begin() + long(std::min(n, at + piece))}, {}};
      if (keep) {
        item.want.resize(item.tokens.size());
        std::iota(item.want.begin(), item.want.end(), 0);
      } else if (at + piece >= n) {
        item.want = {int(item.tokens.size()) - 1};
      }
      FEWBIT_TRY(auto logits, engine->step({&item, 1}));
      if (keep) all.insert(all.end(), logits.begin(), logits.end());
      if (at + piece >= n) last.assign(logits.end() - long(vocab), logits.end());
    }
    if (keep) FEWBIT_OK(write_npy(o->logits, all, i64(n), i64(vocab)));
    Json greedy = Json::array();
    Token next = Token(std::max_element(last.begin(), last.end()) - last.begin());
    for (int i = 0; i < o->greedy; i++) {
      greedy.push_back(next);
      if (i + 1 == o->greedy) break;
      StepItem item{seq, {next}, {0}};
      FEWBIT_TRY(auto ids, engine->step_argmax({&item, 1}));
      next = ids[0];
    }
    if (o->json) {
      Json out{{"tokens", tokens},
               {"vocab", vocab},
               {"argmax_last", last.empty() ? -1 : int(std::max_element(last.begin(), last.end()) - last.begin())}};
      if (o->greedy) out["greedy"] = greedy;
      fmt::print("{}\n", out.dump());
    } else if (o->greedy) {
      fmt::print("{}\n", greedy.dump());
    } else if (!keep) {
      fmt::print("next token {} (logit {:.4f})\n", next, last[size_t(next)]);
    }
    return {};
  };
}

}  // namespace fewbit::cli
