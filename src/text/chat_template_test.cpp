#include "text/chat_template.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace fewbit::text {
namespace {

namespace fs = std::filesystem;
const fs::path kData = fs::path(FEWBIT_SOURCE_DIR) / "tests/data/templates";

std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in.good()) << path;
  std::stringstream s;
  s << in.rdbuf();
  return s.str();
}

Result<std::string> render(std::string_view source, const Json& variables = Json::object(), const RenderLimits& limits = {}) {
  FEWBIT_TRY(auto t, ChatTemplate::parse(source));
  return t.render(variables, limits);
}

std::string text_of(const Result<std::string>& r) { return r.ok() ? r.value() : "ERROR " + r.error().what; }

std::string error_of(const Result<std::string>& r) { return r.ok() ? "no error but: " + r.value() : r.error().what; }

// The published templates: prompts that jinja2, set up as transformers does, makes of seven conversations each.
TEST(ChatTemplate, PublishedTemplates) {
  int n_cases = 0, n_templates = 0;
  for (const auto& entry : fs::directory_iterator(kData)) {
    if (entry.path().extension() != ".jinja") continue;
    n_templates++;
    auto t = ChatTemplate::parse(read(entry.path()));
    ASSERT_TRUE(t.ok()) << entry.path() << ": " << t.error().what;
    fs::path goldens = entry.path();
    goldens.replace_extension(".prompts.json");
    for (const Json& c : Json::parse(read(goldens))) {
      n_cases++;
      Json input = c["input"];
      input["date_string"] = "26 Nov 2026";
      EXPECT_EQ(text_of(t->render(input)), c["prompt"].get<std::string>()) << goldens << " case " << n_cases;
    }
  }
  EXPECT_EQ(n_templates, 5);
  EXPECT_EQ(n_cases, 35);
}

// Small templates for every construct, with what jinja2 makes of them (make_jinja_cases.py beside the data).
TEST(ChatTemplate, SmallCases) {
  Json file = Json::parse(read(kData / "jinja_cases.json"));
  const Json& contexts = file["contexts"];
  int n = 0;
  for (const Json& c : file["cases"]) {
    n++;
    std::string source = c["template"];
    Json variables = contexts[c["context"].get<std::string>()];
    auto got = render(source, variables);
    if (c.contains("error")) {
      EXPECT_FALSE(got.ok()) << source << "\nshould fail (" << c["error"] << ") but gives: " << text_of(got);
    } else {
      EXPECT_EQ(text_of(got), c["expected"].get<std::string>()) << source;
    }
  }
  EXPECT_GE(n, 500);
}

TEST(ChatTemplate, ErrorsNameLineAndConstruct) {
  EXPECT_EQ(error_of(render("a\n{% include 'x' %}")),
            "chat template line 2: '{% include %}' is refused: a chat template reads no other file");
  EXPECT_EQ(error_of(render("{% import 'x' as y %}")),
            "chat template line 1: '{% import %}' is refused: a chat template reads no other file");
  EXPECT_EQ(error_of(render("\n\n{% block x %}{% endblock %}")), "chat template line 3: '{% block %}' is not supported");
  EXPECT_EQ(error_of(render("{% if x %}\n{% for y in z %}\n")),
            "chat template line 2: '{% for %}' is not closed: no '{% endfor %}' follows");
  EXPECT_EQ(error_of(render("{{ 'a' }}\n{{ x|wordwrap }}")), "chat template line 2: filter 'wordwrap' is not supported");
  EXPECT_EQ(error_of(render("\n{{ x is prime }}")), "chat template line 2: test 'prime' is not supported");
  EXPECT_EQ(error_of(render("\n{{ a.b }}")), "chat template line 2: 'a' is undefined");
  EXPECT_EQ(error_of(render("{{ a.b.c }}", {{"a", Json::object()}})), "chat template line 1: 'dict object' has no attribute 'b'");
  EXPECT_EQ(error_of(render("\n\n{{ raise_exception('Only\ntwo roles') }}")), "chat template line 3: raise_exception: Only two roles");
  EXPECT_EQ(error_of(render("{{ 1 +\n 'a' }}")), "chat template line 1: '+' is not supported between 'int' and 'str'");
  EXPECT_EQ(error_of(render("{{ 'abc }}")), "chat template line 1: a string does not end");
  EXPECT_EQ(error_of(render("{{ [1, 2 }}")), "chat template line 1: unexpected '}', expected ']'");
  EXPECT_EQ(error_of(render("x\n{{ 1")), "chat template line 2: '{{' does not end");
  EXPECT_EQ(error_of(render("{% set 5 = 3 %}")), "chat template line 1: cannot assign to '5'");
  EXPECT_EQ(error_of(render("{% break %}")), "chat template line 1: '{% break %}' outside of a loop");
  EXPECT_EQ(error_of(render("{{ f() }}")), "chat template line 1: 'f' is undefined");
  EXPECT_EQ(error_of(render("{{ 'x'.encode() }}")), "chat template line 1: 'str object' has no attribute 'encode'");
  EXPECT_EQ(error_of(render("x", Json::array())), "chat template: the variables must be a JSON object, not array");
  EXPECT_EQ(render("{% extends 'x' %}").error().code, Code::unsupported);
  EXPECT_EQ(render("{{ x|pprint }}").error().code, Code::unsupported);
}

