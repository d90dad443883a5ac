// chat: a conversation in the terminal.  /help lists what a line can be; Ctrl-C stops the answer, not the program.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iostream>

#include "app/cli/common.h"
#include "app/cli/sampling.h"
#include "app/cli/values.h"
#include "runtime/conversation.h"
#include "runtime/generate.h"

namespace fewbit::cli {

struct ChatCommand {
  ModelOptions model;
  SamplingOptions sampling;
  std::string system;
  int n = -1;
  bool no_think = false;
};

namespace {

class Chat {
 public:
  Chat(runtime::Engine& engine, runtime::Conversation talk, runtime::SampleParams params, const ChatCommand& o)
      : engine_(engine), talk_(std::move(talk)), params_(params), o_(o), terminal_(isatty(0) && isatty(1)) {}

  Status loop() {
    FEWBIT_TRY(seq_, engine_.new_sequence());
    reset();
    if (terminal_) fmt::print("{} - /help for help, Ctrl-D to leave\n", engine_.info().name);
    for (std::string line; read(line);) {
      if (line.empty()) continue;
      if (line[0] == '/') {
        if (line == "/exit" || line == "/quit") break;
        command(line);
        continue;
      }
      FEWBIT_OK(turn(line));
    }
    return {};
  }

 private:
  bool read(std::string& line) {
    if (terminal_) {
      fmt::print("> ");
      std::fflush(stdout);
    }
    line.clear();
    int c;
    while ((c = std::getchar()) != EOF && c != '\n') line += char(c);
    if (c == EOF && std::ferror(stdin) && Cancel::flag()) {  // Ctrl-C at the prompt: a fresh line
      std::clearerr(stdin);
      Cancel::reset();
      return read(line);
    }
    return c != EOF || !line.empty();
  }

  void reset() {
    talk_.clear();
    if (!o_.system.empty()) talk_.add("system", o_.system);
  }

  void command(const std::string& line) {
    if (line == "/help") {
      fmt::print(
          "/reset       forget the conversation\n/save FILE   write it as JSON (what `fewbit template` reads)\n/exit        leave (or "
          "Ctrl-D)\n"
          "Ctrl-C stops an answer.\n");
    } else if (line == "/reset") {
      reset();
      fmt::print("forgotten\n");
    } else if (line.rfind("/save ", 0) == 0 && line.size() > 6) {
      const std::string text = Json{{"messages", talk_.messages()}}.dump(2) + "\n";
      Status s = write_bytes(line.substr(6), text.data(), text.size());
      fmt::print("{}\n", s.ok() ? "saved" : s.error().what);
    } else {
      fmt::print("no command {}; /help lists them\n", line);
    }
  }

  // The history is rendered anew for every turn (templates drop old thoughts); what agrees with the cache is not read again.
  Result<size_t> reuse(const std::vector<text::Token>& ids) {
    size_t same = size_t(std::mismatch(ids.begin(), ids.end(), fed_.begin(), fed_.end()).first - ids.begin());
    same = std::min(same, ids.size() - 1);
    if (same < size_t(engine_.length(seq_))) {
      FEWBIT_TRY(int reached, engine_.truncate(seq_, int(same)));
      same = size_t(reached);
    }
    return same;
  }

  Status turn(const std::string& line) {
    talk_.add("user", line);
    auto text = talk_.prompt();
    if (!text.ok()) return forget(text.error().what);
    std::vector<text::Token> ids = engine_.tokenizer()->encode(*text, {.add_special = false, .parse_special = true});
    if (ids.empty() || ids.size() + 1 > size_t(engine_.options().n_ctx)) {
      return forget(fmt::format("the conversation needs {} positions, the context has {} (-c); /reset starts anew", ids.size() + 1,
                                engine_.options().n_ctx));
    }
    FEWBIT_TRY(size_t same, reuse(ids));
    runtime::Sampler sampler(params_);
    if (params_.seed >= 0) params_.seed++;  // the next turn draws other numbers; the whole conversation repeats for a seed
    runtime::GenerateOptions g;
    g.max_tokens = o_.n;
    g.cancel = &Cancel::flag();
    Cancel::reset();
    FEWBIT_TRY(auto r, runtime::generate(engine_, seq_, std::span(ids).subspan(same), sampler, g, [](const std::string& s) {
                 std::fwrite(s.data(), 1, s.size(), stdout);
                 std::fflush(stdout);
               }));
    std::fputc('\n', stdout);
    fed_ = ids;
    fed_.insert(fed_.end(), r.tokens.begin(), r.tokens.end());
    fed_.resize(std::min(fed_.size(), size_t(engine_.length(seq_))));
    talk_.add("assistant", r.text);
    if (terminal_)
      fmt::print(stderr, "[{} + {} tokens, {:.1f} and {:.1f} tok/s]\n", r.prompt_tokens, r.tokens.size(), r.prefill_rate(),
                 r.decode_rate());
    Cancel::reset();
    return {};
  }

  Status forget(const std::string& why) {
    fmt::print(stderr, "fewbit: {}\n", why);
    talk_.pop();
    return {};
  }

  runtime::Engine& engine_;
  runtime::Conversation talk_;
  runtime::SampleParams params_;
  const ChatCommand& o_;
  bool terminal_;
  runtime::SequenceId seq_;
  std::vector<text::Token> fed_;  // what the sequence holds
};

}  // namespace

void add_chat(CLI::App& app, Run& run) {
  auto o = std::make_shared<ChatCommand>();
  o->model.add(app, true);
  o->sampling.add(app);
  app.add_option("--sys,--system", o->system, "-sys: system message");
  app.add_option("-n,--n-predict", o->n, "tokens of one answer at most")->check(whole(-1, 1 << 24));
  app.add_flag("--no-think", o->no_think, "ask the template for answers without a thought");
  run = [o]() -> Status {
    FEWBIT_TRY(auto prepared, o->model.prepare());
    if (!prepared.tokenizer) return Error{Code::unsupported, prepared.tokenizer_problem};
    FEWBIT_TRY(auto engine, ModelOptions::load(std::move(prepared)));
    FEWBIT_TRY(auto params, o->sampling.resolve(engine->file()));
    FEWBIT_TRY(auto talk, runtime::Conversation::load(engine->file(), *engine->tokenizer()));
    if (o->no_think) talk.variables()["enable_thinking"] = false;
    return Chat(*engine, std::move(talk), params, *o).loop();
  };
}

}  // namespace fewbit::cli
