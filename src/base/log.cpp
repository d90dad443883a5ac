#include "base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

namespace fewbit::log {

static spdlog::level::level_enum to_spdlog(Level l) {
  switch (l) {
    case Level::debug:
      return spdlog::level::debug;
    case Level::info:
      return spdlog::level::info;
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

void set_level(Level level) { logger().set_level(to_spdlog(level)); }
void write(Level level, std::string_view text) { logger().log(to_spdlog(level), "{}", text); }

}  // namespace fewbit::log
