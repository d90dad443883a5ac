#include "text/special.h"

#include <algorithm>

#include "text/utf8.h"

namespace fewbit::text {

SpecialTokens::SpecialTokens(const Vocab& vocab) {
  for (Token t = 0; t < vocab.size(); t++) {
    TokenType type = vocab.types[size_t(t)];
    bool always = type == TokenType::user_defined;
    if ((always || type == TokenType::control || type == TokenType::unknown) && !vocab.texts[size_t(t)].empty())
      entries_.push_back({vocab.texts[size_t(t)], t, always});
  }
  std::sort(entries_.begin(), entries_.end(),
            [](const Entry& a, const Entry& b) { return a.text != b.text ? a.text < b.text : a.token < b.token; });
  // Of tokens with the same text the last one counts, as in the text -> id map.
  size_t kept = 0;
  for (size_t i = 0; i < entries_.size(); i++) {
    if (i + 1 == entries_.size() || entries_[i + 1].text != entries_[i].text) entries_[kept++] = entries_[i];
  }
  entries_.resize(kept);
  for (u32 i = 0; i < entries_.size(); i++) {
    auto& [begin, end] = first_[u8(entries_[i].text[0])];
    if (end == 0) begin = i;
    end = i + 1;
  }
}

std::vector<Fragment> SpecialTokens::split(std::string_view text, bool parse_special) const {
  // The rule "for each token, longest first, cut every raw fragment at each occurrence" means: of all occurrences, in the order of length,
  // then id, then place, keep each one that overlaps none kept before.
  struct Found {
    size_t at;
    const Entry* entry;
  };
  std::vector<Found> found;
  for (size_t at = 0; at < text.size(); at++) {
    auto [begin, end] = first_[u8(text[at])];
    if (begin == end || !is_boundary(text, at)) continue;
    // Narrow the range of entries that agree with the text so far, byte by byte.
    for (size_t n = 1; begin < end; n++) {
      for (; begin < end && entries_[begin].text.size() == n; begin++) {
        if ((parse_special || entries_[begin].always) && is_boundary(text, at + n)) found.push_back({at, &entries_[begin]});
      }
      if (begin == end || at + n == text.size()) break;
      auto less = [n](const Entry& e, u8 c) { return u8(e.text[n]) < c; };
      auto more = [n](u8 c, const Entry& e) { return c < u8(e.text[n]); };
      auto first = entries_.begin() + begin, last = entries_.begin() + end;
      u8 c = u8(text[at + n]);
      first = std::lower_bound(first, last, c, less);
      last = std::upper_bound(first, last, c, more);
      begin = u32(first - entries_.begin());
      end = u32(last - entries_.begin());
    }
  }
  std::vector<Fragment> out;
  if (found.empty()) {
    if (!text.empty()) out.push_back({text, -1});
    return out;
  }
  std::sort(found.begin(), found.end(), [](const Found& a, const Found& b) {
    if (a.entry->text.size() != b.entry->text.size()) return a.entry->text.size() > b.entry->text.size();
    if (a.entry != b.entry) return a.entry->token < b.entry->token;
    return a.at < b.at;
  });
  std::vector<bool> taken(text.size());
  std::vector<Found> kept;
  for (const Found& f : found) {
    // Kept ones are at least as long as this one, so an overlap covers one of its ends.
    size_t n = f.entry->text.size();
    if (taken[f.at] || taken[f.at + n - 1]) continue;
    std::fill(taken.begin() + std::ptrdiff_t(f.at), taken.begin() + std::ptrdiff_t(f.at + n), true);
    kept.push_back(f);
  }
  std::sort(kept.begin(), kept.end(), [](const Found& a, const Found& b) { return a.at < b.at; });
  size_t done = 0;
  for (const Found& f : kept) {
    if (f.at > done) out.push_back({text.substr(done, f.at - done), -1});
    out.push_back({text.substr(f.at, f.entry->text.size()), f.entry->token});
    done = f.at + f.entry->text.size();
  }
  if (done < text.size()) out.push_back({text.substr(done), -1});
  return out;
}

}  // namespace fewbit::text
