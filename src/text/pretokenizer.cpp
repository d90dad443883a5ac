#include "text/pretokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <pcre2.h>

#include <array>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "text/utf8.h"

namespace fewbit::text {
namespace {

// Unicode White_Space, written out: PCRE2's own \s also matches U+180E, which is a format character since Unicode 6.3.
#define WHITE R"(\x{09}-\x{0D}\x{20}\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})"
// A white run not followed by a non-space, else the run but its last character; a run of one.
#define WHITE_RUNS "|[" WHITE "]+(?![^" WHITE "])|[" WHITE "]+"

constexpr const char* gpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\p{L}\p{N})" WHITE "]+" WHITE_RUNS;

// Case-insensitive by listing both cases: (?i) would also let U+017F, the long s, be an s, which the reference does not.
#define CONTRACTIONS "'(?:[sS]|[tT]|[rR][eE]|[vV][eE]|[mM]|[lL][lL]|[dD])"
#define QWEN(letters, digits, not_other) \
  CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?)" letters "+|" digits "| ?[^" not_other WHITE R"(]+[\r\n]*|[)" WHITE R"(]*[\r\n]+)" WHITE_RUNS

constexpr const char* qwen2 = QWEN(R"(\p{L})", R"(\p{N})", R"(\p{L}\p{N})");
constexpr const char* qwen35 = QWEN(R"([\p{L}\p{M}])", R"(\p{N})", R"(\p{L}\p{M}\p{N})");
constexpr const char* llama = QWEN(R"(\p{L})", R"(\p{N}{1,3})", R"(\p{L}\p{N})");

struct Family {
  const char* names;  // separated by blanks; the first one names the family
  std::array<const char*, 4> passes;
  bool ignore_merges = false, add_bos = false;
};

constexpr Family families[] = {
    {"gpt-2 phi-2 jina-es jina-de gigachat jina-v2-es jina-v2-de a.x-4.0 mellum modern-bert mpt olmo jais trillion granite-docling exaone4",
     {gpt2}},
    {"smollm starcoder refact command-r codeshell exaone minerva minerva-7b mellum2", {R"(\p{N})", gpt2}},
    {"qwen2 deepseek-r1-qwen megrez kormo f2llmv2 stablelm2 hunyuan solar-open grok-2", {qwen2}},
    {"qwen35", {qwen35}},
    {"llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano", {llama}, true, true},
    {"default", {R"([\p{P}$+<=>^~|]+)", gpt2, R"(\p{N}+)", "[0-9]{3}"}},
};

const Family* find_family(std::string_view name) {
  for (const Family& f : families) {
    for (std::string_view rest = f.names; !rest.empty();) {
      std::string_view word = rest.substr(0, rest.find(' '));
      if (word == name) return &f;
      rest.remove_prefix(std::min(rest.size(), word.size() + 1));
    }
  }
  return nullptr;
}

struct MatchData {
  pcre2_match_data* p;
  explicit MatchData(pcre2_match_data* m) : p(m) { FEWBIT_CHECK(p, "no memory for a PCRE2 match of %d bytes", 64); }
  MatchData(const MatchData&) = delete;
  MatchData& operator=(const MatchData&) = delete;
  ~MatchData() { pcre2_match_data_free(p); }
};

}  // namespace

struct PreTokenizer::Pattern {
  pcre2_code* code = nullptr;
  pcre2_match_context* context = nullptr;

  explicit Pattern(const char* source) {
    int error = 0;
    PCRE2_SIZE at = 0;
    code = pcre2_compile(PCRE2_SPTR(source), PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP, &error, &at, nullptr);
    FEWBIT_CHECK(code, "pre-tokeniser pattern does not compile: PCRE2 error %d at %zu", error, size_t(at));
    pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);  // where the system forbids it, pcre2_match interprets
    context = pcre2_match_context_create(nullptr);
    FEWBIT_CHECK(context, "no memory for a PCRE2 context (error %d)", error);
    // The patterns backtrack over one run of white space at most; the default limit would end a run of ten million.
    pcre2_set_match_limit(context, UINT32_MAX);
  }
  Pattern(const Pattern&) = delete;
  Pattern& operator=(const Pattern&) = delete;
  ~Pattern() {
    pcre2_match_context_free(context);
    pcre2_code_free(code);
  }

  // Matches and the gaps between them, in order.
  void split(std::string_view text, std::vector<std::string_view>& out) const {
    MatchData match(pcre2_match_data_create(1, nullptr));
    size_t at = 0;
    while (at < text.size()) {
      // Well-formedness is our callers' promise: checking again at each match would make the split quadratic.
      int n = pcre2_match(code, PCRE2_SPTR(text.data()), text.size(), at, PCRE2_NO_UTF_CHECK, match.p, context);
      if (n == PCRE2_ERROR_JIT_STACKLIMIT)
        n = pcre2_match(code, PCRE2_SPTR(text.data()), text.size(), at, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, match.p, context);
      if (n < 0) break;
      const PCRE2_SIZE* range = pcre2_get_ovector_pointer(match.p);
      size_t begin = range[0], end = range[1];
      if (end <= begin) break;
      if (begin > at) out.push_back(text.substr(at, begin - at));
      out.push_back(text.substr(begin, end - begin));
      at = end;
    }
    if (at < text.size()) out.push_back(text.substr(at));
  }
};

PreTokenizer::PreTokenizer() = default;
PreTokenizer::PreTokenizer(PreTokenizer&&) noexcept = default;
PreTokenizer& PreTokenizer::operator=(PreTokenizer&&) noexcept = default;
PreTokenizer::~PreTokenizer() = default;

bool PreTokenizer::known(std::string_view name) { return name.empty() || find_family(name); }

Result<PreTokenizer> PreTokenizer::create(std::string_view name) {
  const Family* family = find_family(name.empty() ? "default" : name);
  if (!family) {
    std::string list;
    for (const Family& f : families) {
      std::string_view names = f.names;
      list += fmt::format("{}{}", list.empty() ? "" : ", ", names.substr(0, names.find(' ')));
    }
    return Error{Code::unsupported, fmt::format("pre-tokeniser '{}' is unknown; known: {}", to_valid_utf8(name.substr(0, 64)), list)};
  }
  PreTokenizer p;
  for (const char* pass : family->passes) {
    if (pass) p.passes_.push_back(std::make_unique<Pattern>(pass));
  }
  p.ignore_merges_ = family->ignore_merges;
  p.default_add_bos_ = family->add_bos;
  return p;
}

void PreTokenizer::split(std::string_view text, std::vector<std::string_view>& out) const {
  if (passes_.size() == 1) return passes_[0]->split(text, out);
  std::vector<std::string_view> pieces{text}, next;
  for (const auto& pass : passes_) {
    next.clear();
    for (std::string_view piece : pieces) pass->split(piece, next);
    pieces.swap(next);
  }
  out.insert(out.end(), pieces.begin(), pieces.end());
}

}  // namespace fewbit::text
