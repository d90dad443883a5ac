// A bounds-checked read position over the bytes of a file.  Every read compares with what is left; no sum can wrap.
#pragma once
#include <fmt/format.h>

#include <span>
#include <string>
#include <string_view>

#include "base/bits.h"
#include "base/result.h"

namespace fewbit::gguf {

// Text from a file for an error message: one line, at most 80 characters, anything unprintable as \xNN.
std::string printable(std::string_view text);

class Cursor {
 public:
  Cursor(std::span<const u8> bytes, std::string_view file) : bytes_(bytes), file_(file) {}

  u64 at() const { return at_; }
  u64 left() const { return bytes_.size() - at_; }

  // "FILE: byte N: ..." of the given byte.
  template <class... A>
  Error fail(u64 at, fmt::format_string<A...> f, A&&... a) const {
    return {Code::bad_file, fmt::format("{}: byte {}: {}", file_, at, fmt::format(f, std::forward<A>(a)...))};
  }

  // `what` names the thing in the message about a file that is too short: a text, or a function that makes it when it is needed.
  template <class T, class What>
  Result<T> number(const What& what) {
    if (left() < sizeof(T)) return too_short(text(what), sizeof(T));
    T v = load_le<T>(bytes_.data() + at_);
    at_ += sizeof(T);
    return v;
  }
  // A u64 length and that many bytes, at most `cap`.
  template <class What>
  Result<std::string_view> string(const What& what, u64 cap) {
    const u64 start = at_;
    if (left() < 8) return too_short(text(what), 8);
    const u64 n = load_le<u64>(bytes_.data() + at_);
    at_ += 8;
    if (n > left()) return fail(start, "{}: string of {} bytes, {} bytes are left", text(what), n, left());
    if (n > cap) return fail(start, "{}: string of {} bytes, at most {} are accepted", text(what), n, cap);
    std::string_view s(reinterpret_cast<const char*>(bytes_.data()) + at_, size_t(n));
    at_ += n;
    return s;
  }
  // n elements of `size` bytes each, the count already checked against left().
  const u8* take(u64 n, u64 size) {
    FEWBIT_CHECK(n <= left() / size);
    const u8* p = bytes_.data() + at_;
    at_ += n * size;
    return p;
  }

 private:
  template <class What>
  static std::string text(const What& what) {
    if constexpr (requires { what(); }) {
      return what();
    } else {
      return std::string(what);
    }
  }
  Error too_short(std::string_view what, u64 need) const {
    return fail(at_, "{}: needs {} bytes, {} are left (the file is cut short)", what, need, left());
  }

  std::span<const u8> bytes_;
  std::string_view file_;
  u64 at_ = 0;
};

}  // namespace fewbit::gguf
