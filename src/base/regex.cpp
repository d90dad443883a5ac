#define PCRE2_CODE_UNIT_WIDTH 8
#include "base/regex.h"

#include <fmt/format.h>
#include <pcre2.h>

namespace fewbit {

static constexpr size_t most_characters = 1000;
static constexpr uint32_t most_steps = 100'000;

static std::string explain(int error) {
  PCRE2_UCHAR text[256];
  return pcre2_get_error_message(error, text, sizeof text) > 0 ? reinterpret_cast<const char*>(text) : fmt::format("error {}", error);
}

Result<Regex> Regex::parse(const std::string& pattern) {
  if (pattern.size() > most_characters)
    return Error{Code::invalid_argument, fmt::format("a regular expression of {} characters, at most {}", pattern.size(), most_characters)};
  int error = 0;
  PCRE2_SIZE at = 0;
  // \C would let a match stop inside a character.
  pcre2_code* code = pcre2_compile(PCRE2_SPTR(pattern.data()), pattern.size(), PCRE2_NEVER_BACKSLASH_C, &error, &at, nullptr);
  if (!code)
    return Error{Code::invalid_argument, fmt::format("'{}' is not a regular expression: {} at character {}", pattern, explain(error), at)};
  Regex r;
  r.pattern_ = pattern;
  r.code_ = std::shared_ptr<void>(code, [](void* p) { pcre2_code_free(static_cast<pcre2_code*>(p)); });
  return r;
}

Result<bool> Regex::search(std::string_view text) const {
  const std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> data(pcre2_match_data_create(1, nullptr),
                                                                                 pcre2_match_data_free);
  const std::unique_ptr<pcre2_match_context, decltype(&pcre2_match_context_free)> context(pcre2_match_context_create(nullptr),
                                                                                          pcre2_match_context_free);
  FEWBIT_CHECK(data && context, "no memory for a PCRE2 match of %zu bytes", text.size());
  pcre2_set_match_limit(context.get(), most_steps);
  const int n =
      pcre2_match(static_cast<const pcre2_code*>(code_.get()), PCRE2_SPTR(text.data()), text.size(), 0, 0, data.get(), context.get());
  if (n == PCRE2_ERROR_NOMATCH) return false;
  if (n < 0) return Error{Code::invalid_argument, fmt::format("regular expression '{}': {}", pattern_, explain(n))};
  return true;
}

}  // namespace fewbit
