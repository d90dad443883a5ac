#include "gguf/inspect.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace fewbit::gguf {

namespace {

// Length of the valid UTF-8 sequence at s[i], 0 if there is none.
size_t utf8_length(std::string_view s, size_t i) {
  const u8 a = u8(s[i]);
  if (a < 0x80) return 1;
  const size_t n = a >= 0xc2 && a < 0xe0 ? 2 : a >= 0xe0 && a < 0xf0 ? 3 : a >= 0xf0 && a < 0xf5 ? 4 : 0;
  if (n == 0 || i + n > s.size()) return 0;
  for (size_t k = 1; k < n; k++) {
    if ((u8(s[i + k]) & 0xc0) != 0x80) return 0;
  }
  const u8 b = u8(s[i + 1]);  // no overlong forms, no surrogates, nothing beyond U+10FFFF
  if ((a == 0xe0 && b < 0xa0) || (a == 0xed && b >= 0xa0) || (a == 0xf0 && b < 0x90) || (a == 0xf4 && b >= 0x90)) return 0;
  return n;
}

// JSON holds Unicode only: other bytes become U+FFFD.  Cut after `most` bytes (0: never).
std::string utf8(std::string_view s, size_t most = 0) {
  std::string out;
  for (size_t i = 0; i < s.size();) {
    if (most && i >= most) return out + "...";
    const size_t n = utf8_length(s, i);
    out += n ? s.substr(i, n) : "\xef\xbf\xbd";
    i += n ? n : 1;
  }
  return out;
}

// A float as short as its own precision allows: 1e-06, not 9.999999974752427e-07.
Json number(f64 x, ValueType type) {
  if (!std::isfinite(x)) return fmt::format("{}", x);
  return type == ValueType::f32 ? std::stod(fmt::format("{}", f32(x))) : x;
}

Json value_json(const Value& v, const InspectOptions& o) {
  return std::visit(
      [&]<class X>(const X& x) -> Json {
        if constexpr (std::is_same_v<X, std::string>) {
          return utf8(x, o.string_bytes);
        } else if constexpr (std::is_same_v<X, f64>) {
          return number(x, v.type);
        } else if constexpr (requires { x.size(); }) {
          const size_t n = o.list_items && x.size() > o.list_items ? o.list_items : x.size();
          Json list = Json::array();
          for (size_t i = 0; i < n; i++) {
            if constexpr (std::is_same_v<X, std::vector<std::string>>) {
              list.push_back(utf8(x[i], o.string_bytes));
            } else if constexpr (std::is_same_v<X, std::vector<f64>>) {
              list.push_back(number(x[i], v.element));
            } else {
              list.push_back(typename X::value_type(x[i]));
            }
          }
          if (n == x.size()) return list;
          return Json{{"type", v.type_text()}, {"count", x.size()}, {"first", std::move(list)}};
        } else {
          return x;
        }
      },
      v.v);
}

const char* family(Type type) {
  switch (type) {
    case Type::Q1_0:
      return "binary";
    case Type::Q2_0:
    case Type::PQ2_0:
    case Type::PTQ1_0:
    case Type::TQ1_0:
    case Type::TQ2_0:
    case Type::I2_S:
      return "ternary";
    case Type::F32:
    case Type::F16:
    case Type::BF16:
    case Type::F64:
      return "floats";
    default:
      return "";
  }
}

// Parameters of the tensors that are matrices, by type: the type of most of them gives the file its name.
struct Census {
  std::map<Type, u64> parameters;
  u64 elements = 0, bytes = 0;
  Type main = Type::F32;
};
Census count_matrices(const File& file) {
  Census c;
  for (const Tensor& t : file.tensors()) {
    if (t.n_dims < 2) continue;
    c.parameters[t.type] += u64(t.elements());
    c.elements += u64(t.elements());
    c.bytes += t.data.size();
  }
  auto most = std::max_element(c.parameters.begin(), c.parameters.end(), [](auto& a, auto& b) { return a.second < b.second; });
  if (most != c.parameters.end()) c.main = most->first;
  return c;
}

std::string text_of(const File& file, std::string_view key) {
  const Value* v = file.find(key);
  const std::string* s = v ? v->as_string() : nullptr;
  return s ? utf8(*s, 100) : "";
}
i64 int_of(const File& file, const std::string& key) {
  const Value* v = file.find(key);
  return v ? v->as_int().value_or(0) : 0;
}
bool any_key(const File& file, std::string_view prefix) {
  return std::any_of(file.metadata().begin(), file.metadata().end(), [&](const KeyValue& kv) { return kv.key.starts_with(prefix); });
}
bool is_bitnet(const File& file, const Census& c) {
  return c.parameters.contains(Type::I2_S) &&
         (int_of(file, "general.file_type") == 40 || text_of(file, "general.architecture").starts_with("bitnet"));
}

std::string variant(const File& file, const Census& c) {
  if (text_of(file, "general.type") == "imatrix") return "importance matrix";
  if (file.tensors().empty()) return file.find("tokenizer.ggml.tokens") ? "vocabulary only" : "metadata only";
  std::string s = type_name(c.main);
  if (*family(c.main)) s += fmt::format(" {}", family(c.main));
  if (c.parameters.size() > 1) {
    std::string others;
    for (auto& [type, n] : c.parameters) {
      if (type != c.main) others += fmt::format("{}{}", others.empty() ? "" : ", ", type_name(type));
    }
    s += fmt::format(" (and {})", others);
  }
  if (is_bitnet(file, c)) s += ", BitNet";
  if (file.early_q2_0()) s += ", id 42 read in its early groups of 128";
  if (file.find("prism.hadamard.version")) {
    s += fmt::format(", Hadamard-rotated in blocks of {}", int_of(file, "prism.hadamard.block_size"));
  } else if (any_key(file, "prism.hadamard.")) {
    s += ", broken rotation metadata";
  }
  const std::string arch = text_of(file, "general.architecture");
  if (i64 experts = int_of(file, arch + ".expert_count")) {
    s += fmt::format(", {} experts of which {} are used", experts, int_of(file, arch + ".expert_used_count"));
  }
  if (any_key(file, "quantize.imatrix.")) s += ", quantised with an importance matrix";
  return s;
}

std::string producer(const File& file, const Census& c) {
  if (std::string s = text_of(file, "general.quantized_by"); !s.empty()) return s;
  if (c.parameters.contains(Type::PQ2_0) || c.parameters.contains(Type::PTQ1_0) || any_key(file, "prism.")) return "PrismML's llama.cpp";
  if (is_bitnet(file, c)) return "BitNet (Microsoft)";
  if (c.parameters.contains(Type::I2_S)) return "BitNet or ik_llama.cpp";
  if (any_key(file, "quantize.imatrix.")) return "llama-quantize";
  return "";
}

}  // namespace