TEST(ChatTemplate, Bounds) {
  auto contains = [](const Result<std::string>& r, std::string_view what) {
    EXPECT_NE(error_of(r).find(what), std::string::npos) << error_of(r);
  };
  RenderLimits small;
  small.steps = 100'000;
  small.text_bytes = 1 << 20;
  small.heap_bytes = 4 << 20;
  contains(render("{% for i in range(1000) %}{% for j in range(1000) %}{% endfor %}{% endfor %}", Json::object(), small),
           "more than 100000 steps");
  contains(render("{% set l = [1] %}{% for x in l %}{% do l.append(x) %}{% endfor %}", Json::object(), small), "more than 100000 steps");
  contains(render("{{ 'x' * 2000000 }}", Json::object(), small), "text of more than 1048576 bytes");
  contains(render("{% set ns = namespace(s='x') %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}", Json::object(), small),
           "text of more than");
  contains(render("{% for i in range(99) %}{{ 'x' * 100000 }}{% endfor %}", Json::object(), small), "text of more than");
  contains(render("{{ '%2000000d' % 1 }}", Json::object(), small), "width");
  contains(render("{{ '{:>2000000}'.format(1) }}", Json::object(), small), "width");
  contains(render("{{ 'x'.ljust(9000000000000) }}", Json::object(), small), "text of more than");
  contains(render("{{ [0] * 9000000 }}", Json::object(), small), "more than");
  contains(render("{% set ns = namespace(l=[]) %}{% for i in range(9999) %}{% set ns.l = ns.l + ['abc' * 999] %}{% endfor %}",
                  Json::object(), small),
           "more than");
  contains(render("{{ range(100001) }}"), "at most 100000 are allowed");
  contains(render("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"), "nested deeper");
  contains(render("{% set l = [] %}{% do l.append(l) %}{{ l }}"), "nested deeper");
  contains(render("{% set l = [] %}{% do l.append(l) %}{{ l == [l] }}"), "nested deeper");
  contains(
      render("{% set ns = namespace(g=[1]) %}{% for i in range(9999) %}{% set ns.g = ns.g|map('string') %}{% endfor %}{{ ns.g|list }}"),
      "nested deeper");
  contains(render("{{ " + std::string(1000, '(') + "1" + std::string(1000, ')') + " }}"), "nested deeper");
  contains(render("{{ " + std::string(5000, '[') + std::string(5000, ']') + " }}"), "nested deeper");
  contains(render("{{ " + std::string(5000, '-') + "1 }}"), "nested deeper");
  std::string chain = "{{ 1";
  for (int i = 0; i < 5000; i++) chain += " + 1";
  contains(render(chain + " }}"), "levels");
  std::string ifs;
  for (int i = 0; i < 5000; i++) ifs += "{% if 1 %}";
  contains(render(ifs), "nested deeper");
  contains(render("{{ 10 ** 50 }}"), "126 bits");
  // A long chain of values is freed without recursion.
  EXPECT_EQ(text_of(render("{% set ns = namespace(x=[]) %}{% for i in range(90000) %}{% set ns.x = [ns.x] %}{% endfor %}ok")), "ok");
}

