// Text as Python sees it: strings are sequences of code points, held as UTF-8.  A byte that is not part of valid UTF-8 counts as one
// character of its own and is carried through unchanged.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace fewbit::text::jinja {

// Length in bytes of the character that starts at s[at]; at < s.size().
size_t char_bytes(std::string_view s, size_t at);
// Its code point; an invalid byte gives 0xDC00 + byte (what Python calls surrogateescape).
char32_t code_point(std::string_view s, size_t at);
void append_utf8(std::string& out, char32_t c);
size_t count_chars(std::string_view s);
// Byte offset of character `index`; s.size() when there are fewer.
size_t byte_offset(std::string_view s, size_t index);
std::vector<std::string_view> split_chars(std::string_view s);

bool is_space(char32_t c);      // str.isspace, regular expression \s
bool is_word(char32_t c);       // regular expression \w
bool is_alpha(char32_t c);      // str.isalpha
bool is_decimal(char32_t c);    // str.isdecimal
bool is_digit(char32_t c);      // str.isdigit
bool is_numeric(char32_t c);    // str.isnumeric
bool is_printable(char32_t c);  // str.isprintable
bool is_upper(char32_t c);      // has a lower-case partner, or is upper or title case by category
bool is_lower(char32_t c);

std::string upper(std::string_view s);
std::string lower(std::string_view s);
std::string title(std::string_view s);       // str.title
std::string capitalize(std::string_view s);  // str.capitalize
std::string swapcase(std::string_view s);

// str.strip family; `chars` empty pointer means white space.
std::string_view strip(std::string_view s, const std::string_view* chars, bool left, bool right);
// str.splitlines
std::vector<std::string_view> split_lines(std::string_view s, bool keep_ends);

// First place of `needle` in `hay` at or after byte `from`; npos if none.  Linear time.
size_t find_text(std::string_view hay, std::string_view needle, size_t from);

std::string html_escape(std::string_view s);
// Python's repr of a string.
std::string quote(std::string_view s);

}  // namespace fewbit::text::jinja
