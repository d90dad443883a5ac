// JSON: nlohmann-json, keys in insertion order.
#pragma once
#include <nlohmann/json.hpp>

namespace fewbit {
using Json = nlohmann::ordered_json;
}
