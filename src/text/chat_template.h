// A conversation to a prompt: a small, safe interpreter of the Jinja subset that published chat templates use, set up as the
// transformers library sets up jinja2 (trim_blocks, lstrip_blocks, loop controls, tojson without HTML escapes, raise_exception,
// strftime_now).  No file access; bounded steps, depth, text and memory.  spec: tokenizer.md section 9.
//
//   FEWBIT_TRY(auto t, ChatTemplate::parse(source));
//   FEWBIT_TRY(std::string prompt, t.render({{"messages", ...}, {"add_generation_prompt", true}}));
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "text/render_limits.h"

namespace fewbit::text {

// Fills the gaps between what clients send and what templates read (tokenizer.md 9.1).  Messages that are not objects are left alone.
enum class MissingContent { keep, none, empty };
enum class Arguments { keep, objects, strings };
struct Preparation {
  // Of tool calls.  objects: a string that holds a JSON object becomes the object; strings: an object becomes its JSON.
  Arguments arguments = Arguments::objects;
  bool join_parts = false;                                // content [{"type": "text", "text": a}, ...] becomes the string a + ...
  MissingContent missing_content = MissingContent::keep;  // a message without content (or with null): left, null, or ""
};
// render() refuses such variables.  For who copies them before: a copy, also one that a new key brings about, calls itself for every level.
Status check_nesting(const Json& variables);
Json prepare_variables(const Json& variables, const Preparation&);

class ChatTemplate {
 public:
  // Parses.  The error names line and construct.
  static Result<ChatTemplate> parse(std::string_view source);
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  // `variables`: an object; every key becomes a template variable (messages, tools, add_generation_prompt, enable_thinking, ...).
  // A string `date_string` also fixes what strftime_now gives, whatever its format.
  //
  // Tool call arguments are given as objects, content as it came.  Where the template cannot take that (it fails, or prints an array of
  // parts, a missing content or parsed arguments as Python would), arrays are joined, missing content becomes null, then "", and
  // at last arguments become strings.
  // Errors: invalid_argument with line and construct; what the template says through raise_exception is passed on in its words.
  Result<std::string> render(const Json& variables, const RenderLimits& limits = {}) const;

 private:
  struct State;
  explicit ChatTemplate(std::unique_ptr<State> s);
  std::unique_ptr<State> s_;
};

}  // namespace fewbit::text
