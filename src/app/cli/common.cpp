#include "app/cli/common.h"
#include "app/cli/values.h"

#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>

#include "base/log.h"
#include "base/new_file.h"
#include "base/progress.h"
#include "format/format.h"
#include "gguf/synth.h"
#include "runtime/default_model.h"

namespace fewbit::cli {

void usage(std::string what) { throw UsageError{std::move(what)}; }

std::vector<i64> parse_ints(const std::string& option, const std::string& text, i64 lo, i64 hi) {
  std::vector<i64> out;
  size_t at = 0;
  while (at <= text.size()) {
    size_t comma = text.find(',', at);
    std::string piece = text.substr(at, comma == std::string::npos ? std::string::npos : comma - at);
    char* end = nullptr;
    errno = 0;
    long long v = std::strtoll(piece.c_str(), &end, 10);
    while (end && *end == ' ') end++;
    if (piece.empty() || *end != 0 || errno != 0 || v < lo || v > hi) {
      usage(fmt::format("{}: '{}' is not a whole number from {} to {} (list: numbers with commas)", option, piece, lo, hi));
    }
    out.push_back(v);
    if (comma == std::string::npos) break;
    at = comma + 1;
  }
  return out;
}

Type parse_type(const std::string& option, const std::string& name) {
  std::string upper = name;
  for (char& c : upper) c = char(std::toupper(static_cast<unsigned char>(c)));
  if (const FormatInfo* f = find_format(upper)) return f->type;
  std::string known;
  for (const FormatInfo& f : all_formats()) known += (known.empty() ? "" : " ") + std::string(f.name);
  usage(fmt::format("{}: unknown type '{}'; known: {}", option, name, known));
}

Type cache_type(const std::string& option, const std::string& name) {
  for (auto [n, t] : {std::pair{"f32", Type::F32}, {"f16", Type::F16}, {"q8_0", Type::Q8_0}, {"q4_0", Type::Q4_0}}) {
    if (name == n) return t;
  }
  usage(fmt::format("{}: '{}' is not one of f32, f16, q8_0, q4_0", option, name));
}

struct Closer {
  void operator()(std::FILE* f) const {
    if (f != stdin && f != stdout) std::fclose(f);
  }
};
using Handle = std::unique_ptr<std::FILE, Closer>;

Result<std::string> read_text(const std::string& path) {
  std::error_code ec;
  if (path != "-" && std::filesystem::is_directory(path, ec)) return Error{Code::io, fmt::format("{}: is a directory", path)};
  Handle f(path == "-" ? stdin : std::fopen(path.c_str(), "rb"));
  if (!f) return Error{Code::not_found, fmt::format("{}: cannot open: {}", path, std::strerror(errno))};
  std::string s;
  char buf[65536];
  for (size_t n; (n = std::fread(buf, 1, sizeof buf, f.get())) > 0;) s.append(buf, n);
  if (std::ferror(f.get()) && Cancel::flag()) return Error{Code::cancelled, "cancelled"};
  if (std::ferror(f.get())) return Error{Code::io, fmt::format("{}: cannot read: {}", path, std::strerror(errno))};
  return s;
}

std::vector<std::string> split(const std::string& s) {
  std::vector<std::string> out;
  for (size_t at = 0; at <= s.size();) {
    size_t c = s.find(',', at);
    out.push_back(s.substr(at, c == std::string::npos ? std::string::npos : c - at));
    if (c == std::string::npos) break;
    at = c + 1;
  }
  return out;
}

Status keep_apart(const std::string& option, const std::string& out, const std::string& in) {
  std::error_code ec;
  if (out.empty() || in.empty() || !std::filesystem::is_regular_file(in, ec) || !std::filesystem::equivalent(out, in, ec)) return {};
  return Error{Code::invalid_argument, fmt::format("{} {}: would replace the input {}", option, out, in)};
}

Status write_bytes(const std::string& path, const void* data, size_t n) {
  if (path == "-") {
    if (std::fwrite(data, 1, n, stdout) == n && std::fflush(stdout) == 0) return {};
    return Error{Code::io, fmt::format("standard output: cannot write {} bytes: {}", n, std::strerror(errno))};
  }
  FEWBIT_TRY(NewFile f, NewFile::create(path));
  FEWBIT_OK(f.write(data, n));
  return f.publish();
}

std::string npy_head(i64 rows, i64 cols) {
  std::string dict = fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}", rows, cols);
  dict.resize(size_t((10 + i64(dict.size()) + 1 + 63) / 64 * 64 - 10), ' ');  // magic, version, length and this: a multiple of 64
  dict.back() = '\n';
  std::string out("\x93NUMPY\x01\x00", 8);
  out += char(dict.size() & 0xff);
  out += char(dict.size() >> 8);
  return out + dict;
}

void check_device(const std::string& spec) {
  const bool numbered =
      spec.rfind("cuda:", 0) == 0 && spec.size() > 5 && spec.size() < 9 && spec.find_first_not_of("0123456789", 5) == std::string::npos;
  if (spec != "auto" && spec != "cpu" && spec != "cuda" && spec != "metal" && !numbered) {
    usage(fmt::format("--device: '{}' is not one of auto, cpu, cuda, cuda:N, metal", spec));
  }
}

Result<std::string> default_model() { return runtime::default_model_path(); }

