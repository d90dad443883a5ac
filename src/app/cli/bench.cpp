// bench: prefill (pp) and decode (tg) speed over sizes, depths, threads and cache types, as llama-bench reports them, plus bytes read
// per token and the share of the read bandwidth that this machine shows in the same run.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "app/cli/common.h"
#include "app/cli/values.h"
#include "base/clock.h"
#include "base/cpu_features.h"
#include "kernel/ceiling.h"
#include "kernel/int8_peak.h"

namespace fewbit::cli {

using runtime::Engine;
using runtime::StepItem;
using text::Token;

struct BenchOptions {
  ModelOptions model;
  std::string prompts = "512", gens = "128", pg, depths = "0", threads, ubatches, k_types, v_types, output = "md";
  int reps = 5;
  bool no_warmup = false;
};

struct Case {
  int prompt = 0, gen = 0, depth = 0;
  std::string name() const {
    std::string s = prompt && gen ? fmt::format("pp{}+tg{}", prompt, gen) : prompt ? fmt::format("pp{}", prompt) : fmt::format("tg{}", gen);
    return depth ? fmt::format("{} @ d{}", s, depth) : s;
  }
};

// Ids spread over the vocabulary: the rows of the embedding differ, as in text.
static std::vector<Token> ids(int n, int vocab, u32 seed) {
  std::vector<Token> t(static_cast<size_t>(n));
  for (auto& x : t) {
    seed = seed * 1664525u + 1013904223u;
    x = Token(u64(seed) * u64(vocab) >> 32);
  }
  return t;
}

static Result<f64> time_case(Engine& e, const Case& c) {
  FEWBIT_TRY(auto seq, e.new_sequence());
  struct Free {
    Engine& e;
    runtime::SequenceId s;
    ~Free() { e.free_sequence(s); }
  } guard{e, seq};
  const int vocab = e.info().vocab;
  if (c.depth) {
    // A token is asked for so that the work is done when the clock starts: on a GPU a step returns before its last columns are.
    StepItem item{seq, ids(c.depth, vocab, 7), {c.depth - 1}};
    FEWBIT_TRY(auto last, e.step_argmax({&item, 1}));
    (void)last;
  }
  f64 t0 = now_s();
  Token next = 1 % vocab;
  if (c.prompt) {
    StepItem item{seq, ids(c.prompt, vocab, 11), {c.prompt - 1}};
    FEWBIT_TRY(auto out, e.step_argmax({&item, 1}));
    next = out[0];
  }
  for (int i = 0; i < c.gen; i++) {
    FEWBIT_OK(check_cancel(""));
    StepItem item{seq, {next}, {0}};
    FEWBIT_TRY(auto out, e.step_argmax({&item, 1}));
    next = out[0];
  }
  return now_s() - t0;
}

struct Printer {
  std::string format;
  Json rows = Json::array();
  int printed = 0;

