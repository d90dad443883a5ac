// A pattern that a user typed.
#pragma once
#include <fmt/format.h>

#include <regex>
#include <string>

#include "base/result.h"

namespace fewbit {

// The length is bounded because std::regex calls itself for every bracket.
inline Result<std::regex> parse_regex(const std::string& text) {
  constexpr size_t most = 1000;
  if (text.size() > most)
    return Error{Code::invalid_argument, fmt::format("a regular expression of {} characters, at most {}", text.size(), most)};
  try {
    return std::regex(text);
  } catch (const std::regex_error& e) {
    return Error{Code::invalid_argument, fmt::format("'{}' is not a regular expression: {}", text, e.what())};
  }
}

}  // namespace fewbit
