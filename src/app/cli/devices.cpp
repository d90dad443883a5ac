// devices and --version: what can run models here.
#include <fmt/format.h>

#include "app/cli/common.h"
#include "base/cpu_features.h"
#include "fewbit_version.h"
#include "kernel/cuda/layout.h"
#include "kernel/kernel.h"

namespace fewbit::cli {

// One row per format: what can be read, made and run where.  README.md carries this table.
static Status print_formats() {
  FEWBIT_TRY(auto cpu, open_device("cpu", {.threads = 1}));
  FEWBIT_TRY(const kernel::Kernels* fast, kernel::kernels_for(*cpu, kernel::Path::fast));
  FEWBIT_TRY(const kernel::Kernels* exact, kernel::kernels_for(*cpu, kernel::Path::exact));
  auto runs = [](const kernel::Kernels* k, const FormatInfo& f) {
    kernel::HostTensor t;
    t.type = f.type;
    t.cols = 512;
    t.rows = 16;
    return k->describe(t, {}).ok() ? "yes" : "-";
  };
  fmt::print("| format | bits per weight | weights per block | decode | encode | CPU exact | CPU | CUDA |\n");
  fmt::print("| --- | ---: | ---: | --- | --- | --- | --- | --- |\n");
  for (const FormatInfo& f : all_formats()) {
    const bool weights = f.weights && f.type != Type::Q2_0_LEGACY128;  // that one is read as PQ2_0
    fmt::print("| {} | {:.4g} | {} | yes | {} | {} | {} | {} |\n", f.name, f.bits_per_weight(), f.block,
               !f.has_encoder       ? "-"
               : f.needs_importance ? "with importance"
                                    : "yes",
               weights ? runs(exact, f) : "-", weights ? runs(fast, f) : "-",
               weights && kernel::cuda::type_layout(f.type).layout >= 0 ? "yes" : "-");
  }
  return {};
}

void add_devices(CLI::App& app, Run& run) {
  auto json = std::make_shared<bool>(false);
  auto formats = std::make_shared<bool>(false);
  app.add_flag("--json", *json, "one JSON document");
  app.add_flag("--formats", *formats, "instead: which format runs where, as a Markdown table");
  run = [json, formats]() -> Status {
    if (*formats) return print_formats();
    Json out = Json::array();
    for (const DeviceInfo& d : list_devices()) {
      out.push_back({{"id", d.id}, {"name", d.name}, {"memory_total", d.memory_total}, {"memory_free", d.memory_free}, {"note", d.note}});
      if (!*json && d.name.empty()) {
        fmt::print("{:8} {}\n", d.id, d.note);
      } else if (!*json) {
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
  for (const DeviceInfo& d : list_devices())
    s += fmt::format("\ndevice {}{}{}{}{}", d.id, d.name.empty() ? "" : " ", d.name, d.note.empty() ? "" : ": ", d.note);
  return s;
}

}  // namespace fewbit::cli
