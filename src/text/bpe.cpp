#include "text/bpe.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <unordered_map>

#include "base/log.h"
#include "text/utf8.h"
#include "text/word_cache.h"

namespace fewbit::text {

const std::array<std::string, 256>& byte_alphabet() {
  static const auto table = [] {
    std::array<std::string, 256> t;
    u32 next = 0x100;
    for (u32 b = 0; b < 256; b++) {
      bool printable = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
      append_code_point(printable ? b : next++, t[b]);
    }
    return t;
  }();
  return table;
}

void append_alphabet_bytes(std::string_view text, std::string& out) {
  static const auto byte_of = [] {  // code point -> byte, -1 outside the alphabet
    std::array<int, 0x144> t;
    t.fill(-1);
    for (int b = 0; b < 256; b++) {
      const std::string& c = byte_alphabet()[size_t(b)];
      t[c.size() == 1 ? u8(c[0]) : u32(u8(c[0]) & 0x1F) << 6 | (u8(c[1]) & 0x3F)] = b;
    }
    return t;
  }();
  for (size_t i = 0; i < text.size();) {
    u32 c = u8(text[i]), n = 1;
    if (c >= 0xC2 && c <= 0xDF && i + 1 < text.size() && (u8(text[i + 1]) & 0xC0) == 0x80) {
      c = (c & 0x1F) << 6 | (u8(text[i + 1]) & 0x3F);
      n = 2;
    } else if (c >= 0x80) {
      c = 0x144;  // longer characters, and stray bytes of odd files
    }
    if (c < 0x144 && byte_of[c] >= 0)
      out += char(byte_of[c]);
    else
      out.append(text, i, n);
    i += n;
  }
}

// (left symbol, right symbol) -> rank and joined symbol.  Open addressing: one cache line per lookup, most of them misses.
struct Bpe::Merges {
  struct Slot {
    u64 key = empty;
    u32 rank = 0, joined = 0;
  };
  static constexpr u64 empty = ~u64(0);
  std::vector<Slot> slots;
  u64 mask;

