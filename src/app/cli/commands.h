// The commands of the program.  Each is one file with one function, listed in main.cpp.  The contract: docs/cli.md.
#pragma once
#include <CLI/CLI.hpp>

#include <functional>
#include <string>

#include "base/result.h"

namespace fewbit::cli {

// Declares the command's options on `app`; `run` is called after parsing.
//   Success: exit 0.  An Error: one line on stderr, exit 1.  usage(): exit 2.
using Run = std::function<Status()>;
void add_run(CLI::App& app, Run& run);
void add_chat(CLI::App& app, Run& run);
void add_eval(CLI::App& app, Run& run);
void add_tokenize(CLI::App& app, Run& run);
void add_detokenize(CLI::App& app, Run& run);
void add_template(CLI::App& app, Run& run);
void add_inspect(CLI::App& app, Run& run);
void add_decode(CLI::App& app, Run& run);
void add_encode(CLI::App& app, Run& run);
void add_synth(CLI::App& app, Run& run);
void add_quantize(CLI::App& app, Run& run);
void add_imatrix(CLI::App& app, Run& run);
void add_devices(CLI::App& app, Run& run);
void add_bench(CLI::App& app, Run& run);
void add_perplexity(CLI::App& app, Run& run);
void add_verify(CLI::App& app, Run& run);
void add_ab(CLI::App& app, Run& run);
void add_ceiling(CLI::App& app, Run& run);
void add_launches(CLI::App& app, Run& run);
void add_batched_bench(CLI::App& app, Run& run);

// An error in how the program was called: exit 2.
struct UsageError {
  std::string what;
};
// Throws UsageError (caught in main): for values that CLI11's own checks cannot judge.
[[noreturn]] void usage(std::string what);

// --version text: version, commit, compiler, instruction sets, devices.
std::string version_text();

int main(int argc, char** argv);

}  // namespace fewbit::cli
