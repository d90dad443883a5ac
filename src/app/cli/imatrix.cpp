// imatrix: how strongly a text uses each input of each weight.  Saved every few chunks, so that a long run can be stopped and resumed.
#include "gguf/imatrix.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "app/cli/common.h"
#include "app/cli/values.h"
#include "base/new_file.h"
#include "base/progress.h"
#include "gguf/quantize.h"
#include "runtime/imatrix_collect.h"

namespace fewbit::cli {
namespace {

struct ImatrixCommand {
  ModelOptions model;
  std::string text, out = "imatrix.gguf";
  std::vector<std::string> in_files;
  int chunks = 0, save_every = 10;
  bool resume = false, process_head = false, no_special = false;
};

void print_summary(const gguf::Imatrix& m, const std::string& out) {
  i64 unused = 0, matrices = 0, zero = 0;
  for (const auto& [name, e] : m.entries) {
    unused += e.unused();
    matrices += e.n_matrices;
    for (i64 k = 0; k < e.n_matrices; k++) {
      if (!(e.counts[size_t(k)] > 0)) continue;
      for (i64 i = 0; i < e.n_in; i++) zero += e.sums[size_t(k * e.n_in + i)] == 0;
    }
  }
  fmt::print("{}: {} weights, {} matrices, {} chunks of {} tokens", out, m.entries.size(), matrices, m.chunks, m.chunk_size);
  if (unused) fmt::print("; {} matrices without data", unused);
  if (zero) fmt::print("; {} columns never used", zero);
  fmt::print("\n");
  for (const std::string& note : m.notes) fmt::print(stderr, "fewbit: {}\n", note);
}

Status imatrix_command(ImatrixCommand& o) {
  const bool collect = !o.text.empty();
  if (!collect && o.in_files.empty()) usage("imatrix: -f TEXT (with -m MODEL) or --in-file FILE is required");
  if (!collect && !o.model.engine.model.empty()) usage("imatrix: -m goes with -f TEXT; files are merged without a model");
  gguf::Imatrix sums;
  i64 skip = 0;
  std::error_code ec;
  if (o.resume && std::filesystem::exists(o.out, ec)) {
    if (!o.in_files.empty()) usage("--resume goes without --in-file: merge when the run is done");
    FEWBIT_TRY(sums, gguf::Imatrix::read(o.out));
    if (sums.source.empty())
      return Error{Code::invalid_argument,
                   fmt::format("{}: was merged, or made by another program, and cannot be resumed; --in-file {} adds it to a new run",
                               o.out, o.out)};
    skip = sums.chunks;
  }
  std::optional<gguf::File> model;
  if (collect) {
    FEWBIT_TRY(runtime::EngineOptions options, o.model.resolve());
    for (const std::string& in : {options.model, o.text}) FEWBIT_OK(keep_apart("-o", o.out, in));
    if (!options.model.empty()) { FEWBIT_TRY(model, gguf::File::open(options.model)); }
  }
  gguf::Imatrix others;
  for (const std::string& path : o.in_files) {
    FEWBIT_TRY(gguf::Imatrix m, gguf::Imatrix::read(path));
    if (model) FEWBIT_OK(gguf::fit_imatrix(m, *model));
    FEWBIT_OK(others.merge(m));
  }
  auto save = [&]() -> Status {
    if (o.in_files.empty()) return sums.write(o.out);
    gguf::Imatrix all = others;
    FEWBIT_OK(all.merge(sums));
    return all.write(o.out);
  };
  if (!collect) {
    FEWBIT_OK(others.write(o.out));
    print_summary(others, o.out);
    return {};
  }

  runtime::CollectOptions c;
  c.n_ctx = o.model.engine.n_ctx ? o.model.engine.n_ctx : 512;
  c.chunks = o.chunks;
  c.skip = skip;
  c.process_head = o.process_head;
  if (skip > 0 && sums.chunk_size != c.n_ctx)
    return Error{Code::invalid_argument,
                 fmt::format("{}: has chunks of {} tokens, cannot be resumed with -c {}", o.out, sums.chunk_size, c.n_ctx)};
  o.model.engine.n_ctx = c.n_ctx;
  FEWBIT_TRY(std::string text, read_text(o.text));
  { FEWBIT_TRY(NewFile can_be_written, NewFile::create(o.out)); }  // found out now, not after the first chunks
  FEWBIT_TRY(auto prepared, o.model.prepare());
  prepared.options.cancel = nullptr;  // a pass that ends midway would leave a part of a chunk in the sums
  FEWBIT_TRY(auto engine, ModelOptions::load(std::move(prepared)));
  FEWBIT_OK(check_cancel("before the first chunk"));
  if (!engine->tokenizer()) return Error{Code::unsupported, engine->tokenizer_problem()};
  const std::vector<text::Token> tokens = engine->tokenizer()->encode(text, {.add_special = true, .parse_special = !o.no_special});
  if (model) {
    const std::string source = gguf::source_of(tokens, *model);
    if (skip > 0 && sums.source != source)
      return Error{Code::invalid_argument,
                   fmt::format("{}: was made with another text or model, cannot be resumed with {}", o.out, o.text)};
    sums.source = source;
  }
  const std::string name = o.text.substr(o.text.find_last_of('/') + 1);
  if (std::find(sums.datasets.begin(), sums.datasets.end(), name) == sums.datasets.end()) sums.datasets.push_back(name);

  c.cancel = &Cancel::flag();
  const i64 whole = i64(tokens.size()) / c.n_ctx, last = o.chunks > 0 ? std::min<i64>(o.chunks, whole) : whole;
  Progress progress("chunks", u64(std::max<i64>(last - skip, 0)), Progress::Unit::count);
  c.after_chunk = [&](i64 done, i64 all) -> Status {
    progress.update(u64(done - skip));
    return done < all && (done - skip) % o.save_every == 0 ? save() : Status();
  };
  Status s = runtime::collect_imatrix(*engine, tokens, c, sums);
  progress.finish();
  // Ctrl-C: what there is is kept, for --resume.
  if (s.ok() || s.error().code == Code::cancelled) FEWBIT_OK(save());
  FEWBIT_OK(s);
  if (o.in_files.empty()) {
    print_summary(sums, o.out);
  } else {
    FEWBIT_OK(others.merge(sums));
    print_summary(others, o.out);
  }
  return {};
}

}  // namespace

void add_imatrix(CLI::App& app, Run& run) {
  auto o = std::make_shared<ImatrixCommand>();
  o->model.add(app, true);
  app.add_option("-f,--file", o->text, "calibration text (- = standard input)");
  app.add_option("-o,--output", o->out, "GGUF file to write");
  app.add_option("--in-file", o->in_files, "importance matrix to add (GGUF or .dat); repeatable; without -f they are only merged")
      ->allow_extra_args(false);
  app.add_option("--chunks", o->chunks, "chunks to run (default: all)")->check(whole(1, 1 << 24));
  app.add_option("--save-frequency", o->save_every, "save after every so many chunks")->check(whole(1, 1 << 24));
  app.add_flag("--resume", o->resume, "go on after the chunks that OUT has");
  app.add_flag("--no-special", o->no_special, "special tokens in the text (<|im_start|>) are plain text, not the tokens that they name");
  app.add_flag("--process-output", o->process_head, "the head too");
  run = [o]() { return imatrix_command(*o); };
}

}  // namespace fewbit::cli
