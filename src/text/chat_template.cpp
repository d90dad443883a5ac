#include "text/chat_template.h"

#include <fmt/format.h>

#include <new>

#include "text/jinja_ast.h"
#include "text/jinja_interp.h"

namespace fewbit::text {
namespace {

constexpr size_t kMaxSource = size_t{16} << 20;
constexpr int kMaxNesting = 500;  // of the variables: what copies and converts them calls itself

// One line, of bounded length: it may quote the template, or what it says through raise_exception.
Error to_error(const jinja::Failure& f) {
  std::string what = f.what.substr(0, f.what.size() > 2000 ? jinja::byte_offset(f.what, 2000) : f.what.npos);
  for (char& c : what) {
    if (c == '\n' || c == '\r') c = ' ';
  }
  return Error{f.code, fmt::format("chat template line {}: {}", f.line, what)};
}

bool is_text_part(const Json& part) {
  return part.is_string() ||
         (part.is_object() && part.contains("text") && part["text"].is_string() && part.value("type", Json("text")) == "text");
}

bool deeper_than(const Json& j, int levels) {
  if (!j.is_structured()) return false;
  if (levels == 0) return true;
  for (const Json& e : j) {
    if (deeper_than(e, levels - 1)) return true;
  }
  return false;
}

// As the filter tojson writes it; j itself where that fails.
Json json_text(const Json& j) {
  try {
    jinja::Runtime r(RenderLimits{});
    return r.to_json(r.from_json(j), {});
  } catch (const jinja::Failure&) { return j; }
}

// The object that holds the arguments: {"function": {"name", "arguments"}}, or the inner object alone.
template <class J, class F>
void each_arguments(J& message, F f) {
  auto calls = message.find("tool_calls");
  if (calls == message.end() || !calls->is_array()) return;
  for (auto& call : *calls) {
    if (!call.is_object()) continue;
    auto& function = call.contains("function") && call.at("function").is_object() ? call.at("function") : call;
    auto arguments = function.find("arguments");
    if (arguments != function.end()) f(*arguments);
  }
}

void convert_arguments(Json& message, Arguments to) {
  each_arguments(message, [&](Json& arguments) {
    if (to == Arguments::objects && arguments.is_string()) {
      Json parsed = Json::parse(arguments.get_ref<const std::string&>(), nullptr, false);
      if (parsed.is_object() && !deeper_than(parsed, kMaxNesting)) arguments = std::move(parsed);
    } else if (to == Arguments::strings && arguments.is_object()) {
      arguments = json_text(arguments);
    }
  });
}

// Nothing when a part is no text: such content stays as it is.
std::optional<std::string> joined_parts(const Json& parts) {
  std::string text;
  for (const Json& part : parts) {
    if (!is_text_part(part)) return {};
    text += (part.is_string() ? part : part["text"]).get_ref<const std::string&>();
  }
  return text;
}

bool lacks_content(const Json& message) { return !message.contains("content") || message["content"].is_null(); }

// What the messages give reason to try.
struct Odd {
  bool parts = false, missing = false, objects = false, strings = false;  // arguments
};
Odd oddities(const Json& variables) {
  Odd odd;
  auto messages = variables.find("messages");
  if (messages == variables.end() || !messages->is_array()) return odd;
  for (const Json& message : *messages) {
    if (!message.is_object()) continue;
    odd.missing |= lacks_content(message);
    each_arguments(message, [&](const Json& arguments) { (arguments.is_string() ? odd.strings : odd.objects) = true; });
    odd.parts |= message.contains("content") && message["content"].is_array() && joined_parts(message["content"]).has_value();
  }
  return odd;
}

}  // namespace

Status check_nesting(const Json& variables) {
  if (!deeper_than(variables, kMaxNesting)) return {};
  return Error{Code::invalid_argument, fmt::format("chat template: the variables are nested deeper than {} levels", kMaxNesting)};
}

Json prepare_variables(const Json& variables, const Preparation& p) {
  Json out = variables;
  if (auto tools = out.find("tools"); tools != out.end() && tools->is_array() && tools->empty()) out.erase("tools");
  auto messages = out.find("messages");
  if (messages == out.end() || !messages->is_array()) return out;
  for (Json& message : *messages) {
    if (!message.is_object()) continue;
    if (p.arguments != Arguments::keep) convert_arguments(message, p.arguments);
    if (p.join_parts && message.contains("content") && message["content"].is_array()) {
      if (auto text = joined_parts(message["content"])) message["content"] = *text;
    }
    if (p.missing_content != MissingContent::keep && lacks_content(message)) {
      message["content"] = p.missing_content == MissingContent::none ? Json(nullptr) : Json("");
    }
  }
  return out;
}

struct ChatTemplate::State {
  jinja::Tree tree;
};

ChatTemplate::ChatTemplate(std::unique_ptr<State> s) : s_(std::move(s)) {}
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

Result<ChatTemplate> ChatTemplate::parse(std::string_view source) {
  if (source.size() > kMaxSource) {
    return Error{Code::invalid_argument, fmt::format("chat template: {} bytes, at most {} are read", source.size(), kMaxSource)};
  }
  try {
    return ChatTemplate(std::make_unique<State>(State{jinja::parse(source)}));
  } catch (const jinja::Failure& f) { return to_error(f); } catch (const std::bad_alloc&) {
    return Error{Code::out_of_memory, "chat template: out of memory while reading it"};
  }
}

Result<std::string> ChatTemplate::render(const Json& variables, const RenderLimits& limits) const {
  if (!variables.is_object()) {
    return Error{Code::invalid_argument, fmt::format("chat template: the variables must be a JSON object, not {}", variables.type_name())};
  }
  FEWBIT_OK(check_nesting(variables));
  Odd odd = oddities(variables);
  std::vector<Preparation> attempts;
  for (Arguments arguments : {Arguments::objects, Arguments::strings}) {
    if (arguments == Arguments::strings && !odd.objects && !odd.strings) break;
    attempts.push_back({arguments, false, MissingContent::keep});
    if (odd.parts) attempts.push_back({arguments, true, MissingContent::keep});
    if (odd.missing) attempts.push_back({arguments, odd.parts, MissingContent::none});
    if (odd.missing) attempts.push_back({arguments, odd.parts, MissingContent::empty});
  }
  std::optional<Error> first_error;
  std::optional<std::string> first_prompt;  // with something printed that the template does not know
  for (const Preparation& attempt : attempts) {
    try {
      jinja::Interp interp(s_->tree, limits);
      std::string prompt = interp.render(prepare_variables(variables, attempt), odd.strings);
      if (!interp.printed_watched) return prompt;
      if (!first_prompt) first_prompt = std::move(prompt);
    } catch (const jinja::Failure& f) {
      if (!first_error) first_error = to_error(f);
      if (f.limit) break;
    } catch (const std::bad_alloc&) { return Error{Code::out_of_memory, "chat template: out of memory"}; }
  }
  if (first_prompt) return *first_prompt;
  return *first_error;
}

}  // namespace fewbit::text