TEST(ChatTemplate, FreesWhatRefersToItself) {  // the leak checker of the sanitizer build looks at these
  EXPECT_EQ(text_of(render("{% set l = [] %}{% do l.append(l) %}{% set d = {'l': l} %}{% do d.update(d=d) %}ok")), "ok");
  EXPECT_EQ(
      text_of(render(
          "{% macro f() %}{{ g }}{% endmacro %}{% set g = f %}{% set ns = namespace() %}{% set ns.me = ns %}"
          "{% for i in [1] %}{% set ns.loop = loop %}{% macro h() %}{{ i }}{% endmacro %}{% set ns.h = h %}{% endfor %}{{ ns.h() }}")),
      "1");
}

TEST(ChatTemplate, StringArgumentsBecomeObjects) {
  Json v = Json::parse(R"({"messages": [
    {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{\"b\": 1, \"a\": [2.0]}"}}, {"name": "g", "arguments": "{\"x\": 1}"},
     {"function": {"name": "h", "arguments": "no json"}}, {"function": {"name": "h", "arguments": "[1]"}}]}]})");
  Json p = prepare_variables(v, {});
  const Json& calls = p["messages"][0]["tool_calls"];
  EXPECT_EQ(calls[0]["function"]["arguments"].dump(), R"({"b":1,"a":[2.0]})");
  EXPECT_EQ(calls[1]["arguments"].dump(), R"({"x":1})");
  EXPECT_EQ(calls[2]["function"]["arguments"], "no json");
  EXPECT_EQ(calls[3]["function"]["arguments"], "[1]");
  EXPECT_FALSE(p["messages"][0].contains("content"));
  EXPECT_EQ(text_of(render("{{ messages[0].tool_calls[0].function.arguments|tojson }}", v)), R"({"b": 1, "a": [2.0]})");
}

TEST(ChatTemplate, ArgumentsAsTheTemplateTakesThem) {
  auto with = [](const Json& arguments) {
    Json call = {{"function", {{"name", "f"}, {"arguments", arguments}}}};
    return Json{{"messages", {{{"role", "assistant"}, {"content", ""}, {"tool_calls", Json::array({call})}}}}};
  };
  Json object = with({{"a", 1}, {"b", "x"}}), string = with("{\"a\":1}"), text = with("none");
  // A template that can only take strings gets them.
  const char* adds = "{{ 'x' + messages[0].tool_calls[0].function.arguments }}";
  EXPECT_EQ(text_of(render(adds, string)), "x{\"a\":1}");
  EXPECT_EQ(text_of(render(adds, object)), "x{\"a\": 1, \"b\": \"x\"}");
  EXPECT_EQ(text_of(render(adds, text)), "xnone");
  // Printed as they are: what came as a string stays one, what came as an object is printed as jinja2 prints it.
  const char* prints = "{{ messages[0].tool_calls[0].function.arguments }}";
  EXPECT_EQ(text_of(render(prints, string)), "{\"a\":1}");
  EXPECT_EQ(text_of(render(prints, object)), "{'a': 1, 'b': 'x'}");
  // Objects are the first choice.
  const char* walks = "{% for k, v in messages[0].tool_calls[0].function.arguments|items %}{{ k }}={{ v }};{% endfor %}";
  EXPECT_EQ(text_of(render(walks, string)), "a=1;");
  EXPECT_EQ(prepare_variables(object, {.arguments = Arguments::strings})["messages"][0]["tool_calls"][0]["function"]["arguments"],
            "{\"a\": 1, \"b\": \"x\"}");
  EXPECT_EQ(prepare_variables(string, {.arguments = Arguments::keep}), string);
  // Too deep to be worked on: they stay a string.
  std::string deep;
  for (int i = 0; i < 100000; i++) deep += "{\"a\":";
  deep += "1" + std::string(100000, '}');
  EXPECT_EQ(text_of(render("{{ messages[0].tool_calls[0].function.arguments is string }}", with(deep))), "True");
  EXPECT_NE(error_of(render("x", Json::parse(deep))).find("nested deeper than 500 levels"), std::string::npos);
}

