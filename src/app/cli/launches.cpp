// launches: every operation of one decoded token: kernel, shape, bytes that must be read, time.
#include <fmt/format.h>

#include <map>

#include "app/cli/common.h"
#include "app/cli/values.h"

namespace fewbit::cli {

void add_launches(CLI::App& app, Run& run) {
  struct Options {
    ModelOptions model;
    int depth = 0, cols = 1;
    bool json = false, total = false;
  };
  auto o = std::make_shared<Options>();
  o->model.add(app, true);
  app.add_option("-d,--depth", o->depth, "tokens already in the cache")->check(whole(0, 1 << 22));
  app.add_option("--cols", o->cols, "tokens of the step")->check(whole(1, 4096));
  app.add_flag("--total", o->total, "one line per kernel and shape instead of one per launch");
  app.add_flag("--json", o->json, "one JSON document");
  run = [o]() -> Status {
    o->model.engine.positions = [&](const runtime::Prepared&) -> Result<i64> { return o->depth + 2 * i64(o->cols); };
    FEWBIT_TRY(auto engine, o->model.load());
    FEWBIT_TRY(auto seq, engine->new_sequence());
    if (o->depth) {
      runtime::StepItem fill{seq, std::vector<text::Token>(size_t(o->depth), 1), {}};
      auto none = engine->step({&fill, 1});
      if (!none.ok() && none.error().code == Code::cancelled) return check_cancel("while filling the cache");
      FEWBIT_OK(none.ok() ? Status() : none.error());
    }
    std::vector<kernel::Launch> launches;
    runtime::StepItem item{seq, std::vector<text::Token>(size_t(o->cols), 1), {o->cols - 1}};
    FEWBIT_TRY(auto warm, engine->step_argmax({&item, 1}));  // pages touched, tables built
    (void)warm;
    engine->record_launches(&launches);
    FEWBIT_TRY(auto ids, engine->step_argmax({&item, 1}));
    (void)ids;
    engine->record_launches(nullptr);

    const size_t count = launches.size();
    if (o->total) {
      std::map<std::pair<std::string, std::string>, std::pair<int, kernel::Launch>> sums;
      for (const kernel::Launch& l : launches) {
        auto& [n, sum] = sums[{l.kernel, l.shape}];
        n++;
        sum.bytes += l.bytes;
        sum.time_us += l.time_us;
      }
      launches.clear();
      for (auto& [key, value] : sums)
        launches.push_back({fmt::format("{} x {}", value.first, key.first), key.second, value.second.bytes, value.second.time_us});
      std::sort(launches.begin(), launches.end(), [](auto& a, auto& b) { return a.time_us > b.time_us; });
    }
    u64 bytes = 0;
    f64 time = 0;
    Json rows = Json::array();
    for (const kernel::Launch& l : launches) {
      bytes += l.bytes;
      time += l.time_us;
      rows.push_back({{"kernel", l.kernel}, {"shape", l.shape}, {"bytes", l.bytes}, {"time_us", l.time_us}});
      if (!o->json) fmt::print("{:40} {:28} {:>12} B {:>10.1f} us\n", l.kernel, l.shape, l.bytes, l.time_us);
    }
    if (o->json) {
      fmt::print(
          "{}\n",
          Json{{"device", engine->device().name()}, {"launches", rows}, {"count", count}, {"bytes", bytes}, {"time_us", time}}.dump(2));
    } else {
      fmt::print("{} launches, {:.3f} MB, {:.1f} us, {:.1f} GB/s\n", count, f64(bytes) * 1e-6, time,
                 time > 0 ? f64(bytes) / time * 1e-3 : 0);
    }
    return {};
  };
}

}  // namespace fewbit::cli
