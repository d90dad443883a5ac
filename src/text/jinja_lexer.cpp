#include "text/jinja_lexer.h"

#include <fmt/format.h>

#include <algorithm>

#include "text/jinja_runtime.h"
#include "text/jinja_unicode.h"

namespace fewbit::text::jinja {
namespace {

bool ascii_digit(char c) { return c >= '0' && c <= '9'; }
bool hex_digit(char c) { return ascii_digit(c) || ((c | 32) >= 'a' && (c | 32) <= 'f'); }

// "\r\n" and "\r" become "\n"; one newline at the very end goes.
std::string normalize(std::string_view source) {
  std::string s;
  s.reserve(source.size());
  for (size_t i = 0; i < source.size(); i++) {
    if (source[i] == '\r') {
      s += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') i++;
    } else {
      s += source[i];
    }
  }
  if (!s.empty() && s.back() == '\n') s.pop_back();
  return s;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : s_(normalize(source)) {}

  std::vector<Token> run() {
    while (at_ < s_.size()) {
      size_t begin = find_tag(at_);
      if (begin == npos) {
        add(Tok::data, s_.substr(at_));
        at_ = s_.size();
        break;
      }
      tag(begin);
    }
    add(Tok::end, "");
    return std::move(tokens_);
  }

 private:
  static constexpr size_t npos = std::string::npos;

  [[noreturn]] void fail(int line, std::string what) const { throw Failure{std::move(what), line, Code::invalid_argument, false}; }

  // Lines are counted once, from left to right.
  int line_at(size_t at) {
    for (; counted_ < at; counted_++) line_ += s_[counted_] == '\n';
    return line_;
  }
  void add(Tok type, std::string text) { tokens_.push_back({type, line_at(at_), std::move(text), 0, 0}); }

  char peek(size_t at) const { return at < s_.size() ? s_[at] : '\0'; }
  bool looking_at(size_t at, std::string_view what) const { return std::string_view(s_).substr(at, what.size()) == what; }

  size_t find_tag(size_t from) const {
    for (size_t at = s_.find('{', from); at != npos; at = s_.find('{', at + 1)) {
      char c = peek(at + 1);
      if (c == '%' || c == '{' || c == '#') return at;
    }
    return npos;
  }

  size_t skip_space(size_t at) const {
    while (at < s_.size() && is_space(code_point(s_, at))) at += char_bytes(s_, at);
    return at;
  }

  // The text before a tag: `-` strips all white space, otherwise lstrip_blocks strips what stands between the line's start and a block.
  void data(size_t begin, char sign, bool variable) {
    std::string_view text = std::string_view(s_).substr(at_, begin - at_);
    if (sign == '-') {
      text = strip(text, nullptr, false, true);
    } else if (sign != '+' && !variable) {
      size_t newline = text.rfind('\n'), start = newline == npos ? 0 : newline + 1;
      if ((start > 0 || line_starting_) && strip(text.substr(start), nullptr, true, false).empty()) text = text.substr(0, start);
    }
    if (!text.empty()) add(Tok::data, std::string(text));
  }

  // Passes the end of a tag, whose first sign or character is at `at`: "-" takes all white space with it, a block or comment one newline.
  void close(size_t at, bool variable) {
    char sign = s_[at] == '-' || s_[at] == '+' ? s_[at] : '\0';
    at += sign ? 3 : 2;
    if (sign == '-') {
      at = skip_space(at);
    } else if (!sign && !variable && peek(at) == '\n') {
      at++;
    }
    line_starting_ = s_[at - 1] == '\n';
    at_ = at;
  }

  // Where `name` in `{% name %}` ends, for raw and endraw; npos if the tag at `at` is another.
  size_t bare_tag(size_t at, std::string_view name) const {
    at = at + 2;
    if (peek(at) == '-' || peek(at) == '+') at++;
    at = skip_space(at);
    if (!looking_at(at, name)) return npos;
    at = skip_space(at + name.size());
    if (looking_at(at, "%}") || looking_at(at, "-%}") || (name == "endraw" && looking_at(at, "+%}"))) return at;
    return npos;
  }

  void tag(size_t begin) {
    char kind = s_[begin + 1];
    char sign = peek(begin + 2) == '-' || peek(begin + 2) == '+' ? s_[begin + 2] : '\0';
    data(begin, sign, kind == '{');
    at_ = begin;
    int line = line_at(begin);
    if (kind == '#') {
      size_t start = begin + (sign ? 3 : 2), end = s_.find("#}", start);
      if (end == npos) fail(line, "the comment '{#' does not end");
      close(end > start && (s_[end - 1] == '-' || s_[end - 1] == '+') ? end - 1 : end, false);
      return;
    }
    if (size_t end = kind == '%' ? bare_tag(begin, "raw") : npos; end != npos) {
      at_ = end + (s_[end] == '-' ? 3 : 2);
      if (s_[end] == '-') at_ = skip_space(at_);
      line_starting_ = s_[at_ - 1] == '\n';
      raw(line);
      return;
    }
    bool variable = kind == '{';
    add(variable ? Tok::variable_begin : Tok::block_begin, "");
    at_ = begin + (sign ? 3 : 2);
    inside(variable, line);
  }

  void raw(int line) {
    for (size_t at = s_.find("{%", at_); at != npos; at = s_.find("{%", at + 2)) {
      size_t end = bare_tag(at, "endraw");
      if (end == npos) continue;
      data(at, peek(at + 2) == '-' || peek(at + 2) == '+' ? s_[at + 2] : '\0', false);
      close(end, false);
      return;
    }
    fail(line, "'{% raw %}' without '{% endraw %}'");
  }

  // Tokens up to the end of the tag.
  void inside(bool variable, int begin_line) {
    std::string open;  // brackets that wait for their partner: while there are any, "}}" closes two of them
    std::string_view mark = variable ? "}}" : "%}";
    while (true) {
      at_ = skip_space(at_);
      if (at_ >= s_.size()) fail(begin_line, fmt::format("'{}' does not end", variable ? "{{" : "{%"));
      bool sign = s_[at_] == '-' || (s_[at_] == '+' && !variable);
      if (open.empty() && looking_at(at_ + sign, mark)) {
        add(variable ? Tok::variable_end : Tok::block_end, "");
        close(at_, variable);
        return;
      }
      if (ascii_digit(s_[at_])) {
        number();
      } else if (s_[at_] == '\'' || s_[at_] == '"') {
        string();
      } else if (is_word(code_point(s_, at_))) {
        size_t end = at_;
        while (end < s_.size() && is_word(code_point(s_, end))) end += char_bytes(s_, end);
        add(Tok::name, s_.substr(at_, end - at_));
        at_ = end;
      } else {
        op(open);
      }
    }
  }

  void op(std::string& open) {
    static constexpr std::string_view ops[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
                                               "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};
    for (std::string_view text : ops) {
      if (!looking_at(at_, text)) continue;
      char c = text[0];
      if (c == '(' || c == '[' || c == '{') open += c == '(' ? ')' : c == '[' ? ']' : '}';
      if (c == ')' || c == ']' || c == '}') {
        if (open.empty()) fail(line_at(at_), fmt::format("unexpected '{}'", c));
        if (open.back() != c) fail(line_at(at_), fmt::format("unexpected '{}', expected '{}'", c, open.back()));
        open.pop_back();
      }
      add(Tok::op, std::string(text));
      at_ += text.size();
      return;
    }
    fail(line_at(at_), fmt::format("unexpected character {}", quote(s_.substr(at_, char_bytes(s_, at_)))));
  }

  // Digits with single underscores between them: the end, or `at` when there are none.
  template <class F>
  size_t digits(size_t at, F is_digit) const {
    while (is_digit(peek(at)) || (peek(at) == '_' && at > 0 && is_digit(s_[at - 1]) && is_digit(peek(at + 1)))) at++;
    return at;
  }

  void number() {
    size_t end = digits(at_, ascii_digit), whole = end;
    bool real = false;
    if (at_ == 0 || s_[at_ - 1] != '.') {  // x.0.1 are two subscripts
      if (peek(end) == '.' && ascii_digit(peek(end + 1))) end = digits(end + 1, ascii_digit), real = true;
      if ((peek(end) | 32) == 'e') {
        size_t e = end + 1 + (peek(end + 1) == '+' || peek(end + 1) == '-');
        if (ascii_digit(peek(e))) end = digits(e, ascii_digit), real = true;
      }
    }
    if (real) {
      auto value = parse_float(s_.substr(at_, end - at_));
      if (!value) fail(line_at(at_), fmt::format("cannot read the number '{}'", s_.substr(at_, end - at_)));
      tokens_.push_back({Tok::real, line_at(at_), s_.substr(at_, end - at_), 0, *value});
      at_ = end;
      return;
    }
    int base = 10;
    char mark = static_cast<char>(peek(at_ + 1) | 32);
    if (s_[at_] == '0' && (mark == 'x' || mark == 'o' || mark == 'b')) {
      size_t first = at_ + 2 + (peek(at_ + 2) == '_');
      size_t last =
          mark == 'x' ? digits(first, hex_digit) : digits(first, [&](char c) { return c >= '0' && c <= (mark == 'o' ? '7' : '1'); });
      if (last > first) whole = last, base = 0;
    } else if (s_[at_] == '0') {  // only zeros may follow
      whole = digits(at_, [](char c) { return c == '0'; });
    }
    std::string text = s_.substr(at_, whole - at_);
    try {
      auto value = parse_int(text, base);
      if (!value) fail(line_at(at_), fmt::format("cannot read the number '{}'", text));
      tokens_.push_back({Tok::integer, line_at(at_), text, *value, 0});
    } catch (const Failure& f) { fail(line_at(at_), f.what); }
    at_ = whole;
  }

  void string() {
    int line = line_at(at_);
    char mark = s_[at_];
    size_t at = at_ + 1;
    std::string out;
    while (true) {
      if (at >= s_.size()) fail(line, "a string does not end");
      char c = s_[at++];
      if (c == mark) break;
      if (c != '\\') {
        out += c;
      } else if (at >= s_.size()) {
        fail(line, "a string does not end");
      } else {
        at = escape(out, at, line);
      }
    }
    add(Tok::string, std::move(out));
    at_ = at;
  }

  char32_t hex(size_t at, size_t n, int line) const {
    char32_t c = 0;
    for (size_t i = 0; i < n; i++) {
      char d = peek(at + i);
      if (!hex_digit(d)) fail(line, fmt::format("the escape '\\{}' in a string needs {} hexadecimal digits", s_[at - 1], n));
      c = c << 4 | static_cast<char32_t>(ascii_digit(d) ? d - '0' : (d | 32) - 'a' + 10);
    }
    return c;
  }

  // The escape whose character after the backslash is at `at`; returns the place behind it.
  size_t escape(std::string& out, size_t at, int line) const {
    char c = s_[at];
    static constexpr std::string_view names = "abfnrtv\\'\"", values = "\a\b\f\n\r\t\v\\'\"";
    if (size_t i = names.find(c); i != names.npos) {
      out += values[i];
      return at + 1;
    }
    if (c == '\n') return at + 1;
    if (c >= '0' && c <= '7') {
      char32_t code = 0;
      size_t n = 0;
      for (; n < 3 && peek(at + n) >= '0' && peek(at + n) <= '7'; n++) code = code * 8 + static_cast<char32_t>(s_[at + n] - '0');
      append_utf8(out, code);
      return at + n;
    }
    if (c == 'x' || c == 'u' || c == 'U') {
      size_t n = c == 'x' ? 2 : c == 'u' ? 4 : 8;
      char32_t code = hex(at + 1, n, line);
      at += 1 + n;
      if (code >= 0xD800 && code < 0xDC00 && peek(at) == '\\' && peek(at + 1) == 'u') {  // a pair of surrogates is one character
        char32_t low = hex(at + 2, 4, line);
        if (low >= 0xDC00 && low < 0xE000) {
          code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
          at += 6;
        }
      }
      if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000))
        fail(line, fmt::format("an escape in a string names no character: U+{:04X}", static_cast<unsigned>(code)));
      append_utf8(out, code);
      return at;
    }
    if (c == 'N') fail(line, "the escape '\\N' in a string is not supported");
    out += '\\';
    out += c;
    return at + 1;
  }

  const std::string s_;
  size_t at_ = 0, counted_ = 0;
  int line_ = 1;
  bool line_starting_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) { return Lexer(source).run(); }

}  // namespace fewbit::text::jinja