TEST(ChatTemplate, MissingContent) {
  Json missing = Json::parse(R"({"messages": [{"role": "assistant"}]})"),
       null = Json::parse(R"({"messages": [{"role": "assistant", "content": null}]})");
  // As it came, where the template can take it.
  const char* asks = "{{ messages[0].content is defined }} {{ messages[0].content is none }}";
  EXPECT_EQ(text_of(render(asks, missing)), "False False");
  EXPECT_EQ(text_of(render(asks, null)), "True True");
  // It fails on undefined, but knows none.
  const char* knows_none = "{% if messages[0].content is none %}none{% else %}{{ messages[0].content + '' }}{% endif %}";
  EXPECT_EQ(text_of(render(knows_none, missing)), "none");
  EXPECT_EQ(text_of(render(knows_none, null)), "none");
  // It can only take text: an empty one, and never the word None.
  EXPECT_EQ(text_of(render("<{{ messages[0].content + '' }}>", missing)), "<>");
  EXPECT_EQ(text_of(render("<{{ messages[0].content }}>", null)), "<>");
  EXPECT_EQ(text_of(render("<{{ messages[0].content|trim }}>", null)), "<>");
  // An error that has nothing to do with it is the first one.
  EXPECT_EQ(error_of(render("{{ nothing.x }}", missing)), "chat template line 1: 'nothing' is undefined");
}

TEST(ChatTemplate, ContentParts) {
  Json v = Json::parse(
      R"({"messages": [{"role": "user", "content": [{"type": "text", "text": "Hello "}, {"type": "text", "text": "there"}]}]})");
  EXPECT_EQ(text_of(render("{{ 'x' + messages[0].content }}", v)), "xHello there");
  EXPECT_EQ(text_of(render("{{ messages[0].content }}", v)), "Hello there");
  EXPECT_EQ(text_of(render("{{ messages[0].content|trim }}", v)), "Hello there");
  EXPECT_EQ(text_of(render("{% for p in messages[0].content %}[{{ p.text }}]{% endfor %}", v)), "[Hello ][there]");
  v["messages"][0]["content"][1] = {{"type", "image"}};
  EXPECT_EQ(error_of(render("{{ 'x' + messages[0].content }}", v)), "chat template line 1: '+' is not supported between 'str' and 'list'");
}

TEST(ChatTemplate, EmptyToolsAreUndefined) {
  EXPECT_EQ(text_of(render("{{ tools is defined }}", {{"tools", Json::array()}})), "False");
  EXPECT_EQ(text_of(render("{{ tools is defined }}", {{"tools", {1}}})), "True");
}

TEST(ChatTemplate, Date) {
  RenderLimits limits;
  limits.now = 1795651200;  // 2026-11-26 00:00 UTC; within 14 hours of it in every zone
  std::string date = text_of(render("{{ strftime_now('%d %b %Y') }}", Json::object(), limits));
  EXPECT_TRUE(date == "25 Nov 2026" || date == "26 Nov 2026") << date;
  EXPECT_EQ(text_of(render("{{ strftime_now('%Y-%m-%d') }}", {{"date_string", "26 Nov 2026"}})), "26 Nov 2026");
  EXPECT_EQ(text_of(render("{{ strftime_now('') }}")), "");
}

TEST(ChatTemplate, LargeIntegers) {
  EXPECT_EQ(text_of(render("{{ x }} {{ x|tojson }} {{ x + 1 }}", Json::parse(R"({"x": 18446744073709551615})"))),
            "18446744073709551615 18446744073709551615 18446744073709551616");
}

TEST(ChatTemplate, InvalidUtf8IsCarriedThrough) {
  Json v = Json::object();
  v["x"] = "a\xFF\xC3z";
  EXPECT_EQ(text_of(render("{{ x }} {{ x|length }} {{ x[1:3] }} {{ x|upper }}", v)), "a\xFF\xC3z 4 \xFF\xC3 A\xFF\xC3Z");
}

}  // namespace
}  // namespace fewbit::text
