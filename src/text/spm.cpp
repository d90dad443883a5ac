#include "text/spm.h"

#include <fmt/format.h>

#include <algorithm>

#include "text/utf8.h"
#include "text/word_cache.h"

namespace fewbit::text {
namespace {

struct Candidate {
  f32 score;
  u32 left, right;  // symbols
  u64 bytes;        // of both together, when the candidate was found: another length means stale
  Token token;
  // For std heaps, which keep the largest on top: highest score, then leftmost.
  bool operator<(const Candidate& o) const { return score != o.score ? score < o.score : left > o.left; }
};

struct Symbol {
  u64 at, bytes;  // in the text; bytes 0: merged away
  u32 previous, next;
  Token token;  // -1: a character that is no token
};

constexpr u32 none = ~u32(0);

}  // namespace

struct Spm::Scratch {
  std::vector<Symbol> symbols;
  std::vector<Candidate> heap;
};

Spm::Spm(const Vocab& vocab) : vocab_(vocab), cache_(std::make_unique<WordCache>()) {
  for (const std::string& t : vocab.texts) {
    longest_ = std::max(longest_, t.size());
    for (size_t at = 1; (at = t.find(spm_space, at)) != std::string::npos; at++) glued_[u8(t[at - 1])] = true;
  }
  for (size_t b = 0; b < 256; b++) {
    Token t = vocab.find(fmt::format("<0x{:02X}>", b));
    char c = char(b);
    if (t < 0) t = vocab.find(std::string_view(&c, 1));
    byte_token_[b] = t >= 0 ? t : vocab.unk;
  }
}

Spm::~Spm() = default;

// The reference merges a text as a whole.  Where a space follows a character that no token has before a space, no merge can cross; merging
// the words between such borders one by one gives the same, in heaps that fit the cache, and mostly without merging: words repeat.
void Spm::encode(std::string_view raw, bool add_space, std::vector<Token>& out) const {
  std::string text;
  text.reserve(raw.size() + raw.size() / 2);
  if (add_space) text += spm_space;
  for (char c : raw) {
    if (c == ' ')
      text += spm_space;
    else
      text += c;
  }
  Scratch scratch;
  for (size_t at = 0, end; at < text.size(); at = end) {
    for (end = at + 1;; end++) {
      end = std::min(text.find(spm_space, end), text.size());
      if (end == text.size() || !glued_[u8(text[end - 1])]) break;
    }
    std::string_view word = std::string_view(text).substr(at, end - at);
    bool cached = word.size() <= WordCache::max_bytes;
    if (cached && cache_->get(word, out)) continue;
    size_t start = out.size();
    encode_word(word, scratch, out);
    if (cached) cache_->put(word, out.data() + start, out.data() + out.size());
  }
}

void Spm::encode_word(std::string_view text, Scratch& scratch, std::vector<Token>& out) const {
  std::vector<Symbol>& symbols = scratch.symbols;
  std::vector<Candidate>& heap = scratch.heap;
  symbols.clear();
  heap.clear();
  for (u64 at = 0; at < text.size();) {
    u64 n = u64(length_of(text[at]));
    u32 i = u32(symbols.size());
    symbols.push_back({at, n, i - 1, i + 1, vocab_.find(text.substr(at, n))});
    at += n;
  }
  symbols.front().previous = symbols.back().next = none;

  auto push = [&](u32 left, u32 right) {
    const Symbol& l = symbols[left];
    u64 bytes = l.bytes + symbols[right].bytes;
    if (bytes > longest_) return;
    Token t = vocab_.find(text.substr(l.at, bytes));
    if (t < 0) return;
    heap.push_back({vocab_.scores.empty() ? 0 : vocab_.scores[size_t(t)], left, right, bytes, t});
    std::push_heap(heap.begin(), heap.end());
  };
  for (u32 i = 0; i + 1 < symbols.size(); i++) push(i, i + 1);
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end());
    Candidate c = heap.back();
    heap.pop_back();
    Symbol &l = symbols[c.left], &r = symbols[c.right];
    if (l.bytes == 0 || r.bytes == 0 || l.bytes + r.bytes != c.bytes) continue;  // stale
    l.bytes = c.bytes;
    l.token = c.token;
    l.next = r.next;
    r.bytes = 0;
    if (l.next != none) symbols[l.next].previous = c.left;
    if (l.previous != none) push(l.previous, c.left);
    if (l.next != none) push(c.left, l.next);
  }
  for (u32 i = 0; i != none; i = symbols[i].next) {
    const Symbol& s = symbols[i];
    if (s.token >= 0) {
      out.push_back(s.token);
      continue;
    }
    for (char c : text.substr(s.at, s.bytes)) {
      if (Token t = byte_token_[u8(c)]; t >= 0) out.push_back(t);
    }
  }
}

}  // namespace fewbit::text
