#include "base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace fewbit::log {

static spdlog::level::level_enum to_spdlog(Level l) {
  switch (l) {
    case Level::debug:
      return spdlog::level::debug;
    case Level::info:
      return spdlog::level::info;
    case Level::notice:
    case Level::warn:
      return spdlog::level::warn;
    case Level::error:
      return spdlog::level::err;
    case Level::off:
      break;
  }
  return spdlog::level::off;
}

static spdlog::logger& logger() {
  static auto l = [] {
    auto made = spdlog::stderr_color_mt("fewbit");
    made->set_pattern("%n: %^%l%$: %v");
    made->set_level(spdlog::level::warn);
    return made;
  }();
  return *l;
}

namespace {
void put(Level level, std::string_view text) {
  if (level != Level::notice) return logger().log(to_spdlog(level), "{}", text);
  if (logger().should_log(spdlog::level::warn)) std::fputs(fmt::format("fewbit: {}\n", text).c_str(), stderr);
}

struct Held {
  std::mutex mutex;
  bool on = false;
  std::vector<std::pair<Level, std::string>> messages;
};
Held& held() {
  static Held h;
  return h;
}
}  // namespace

void hold() {
  std::lock_guard lock(held().mutex);
  held().on = true;
}

void release() {
  std::lock_guard lock(held().mutex);
  held().on = false;
  for (auto& [level, text] : held().messages) put(level, text);
  held().messages.clear();
}

void set_level(Level level) { logger().set_level(to_spdlog(level)); }
void write(Level level, std::string_view text) {
  std::lock_guard lock(held().mutex);
  if (held().on) {
    held().messages.emplace_back(level, text);
  } else {
    put(level, text);
  }
}

}  // namespace fewbit::log
