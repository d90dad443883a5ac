// ab: a paired, interleaved comparison of two kernels by name, or of two builds of this program by path.
//
// A build is run as `PATH ab --worker ...`, which answers on its standard output: "run N" with the seconds that N operations took,
// "bits" with the bits of the last result.
#include "kernel/ab.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <sstream>

#include "app/cli/common.h"
#include "base/cpu_features.h"

namespace fewbit::cli {

struct AbCommand {
  kernel::AbOptions options;
  kernel::AbShape shape;
  std::string type = "PQ2_0", dims = "2048x2048", cols = "1", experts, tile, a, b, output = "md", device = "cpu";
  int threads = 0;
  f64 planted = 0;
  bool warm = false, cold = false, worker = false, list = false;
};

namespace {

// Another build in a process of its own.
class Build : public kernel::Contestant {
 public:
  static Result<std::unique_ptr<kernel::Contestant>> start(const std::string& path, const std::vector<std::string>& args) {
    int to[2], from[2];
    if (pipe(to) != 0 || pipe(from) != 0) return Error{Code::io, "ab: cannot make a pipe"};
    auto b = std::unique_ptr<Build>(new Build);
    b->pid_ = fork();
    if (b->pid_ == 0) {
      dup2(to[0], 0);
      dup2(from[1], 1);
      for (int fd : {to[0], to[1], from[0], from[1]}) close(fd);
      std::vector<char*> argv{const_cast<char*>(path.c_str())};
      for (const std::string& s : args) argv.push_back(const_cast<char*>(s.c_str()));
      argv.push_back(nullptr);
      execv(path.c_str(), argv.data());
      _exit(127);
    }
    close(to[0]);
    close(from[1]);
    b->in_ = fdopen(to[1], "w");
    b->out_ = fdopen(from[0], "r");
    std::string ready;
    if (!b->ask("hello", ready) || ready != "ready") {
      return Error{Code::unsupported, fmt::format("{}: does not answer as a build of fewbit with `ab --worker` and this kernel", path)};
    }
    return std::unique_ptr<kernel::Contestant>(std::move(b));
  }
  ~Build() override {
    if (in_) std::fclose(in_);
    if (out_) std::fclose(out_);
    if (pid_ > 0) waitpid(pid_, nullptr, 0);
  }
  f64 run(int times) override {
    std::string s;
    FEWBIT_CHECK(ask(fmt::format("run {}", times), s), "the other build ended");
    return std::strtod(s.c_str(), nullptr);
  }
  std::vector<u32> bits() override {
    std::string s;
    FEWBIT_CHECK(ask("bits", s), "the other build ended");
    std::vector<u32> v;
    std::istringstream in(s);
    for (std::string w; in >> w;) v.push_back(u32(std::strtoul(w.c_str(), nullptr, 16)));
    return v;
  }

