// Options and small helpers that several commands share.
#pragma once
#include <atomic>
#include <string>
#include <vector>

#include "app/cli/commands.h"
#include "base/json.h"
#include "runtime/engine.h"
#include "runtime/plan.h"

namespace fewbit::cli {

// -m, --synthetic, --layers, --device, -t, -c, -b, -ub, -ctk, -ctv, --exact, --no-repack, --q2-0-legacy
struct ModelOptions {
  runtime::EngineOptions engine;
  std::string k_type = "f16", v_type = "f16";
  bool exact = false, no_repack = false;
  int batch = 0, gpu_layers = -1;

  // `optional_model`: without -m the model that ships with the project is used.
  void add(CLI::App& app, bool optional_model);
  // Checks the values (UsageError), reads the file's head and plans.  Nothing is said yet, so that a command can refuse what does not fit
  // the model in one line.
  Result<runtime::Prepared> prepare() const;
  Result<runtime::EngineOptions> resolve() const;
  // Says the memory plan, then loads.
  static Result<std::unique_ptr<runtime::Engine>> load(runtime::Prepared prepared);
  Result<std::unique_ptr<runtime::Engine>> load() const;

 private:
  bool optional_ = false;
};

// "1,2,3" -> integers; UsageError names the option and the bad piece.
std::vector<i64> parse_ints(const std::string& option, const std::string& text, i64 lo, i64 hi);
std::vector<std::string> split(const std::string& list);  // at the commas; an empty list is one empty piece
Type parse_type(const std::string& option, const std::string& name);
Type cache_type(const std::string& option, const std::string& name);
Result<std::string> read_text(const std::string& path);  // "-" = standard input
// An output must not replace what the command reads.
Status keep_apart(const std::string& option, const std::string& out, const std::string& in);
Status write_bytes(const std::string& path, const void* data, size_t n);  // "-" = standard output
// What stands in front of the numbers of a float32 .npy of shape (rows, cols).
std::string npy_head(i64 rows, i64 cols);

// UsageError unless it is auto, cpu, cuda, cuda:N or metal.
void check_device(const std::string& spec);

// The file of -m, or the model that ships.
Result<std::string> default_model();

// Set by Ctrl-C while a Cancel lives; the second Ctrl-C ends the program the usual way.
class Cancel {
 public:
  Cancel();
  ~Cancel();
  static bool active();
  static const std::atomic<bool>& flag();
  static void reset();
};
Status check_cancel(const std::string& what);  // Error `cancelled`: "cancelled WHAT"

}  // namespace fewbit::cli
