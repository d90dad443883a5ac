// JSON: nlohmann-json, keys in insertion order.
#pragma once
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

namespace fewbit {
using Json = nlohmann::ordered_json;

// How deep arrays and objects of a JSON text are nested; to be bounded before parsing, since values are copied and freed by recursion.
inline size_t json_depth(std::string_view text) {
  size_t depth = 0, most = 0;
  bool string = false;
  for (size_t i = 0; i < text.size(); i++) {
    const char c = text[i];
    if (string) {
      if (c == '\\') i++;
      if (c == '"') string = false;
    } else if (c == '"') {
      string = true;
    } else if (c == '[' || c == '{') {
      most = std::max(most, ++depth);
    } else if ((c == ']' || c == '}') && depth > 0) {
      depth--;
    }
  }
  return most;
}
}  // namespace fewbit
