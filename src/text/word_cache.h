// Word -> ids.  Text repeats its words: nine of ten lookups hit.
#pragma once
#include <functional>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/tokenizer.h"

namespace fewbit::text {

// Bounded: only short words, and it starts anew when it is full.  Thread-safe.
class WordCache {
 public:
  static constexpr size_t max_entries = 1 << 16, max_bytes = 32;

  // Appends the ids of `word` if they are known.
  bool get(std::string_view word, std::vector<Token>& out) const {
    std::shared_lock lock(mutex_);
    auto it = ids_.find(word);
    if (it == ids_.end()) return false;
    out.insert(out.end(), it->second.begin(), it->second.end());
    return true;
  }
  void put(std::string_view word, const Token* begin, const Token* end) {
    std::unique_lock lock(mutex_);
    if (ids_.size() >= max_entries) ids_.clear();
    ids_.try_emplace(std::string(word), begin, end);
  }

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view s) const { return std::hash<std::string_view>{}(s); }
  };
  mutable std::shared_mutex mutex_;
  std::unordered_map<std::string, std::vector<Token>, Hash, std::equal_to<>> ids_;
};

}  // namespace fewbit::text
