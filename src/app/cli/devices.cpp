// devices and --version: what can run models here.
#include <fmt/format.h>

#include "app/cli/common.h"
#include "base/cpu_features.h"
#include "fewbit_version.h"

namespace fewbit::cli {

void add_devices(CLI::App& app, Run& run) {
  auto json = std::make_shared<bool>(false);
  app.add_flag("--json", *json, "one JSON document");
  run = [json]() -> Status {
    Json out = Json::array();
    for (const DeviceInfo& d : list_devices()) {
      out.push_back({{"id", d.id}, {"name", d.name}, {"memory_total", d.memory_total}, {"memory_free", d.memory_free}, {"note", d.note}});
      if (!*json) {
        fmt::print("{:8} {}  {:.1f} GiB, {:.1f} free{}{}\n", d.id, d.name, f64(d.memory_total) / (1 << 30), f64(d.memory_free) / (1 << 30),
                   d.note.empty() ? "" : "  ", d.note);
      }
    }
    if (*json)
      fmt::print("{}\n", Json{{"cpu", cpu_features().name}, {"instruction_sets", cpu_features().sets()}, {"devices", out}}.dump(2));
    return {};
  };
}

std::string version_text() {
  std::string s = fmt::format("fewbit {} ({})\ncompiler {}\ncpu {} ({})", FEWBIT_VERSION, FEWBIT_COMMIT, FEWBIT_COMPILER,
                              cpu_features().name, cpu_features().sets());
  for (const DeviceInfo& d : list_devices()) s += fmt::format("\ndevice {} {}{}{}", d.id, d.name, d.note.empty() ? "" : ": ", d.note);
  return s;
}

}  // namespace fewbit::cli