  explicit Merges(size_t n) {
    size_t capacity = 16;
    while (capacity < 2 * n) capacity *= 2;
    slots.resize(capacity);
    mask = capacity - 1;
  }
  static u64 key(u32 left, u32 right) { return u64(left) << 32 | right; }
  size_t slot_of(u64 key) const {
    u64 h = key * 0x9E3779B97F4A7C15u;
    size_t i = (h ^ h >> 32) & mask;
    while (slots[i].key != empty && slots[i].key != key) i = (i + 1) & mask;
    return i;
  }
  void add(u32 left, u32 right, u32 rank, u32 joined) {
    Slot& s = slots[slot_of(key(left, right))];
    if (s.key == empty) s = {key(left, right), rank, joined};  // of equal merges the first counts
  }
  const Slot* find(u32 left, u32 right) const {
    const Slot& s = slots[slot_of(key(left, right))];
    return s.key == empty ? nullptr : &s;
  }
};

struct Bpe::Scratch {
  struct Candidate {
    u32 rank, left, right;  // places in `symbol`
    u32 left_symbol, right_symbol, joined;
    // For std heaps, which keep the largest on top: lowest rank, then leftmost.
    bool operator<(const Candidate& o) const { return rank != o.rank ? rank > o.rank : left > o.left; }
  };
  std::vector<u32> symbol, next, previous;
  std::vector<Candidate> heap;
  std::string mapped;
};

Bpe::Bpe(Vocab& vocab, PreTokenizer pre)
    : vocab_(vocab), pre_(std::move(pre)), merges_(std::make_unique<Merges>(vocab.merges.size())), cache_(std::make_unique<WordCache>()) {
  std::deque<std::string> strings;  // of the symbols that are not tokens
  std::unordered_map<std::string_view, u32> other;
  auto symbol_of = [&](std::string_view s) {
    if (Token t = vocab.find(s); t >= 0) return u32(t);
    auto [it, added] = other.try_emplace(s, u32(vocab.size()) + u32(strings.size()));
    if (added) {
      strings.emplace_back(s);
      u32 id = it->second;
      other.erase(it);
      other.emplace(strings.back(), id);  // the key must outlive `s`
    }
    return added ? u32(vocab.size()) + u32(strings.size()) - 1 : it->second;
  };
  for (size_t b = 0; b < 256; b++) symbol_of_byte_[b] = symbol_of(byte_alphabet()[b]);
  size_t malformed = 0;
  std::string joined;
  for (size_t rank = 0; rank < vocab.merges.size(); rank++) {
    std::string_view merge = vocab.merges[rank];
    size_t space = merge.find(' ', 1);
    if (space == std::string_view::npos || space + 1 == merge.size()) {
      malformed++;
      continue;
    }
    std::string_view left = merge.substr(0, space), right = merge.substr(space + 1);
    joined.assign(left).append(right);
    merges_->add(symbol_of(left), symbol_of(right), u32(rank), symbol_of(joined));
  }
  if (malformed)
    log::warn("tokenizer.ggml.merges: {} of {} entries are not two pieces with a space between", malformed, vocab.merges.size());
  vocab.merges = {};
  for (const std::string& s : strings) {  // character by character, as far as these are tokens
    std::vector<Token>& ids = other_symbols_.emplace_back();
    for (size_t i = 0; i < s.size();) {
      size_t n = std::min(s.size() - i, size_t(length_of(s[i])));
      if (Token t = vocab.find(std::string_view(s).substr(i, n)); t >= 0) ids.push_back(t);
      i += n;
    }
  }
}

Bpe::Bpe(Bpe&&) noexcept = default;
Bpe::~Bpe() = default;

void Bpe::emit(u32 symbol, std::vector<Token>& out) const {
  u32 n = u32(vocab_.size());
  if (symbol < n)
    out.push_back(Token(symbol));
  else
    out.insert(out.end(), other_symbols_[symbol - n].begin(), other_symbols_[symbol - n].end());
}

// Merges in the order of rank through a heap of candidates over a doubly linked list: n log n for a word of n bytes.
void Bpe::encode_word(std::string_view word, Scratch& s, std::vector<Token>& out) const {
  if (pre_.ignore_merges()) {
    s.mapped.clear();
    for (char c : word) s.mapped += byte_alphabet()[u8(c)];
    if (Token t = vocab_.find(s.mapped); t >= 0) return out.push_back(t);
  }
  constexpr u32 none = ~u32(0);  // no neighbour; symbol: merged away
  u32 n = u32(word.size());
  s.symbol.resize(n);
  s.next.resize(n);
  s.previous.resize(n);
  s.heap.clear();
  for (u32 i = 0; i < n; i++) {
    s.symbol[i] = symbol_of_byte_[u8(word[i])];
    s.next[i] = i + 1 < n ? i + 1 : none;
    s.previous[i] = i > 0 ? i - 1 : none;
  }
  auto candidate = [&](u32 left, u32 right) -> std::optional<Scratch::Candidate> {
    const Merges::Slot* m = merges_->find(s.symbol[left], s.symbol[right]);
    if (!m) return {};
    return Scratch::Candidate{m->rank, left, right, s.symbol[left], s.symbol[right], m->joined};
  };
  auto push = [&](u32 left, u32 right) {
    if (auto c = candidate(left, right)) {
      s.heap.push_back(*c);
      std::push_heap(s.heap.begin(), s.heap.end());
    }
  };
  for (u32 i = 0; i + 1 < n; i++) {
    if (auto c = candidate(i, i + 1)) s.heap.push_back(*c);
  }
  std::make_heap(s.heap.begin(), s.heap.end());
  while (!s.heap.empty()) {
    std::pop_heap(s.heap.begin(), s.heap.end());
    Scratch::Candidate c = s.heap.back();
    s.heap.pop_back();
    if (s.symbol[c.left] != c.left_symbol || s.symbol[c.right] != c.right_symbol || s.next[c.left] != c.right) continue;  // stale
    s.symbol[c.left] = c.joined;
    s.symbol[c.right] = none;
    u32 after = s.next[c.right], before = s.previous[c.left];
    s.next[c.left] = after;
    if (after != none) {
      s.previous[after] = c.left;
      push(c.left, after);
    }
    if (before != none) push(before, c.left);
  }
  for (u32 i = 0; i != none; i = s.next[i]) emit(s.symbol[i], out);
}

void Bpe::encode(std::string_view text, std::vector<Token>& out) const {
  std::vector<std::string_view> words;
  pre_.split(text, words);
  Scratch scratch;
  for (std::string_view word : words) {
    if (word.empty()) continue;
    bool cached = word.size() <= WordCache::max_bytes;
    if (cached && cache_->get(word, out)) continue;
    size_t start = out.size();
    encode_word(word, scratch, out);
    if (cached) cache_->put(word, out.data() + start, out.data() + out.size());
  }
}

}  // namespace fewbit::text
