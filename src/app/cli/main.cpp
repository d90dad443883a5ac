// fewbit COMMAND [options].  See docs/cli.md.
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <optional>

#include "app/cli/common.h"
#include "app/cli/values.h"
#include "base/cpu_features.h"
#include "base/log.h"
#include "device/cuda/environment.h"

namespace fewbit::cli {

struct Entry {
  const char* name;
  const char* help;
  void (*add)(CLI::App&, Run&);
  bool stops = false;  // looks at Cancel itself; the others end at once
};

static constexpr Entry entries[] = {
    {"run", "complete a prompt with a model", add_run, true},
    {"chat", "talk to a model in the terminal", add_chat, true},
    {"eval", "logits of every position, or a greedy continuation", add_eval, true},
    {"perplexity", "perplexity of a text, as llama-perplexity counts it", add_perplexity, true},
    {"bench", "prefill and decode speed, as llama-bench reports it, with the share of this machine's bandwidth", add_bench, true},
    {"batched-bench", "speed of several sequences decoded together", add_batched_bench, true},
    {"launches", "every operation of one decoded token, with bytes and time", add_launches, true},
    {"verify", "every operation of a device against its definition", add_verify, true},
    {"ab", "paired comparison of two kernels or two builds", add_ab, true},
    {"ceiling", "read and copy bandwidth of this machine", add_ceiling, true},
    {"inspect", "what a GGUF file is and how this machine would run it", add_inspect},
    {"tokenize", "text to token ids", add_tokenize},
    {"detokenize", "token ids to text", add_detokenize},
    {"template", "the prompt that a chat template makes of messages", add_template},
    {"decode", "raw blocks to float32", add_decode},
    {"encode", "float32 to raw blocks", add_encode},
    {"quantize", "a model in other types", add_quantize},
    {"imatrix", "how strongly a text uses each input of each weight, for quantize", add_imatrix, true},
    {"synth", "write a model of a known shape with random weights", add_synth, true},
    {"devices", "processors and GPUs that can run models here", add_devices},
};

// llama.cpp's options of several letters behind one dash.
static constexpr const char* long_shorts[] = {"-ngl", "-ub", "-np", "-ctk", "-ctv", "-pg", "-npp", "-ntg", "-npl", "-sys", "-fa"};

static std::vector<std::string> arguments(int argc, char** argv) {
  std::vector<std::string> out;
  for (int i = 1; i < argc; i++) {
    std::string a = argv[i];
    for (const char* s : long_shorts) {
      if (a == s || (a.rfind(s, 0) == 0 && a[std::strlen(s)] == '=')) {
        a.insert(0, 1, '-');
        break;
      }
    }
    out.push_back(a);
  }
  return out;
}

static std::string one_line(std::string s) {
  for (char& c : s) {
    if (c == '\n' || c == '\r') c = ' ';
  }
  while (!s.empty() && s.back() == ' ') s.pop_back();
  return s;
}

static int fail(const std::string& what, int code) {
  std::fprintf(stderr, "fewbit: %s\n", one_line(what).c_str());
  return code;
}

int main(int argc, char** argv) {
  CLI::App app{"fewbit: runs language models whose weights take 1 to 3 bits", "fewbit"};
  app.require_subcommand(1);
  app.set_version_flag("--version", [] { return version_text(); });
  bool verbose = false, quiet = false;
  app.add_flag("-v,--verbose", verbose, "more messages on stderr");
  app.add_flag("-q,--quiet", quiet, "errors only");
  Run run[std::size(entries)];
  CLI::App* sub[std::size(entries)];
  for (size_t i = 0; i < std::size(entries); i++) {
    sub[i] = app.add_subcommand(entries[i].name, entries[i].help);
    sub[i]->fallthrough();  // -v and -q may stand anywhere
    entries[i].add(*sub[i], run[i]);
  }
  std::string topic;
  CLI::App* help = app.add_subcommand("help", "this text, or a command's");
  help->add_option("command", topic);

  for (CLI::App* s : app.get_subcommands({})) check_all_values(*s);
  check_all_values(app);

  if (const std::string error = cpu_cap_error(); !error.empty()) return fail(error, 2);
  if (const std::string error = cuda::environment_error(); !error.empty()) return fail(error, 2);

  std::vector<std::string> args = arguments(argc, argv);
  const std::vector<std::string> typed(argv + 1, argv + argc);
  if (args.empty()) {
    std::fputs(app.help().c_str(), stderr);
    return 2;
  }
  std::string names;
  for (const Entry& x : entries) names += " " + std::string(x.name);
  bool command = false;
  for (const std::string& a : args) {
    if (a == "help" || std::any_of(std::begin(entries), std::end(entries), [&](const Entry& x) { return a == x.name; })) {
      command = true;
      break;
    }
    if (a == "-h" || a == "--help" || a == "--version") command = true;
    if (a == "-v" || a == "--verbose" || a == "-q" || a == "--quiet" || command) continue;
    if (a.size() > 1 && a[0] == '-') return fail(fmt::format("unknown option '{}' in front of a command; commands:{}", a, names), 2);
    return fail(fmt::format("unknown command '{}'; commands:{}", a, names), 2);
  }
  if (!command) return fail("a command is required; commands:" + names, 2);
  try {
    std::vector<std::string> reversed(args.rbegin(), args.rend());
    app.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    for (CLI::App* s : app.get_subcommands()) return std::fputs(s->help().c_str(), stdout), 0;
    return std::fputs(app.help().c_str(), stdout), 0;
  } catch (const CLI::CallForVersion&) { return std::puts(version_text().c_str()), 0; } catch (const CLI::ParseError& e) {
    return fail(parse_error_text(e, app, typed), 2);
  }
  log::set_level(quiet ? log::Level::error : verbose ? log::Level::debug : log::Level::warn);
  if (help->parsed()) {
    for (size_t i = 0; i < std::size(entries); i++) {
      if (topic == entries[i].name) return std::fputs(sub[i]->help().c_str(), stdout), 0;
    }
    if (!topic.empty()) return fail("help: no command '" + topic + "'", 2);
    app.clear();  // while `help` counts as given, CLI11 answers with its help
    return std::fputs(app.help().c_str(), stdout), 0;
  }
  std::signal(SIGXFSZ, SIG_IGN);  // a file too large for the user's limit is an error of write(), not the end
  // What is odd about a file is said once it is in use; of one that is refused only the reason is.
  log::hold();
  for (size_t i = 0; i < std::size(entries); i++) {
    if (!sub[i]->parsed()) continue;
    std::optional<Cancel> cancel;
    if (entries[i].stops) cancel.emplace();
    try {
      Status s = run[i]();
      if (!s.ok() && s.error().code == Code::cancelled) std::fflush(stdout);  // what was done counts
      if (!s.ok()) return fail(s.error().what, s.error().code == Code::cancelled ? 130 : 1);
    } catch (const UsageError& e) { return fail(as_typed(e.what, *sub[i], typed), 2); } catch (const std::bad_alloc&) {
      return fail("out of memory", 1);
    } catch (const std::exception& e) { return fail(e.what(), 1); }
  }
  log::release();
  if (std::fflush(stdout) != 0 || std::ferror(stdout)) return fail("standard output: cannot write", 1);
  return 0;
}

}  // namespace fewbit::cli
