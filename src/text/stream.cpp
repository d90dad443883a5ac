// The streaming detokeniser of tokenizer.h.
#include <algorithm>

#include "text/tokenizer.h"
#include "text/utf8.h"

namespace fewbit::text {

// Each stop string is watched by its Knuth-Morris-Pratt automaton (Knuth, Morris, Pratt 1977): `matched` is how much of it the text so far
// ends with, hence how much of the text may still turn out to be its beginning.  One step per byte, however text is cut into tokens.
Stream::Stop::Stop(std::string s) : text(to_valid_utf8(s)), border(text.size()) {
  for (size_t i = 1, k = 0; i < text.size(); i++) {
    while (k > 0 && text[i] != text[k]) k = border[k - 1];
    if (text[i] == text[k]) k++;
    border[i] = k;
  }
}

bool Stream::Stop::step(char c) {
  while (matched > 0 && text[matched] != c) matched = border[matched - 1];
  if (text[matched] == c) matched++;
  return matched == text.size();
}

Stream::Stream(const Tokenizer& tokenizer, std::vector<std::string> stop_strings, bool special)
    : tokenizer_(&tokenizer), special_(special) {
  for (std::string& s : stop_strings) {
    if (!s.empty()) stops_.emplace_back(std::move(s));
  }
}

std::string Stream::push(Token token) {
  if (stopped_) return {};
  bytes_ += tokenizer_->piece(token, special_);
  return release(false);
}

std::string Stream::finish() { return stopped_ ? std::string() : release(true); }

std::string Stream::release(bool end) {
  std::string fresh;
  bytes_.erase(0, append_valid(bytes_, fresh, end));
  for (char c : fresh) {
    held_ += c;
    size_t longest = 0;  // of the stop strings that end here
    for (Stop& s : stops_) {
      if (s.step(c)) longest = std::max(longest, s.text.size());
    }
    if (longest == 0) continue;
    stopped_ = true;
    held_.resize(held_.size() - longest);
    return std::exchange(held_, {});
  }
  size_t hold = 0;
  for (const Stop& s : stops_) hold = std::max(hold, s.matched);
  if (end) hold = 0;
  std::string out = held_.substr(0, held_.size() - hold);
  held_.erase(0, out.size());
  return out;
}

}  // namespace fewbit::text