  void row(const Json& r) {
    if (format == "json") {
      rows.push_back(r);
    } else if (format == "jsonl") {
      fmt::print("{}\n", r.dump());
    } else if (format == "csv") {
      std::string head, line;
      for (auto& [k, v] : r.items()) {
        if (v.is_array()) continue;
        head += (head.empty() ? "" : ",") + k;
        std::string cell = v.is_string() ? v.get<std::string>() : v.dump();
        if (cell.find_first_of(",\"") != std::string::npos) {
          std::string quoted = "\"";
          for (char ch : cell) quoted += ch == '"' ? std::string("\"\"") : std::string(1, ch);
          cell = quoted + "\"";
        }
        line += (line.empty() ? "" : ",") + cell;
      }
      if (!printed) fmt::print("{}\n", head);
      fmt::print("{}\n", line);
    } else {
      if (!printed) {
        fmt::print("| model | size | params | device | threads | test | t/s | GB/token | read GB/s | share of read |\n");
        fmt::print("| --- | ---: | ---: | --- | ---: | --- | ---: | ---: | ---: | ---: |\n");
      }
      std::string share = r["share_of_read"].is_null() ? "-" : fmt::format("{:.0f} %", 100 * r["share_of_read"].get<f64>());
      std::string gbs = r["read_gb_s"].is_null() ? "-" : fmt::format("{:.1f}", r["read_gb_s"].get<f64>());
      fmt::print("| {} | {:.2f} GB | {:.2f} B | {} | {} | {} | {:.2f} ± {:.2f} | {:.3f} | {} | {} |\n", r["model_type"].get<std::string>(),
                 r["model_size"].get<f64>() * 1e-9, r["model_n_params"].get<f64>() * 1e-9, r["device"].get<std::string>(),
                 r["n_threads"].get<int>(), r["test"].get<std::string>(), r["avg_ts"].get<f64>(), r["stddev_ts"].get<f64>(),
                 r["bytes_per_token"].get<f64>() * 1e-9, gbs, share);
    }
    printed++;
    std::fflush(stdout);
  }
  void finish() {
    if (format == "json") fmt::print("{}\n", rows.dump(2));
  }
};

static Status bench_one(const BenchOptions& o, const runtime::EngineOptions& eo, const std::vector<Case>& cases, Printer& out) {
  FEWBIT_TRY(auto prepared, runtime::prepare(eo));
  // The probe's memory is many times the last cache: it is used and given back before the model takes its own.
  FEWBIT_TRY(kernel::Ceiling ceiling, kernel::measure_ceiling(*prepared.device, 0.6, &Cancel::flag()));
  f64 peak = 0;  // of the kernels' own instruction set
  if (ThreadPool* p = prepared.device->pool()) {
    for (const kernel::Int8Peak& x : kernel::measure_int8_peak(*p)) peak = x.gops;
  }
  const f64 load_start = now_s();
  FEWBIT_TRY(auto engine, ModelOptions::load(std::move(prepared)));
  const f64 load_seconds = now_s() - load_start;
  const runtime::ModelInfo& info = engine->info();
  ThreadPool* pool = engine->device().pool();
  if (!o.no_warmup) {
    Case warm{std::clamp(eo.n_ctx - 1, 1, 32), eo.n_ctx > 1 ? 1 : 0, 0};
    FEWBIT_TRY(f64 t, time_case(*engine, warm));
    (void)t;
  }
  for (const Case& c : cases) {
    std::vector<f64> ts;
    for (int r = 0; r < o.reps; r++) {
      FEWBIT_OK(check_cancel(""));
      FEWBIT_TRY(f64 s, time_case(*engine, c));
      FEWBIT_OK(engine->finite());
      ts.push_back((c.prompt + c.gen) / s);
    }
    f64 mean = std::accumulate(ts.begin(), ts.end(), 0.0) / f64(ts.size()), var = 0;
    for (f64 t : ts) var += (t - mean) * (t - mean);
    const f64 sd = ts.size() > 1 ? std::sqrt(var / f64(ts.size() - 1)) : 0;
    const bool decode = c.prompt == 0;
    Json row{{"model_filename", eo.model.empty() ? eo.synthetic : eo.model},
             {"model_type", info.type},
             {"model_size", info.file_bytes},
             {"model_n_params", info.parameters},
             {"device", engine->device().id()},
             {"device_name", engine->device().name()},
             {"cpu", fmt::format("{} ({})", cpu_features().name, cpu_features().sets())},
             {"n_threads", pool ? pool->size() : 0},
             {"n_ubatch", eo.ubatch},
             {"load_s", load_seconds},
             {"type_k", type_name(eo.k_type)},
             {"type_v", type_name(eo.v_type)},
             {"test", c.name()},
             {"n_prompt", c.prompt},
             {"n_gen", c.gen},
             {"n_depth", c.depth},
             {"avg_ts", mean},
             {"stddev_ts", sd},
             {"samples_ts", ts},
             {"bytes_per_token", info.bytes_per_token},
             {"ceiling_read_gb_s", ceiling.read_gb_s}};
    row["read_gb_s"] = decode ? Json(mean * f64(info.bytes_per_token) * 1e-9) : Json();
    row["share_of_read"] = decode ? Json(mean * f64(info.bytes_per_token) * 1e-9 / ceiling.read_gb_s) : Json();
    // Of a prompt only the last token needs the head.
    const f64 head = f64(info.vocab) * info.hidden, macs = f64(info.macs_per_token);
    const f64 all = (macs - head) * (c.prompt + c.gen) + head * (c.gen + (c.prompt > 0));
    row["int8_gops"] = peak > 0 ? Json(peak) : Json();
    row["share_of_int8"] = peak > 0 ? Json(2 * all * mean / (c.prompt + c.gen) * 1e-9 / peak) : Json();
    out.row(row);
  }
  return {};
}

static Status bench(BenchOptions& o) {
  for (const char* f : {"md", "json", "jsonl", "csv", ""}) {
    if (!*f) usage(fmt::format("-o: '{}' is not one of md, json, jsonl, csv", o.output));
    if (o.output == f) break;
  }
  std::vector<Case> cases;
  i64 longest = 1;
  for (i64 d : parse_ints("-d", o.depths, 0, 1 << 22)) {
    for (i64 p : parse_ints("-p", o.prompts, 0, 1 << 22)) {
      if (p) cases.push_back({int(p), 0, int(d)});
    }
    for (i64 n : parse_ints("-n", o.gens, 0, 1 << 22)) {
      if (n) cases.push_back({0, int(n), int(d)});
    }
    if (!o.pg.empty()) {
      auto pg = parse_ints("-pg", o.pg, 0, 1 << 22);
      if (pg.size() != 2) usage("-pg: two numbers P,G are wanted");
      cases.push_back({int(pg[0]), int(pg[1]), int(d)});
    }
  }
  if (cases.empty()) usage("bench: nothing to measure (-p 0 -n 0)");
  for (const Case& c : cases) longest = std::max<i64>(longest, i64(c.prompt) + c.gen + c.depth);
  FEWBIT_TRY(runtime::EngineOptions base, o.model.resolve());
  if (base.n_ctx == 0) base.n_ctx = int(longest);
  if (longest > base.n_ctx) usage(fmt::format("-c {}: a case needs {} positions", base.n_ctx, longest));
  base.probe = true;
  std::vector<i64> threads = o.threads.empty() ? std::vector<i64>{base.threads} : parse_ints("-t", o.threads, 1, most_threads());
  std::vector<i64> ubatches = o.ubatches.empty() ? std::vector<i64>{base.ubatch} : parse_ints("-ub", o.ubatches, 1, 1 << 16);
  std::vector<Type> k_types, v_types;
  for (const std::string& k : split(o.k_types)) k_types.push_back(k.empty() ? base.k_type : cache_type("-ctk", k));
  for (const std::string& v : split(o.v_types)) v_types.push_back(v.empty() ? base.v_type : cache_type("-ctv", v));
  Printer out{o.output};
  const size_t all = threads.size() * ubatches.size() * k_types.size() * v_types.size() * cases.size();
  auto sweep = [&]() -> Status {
    for (i64 t : threads) {
      for (i64 ub : ubatches) {
        for (Type k : k_types) {
          for (Type v : v_types) {
            runtime::EngineOptions eo = base;
            eo.threads = int(t);
            eo.ubatch = int(ub);
            eo.k_type = k;
            eo.v_type = v;
            FEWBIT_OK(bench_one(o, eo, cases, out));
          }
        }
      }
    }
    return {};
  };
  Status s = sweep();
  if (!s.ok() && s.error().code == Code::cancelled) {
    if (out.printed) out.finish();
    return check_cancel(fmt::format("after {} of {} cases", out.printed, all));
  }
  FEWBIT_OK(s);
  out.finish();
  return {};
}

void add_bench(CLI::App& app, Run& run) {
  auto o = std::make_shared<BenchOptions>();
  o->model.add(app, true);
  // -t, -ub, -ctk and -ctv take lists here.
  for (const char* n : {"--threads", "--ubatch-size", "--cache-type-k", "--cache-type-v"}) app.remove_option(app.get_option(n));
  app.add_option("-t,--threads", o->threads, "threads, a list");
  app.add_option("--ub,--ubatch-size", o->ubatches, "-ub: columns of one forward pass, a list");
  app.add_option("--ctk,--cache-type-k", o->k_types, "-ctk: f32, f16, q8_0, q4_0, a list");
  app.add_option("--ctv,--cache-type-v", o->v_types, "-ctv: likewise");
  app.add_option("-p,--n-prompt", o->prompts, "prompt lengths, a list (0 = none)");
  app.add_option("-n,--n-gen", o->gens, "tokens to decode, a list (0 = none)");
  app.add_option("--pg", o->pg, "-pg P,G: a prompt of P and then G tokens, as one case");
  app.add_option("-d,--n-depth", o->depths, "tokens already in the cache, a list");
  app.add_option("-r,--repetitions", o->reps, "repetitions")->check(whole(1, 1000));
  app.add_option("-o,--output", o->output, "md, json, jsonl or csv");
  app.add_flag("--no-warmup", o->no_warmup, "do not run once before measuring");
  run = [o]() { return bench(*o); };
}

}  // namespace fewbit::cli
