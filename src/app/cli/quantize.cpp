// quantize: a model in other types.
#include "gguf/quantize.h"

#include <fmt/format.h>

#include <cmath>

#include "app/cli/common.h"
#include "app/cli/values.h"
#include "base/clock.h"
#include "base/progress.h"

namespace fewbit::cli {
namespace {

struct QuantizeCommand {
  std::string in, out, type, imatrix, embedding_type, head_type, split_size;
  std::vector<std::string> tensor_types;
  bool pure = false, dry_run = false, allow = false, no_signs = false, legacy = false;
  int threads = 0, hadamard = 0;
  u64 seed = 1;
};

std::string upper(std::string s) {
  for (char& c : s) c = char(std::toupper(static_cast<unsigned char>(c)));
  return s;
}

u64 parse_size(const std::string& text) {
  char* end = nullptr;
  const f64 v = std::strtod(text.c_str(), &end);
  const std::string unit = upper(end);
  const f64 scale = unit == "G" ? 1e9 : unit == "M" ? 1e6 : unit == "K" ? 1e3 : unit.empty() ? 1 : 0;
  if (!(v * scale >= 1) || v * scale > 1e15) usage(fmt::format("--split-max-size: '{}' is not a size such as 4G, 500M", text));
  return u64(v * scale);
}

std::string megabytes(u64 n) { return fmt::format("{:.2f} MB", f64(n) / 1e6); }

gguf::QuantizeOptions options_of(const QuantizeCommand& c) {
  gguf::QuantizeOptions o;
  o.type = upper(c.type);
  if (!gguf::find_recipe(o.type)) usage(fmt::format("quantize: unknown type '{}'; known: {}", c.type, gguf::recipe_names()));
  o.pure = c.pure;
  o.allow_requantize = c.allow;
  o.imatrix_path = c.imatrix;
  for (const std::string& s : c.tensor_types) {
    const size_t eq = s.rfind('=');
    if (eq == s.npos || eq == 0) usage(fmt::format("--tensor-type: '{}' is not REGEX=TYPE", s));
    o.tensor_types.emplace_back(s.substr(0, eq), parse_type("--tensor-type", s.substr(eq + 1)));
  }
  if (!c.embedding_type.empty())
    o.tensor_types.emplace_back("^token_embd\\.weight$", parse_type("--token-embedding-type", c.embedding_type));
  if (!c.head_type.empty()) o.tensor_types.emplace_back("^output\\.weight$", parse_type("--output-tensor-type", c.head_type));
  if (!c.split_size.empty()) o.split_bytes = parse_size(c.split_size);
  if (c.hadamard) o.fold = gguf::FoldOptions{c.hadamard, !c.no_signs, c.seed};
  return o;
}

void print_plan(const gguf::QuantizePlan& plan) {
  fmt::print("{:<32} {:>20}  {:>8} -> {:<8} {:>12} {:>12}\n", "tensor", "shape", "type", "type", "bytes", "bytes");
  for (const gguf::TensorPlan& p : plan.tensors) {
    std::string note = p.note;
    if (p.folded || p.embedding) note += note.empty() ? "rotated" : "; rotated";
    if (p.exact && !p.copy) note += note.empty() ? "lossless" : "; lossless";
    fmt::print("{:<32} {:>20}  {:>8} -> {:<8} {:>12} {:>12}{}{}\n", p.from->name, p.from->shape(), type_name(p.from->type), type_name(p.to),
               p.from->data.size(), p.bytes, note.empty() ? "" : "  ", note);
  }
}

void print_report(const std::vector<gguf::TensorReport>& reports) {
  fmt::print("{:<32} {:>8} -> {:<8} {:>12}  {}\n", "tensor", "type", "type", "bytes", "relative RMSE");
  i64 exact = 0, rounded = 0, without_data = 0, zero = 0;
  for (const gguf::TensorReport& r : reports) {
    without_data += r.without_data;
    zero += r.zero_columns;
    r.exact ? exact++ : rounded++;
    std::string error = r.from == r.to && r.exact ? "-" : r.exact ? "lossless" : fmt::format("{:.5f}", r.relative_rmse);
    if (r.without_data) error += fmt::format("  {} experts without data: the mean of the others", r.without_data);
    if (r.zero_columns) error += fmt::format("  {} columns never used", r.zero_columns);
    if (!r.note.empty()) error += "  " + r.note;
    fmt::print("{:<32} {:>8} -> {:<8} {:>12}  {}\n", r.name, type_name(r.from), type_name(r.to), r.bytes_after, error);
  }
  fmt::print("{} tensors without loss, {} rounded", exact, rounded);
  if (without_data || zero) fmt::print("; importance matrix: {} experts without data, {} columns never used", without_data, zero);
  fmt::print("\n");
}

void print_total(const gguf::QuantizePlan& plan) {
  i64 elements = 0;
  u64 bytes = 0;
  for (const gguf::TensorPlan& p : plan.tensors) {
    if (p.from->n_dims < 2) continue;
    elements += p.from->elements();
    bytes += p.bytes;
  }
  fmt::print("{} -> {}, {:.4f} bits per weight\n", megabytes(plan.bytes_before), megabytes(plan.bytes_after),
             elements ? 8.0 * f64(bytes) / f64(elements) : 0);
}

Status quantize_command(const QuantizeCommand& c) {
  if (c.out == "-") usage("quantize: OUT is a file; a model is not written to standard output");
  FEWBIT_OK(keep_apart("OUT", c.out, c.in));
  FEWBIT_OK(keep_apart("OUT", c.out, c.imatrix));
  gguf::QuantizeOptions o = options_of(c);
  FEWBIT_TRY(gguf::File file, gguf::File::open(c.in, {.q2_0_legacy = c.legacy}));
  gguf::Imatrix imatrix;
  if (!c.imatrix.empty()) {
    FEWBIT_TRY(imatrix, gguf::Imatrix::read(c.imatrix));
    FEWBIT_OK(gguf::fit_imatrix(imatrix, file));
    o.imatrix = &imatrix;
  }
  ThreadPool pool(c.threads, false);
  FEWBIT_TRY(gguf::QuantizePlan plan, gguf::plan_quantize(file, o, pool));
  for (const std::string& note : plan.notes) fmt::print(stderr, "fewbit: {}\n", note);
  if (c.dry_run) {
    print_plan(plan);
    print_total(plan);
    return {};
  }
  Cancel cancel;
  o.cancel = &Cancel::flag();
  const f64 start = now_s();
  std::vector<gguf::TensorReport> reports;
  {
    Progress progress("quantising");
    FEWBIT_TRY(reports, gguf::quantize(file, plan, o, c.out, pool,
                                       [&](i64 done, i64 all, const std::string&) { progress.share(f64(done) / f64(all)); }));
  }
  print_report(reports);
  print_total(plan);
  fmt::print("{:.1f} s, {} threads\n", now_s() - start, pool.size());
  return {};
}

}  // namespace

void add_quantize(CLI::App& app, Run& run) {
  auto o = std::make_shared<QuantizeCommand>();
  app.add_option("IN", o->in, "GGUF file")->required();
  app.add_option("OUT", o->out, "GGUF file to write; it appears only when it is complete")->required();
  app.add_option("TYPE", o->type, "a type (PQ2_0, IQ2_XS) or a mix (Q3_K_M, IQ2_M): " + gguf::recipe_names())->required();
  app.add_option("--imatrix", o->imatrix, "importance matrix (GGUF or .dat)");
  app.add_option("--tensor-type", o->tensor_types, "REGEX=TYPE: type of the tensors whose name matches; the first match wins; repeatable")
      ->allow_extra_args(false);
  app.add_option("--token-embedding-type", o->embedding_type, "type of token_embd.weight");
  app.add_option("--output-tensor-type", o->head_type, "type of output.weight");
  app.add_flag("--pure", o->pure, "the same type for every matrix, no mix");
  app.add_flag("--dry-run", o->dry_run, "print the plan, write nothing");
  app.add_flag("--allow-requantize", o->allow, "round weights again that are already rounded, or exactly ternary");
  app.add_option("--hadamard", o->hadamard, "rotate the weights in blocks of B first (outliers spread over the block)")
      ->check(whole(2, 1 << 20));
  app.add_flag("--hadamard-no-signs", o->no_signs, "with --hadamard: no random signs");
  app.add_option("--seed", o->seed, "of the signs");
  app.add_option("--split-max-size", o->split_size, "several files of at most so many bytes (4G, 500M)");
  app.add_option("-t,--threads", o->threads, "threads (default: one per core); the bytes do not depend on it");
  app.add_flag("--q2-0-legacy", o->legacy, "read type 42 in its old layout of 128 weights");
  run = [o]() { return quantize_command(*o); };
}

}  // namespace fewbit::cli
