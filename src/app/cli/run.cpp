// run: complete a prompt.  Text on standard output as it comes, one line of figures on standard error at the end.
#include <fmt/format.h>

#include <cstdio>

#include "app/cli/common.h"
#include "app/cli/sampling.h"
#include "app/cli/values.h"
#include "runtime/conversation.h"
#include "runtime/generate.h"

namespace fewbit::cli {

struct RunCommand {
  ModelOptions model;
  SamplingOptions sampling;
  std::string prompt, file, system;
  std::vector<std::string> stop;
  int n = -1;
  bool raw = false, ignore_eos = false, special = false, no_think = false, json = false;
};

static Result<std::vector<text::Token>> prompt_tokens(const RunCommand& o, const runtime::Engine& engine) {
  const text::Tokenizer& tokenizer = *engine.tokenizer();
  if (o.raw) return tokenizer.encode(o.prompt, {.add_special = true, .parse_special = true});
  FEWBIT_TRY(auto talk, runtime::Conversation::load(engine.file(), tokenizer));
  if (!o.system.empty()) talk.add("system", o.system);
  talk.add("user", o.prompt);
  if (o.no_think) talk.variables()["enable_thinking"] = false;
  FEWBIT_TRY(std::string text, talk.prompt());
  return tokenizer.encode(text, {.add_special = false, .parse_special = true});
}

static Status run_command(RunCommand& o) {
  if (o.prompt.empty() && o.file.empty()) usage("run: -p TEXT (not empty) or -f FILE is required");
  if (!o.file.empty()) { FEWBIT_TRY(o.prompt, read_text(o.file)); }
  FEWBIT_TRY(auto prepared, o.model.prepare());
  if (!prepared.tokenizer) return Error{Code::unsupported, prepared.tokenizer_problem};
  FEWBIT_TRY(auto engine, ModelOptions::load(std::move(prepared)));
  FEWBIT_TRY(auto params, o.sampling.resolve(engine->file()));
  FEWBIT_TRY(auto prompt, prompt_tokens(o, *engine));
  FEWBIT_TRY(auto seq, engine->new_sequence());
  runtime::Sampler sampler(params);
  runtime::GenerateOptions g;
  g.max_tokens = o.n;
  g.stop = o.stop;
  g.ignore_end = o.ignore_eos;
  g.special = o.special;
  g.cancel = &Cancel::flag();
  bool broken = false;
  auto result = runtime::generate(*engine, seq, prompt, sampler, g, [&](const std::string& s) {
    if (o.json) return;
    if (std::fwrite(s.data(), 1, s.size(), stdout) != s.size() || std::fflush(stdout) != 0) broken = true;
  });
  if (!result.ok()) return std::move(result).error();
  const runtime::GenerateResult& r = *result;
  static constexpr const char* reasons[] = {"end of turn", "stop string", "length", "context full", "cancelled"};
  if (o.json) {
    fmt::print("{}\n", Json{{"text", r.text},
                            {"tokens", r.tokens},
                            {"prompt_tokens", r.prompt_tokens},
                            {"stop", reasons[int(r.reason)]},
                            {"prefill_ts", r.prefill_rate()},
                            {"decode_ts", r.decode_rate()}}
                           .dump());
  } else {
    std::fputc('\n', stdout);
  }
  std::fflush(stdout);
  const std::string figures = fmt::format("{} prompt tokens at {:.1f} tok/s, {} tokens at {:.1f} tok/s ({})", r.prompt_tokens,
                                          r.prefill_rate(), r.tokens.size(), r.decode_rate(), reasons[int(r.reason)]);
  if (r.reason == runtime::StopReason::cancelled) return Error{Code::cancelled, figures};
  fmt::print(stderr, "fewbit: {}\n", figures);
  if (broken) return Error{Code::io, "standard output: cannot write"};
  return {};
}

void add_run(CLI::App& app, Run& run) {
  auto o = std::make_shared<RunCommand>();
  o->model.add(app, true);
  o->sampling.add(app);
  auto* p = app.add_option("-p,--prompt", o->prompt, "the prompt");
  app.add_option("-f,--file", o->file, "read the prompt from a file (- = standard input)")->excludes(p);
  app.add_option("-n,--n-predict", o->n, "tokens to generate at most (default: until the model stops)")->check(whole(-1, 1 << 24));
  app.add_option("--sys,--system", o->system, "-sys: system message");
  app.add_option("--stop", o->stop, "stop before this text (may be repeated)");
  app.add_flag("--raw", o->raw, "no chat template: continue the text as it is");
  app.add_flag("--no-think", o->no_think, "ask the template for an answer without a thought");
  app.add_flag("--ignore-eos", o->ignore_eos, "go on after end-of-turn tokens");
  app.add_flag("--special", o->special, "show control tokens");
  app.add_flag("--json", o->json, "one JSON document instead of text");
  run = [o]() { return run_command(*o); };
}

}  // namespace fewbit::cli