Json inspect(const File& file, const InspectOptions& options) {
  const Census census = count_matrices(file);
  Json j;
  j["file"] = utf8(file.path());
  j["version"] = file.version();
  j["bytes"] = file.file_bytes();
  j["pieces"] = file.pieces();
  j["alignment"] = file.alignment();
  j["architecture"] = text_of(file, "general.architecture");
  j["variant"] = variant(file, census);
  j["producer"] = producer(file, census);
  u64 parameters = 0;
  std::map<Type, std::array<u64, 3>> types;
  Json tensors = Json::array();
  for (const Tensor& t : file.tensors()) {
    parameters += u64(t.elements());
    auto& [count, elements, bytes] = types[t.type];
    count++;
    elements += u64(t.elements());
    bytes += t.data.size();
    Json entry;
    entry["name"] = utf8(t.name);
    entry["shape"] = std::vector<i64>(t.dims.begin(), t.dims.begin() + t.n_dims);
    entry["type"] = type_name(t.type);
    entry["bytes"] = t.data.size();
    if (file.pieces() > 1) entry["piece"] = t.piece + 1;
    tensors.push_back(std::move(entry));
  }
  j["parameters"] = parameters;
  j["bits_per_weight"] = census.elements ? std::round(8e4 * f64(census.bytes) / f64(census.elements)) / 1e4 : 0.0;
  Json by_type = Json::object();
  for (auto& [type, n] : types) by_type[type_name(type)] = {{"tensors", n[0]}, {"parameters", n[1]}, {"bytes", n[2]}};
  j["types"] = std::move(by_type);
  Json metadata = Json::object();
  auto& entries = metadata.get_ref<Json::object_t&>();  // appended: a look-up per key would be quadratic, and keys are unique
  for (const KeyValue& kv : file.metadata()) entries.emplace_back(kv.key, value_json(kv.value, options));
  j["metadata"] = std::move(metadata);
  j["tensors"] = std::move(tensors);
  return j;
}

