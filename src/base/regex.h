// A regular expression that a user typed (PCRE2).  A search takes a bounded number of steps: patterns like (.*)*z end with an error.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace fewbit {

class Regex {
 public:
  // At most 1000 characters; the error names the place that PCRE2 does not understand.
  static Result<Regex> parse(const std::string& pattern);

  // Whether the pattern occurs anywhere in `text`; an error when that takes more than 100,000 steps to find out.
  Result<bool> search(std::string_view text) const;

 private:
  std::string pattern_;
  std::shared_ptr<void> code_;  // a pcre2_code
};

}  // namespace fewbit
