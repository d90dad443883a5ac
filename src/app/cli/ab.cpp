// ab: a paired, interleaved comparison of two kernels by name, or of two builds of this program by path.
#include "kernel/ab.h"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <set>

#include "app/cli/ab_build.h"
#include "app/cli/common.h"
#include "app/cli/values.h"
#include "base/cpu_features.h"

namespace fewbit::cli {

struct AbCommand {
  kernel::AbOptions options;
  std::string ops = "matmul", types = "PQ2_0", dims = "2048x2048", cols = "1", experts = "0", tiles = "0", a, b, output = "md",
              device = "cpu";
  int threads = 0;
  f64 planted = 0, limit = 60;
  bool warm = false, cold = false, worker = false, list = false;
  bool limited = false;  // --limit is given
};

namespace {

// A path, but no program lies there: said before anything is made ready.
void check_path(const std::string& name) {
  if (name.find('/') != std::string::npos && !is_build(name)) usage(fmt::format("ab: '{}' is not a program that can be run", name));
}

Result<std::unique_ptr<kernel::Contestant>> contestant(const AbCommand& o, Device& device, const kernel::AbShape& shape,
                                                       const std::string& name) {
  const bool gpu = device.kind() == DeviceKind::cuda;
  if (!is_build(name)) return gpu ? kernel::cuda::contestant(device, name, shape) : kernel::cpu_contestant(device, name, shape);
  return Build::start(
      std::filesystem::absolute(name).string(),
      {"ab", "--worker", "--op", shape.op, "--type", type_name(shape.type), "--shape", fmt::format("{}x{}", shape.rows, shape.n), "--cols",
       std::to_string(shape.cols), "--experts", std::to_string(shape.experts), "--tile", std::to_string(shape.panel), "-t",
       std::to_string(gpu ? 1 : device.pool()->size()), "--device", o.device, o.warm ? "--warm" : "--cold"},
      o.limit);
}

}  // namespace

// Every combination of the lists, in the order of the options.
static std::vector<kernel::AbShape> shapes_of(const AbCommand& o) {
  const size_t x = o.dims.find('x');
  if (x == std::string::npos) usage(fmt::format("--shape: '{}' is not ROWSxINPUTS", o.dims));
  kernel::AbShape s;
  const std::vector<i64> rows = parse_ints("--shape", o.dims.substr(0, x), 1, 1 << 24),
                         inputs = parse_ints("--shape", o.dims.substr(x + 1), 1, 1 << 24);
  if (rows.size() + inputs.size() != 2) usage(fmt::format("--shape: '{}' is not one ROWSxINPUTS", o.dims));
  s.rows = rows[0];
  s.n = inputs[0];
  s.cold = !o.warm;
  s.cancel = &Cancel::flag();
  const std::vector<i64> experts_used = parse_ints("--experts", o.experts, 0, 4096);
  bool experts_matter = false;
  std::vector<kernel::AbShape> shapes;
  for (const std::string& op : split(o.ops)) {
    if (op != "matmul" && op != "moe_glu" && op != "moe_down") usage(fmt::format("--op: '{}' is not matmul, moe_glu or moe_down", op));
    experts_matter |= op != "matmul";
    for (const std::string& type : split(o.types)) {
      for (i64 experts : op == "matmul" ? std::vector<i64>{0} : experts_used) {
        for (i64 tile : parse_ints("--tile", o.tiles, 0, 16)) {
          for (i64 cols : parse_ints("--cols", o.cols, 1, 4096)) {
            s.op = op;
            s.type = parse_type("--type", type);
            s.experts = op == "matmul" ? 0 : std::max<i64>(experts, 1);
            s.panel = int(tile);
            s.cols = int(cols);
            if (s.n % format_info(s.type).block != 0)
              usage(fmt::format("--shape: {} inputs are not whole blocks of {} ({})", s.n, format_info(s.type).block, type_name(s.type)));
            shapes.push_back(s);
          }
        }
      }
    }
  }
  if (!experts_matter && experts_used != std::vector<i64>{0})
    usage(fmt::format("--experts: '{}': experts are for --op moe_glu and moe_down, not for matmul", o.experts));
  return shapes;
}

// What would be ignored, or cannot be compared, is refused before anything is made ready.
static void check_sides(const AbCommand& o, const std::vector<kernel::AbShape>& shapes, bool gpu) {
  for (const std::string& name : {o.a, o.b}) check_path(name);
  const bool a = is_build(o.a), b = is_build(o.b);
  if (a != b) {  // a process of its own has other memory, and waits between its turns: the same kernel looked up to a sixth faster
    usage(fmt::format("ab: '{}' is a kernel and '{}' a build: give both as paths of builds, or both as kernels", a ? o.b : o.a,
                      a ? o.a : o.b));
  }
  if (!a && o.limited) usage("--limit: for builds by path, not for kernels");
  if (gpu && o.tiles != "0") usage(fmt::format("--tile: '{}': tiles are for kernels of the CPU", o.tiles));
  if (o.planted <= 0) return;
  if (b) usage("--plant: B is another build, where nothing can be planted");
  if (gpu) return;
  if (o.ops != "matmul") usage(fmt::format("--plant: on a CPU work is planted in matmul alone, not in {}", o.ops));
  kernel::AbShape shape = shapes[0];  // the rows are all shapes'
  shape.planted = o.planted;
  if (const auto rows = kernel::planted_rows(shape); !rows.ok()) usage(rows.error().what);
}

// Whether both sides have a kernel for every operation and type of the lists, said before the first row.  By small problems: which kernel
// a CPU has does not depend on the rows or the columns.
static Status check_kernels(const AbCommand& o, Device& device, const std::vector<kernel::AbShape>& shapes) {
  const bool gpu = device.kind() == DeviceKind::cuda;
  std::set<std::tuple<std::string, Type, int>> seen;
  for (kernel::AbShape s : shapes) {
    if (!seen.insert({s.op, s.type, gpu ? s.cols : 1}).second || shapes.size() == 1) continue;
    s.cold = false;
    s.panel = 0;
    if (!gpu) s.rows = 16, s.cols = 1;
    for (const std::string& name : {o.a, o.b}) {
      const auto made = contestant(o, device, s, name);
      FEWBIT_OK(check_cancel("before the first comparison"));  // an end by Ctrl-C looks like a build that ended
      if (!made.ok()) return made.error();
    }
  }
  return {};
}

// Names of kernels for all types.
static Status list_kernels(Device& device, const std::vector<kernel::AbShape>& shapes) {
  std::set<Type> seen;
  for (const kernel::AbShape& s : shapes) {
    if (!seen.insert(s.type).second) continue;
    const bool gpu = device.kind() == DeviceKind::cuda;
    const std::vector<std::string> names = gpu ? kernel::cuda::kernel_names(device, s.type) : kernel::kernel_names(s.type);
    if (names.empty()) return Error{Code::not_found, fmt::format("ab: no kernel for {} on {}", type_name(s.type), device.id())};
    for (const std::string& n : names) fmt::print("{}\n", n);
  }
  return {};
}

// What a worker times: the kernel that its build would choose.
static Status work(Device& device, const kernel::AbShape& shape) {
  if (device.kind() == DeviceKind::cuda) {
    FEWBIT_TRY(auto c, kernel::cuda::contestant(device, "auto", shape));
    return serve(*c);
  }
  FEWBIT_TRY(const kernel::Kernels* table, kernel::kernels_for(device, kernel::Path::fast));
  kernel::HostTensor t;
  t.type = shape.type;
  t.cols = shape.n;
  t.rows = shape.rows;
  FEWBIT_TRY(std::string best, table->describe(t, {}));
  FEWBIT_TRY(auto c, kernel::cpu_contestant(device, best, shape));
  return serve(*c);
}

static Status ab_command(AbCommand& o) {
  const std::vector<kernel::AbShape> shapes = shapes_of(o);
  check_device(o.device);
  FEWBIT_TRY(auto device, open_device(o.device, {.threads = o.threads}));
  const bool gpu = device->kind() == DeviceKind::cuda;
  const int threads = gpu ? 1 : device->pool()->size();
  // Where weights, activations and code lie in memory moves a GPU's time by up to 0.8 % (H200), and no control in one process shows that.
  if (gpu) o.options.floor = 0.01;
  const std::string machine = gpu ? device->name() : fmt::format("{} ({})", cpu_features().name, cpu_features().sets());
  if (o.worker && shapes.size() > 1) usage("--worker: takes no lists");
  if (o.worker) return work(*device, shapes[0]);
  if (o.list) return list_kernels(*device, shapes);
  if (o.a.empty() || o.b.empty()) {
    FEWBIT_OK(list_kernels(*device, shapes));
    usage("ab: two kernels A and B (listed above for this type), or two builds by path, are required");
  }
  check_sides(o, shapes, gpu);
  FEWBIT_OK(check_kernels(o, *device, shapes));
  o.options.cancel = &Cancel::flag();
  Json rows = Json::array();
  auto head = [&, printed = false]() mutable {  // before the first row: errors stand alone
    if (o.output != "md" || printed) return;
    printed = true;
    fmt::print("{}{}, {} rows x inputs, {}; ratios: time of B over A, median [95 % interval]\n", machine,
               gpu ? "" : fmt::format(", {} threads", threads), o.dims, o.warm ? "warm" : "cold");
    fmt::print("| op | type | experts | tile | columns | verdict | B / A | A / A | bits | A us | A GB/s | B us | B GB/s |\n");
    fmt::print("| --- | --- | ---: | --- | ---: | --- | --- | --- | --- | ---: | ---: | ---: | ---: |\n");
  };
  int done = 0;  // comparisons
  auto check_stop = [&](int rounds) {
    return check_cancel(fmt::format("after {} of {} rounds of comparison {} of {}", rounds, o.options.pairs, done + 1, shapes.size()));
  };
  for (kernel::AbShape shape : shapes) {
    auto made_a = contestant(o, *device, shape, o.a);
    FEWBIT_OK(check_stop(0));
    FEWBIT_TRY(auto a, std::move(made_a));
    shape.planted = o.planted;
    auto made_b = contestant(o, *device, shape, o.b);
    FEWBIT_OK(check_stop(0));
    FEWBIT_TRY(auto b, std::move(made_b));
    const kernel::AbResult r = kernel::compare(*a, *b, o.options);
    FEWBIT_OK(check_stop(r.rounds));
    done++;
    for (const kernel::Contestant* c : {a.get(), b.get()}) {
      if (c->lost()) return Error{Code::io, static_cast<const Build*>(c)->trouble()};  // nothing else can be lost
    }
    head();
    // On a GPU a format in a side's name goes before --type.
    auto side = [&](const std::string& name) {
      return std::string(type_name(gpu && !is_build(name) ? kernel::named_format(name, shape.type) : shape.type));
    };
    const std::string type_a = side(o.a), type_b = side(o.b);
    static constexpr const char* verdicts[] = {"no difference", "A is faster", "B is faster"};
    const f64 gb_a = f64(a->bytes()) / r.seconds_a * 1e-9, gb_b = f64(b->bytes()) / r.seconds_b * 1e-9;
    if (o.output == "md") {
      auto ratio = [](const kernel::Ratio& x) { return fmt::format("{:.3f} [{:.3f}, {:.3f}]", x.median, x.low, x.high); };
      fmt::print("| {} | {} | {} | {} | {} | {} | {} | {} | {} | {:.1f} | {:.2f} | {:.1f} | {:.2f} |\n", shape.op,
                 type_a == type_b ? type_a : type_a + " / " + type_b, shape.experts,
                 shape.panel ? fmt::format("16 x {}", shape.panel) : "-", shape.cols, verdicts[int(r.verdict)], ratio(r.ratio),
                 ratio(r.control), r.same_bits ? "equal" : "DIFFER", r.seconds_a * 1e6, gb_a, r.seconds_b * 1e6, gb_b);
    } else {
      Json row{{"a", o.a},
               {"b", o.b},
               {"op", shape.op},
               {"type", type_a},
               {"type_b", type_b},
               {"rows", shape.rows},
               {"n", shape.n},
               {"columns", shape.cols},
               {"experts", shape.experts},
               {"tile", shape.panel},
               {"cold", shape.cold},
               {"n_threads", threads},
               {gpu ? "device_name" : "cpu", machine},
               {"ratio", r.ratio.median},
               {"low", r.ratio.low},
               {"high", r.ratio.high},
               {"control", r.control.median},
               {"control_low", r.control.low},
               {"control_high", r.control.high},
               {"seconds_a", r.seconds_a},
               {"seconds_b", r.seconds_b},
               {"gb_s_a", gb_a},
               {"gb_s_b", gb_b},
               {"same_bits", r.same_bits},
               {"verdict", verdicts[int(r.verdict)]}};
      if (o.output == "jsonl") fmt::print("{}\n", row.dump());
      rows.push_back(row);
    }
    std::fflush(stdout);
  }
  if (o.output == "json") fmt::print("{}\n", rows.dump(2));
  return {};
}

void add_ab(CLI::App& app, Run& run) {
  auto o = std::make_shared<AbCommand>();
  app.add_option("A", o->a, "a kernel (its name, or an instruction set; on a GPU also a format), or the path of a build");
  app.add_option("B", o->b, "what it is compared with");
  app.add_option("--op", o->ops, "matmul, moe_glu (gate and up), moe_down (down and combine), a list");
  app.add_option("--type", o->types, "formats of the weights, a list");
  app.add_option("--shape", o->dims, "ROWSxINPUTS");
  app.add_option("--cols", o->cols, "columns (for experts: tokens per expert), a list");
  app.add_option("--experts", o->experts, "experts in use, a list");
  app.add_option("--tile", o->tiles, "columns that 16 rows are multiplied with at once, at most, a list (0 = as the kernel prefers)");
  app.add_option("--pairs", o->options.pairs, "rounds of A B B A")->check(whole(3, 10000));
  app.add_option("--seconds", o->options.seconds, "at least this much per timing")->check(CLI::Range(1e-5, 10.0));
  app.add_option("--plant", o->planted, "do this share of B's work twice, to see it found")->check(CLI::Range(0.0, 1.0));
  CLI::Option* limit = app.add_option("--limit", o->limit, "seconds that another build may take to answer")->check(real(0.1, 86400.0));
  app.add_option("-t,--threads", o->threads, "threads");
  app.add_option("--device", o->device, "cpu or cuda");
  auto* warm = app.add_flag("--warm", o->warm, "weights stay in the cache");
  app.add_flag("--cold", o->cold, "weights come from memory (the default)")->excludes(warm);
  CLI::Option* list = app.add_flag("--list", o->list, "list the kernels for the types");
  CLI::Option* worker = app.add_flag("--worker", o->worker, "answer another build's ab on standard input and output");
  app.add_option("-o,--output", o->output, "md, json or jsonl")->check(CLI::IsMember({"md", "json", "jsonl"}));
  for (const char* name : {"A", "B", "--pairs", "--seconds", "--plant", "--limit", "--output"}) {
    list->excludes(app.get_option(name));
    worker->excludes(app.get_option(name));
  }
  for (const char* name : {"--op", "--shape", "--cols", "--experts", "--tile", "--threads", "--warm", "--cold", "--worker"})
    list->excludes(app.get_option(name));
  run = [o, limit]() {
    o->limited = limit->count() > 0;
    return ab_command(*o);
  };
}

}  // namespace fewbit::cli
