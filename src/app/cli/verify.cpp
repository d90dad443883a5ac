// verify: every operation x type x shape of a device's table against the double-precision definition.
#include "kernel/verify.h"

#include <fmt/format.h>

#include "app/cli/common.h"
#include "app/cli/values.h"
#include "base/clock.h"
#include "base/regex.h"
#include "kernel/parity.h"

namespace fewbit::cli {

struct VerifyCommand {
  kernel::VerifyOptions options;
  std::string device = "auto", type, pattern, output = "md";
  int threads = 0;
  bool exact = false, all = false, quick = false, no_repack = false;
};

static const char* status(kernel::Verdict v) {
  static constexpr const char* names[] = {"OK", "FAIL", "MISSING", "NOT OFFERED", "LISTED"};
  return names[int(v)];
}

static Json json_row(const kernel::VerifyRow& r) {
  return {{"op", r.op},           {"type", r.type},           {"shape", r.shape},
          {"columns", r.columns}, {"kernel", r.kernel},       {"status", status(r.verdict)},
          {"nmse", r.nmse},       {"max_error", r.max_error}, {"note", r.note}};
}

static void check_op(const std::string& op) {
  if (op.empty() || kernel::parity_of(op)) return;
  std::string names;
  for (const kernel::Parity& p : kernel::parity_table) names += (names.empty() ? "" : ", ") + std::string(p.op);
  usage(fmt::format("--op: '{}' is not one of {}", op, names));
}

static Status verify_command(VerifyCommand& o) {
  check_op(o.options.op);
  if (!o.type.empty()) o.options.type = type_name(parse_type("--type", o.type));
  Status slow;
  if (!o.pattern.empty()) {
    auto pattern = Regex::parse(o.pattern);
    if (!pattern.ok()) usage("-k: " + pattern.error().what);
    o.options.kernel = [pattern = *pattern, &slow](std::string_view name) {
      auto found = pattern.search(name);
      if (!found.ok()) slow = found.error();
      return found.ok() && *found;
    };
  }
  check_device(o.device);
  FEWBIT_TRY(auto device, open_device(runtime::device_for(o.device, o.exact), {.threads = o.threads}));
  FEWBIT_TRY(const kernel::Kernels* table, kernel::kernels_for(*device, o.exact ? kernel::Path::exact : kernel::Path::fast));
  if (o.quick) {
    const f64 start = now_s();
    FEWBIT_OK(kernel::self_test(*device, *table));
    fmt::print("{}: self-test passed in {:.1f} ms\n", table->name, (now_s() - start) * 1e3);
    return {};
  }
  if (o.output == "csv") fmt::print("op,type,shape,columns,kernel,status,nmse,max_error,note\n");
  if (o.output == "md")
    fmt::print(
        "| status | op | type | shape | columns | kernel | nmse | max error | |\n| --- | --- | --- | --- | ---: | --- | ---: | ---: | --- "
        "|\n");
  o.options.repack = !o.no_repack;
  o.options.cancel = &Cancel::flag();
  const kernel::VerifyReport report = kernel::verify(*device, *table, o.options, [&](const kernel::VerifyRow& r) {
    if (o.output == "csv") {
      fmt::print("{},{},{},{},{},{},{:.3e},{:.3e},{}\n", r.op, r.type, r.shape, r.columns, r.kernel, status(r.verdict), r.nmse, r.max_error,
                 r.note);
    } else if (o.output == "md" && (o.all || o.options.list || r.verdict != kernel::Verdict::ok)) {
      fmt::print("| {} | {} | {} | {} | {} | {} | {:.1e} | {:.1e} | {} |\n", status(r.verdict), r.op, r.type, r.shape, r.columns, r.kernel,
                 r.nmse, r.max_error, r.note);
    }
  });
  FEWBIT_OK(slow);
  Json counts = Json::object();
  int failed = 0, rows = 0;
  for (const kernel::VerifyCount& c : report.counts) {
    counts[c.name.empty() ? "all" : c.name] = {{"ok", c.ok}, {"fail", c.fail}, {"missing", c.missing}, {"not_offered", c.not_offered}};
    if (o.options.list) counts["all"]["listed"] = c.listed;
    if (c.name.empty()) failed = c.fail, rows = int(report.rows.size());
    if (o.output == "md" && o.options.list) {
      fmt::print("all: {} rows, not run\n", c.listed);
    } else if (o.output == "md") {
      fmt::print("{}: {} OK, {} FAIL, {} MISSING{}{}\n", c.name.empty() ? "all" : c.name, c.ok, c.fail, c.missing,
                 c.not_offered ? fmt::format(", {} NOT OFFERED", c.not_offered) : "",
                 o.options.mutate ? " (OK = the fault was caught)" : "");
    }
  }
  if (o.output == "json") {
    Json all = Json::array();
    for (const kernel::VerifyRow& r : report.rows) all.push_back(json_row(r));
    fmt::print("{}\n", Json{{"device", device->name()}, {"table", table->name}, {"rows", all}, {"counts", counts}}.dump(2));
  }
  if (Cancel::flag()) return Error{Code::cancelled, fmt::format("verify: cancelled after {} rows, {} of them failed", rows, failed)};
  if (rows == 0)
    return Error{Code::not_found,
                 fmt::format("verify: nothing matches --op '{}' --type '{}' -k '{}'", o.options.op, o.options.type, o.pattern)};
  if (failed > 0) return Error{Code::unsupported, fmt::format("verify: {} of {} rows failed on {}", failed, rows, table->name)};
  return {};
}

void add_verify(CLI::App& app, Run& run) {
  auto o = std::make_shared<VerifyCommand>();
  auto* op = app.add_option("--op", o->options.op, "only this operation");
  auto* type = app.add_option("--type", o->type, "only this format");
  auto* pattern = app.add_option("-k", o->pattern, "only kernels whose name matches this regular expression");
  app.add_option("--device", o->device, "auto, cpu, cuda, cuda:N");
  app.add_option("-t,--threads", o->threads, "threads");
  app.add_flag("--exact", o->exact, "the table of the exact path");
  auto* list = app.add_flag("--list", o->options.list, "list the rows without running them");
  auto* mutate = app.add_flag("--mutate", o->options.mutate, "put a fault into every row; success only if each is caught");
  auto* no_repack = app.add_flag("--no-repack", o->no_repack, "the kernels for the file's own layout");
  auto* every = app.add_option("--every", o->options.every, "only each N-th case")->check(whole(1, 1 << 20));
  auto* quick = app.add_flag("--quick", o->quick, "only the self-test that runs before a table's first use, and the time it takes");
  auto* all = app.add_flag("--all", o->all, "md: print the rows that are OK too");
  auto* output = app.add_option("-o,--output", o->output, "md, json or csv")->check(CLI::IsMember({"md", "json", "csv"}));
  for (auto* other : {op, type, pattern, list, mutate, no_repack, every, all, output}) quick->excludes(other);
  run = [o]() { return verify_command(*o); };
}

}  // namespace fewbit::cli
