// ab: a paired, interleaved comparison of two kernels by name, or of two builds of this program by path.
//
// A build is run as `PATH ab --worker ...`, which answers on its standard output: "hello" with "ready" and the bytes of weights that one
// operation reads, "run N" with the seconds that N operations took, "bits" with the bits of the last result.
#include "kernel/ab.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <sstream>
#include <thread>

#include "app/cli/common.h"
#include "app/cli/values.h"
#include "base/clock.h"
#include "base/cpu_features.h"

namespace fewbit::cli {

struct AbCommand {
  kernel::AbOptions options;
  std::string ops = "matmul", types = "PQ2_0", dims = "2048x2048", cols = "1", experts = "0", tiles = "0", a, b, output = "md",
              device = "cpu";
  int threads = 0;
  f64 planted = 0, limit = 60;
  bool warm = false, cold = false, worker = false, list = false;
};

namespace {

// Another build in a process of its own.  It must answer each request within `limit` seconds.
class Build : public kernel::Contestant {
 public:
  static Result<std::unique_ptr<kernel::Contestant>> start(const std::string& path, const std::vector<std::string>& args, f64 limit) {
    int to[2], from[2];
    if (pipe2(to, O_CLOEXEC) != 0 || pipe2(from, O_CLOEXEC) != 0) return Error{Code::io, "ab: cannot make a pipe"};
    auto b = std::unique_ptr<Build>(new Build(path, limit));
    b->pid_ = fork();
    if (b->pid_ == 0) {
      dup2(to[0], 0);
      dup2(from[1], 1);
      std::vector<char*> argv{const_cast<char*>(path.c_str())};
      for (const std::string& s : args) argv.push_back(const_cast<char*>(s.c_str()));
      argv.push_back(nullptr);
      execv(path.c_str(), argv.data());
      _exit(127);
    }
    close(to[0]);
    close(from[1]);
    b->in_ = to[1];
    b->out_ = from[0];
    std::string ready;
    if (!b->ask("hello", ready) || ready.rfind("ready", 0) != 0) {
      if (b->silent_) return Error{Code::io, b->trouble()};
      return Error{Code::unsupported, fmt::format("{}: does not answer as a build of fewbit with `ab --worker` and this kernel", path)};
    }
    b->bytes_ = std::strtoull(ready.c_str() + 5, nullptr, 10);
    return std::unique_ptr<kernel::Contestant>(std::move(b));
  }
  ~Build() override {
    if (in_ >= 0) close(in_);
    if (out_ >= 0) close(out_);
    if (pid_ <= 0) return;
    for (int i = 0; i < 100 && !silent_; i++) {  // it ends when nobody asks any more
      if (waitpid(pid_, nullptr, WNOHANG) != 0) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  f64 run(int times) override {
    std::string s;
    ask(fmt::format("run {}", times), s);
    return std::strtod(s.c_str(), nullptr);
  }
  std::vector<u32> bits() override {
    std::string s;
    ask("bits", s);
    std::vector<u32> v;
    std::istringstream in(s);
    for (std::string w; in >> w;) v.push_back(u32(std::strtoul(w.c_str(), nullptr, 16)));
    return v;
  }
  bool lost() const override { return !asked_.empty(); }
  u64 bytes() const override { return bytes_; }
  // Why it is lost.
  std::string trouble() const {
    if (silent_) return fmt::format("ab: {} did not answer '{}' within {:g} s (--limit)", path_, asked_, limit_);
    return fmt::format("ab: {} ended in the middle of the comparison", path_);
  }

 private:
  Build(std::string path, f64 limit) : path_(std::move(path)), limit_(limit) {}
  // False, and lost from then on, when the process has ended or stays silent.
  bool ask(const std::string& question, std::string& answer) {
    answer.clear();
    if (lost()) return false;
    auto* before = std::signal(SIGPIPE, SIG_IGN);  // the process may have ended
    const std::string line = question + "\n";
    const bool sent = write(in_, line.data(), line.size()) == ssize_t(line.size());
    std::signal(SIGPIPE, before);
    if (sent && receive(answer)) return true;
    asked_ = question;
    answer.clear();
    return false;
  }
  bool receive(std::string& answer) {
    const f64 end = now_s() + limit_;
    for (;;) {
      if (const size_t line = rest_.find('\n'); line != std::string::npos) {
        answer = rest_.substr(0, line);
        rest_.erase(0, line + 1);
        return true;
      }
      const f64 left = end - now_s();
      pollfd p{out_, POLLIN, 0};
      const int got = left <= 0 ? 0 : poll(&p, 1, int(std::min(left, 1e5) * 1e3) + 1);
      if (got < 0 && errno == EINTR && !Cancel::flag()) continue;
      if (got <= 0) {
        silent_ = got == 0;
        return false;
      }
      char piece[1 << 16];
      const ssize_t n = read(out_, piece, sizeof piece);
      if (n <= 0) return false;
      rest_.append(piece, size_t(n));
    }
  }
  std::string path_, asked_, rest_;  // asked_: what was not answered; rest_: read, but not yet a line
  f64 limit_;
  bool silent_ = false;
  pid_t pid_ = -1;
  u64 bytes_ = 0;
  int in_ = -1, out_ = -1;
};

Status serve(kernel::Contestant& c) {
  for (std::string line; std::getline(std::cin, line);) {
    if (line == "hello") {
      fmt::print("ready {}\n", c.bytes());
    } else if (line.rfind("run ", 0) == 0) {
      fmt::print("{:.9f}\n", c.run(std::max(1, std::atoi(line.c_str() + 4))));
    } else if (line == "bits") {
      std::string s;
      for (u32 w : c.bits()) s += fmt::format("{:x} ", w);
      fmt::print("{}\n", s);
    } else {
      return Error{Code::invalid_argument, "ab --worker: unknown request '" + line + "'"};
    }
    std::fflush(stdout);
  }
  return {};
}

bool is_build(const std::string& name) { return std::filesystem::is_regular_file(name) && access(name.c_str(), X_OK) == 0; }

// A name that can only be a path, but no program lies there: said before anything is made ready.
void check_path(const std::string& name) {
  const bool path = name.rfind('/', 0) == 0 || name.rfind("./", 0) == 0 || name.rfind("../", 0) == 0 || std::filesystem::exists(name);
  if (path && !is_build(name)) usage(fmt::format("ab: '{}' is not a program that can be run", name));
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
  s.rows = parse_ints("--shape", o.dims.substr(0, x), 1, 1 << 24)[0];
  s.n = parse_ints("--shape", o.dims.substr(x + 1), 1, 1 << 24)[0];
  s.cold = !o.warm;
  std::vector<kernel::AbShape> shapes;
  for (const std::string& op : split(o.ops)) {
    if (op != "matmul" && op != "moe_glu" && op != "moe_down") usage(fmt::format("--op: '{}' is not matmul, moe_glu or moe_down", op));
    for (const std::string& type : split(o.types)) {
      for (i64 experts : parse_ints("--experts", o.experts, 0, 4096)) {
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
  return shapes;
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
  FEWBIT_TRY(auto device, open_device(o.device, {.threads = o.threads}));
  const bool gpu = device->kind() == DeviceKind::cuda;
  const int threads = gpu ? 1 : device->pool()->size();
  // Where weights, activations and code lie in memory moves a GPU's time by up to 0.8 % (H200), and no control in one process shows that.
  if (gpu) o.options.floor = 0.01;
  const std::string machine = gpu ? device->name() : fmt::format("{} ({})", cpu_features().name, cpu_features().sets());
  if (o.worker) return work(*device, shapes[0]);
  if (o.list || o.a.empty() || o.b.empty()) {
    const std::vector<std::string> names = gpu ? kernel::cuda::kernel_names(*device, shapes[0].type) : kernel::kernel_names(shapes[0].type);
    if (names.empty()) return Error{Code::not_found, fmt::format("ab: no kernel for {} on {}", type_name(shapes[0].type), device->id())};
    for (const std::string& n : names) fmt::print("{}\n", n);
    if (!o.list) usage("ab: two kernels A and B (listed above for this type), or two builds by path, are required");
    return {};
  }
  for (const std::string& name : {o.a, o.b}) check_path(name);
  if (o.planted > 0 && !gpu && o.ops != "matmul") usage(fmt::format("--plant: on a CPU work is planted in matmul alone, not in {}", o.ops));
  if (o.planted > 0 && is_build(o.b)) usage("--plant: B is another build, where nothing can be planted");
  Json rows = Json::array();
  auto head = [&, printed = false]() mutable {  // before the first row: errors stand alone
    if (o.output != "md" || printed) return;
    printed = true;
    fmt::print("{}{}, {} rows x inputs, {}; ratios: time of B over A, median [95 % interval]\n", machine,
               gpu ? "" : fmt::format(", {} threads", threads), o.dims, o.warm ? "warm" : "cold");
    fmt::print("| op | type | experts | tile | columns | verdict | B / A | A / A | bits | A us | A GB/s | B us | B GB/s |\n");
    fmt::print("| --- | --- | ---: | --- | ---: | --- | --- | --- | --- | ---: | ---: | ---: | ---: |\n");
  };
  for (kernel::AbShape shape : shapes) {
    FEWBIT_TRY(auto a, contestant(o, *device, shape, o.a));
    shape.planted = o.planted;
    FEWBIT_TRY(auto b, contestant(o, *device, shape, o.b));
    const kernel::AbResult r = kernel::compare(*a, *b, o.options);
    for (const kernel::Contestant* c : {a.get(), b.get()}) {
      if (c->lost()) return Error{Code::io, static_cast<const Build*>(c)->trouble()};  // nothing else can be lost
    }
    head();
    static constexpr const char* verdicts[] = {"no difference", "A is faster", "B is faster"};
    const f64 gb_a = f64(a->bytes()) / r.seconds_a * 1e-9, gb_b = f64(b->bytes()) / r.seconds_b * 1e-9;
    if (o.output == "md") {
      auto ratio = [](const kernel::Ratio& x) { return fmt::format("{:.3f} [{:.3f}, {:.3f}]", x.median, x.low, x.high); };
      fmt::print("| {} | {} | {} | {} | {} | {} | {} | {} | {} | {:.1f} | {:.2f} | {:.1f} | {:.2f} |\n", shape.op, type_name(shape.type),
                 shape.experts, shape.panel ? fmt::format("16 x {}", shape.panel) : "-", shape.cols, verdicts[int(r.verdict)],
                 ratio(r.ratio), ratio(r.control), r.same_bits ? "equal" : "DIFFER", r.seconds_a * 1e6, gb_a, r.seconds_b * 1e6, gb_b);
    } else {
      Json row{{"a", o.a},
               {"b", o.b},
               {"op", shape.op},
               {"type", type_name(shape.type)},
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
  app.add_option("--limit", o->limit, "seconds that another build may take to answer")->check(real(0.1, 86400.0));
  app.add_option("-t,--threads", o->threads, "threads");
  app.add_option("--device", o->device, "cpu or cuda");
  auto* warm = app.add_flag("--warm", o->warm, "weights stay in the cache");
  app.add_flag("--cold", o->cold, "weights come from memory (the default)")->excludes(warm);
  app.add_flag("--list", o->list, "list the kernels for the type");
  app.add_flag("--worker", o->worker, "answer another build's ab on standard input and output");
  app.add_option("-o,--output", o->output, "md, json or jsonl")->check(CLI::IsMember({"md", "json", "jsonl"}));
  run = [o]() { return ab_command(*o); };
}

}  // namespace fewbit::cli
