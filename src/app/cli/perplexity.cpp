// perplexity: of a text or a file of token ids, with the distance from stored logits.
#include <fmt/format.h>

#include <algorithm>

#include "app/cli/common.h"
#include "app/cli/values.h"
#include "base/progress.h"
#include "gguf/cursor.h"
#include "runtime/perplexity.h"

namespace fewbit::cli {

struct PerplexityCommand {
  ModelOptions model;
  std::string file, tokens_file, kl_save, kl_base;
  int chunks = 0;
  bool json = false;
};

static Result<std::vector<text::Token>> read_ids(const std::string& path) {
  FEWBIT_TRY(std::string s, read_text(path));
  std::replace_if(
      s.begin(), s.end(), [](char c) { return c == '\n' || c == '\r' || c == '\t' || c == ','; }, ' ');
  std::vector<text::Token> ids;
  for (size_t at = 0; (at = s.find_first_not_of(' ', at)) != std::string::npos;) {
    size_t end = std::min(s.find(' ', at), s.size());
    char* stop = nullptr;
    const long id = std::strtol(s.c_str() + at, &stop, 10);
    if (stop != s.c_str() + end || id < 0 || id > INT32_MAX) {
      return Error{Code::bad_file, fmt::format("{}: byte {}: '{}' is not a token id", path, at,
                                               gguf::printable(s.substr(at, std::min<size_t>(end - at, 20))))};
    }
    ids.push_back(text::Token(id));
    at = end;
  }
  return ids;
}

static Status perplexity_command(PerplexityCommand& o) {
  if (o.file.empty() == o.tokens_file.empty()) usage("perplexity: one of -f TEXT and --tokens-file FILE is required");
  runtime::PerplexityOptions p;
  p.n_ctx = o.model.engine.n_ctx ? o.model.engine.n_ctx : 512;
  if (p.n_ctx < 4) usage(fmt::format("-c {}: perplexity needs windows of at least 4 tokens", p.n_ctx));
  p.chunks = o.chunks;
  p.kl_save = o.kl_save;
  p.kl_base = o.kl_base;
  o.model.engine.n_ctx = p.n_ctx;
  o.model.engine.logits_bytes = u64(256) << 20;
  // As llama-perplexity: a batch wider than a window holds several windows.
  o.model.engine.n_seqs = std::max(1, o.model.batch / p.n_ctx);
  std::vector<text::Token> tokens;
  std::string text;
  if (!o.tokens_file.empty()) {
    FEWBIT_TRY(tokens, read_ids(o.tokens_file));
  } else {
    FEWBIT_TRY(text, read_text(o.file));
  }
  FEWBIT_TRY(auto prepared, o.model.prepare());
  if (o.tokens_file.empty()) {
    if (!prepared.tokenizer) return Error{Code::unsupported, prepared.tokenizer_problem + "; use --tokens-file"};
    tokens = prepared.tokenizer->encode(text, {.add_special = true, .parse_special = false});
  }
  FEWBIT_OK(runtime::check_text(tokens, p, prepared.n_vocab));
  for (const std::string& in : {prepared.options.model, o.file, o.tokens_file, o.kl_base}) {
    FEWBIT_OK(keep_apart("--kl-save", o.kl_save, in));
  }
  FEWBIT_TRY(auto engine, ModelOptions::load(std::move(prepared)));
  p.cancel = &Cancel::flag();
  Progress bar("perplexity");
  p.progress = [&](int done, int of, f64) { bar.share(f64(done) / of); };
  auto result = runtime::perplexity(*engine, tokens, p);
  bar.finish();
  if (!result.ok()) return std::move(result).error();
  const runtime::PerplexityResult& r = *result;
  const char* path = o.model.exact ? "exact" : "default";
  if (o.json) {
    Json out{{"perplexity", r.perplexity}, {"error", r.error},     {"chunks", r.chunks}, {"n_ctx", r.n_ctx},
             {"tokens", r.tokens},         {"counted", r.counted}, {"path", path},       {"seconds", r.seconds}};
    if (r.has_kl) {
      out["kl"] = {{"mean", r.kl.mean},
                   {"mean_error", r.kl.mean_error},
                   {"median", r.kl.median},
                   {"p90", r.kl.p90},
                   {"p99", r.kl.p99},
                   {"p999", r.kl.p999},
                   {"max", r.kl.max},
                   {"same_top", r.kl.same_top},
                   {"base_perplexity", r.kl.base_perplexity}};
    }
    fmt::print("{}\n", out.dump());
    return {};
  }
  fmt::print("perplexity {:.4f} +- {:.4f}  ({} windows of {}, {} predictions, {} path, {:.1f} s)\n", r.perplexity, r.error, r.chunks,
             r.n_ctx, r.counted, path, r.seconds);
  if (r.has_kl) {
    fmt::print("KL to the stored logits: mean {:.6f} +- {:.6f}, median {:.6f}, 90 % {:.6f}, 99 % {:.6f}, 99.9 % {:.6f}, largest {:.6f}\n",
               r.kl.mean, r.kl.mean_error, r.kl.median, r.kl.p90, r.kl.p99, r.kl.p999, r.kl.max);
    fmt::print("same most likely token {:.3f} %, perplexity of the stored {:.4f}\n", 100 * r.kl.same_top, r.kl.base_perplexity);
  }
  return {};
}

void add_perplexity(CLI::App& app, Run& run) {
  auto o = std::make_shared<PerplexityCommand>();
  o->model.add(app, true);
  app.add_option("-f,--file", o->file, "text (- = standard input)");
  app.add_option("--tokens-file", o->tokens_file, "token ids separated by white space or commas");
  app.add_option("--chunks", o->chunks, "windows to count (default: all)")->check(whole(1, 1 << 24));
  auto* save = app.add_option("--kl-save", o->kl_save, "store the log-probabilities of every counted position");
  app.add_option("--kl-base", o->kl_base, "compare with such a file")->excludes(save);
  app.add_flag("--json", o->json, "one JSON document");
  run = [o]() { return perplexity_command(*o); };
}

}  // namespace fewbit::cli
