// Template source to tokens, with the white space rules of jinja2: trim_blocks and lstrip_blocks on, keep_trailing_newline off.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja_value.h"

namespace fewbit::text::jinja {

enum class Tok : std::uint8_t { data, variable_begin, variable_end, block_begin, block_end, name, string, integer, real, op, end };

struct Token {
  Tok type;
  int line;          // 1 for the first line
  std::string text;  // data, name, string (escapes resolved), operator
  Int integer = 0;
  double real = 0;
};

// Throws Failure.  The last token is Tok::end.
std::vector<Token> tokenize(std::string_view source);

}  // namespace fewbit::text::jinja