// ---- the model -----------------------------------------------------------------------------------------------------------------

void ModelOptions::add(CLI::App& app, bool optional_model) {
  optional_ = optional_model;
  auto* m = app.add_option("-m,--model", engine.model,
                           optional_model ? "GGUF file (default: the model that ships with the project)" : "GGUF file");
  auto* s = app.add_option("--synthetic", engine.synthetic, "SHAPE:TYPE instead of a file: random weights in memory");
  m->excludes(s);
  app.add_option("--layers", engine.layers, "with --synthetic: cut the depth")->check(whole(1, 1000));
  app.add_option("--device", engine.device, "auto, cpu, cuda, cuda:N, metal");
  app.add_option("-t,--threads", engine.threads, "threads (default: one per core)");
  app.add_option("-c,--ctx-size", engine.n_ctx, "positions per sequence (default: the smaller of 4096 and the trained context)")
      ->check(whole(0, 1 << 24));
  app.add_option("-b,--batch-size", batch, "accepted for llama.cpp's habits; -ub decides")->check(whole(1, 1 << 20));
  app.add_option("--ub,--ubatch-size", engine.ubatch, "-ub: columns of one forward pass at most")->check(whole(1, 1 << 16));
  app.add_option("--ctk,--cache-type-k", k_type, "-ctk: keys in f32, f16, q8_0 or q4_0");
  app.add_option("--ctv,--cache-type-v", v_type, "-ctv: values likewise");
  app.add_option("--ngl,--gpu-layers", gpu_layers, "-ngl: 0 keeps the model on the CPU; other values change nothing")
      ->check(whole(-1, 1 << 20));
  app.add_flag("--exact", exact, "float32 activations, KV and state, weights decoded exactly: the definition");
  app.add_flag("--no-repack", no_repack, "keep weights in the file's layout");
  app.add_flag("--q2-0-legacy", engine.q2_0_legacy, "read type 42 in its old layout of 128 weights");
}

Result<runtime::EngineOptions> ModelOptions::resolve() const {
  runtime::EngineOptions o = engine;
  if (o.model.empty() && o.synthetic.empty()) {
    if (!optional_) usage("-m MODEL (or --synthetic SHAPE:TYPE) is required");
    FEWBIT_TRY(o.model, default_model());
  }
  if (!o.synthetic.empty()) {
    if (auto spec = gguf::parse_synthetic(o.synthetic); !spec.ok()) usage("--synthetic: " + spec.error().what);
  }
  check_device(o.device);
  if (o.layers && o.synthetic.empty()) usage("--layers goes with --synthetic");
  o.k_type = cache_type("-ctk", k_type);
  o.v_type = cache_type("-ctv", v_type);
  for (auto [option, type] : {std::pair{"-ctk", o.k_type}, {"-ctv", o.v_type}}) {
    if (exact && (type == Type::Q8_0 || type == Type::Q4_0))
      usage(fmt::format("{} {}: --exact keeps keys and values in f32", option, type_name(type)));
  }
  o.path = exact ? kernel::Path::exact : kernel::Path::fast;
  o.repack = !no_repack;
  if (Cancel::active()) o.cancel = &Cancel::flag();
  if (gpu_layers == 0 && o.device == "auto") o.device = "cpu";
  if (gpu_layers == 0 && o.device != "cpu") usage(fmt::format("-ngl 0: keeps the model on the CPU, --device is {}", o.device));
  return o;
}

Result<runtime::Prepared> ModelOptions::prepare() const {
  FEWBIT_TRY(runtime::EngineOptions o, resolve());
  return runtime::prepare(o);
}

Result<std::unique_ptr<runtime::Engine>> ModelOptions::load() const {
  FEWBIT_TRY(runtime::Prepared p, prepare());
  return load(std::move(p));
}

Result<std::unique_ptr<runtime::Engine>> ModelOptions::load(runtime::Prepared p) {
  log::release();
  log::notice("memory: {}", p.plan.text());
  Progress bar("loading");
  p.options.progress = [&](f64 fraction) { bar.share(fraction); };
  auto engine = runtime::Engine::load(std::move(p));
  if (engine.ok()) log::debug("loaded");
  return engine;
}

// ---- Ctrl-C --------------------------------------------------------------------------------------------------------------------

static std::atomic<bool> cancelled{false};

static void on_interrupt(int) {
  if (cancelled.exchange(true)) {
    std::signal(SIGINT, SIG_DFL);
    std::raise(SIGINT);
  }
}

// Without SA_RESTART: a read that waits for the terminal ends.
static void handle(void (*handler)(int)) {
  struct sigaction a {};
  a.sa_handler = handler;
  sigemptyset(&a.sa_mask);
  sigaction(SIGINT, &a, nullptr);
}

static int living = 0;

Cancel::Cancel() {
  if (living++ == 0) cancelled = false;
  handle(on_interrupt);
}
Cancel::~Cancel() {
  if (--living == 0) handle(SIG_DFL);
}
bool Cancel::active() { return living > 0; }
const std::atomic<bool>& Cancel::flag() { return cancelled; }
void Cancel::reset() { cancelled = false; }

Status check_cancel(const std::string& what) {
  if (!cancelled) return {};
  return Error{Code::cancelled, "cancelled" + (what.empty() ? "" : " " + what)};
}

}  // namespace fewbit::cli