 private:
  bool ask(const std::string& question, std::string& answer) {
    std::fprintf(in_, "%s\n", question.c_str());
    if (std::fflush(in_) != 0) return false;
    answer.clear();
    for (int c; (c = std::fgetc(out_)) != EOF;) {
      if (c == '\n') return true;
      answer += char(c);
    }
    return false;
  }
  pid_t pid_ = -1;
  std::FILE *in_ = nullptr, *out_ = nullptr;
};

Status serve(kernel::Contestant& c) {
  for (std::string line; std::getline(std::cin, line);) {
    if (line == "hello") {
      fmt::print("ready\n");
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

Result<std::unique_ptr<kernel::Contestant>> contestant(const AbCommand& o, Device& device, const kernel::AbShape& shape,
                                                       const std::string& name) {
  if (!is_build(name)) return kernel::cpu_contestant(device, name, shape);
  return Build::start(std::filesystem::absolute(name).string(),
                      {"ab", "--worker", "--op", shape.op, "--type", type_name(shape.type), "--shape",
                       fmt::format("{}x{}", shape.rows, shape.n), "--cols", std::to_string(shape.cols), "--experts",
                       std::to_string(shape.experts), "-t", std::to_string(device.pool()->size()), o.warm ? "--warm" : "--cold"});
}

}  // namespace

static Status ab_command(AbCommand& o) {
  o.shape.type = parse_type("--type", o.type);
  o.shape.cold = !o.warm;
  const size_t x = o.dims.find('x');
  if (x == std::string::npos) usage(fmt::format("--shape: '{}' is not ROWSxINPUTS", o.dims));
  o.shape.rows = parse_ints("--shape", o.dims.substr(0, x), 1, 1 << 24)[0];
  o.shape.n = parse_ints("--shape", o.dims.substr(x + 1), 1, 1 << 24)[0];
  FEWBIT_TRY(auto device, open_device(o.device, {.threads = o.threads}));
  if (!device->pool()) return Error{Code::unsupported, "ab: kernels of this device cannot be compared by name yet (use bench/cuda.sh)"};
  const std::vector<std::string> names = kernel::kernel_names(o.shape.type);
  if (o.list || (!o.worker && (o.a.empty() || o.b.empty()))) {
    for (const std::string& n : names) fmt::print("{}\n", n);
    if (!o.list) usage("ab: two kernels A and B (listed above for this type), or two builds by path, are required");
    return {};
  }
  if (o.worker) {
    o.shape.cols = int(parse_ints("--cols", o.cols, 1, 4096)[0]);
    if (!o.experts.empty()) o.shape.experts = parse_ints("--experts", o.experts, 0, 4096)[0];
    FEWBIT_TRY(const kernel::Kernels* table, kernel::kernels_for(*device, kernel::Path::fast));
    kernel::HostTensor t;
    t.type = o.shape.type;
    t.cols = o.shape.n;
    t.rows = o.shape.rows;
    FEWBIT_TRY(std::string best, o.a.empty() ? table->describe(t, {}) : Result<std::string>(o.a));
    FEWBIT_TRY(auto c, kernel::cpu_contestant(*device, best, o.shape));
    return serve(*c);
  }
  Json rows = Json::array();
  if (o.output == "md") {
    fmt::print("{} ({}), {} threads, {} x {} {}, {}\n", cpu_features().name, cpu_features().sets(), device->pool()->size(), o.shape.rows,
               o.shape.n, o.type, o.warm ? "warm" : "cold");
  }
  std::vector<i64> experts = o.experts.empty() ? std::vector<i64>{0} : parse_ints("--experts", o.experts, 0, 4096);
  for (i64 e : experts) {
    for (i64 cols : parse_ints("--cols", o.cols, 1, 4096)) {
      kernel::AbShape shape = o.shape;
      shape.cols = int(cols);
      shape.experts = e;
      FEWBIT_TRY(auto a, contestant(o, *device, shape, o.a));
      shape.planted = o.planted;
      FEWBIT_TRY(auto b, contestant(o, *device, shape, o.b));
      kernel::AbResult r = kernel::compare(*a, *b, o.options);
      static constexpr const char* verdicts[] = {"no difference", "A is faster", "B is faster"};
      if (o.output == "md") {
        fmt::print("columns {}{}: {}; GB/s A {:.2f} B {:.2f}\n", cols, e ? fmt::format(", {} experts", e) : "", r.text(),
                   f64(a->bytes()) / r.seconds_a * 1e-9, f64(b->bytes()) / r.seconds_b * 1e-9);
      } else {
        Json row{{"a", o.a},
                 {"b", o.b},
                 {"type", o.type},
                 {"rows", shape.rows},
                 {"n", shape.n},
                 {"columns", cols},
                 {"experts", e},
                 {"ratio", r.ratio.median},
                 {"low", r.ratio.low},
                 {"high", r.ratio.high},
                 {"control", r.control.median},
                 {"control_low", r.control.low},
                 {"control_high", r.control.high},
                 {"seconds_a", r.seconds_a},
                 {"seconds_b", r.seconds_b},
                 {"same_bits", r.same_bits},
                 {"verdict", verdicts[int(r.verdict)]}};
        if (o.output == "jsonl") fmt::print("{}\n", row.dump());
        rows.push_back(row);
      }
      std::fflush(stdout);
    }
  }
  if (o.output == "json") fmt::print("{}\n", rows.dump(2));
  return {};
}

void add_ab(CLI::App& app, Run& run) {
  auto o = std::make_shared<AbCommand>();
  app.add_option("A", o->a, "a kernel's name, or the path of a build");
  app.add_option("B", o->b, "what it is compared with");
  app.add_option("--op", o->shape.op, "matmul, moe_glu or moe_down")->check(CLI::IsMember({"matmul", "moe_glu", "moe_down"}));
  app.add_option("--type", o->type, "format of the weights");
  app.add_option("--shape", o->dims, "ROWSxINPUTS");
  app.add_option("--cols", o->cols, "columns (for experts: tokens per expert), a list");
  app.add_option("--experts", o->experts, "experts in use, a list (0 = no experts)");
  app.add_option("--pairs", o->options.pairs, "rounds of A B B A")->check(CLI::Range(3, 10000));
  app.add_option("--seconds", o->options.seconds, "at least this much per timing")->check(CLI::Range(1e-5, 10.0));
  app.add_option("--plant", o->planted, "do this share of B's work twice, to see it found")->check(CLI::Range(0.0, 1.0));
  app.add_option("-t,--threads", o->threads, "threads")->check(CLI::Range(1, 1024));
  app.add_option("--device", o->device, "cpu");
  auto* warm = app.add_flag("--warm", o->warm, "weights stay in the cache");
  app.add_flag("--cold", o->cold, "weights come from memory (the default)")->excludes(warm);
  app.add_flag("--list", o->list, "list the kernels for the type");
  app.add_flag("--worker", o->worker, "answer another build's ab on standard input and output");
  app.add_option("-o,--output", o->output, "md, json or jsonl")->check(CLI::IsMember({"md", "json", "jsonl"}));
  run = [o]() { return ab_command(*o); };
}

}  // namespace fewbit::cli
