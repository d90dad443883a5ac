// ceiling: what this machine's memory can do, measured now.
#include "kernel/ceiling.h"

#include <fmt/format.h>

#include "app/cli/common.h"
#include "app/cli/values.h"
#include "base/cpu_features.h"
#include "kernel/int8_peak.h"

namespace fewbit::cli {

void add_ceiling(CLI::App& app, Run& run) {
  struct Options {
    std::string device = "auto", threads;
    f64 seconds = 1;
    bool json = false;
  };
  auto o = std::make_shared<Options>();
  app.add_option("--device", o->device, "auto, cpu, cuda, cuda:N");
  app.add_option("-t,--threads", o->threads, "threads, a list (default: 1 and one per core)");
  app.add_option("--seconds", o->seconds, "how long to measure each")->check(real(0.1, 60.0));
  app.add_flag("--json", o->json, "one JSON document");
  run = [o]() -> Status {
    check_device(o->device);
    FEWBIT_TRY(auto probe, open_device(o->device));
    std::vector<i64> threads{0};
    if (probe->pool()) {
      threads = {1};
      if (probe->pool()->size() > 1) threads.push_back(probe->pool()->size());
      if (!o->threads.empty()) threads = parse_ints("-t", o->threads, 1, most_threads());
    }
    Json rows = Json::array();
    for (i64 t : threads) {
      FEWBIT_OK(check_cancel(fmt::format("after {} of {} thread counts", rows.size(), threads.size())));
      FEWBIT_TRY(auto device, open_device(o->device, {.threads = int(t)}));
      FEWBIT_TRY(auto c, kernel::measure_ceiling(*device, o->seconds, &Cancel::flag()));
      rows.push_back({{"device", device->id()},
                      {"device_name", device->name()},
                      {"n_threads", t},
                      {"read_gb_s", c.read_gb_s},
                      {"copy_gb_s", c.copy_gb_s},
                      {"barrier_us", c.barrier_us},
                      {"launch_us", c.launch_us}});
      std::string peaks;
      if (ThreadPool* pool = device->pool()) {
        for (const kernel::Int8Peak& p : kernel::measure_int8_peak(*pool)) {
          rows.back()["int8_gops"][isa_name(p.set)] = p.gops;
          peaks += fmt::format(", int8 {} {:.0f} GOP/s", isa_name(p.set), p.gops);
        }
      }
      if (!o->json) {
        fmt::print("{}{}: read {:.1f} GB/s, copy {:.1f} GB/s (read + written), barrier {:.2f} us{}{}\n", device->name(),
                   device->pool() ? fmt::format("  {} threads", t) : "", c.read_gb_s, c.copy_gb_s, c.barrier_us,
                   c.launch_us > 0 ? fmt::format(", launch {:.2f} us", c.launch_us) : "", peaks);
      }
    }
    if (o->json) fmt::print("{}\n", rows.dump(2));
    return {};
  };
}

}  // namespace fewbit::cli
