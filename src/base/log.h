// Logging to stderr through spdlog; text formatting through fmt.  stdout belongs to results.
#pragma once
#include <fmt/format.h>

#include <string_view>

namespace fewbit::log {

enum class Level { debug, info, notice, warn, error, off };
void set_level(Level level);  // default: warn
void write(Level level, std::string_view text);

// From hold() on, messages wait for release(), which writes them.  A program that ends with an error before has said only that.
void hold();
void release();

template <class... A>
void debug(fmt::format_string<A...> f, A&&... a) {
  write(Level::debug, fmt::format(f, std::forward<A>(a)...));
}
template <class... A>
void info(fmt::format_string<A...> f, A&&... a) {
  write(Level::info, fmt::format(f, std::forward<A>(a)...));
}
// To the user, without a level's name; silent from Level::error on.
template <class... A>
void notice(fmt::format_string<A...> f, A&&... a) {
  write(Level::notice, fmt::format(f, std::forward<A>(a)...));
}
template <class... A>
void warn(fmt::format_string<A...> f, A&&... a) {
  write(Level::warn, fmt::format(f, std::forward<A>(a)...));
}
template <class... A>
void error(fmt::format_string<A...> f, A&&... a) {
  write(Level::error, fmt::format(f, std::forward<A>(a)...));
}

}  // namespace fewbit::log
