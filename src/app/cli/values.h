// What an option's value may be.  Anything else is a usage error of one line that names the option, as typed, and what is allowed.
#pragma once
#include <CLI/CLI.hpp>

#include <string>
#include <vector>

#include "base/types.h"

namespace fewbit::cli {

CLI::Validator whole(i64 lo, i64 hi);  // decimal digits only: CLI11 would take 0x10, and round what is too large
CLI::Validator real(f64 lo, f64 hi);   // finite

// What holds for every option of a command: no empty text where a name is wanted, no nan or infinity, no value behind a flag, no absurd
// number of threads.
void check_all_values(CLI::App& app);
int most_threads();  // -t at most: a multiple of the cores

// One line for a parse error.  `args`: as the user typed them.
std::string parse_error_text(const CLI::ParseError& e, const CLI::App& app, const std::vector<std::string>& args);
// "--threads: ..." -> "-t: ..." if that is what was typed.
std::string as_typed(const std::string& message, const CLI::App& command, const std::vector<std::string>& args);

}  // namespace fewbit::cli
