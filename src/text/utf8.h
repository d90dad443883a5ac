// UTF-8 as everything behind the tokeniser's door sees it: always well-formed.
// Malformed input becomes U+FFFD, one for each maximal part that could have begun a character (Unicode 15, section 3.9, table 3-8);
// that is what Python's errors="replace" and the web platform do.
#pragma once
#include <string>
#include <string_view>

#include "base/types.h"

namespace fewbit::text {

inline constexpr std::string_view replacement_character = "\xEF\xBF\xBD";

// Appends the well-formed reading of `bytes` to `out` and returns how many bytes it consumed: all of them if `end`, else all but a tail
// of at most 3 bytes that the next bytes may complete.  Feeding a text in pieces therefore gives the same as feeding it whole.
size_t append_valid(std::string_view bytes, std::string& out, bool end);

std::string to_valid_utf8(std::string_view bytes);
bool is_valid_utf8(std::string_view bytes);

// True where a character may start (also at the end of a text); `text` is well-formed.
inline bool is_boundary(std::string_view text, size_t at) { return at == text.size() || (u8(text[at]) & 0xC0) != 0x80; }

// Length in bytes of the character that starts with `first`, in well-formed text.
inline int length_of(char first) {
  u8 c = u8(first);
  return c < 0x80 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
}

void append_code_point(u32 code_point, std::string& out);

}  // namespace fewbit::text