static std::string with_unit(f64 x) {
  static constexpr const char* units[] = {"", "k", "M", "G", "T"};
  int u = 0;
  for (; x >= 1000 && u < 4; u++) x /= 1000;
  return u == 0 ? fmt::format("{}", x) : fmt::format("{:.4g} {}", x, units[u]);
}

// A value on one line: text as it is, but for line ends and control characters.
static std::string one_line(const Json& v) {
  if (v.is_object() && v.contains("first")) {
    std::string list = v["first"].dump();
    list.pop_back();
    return fmt::format("{}, ...] ({}, {} elements)", list, v["type"].get<std::string>(), v["count"].get<u64>());
  }
  std::string s = v.dump();
  return v.is_string() ? s.substr(1, s.size() - 2) : s;
}

std::string inspect_text(const Json& j, bool tensors) {
  std::string out;
  auto line = [&](std::string_view name, const std::string& value) {
    if (!value.empty()) out += fmt::format("{:<16} {}\n", name, value);
  };
  line("file", one_line(j["file"]));
  line("format",
       fmt::format("GGUF version {}, {}B{}, alignment {}", j["version"].get<int>(), with_unit(j["bytes"].get<f64>()),
                   j["pieces"].get<int>() > 1 ? fmt::format(" in {} pieces", j["pieces"].get<int>()) : "", j["alignment"].get<u64>()));
  line("architecture", one_line(j["architecture"]));
  line("variant", one_line(j["variant"]));
  line("producer", one_line(j["producer"]));
  if (j.contains("device")) line("device", one_line(j["device"]));
  line("parameters", with_unit(j["parameters"].get<f64>()));
  line("bits per weight", fmt::format("{}", j["bits_per_weight"].get<f64>()));
  for (auto& [type, n] : j["types"].items()) {
    line(fmt::format("  {}", type), fmt::format("{} tensors, {}parameters, {}B", n["tensors"].get<u64>(),
                                                with_unit(n["parameters"].get<f64>()) + " ", with_unit(n["bytes"].get<f64>())));
  }
  out += "\nmetadata\n";
  size_t width = 0;
  for (auto& [key, v] : j["metadata"].items()) width = std::max(width, std::min<size_t>(key.size(), 48));
  for (auto& [key, v] : j["metadata"].items()) out += fmt::format("  {:<{}}  {}\n", key, width, one_line(v));
  if (!tensors) return out;
  out += "\ntensors\n";
  auto shape = [](const Json& t) {
    std::string s;
    for (const Json& d : t["shape"]) s += fmt::format("{}{}", s.empty() ? "" : " x ", d.get<i64>());
    return s.empty() ? std::string("scalar") : s;
  };
  size_t names = 0, shapes = 0;
  for (const Json& t : j["tensors"]) {
    names = std::max(names, one_line(t["name"]).size());
    shapes = std::max(shapes, shape(t).size());
  }
  for (const Json& t : j["tensors"]) {
    out += fmt::format("  {:<{}}  {:<7}  {:<{}}  {:>12}", one_line(t["name"]), names, t["type"].get<std::string>(), shape(t), shapes,
                       t["bytes"].get<u64>());
    if (t.contains("kernel")) out += "  " + one_line(t["kernel"]);
    if (t.contains("refusal")) out += "  refused: " + one_line(t["refusal"]);
    out += '\n';
  }
  return out;
}

}  // namespace fewbit::gguf
