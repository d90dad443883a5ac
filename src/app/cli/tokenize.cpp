// tokenize, detokenize, template: text and tokens without running the model.
#include <fmt/format.h>

#include "app/cli/common.h"
#include "gguf/gguf.h"
#include "text/chat_template.h"
#include "text/pretokenizer.h"
#include "text/tokenizer.h"

namespace fewbit::cli {

static Result<text::Tokenizer> open_tokenizer(const std::string& path, const std::string& pre) {
  if (!pre.empty() && !text::PreTokenizer::known(pre)) usage("--pre: " + text::PreTokenizer::create(pre).error().what);
  FEWBIT_TRY(std::string name, path.empty() ? default_model() : Result<std::string>(path));
  FEWBIT_TRY(auto file, gguf::File::open(name));
  return text::Tokenizer::load(file, pre);
}

void add_tokenize(CLI::App& app, Run& run) {
  struct Options {
    std::string model, text, file, pre;
    bool no_special = false, add_special = false;
  };
  auto o = std::make_shared<Options>();
  app.add_option("-m,--model", o->model, "GGUF file (default: the model that ships)");
  app.add_option("--pre", o->pre, "pre-tokeniser for a file whose own is unknown");
  app.add_flag("--no-special", o->no_special, "control tokens in the text are ordinary text");
  app.add_flag("--add-special", o->add_special, "add BOS and EOS as the file asks");
  app.add_option("-f,--file", o->file, "read the text from a file (- = standard input)");
  auto* text = app.add_option("TEXT", o->text);
  text->excludes(app.get_option("--file"));
  run = [o, text]() -> Status {
    if (text->empty() && o->file.empty()) usage("tokenize: TEXT or -f FILE is required");
    if (!o->file.empty()) { FEWBIT_TRY(o->text, read_text(o->file)); }
    FEWBIT_TRY(auto tokenizer, open_tokenizer(o->model, o->pre));
    std::vector<text::Token> ids = tokenizer.encode(o->text, {.add_special = o->add_special, .parse_special = !o->no_special});
    fmt::print("{}\n", Json(ids).dump());
    return {};
  };
}

void add_detokenize(CLI::App& app, Run& run) {
  struct Options {
    std::string model, ids, pre;
    bool no_special = false;
  };
  auto o = std::make_shared<Options>();
  app.add_option("-m,--model", o->model, "GGUF file (default: the model that ships)");
  app.add_option("--pre", o->pre, "pre-tokeniser for a file whose own is unknown");
  app.add_flag("--no-special", o->no_special, "print nothing for control tokens");
  app.add_option("IDS", o->ids, "ids with commas, or a JSON array")->required();
  run = [o]() -> Status {
    std::string list = o->ids;
    if (!list.empty() && list.front() == '[' && list.back() == ']') list = list.substr(1, list.size() - 2);
    FEWBIT_TRY(auto tokenizer, open_tokenizer(o->model, o->pre));
    std::vector<text::Token> ids;
    if (list.find_first_not_of(" \t\n") != std::string::npos) {
      for (i64 id : parse_ints("IDS", list, 0, tokenizer.vocab_size() - 1)) ids.push_back(text::Token(id));
    }
    std::string s = tokenizer.decode(ids, !o->no_special);
    return write_bytes("-", s.data(), s.size());
  };
}

void add_template(CLI::App& app, Run& run) {
  struct Options {
    std::string model, file, messages;
  };
  auto o = std::make_shared<Options>();
  auto* m = app.add_option("-m,--model", o->model, "GGUF file that carries a template (default: the model that ships)");
  app.add_option("--template-file", o->file, "a Jinja file instead")->excludes(m);
  app.add_option("MESSAGES", o->messages,
                 "JSON: {messages, tools, add_generation_prompt, ...} or an array of messages (- = standard input)")
      ->required();
  run = [o]() -> Status {
    std::string source, where = o->file;
    Json extra = Json::object();
    if (!o->file.empty()) {
      FEWBIT_TRY(source, read_text(o->file));
    } else {
      FEWBIT_TRY(where, o->model.empty() ? default_model() : Result<std::string>(o->model));
      FEWBIT_TRY(auto file, gguf::File::open(where));
      FEWBIT_TRY(source, file.get_string("tokenizer.chat_template", ""));
      if (source.empty()) return Error{Code::not_found, fmt::format("{}: the file has no tokenizer.chat_template", where)};
      if (auto tokenizer = text::Tokenizer::load(file); tokenizer.ok()) {
        if (tokenizer->bos() >= 0) extra["bos_token"] = tokenizer->token_text(tokenizer->bos());
        if (tokenizer->eos() >= 0) extra["eos_token"] = tokenizer->token_text(tokenizer->eos());
      }
    }
    FEWBIT_TRY(std::string text, read_text(o->messages));
    Json in = Json::parse(text, nullptr, false);
    if (in.is_discarded()) return Error{Code::bad_file, fmt::format("{}: not valid JSON", o->messages)};
    FEWBIT_OK(text::check_nesting(in));
    if (in.is_array()) in = Json{{"messages", in}, {"add_generation_prompt", true}};
    if (!in.is_object() || !in.contains("messages") || !in["messages"].is_array()) {
      return Error{Code::bad_file, fmt::format("{}: an object with an array 'messages' (or that array) is wanted", o->messages)};
    }
    for (auto& [k, v] : extra.items()) {
      if (!in.contains(k)) in[k] = v;
    }
    auto parsed = text::ChatTemplate::parse(source);
    if (!parsed.ok()) return Error{parsed.error().code, fmt::format("{}: {}", where, parsed.error().what)};
    FEWBIT_TRY(std::string prompt, parsed->render(in));
    return write_bytes("-", prompt.data(), prompt.size());
  };
}

}  // namespace fewbit::cli
