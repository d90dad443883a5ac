// Typed getters of values and files.
#include <cmath>
#include <limits>

#include "gguf/cursor.h"
#include "gguf/gguf.h"

namespace fewbit::gguf {

std::string printable(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (out.size() >= 76) return out + "...";
    if (c >= 0x20 && c < 0x7f) {
      out += c;
    } else {
      out += fmt::format("\\x{:02x}", u8(c));
    }
  }
  return out;
}

static constexpr u64 i64_max = u64(std::numeric_limits<i64>::max());

std::optional<i64> Value::as_int() const {
  if (auto* x = std::get_if<fewbit::u64>(&v)) return *x <= i64_max ? std::optional<i64>(i64(*x)) : std::nullopt;
  if (auto* x = std::get_if<fewbit::i64>(&v)) return *x;
  return {};
}

std::optional<f64> Value::as_float() const {
  if (auto* x = std::get_if<fewbit::f64>(&v)) return *x;
  return {};
}

std::optional<bool> Value::as_bool() const {
  if (auto* x = std::get_if<bool>(&v)) return *x;
  return {};
}

const std::string* Value::as_string() const { return std::get_if<std::string>(&v); }

std::optional<std::vector<i64>> Value::as_ints() const {
  if (auto* x = std::get_if<std::vector<fewbit::i64>>(&v)) return *x;
  std::vector<fewbit::i64> out;
  if (auto* x = std::get_if<std::vector<fewbit::u64>>(&v)) {
    out.reserve(x->size());
    for (fewbit::u64 e : *x) {
      if (e > i64_max) return {};
      out.push_back(fewbit::i64(e));
    }
    return out;
  }
  if (auto* x = std::get_if<std::vector<bool>>(&v)) return std::vector<fewbit::i64>(x->begin(), x->end());
  return {};
}

std::optional<std::vector<f32>> Value::as_floats() const {
  auto* x = std::get_if<std::vector<fewbit::f64>>(&v);
  if (!x) return {};
  std::vector<fewbit::f32> out;
  out.reserve(x->size());
  for (fewbit::f64 e : *x) out.push_back(fewbit::f32(e));
  return out;
}

const std::vector<std::string>* Value::as_strings() const { return std::get_if<std::vector<std::string>>(&v); }

const char* value_type_name(ValueType type) {
  static constexpr const char* names[] = {"u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "string", "array", "u64", "i64", "f64"};
  return u32(type) < 13 ? names[u32(type)] : "unknown";
}

std::string Value::type_text() const {
  return is_array() ? fmt::format("array of {}", value_type_name(element)) : std::string(value_type_name(type));
}

std::string Tensor::shape() const {
  if (n_dims == 0) return "scalar";
  std::string s;
  for (int i = 0; i < n_dims; i++) s += fmt::format("{}{}", i ? " x " : "", dims[size_t(i)]);
  return s;
}

const Value* File::find(std::string_view key) const {
  auto it = key_index_.find(key);
  return it == key_index_.end() ? nullptr : &metadata_[it->second].value;
}

const Tensor* File::tensor(std::string_view name) const {
  auto it = tensor_index_.find(name);
  return it == tensor_index_.end() ? nullptr : &tensors_[it->second];
}

static Error no_key(const std::string& path, std::string_view key) {
  return {Code::bad_file, fmt::format("{}: key '{}' is missing", path, printable(key))};
}
static Error wrong_kind(const std::string& path, std::string_view key, const Value& v, const char* wanted) {
  return {Code::bad_file, fmt::format("{}: key '{}' is of type {}, expected {}", path, printable(key), v.type_text(), wanted)};
}

Result<i64> File::get_int(std::string_view key, std::optional<i64> absent, i64 lo, i64 hi) const {
  const Value* v = find(key);
  if (!v) return absent ? Result<i64>(*absent) : no_key(path_, key);
  if (v->is_array() || (!std::holds_alternative<u64>(v->v) && !std::holds_alternative<i64>(v->v))) {
    return wrong_kind(path_, key, *v, "an integer");
  }
  std::optional<i64> x = v->as_int();
  if (!x || *x < lo || *x > hi) {
    std::string text = x ? fmt::format("{}", *x) : fmt::format("{}", std::get<u64>(v->v));
    return Error{Code::bad_file, fmt::format("{}: key '{}' is {}, expected {} to {}", path_, printable(key), text, lo, hi)};
  }
  return *x;
}

Result<f64> File::get_float(std::string_view key, std::optional<f64> absent) const {
  const Value* v = find(key);
  if (!v) return absent ? Result<f64>(*absent) : no_key(path_, key);
  std::optional<f64> x = v->as_float();
  if (!x) return wrong_kind(path_, key, *v, "a float");
  if (!std::isfinite(*x)) return Error{Code::bad_file, fmt::format("{}: key '{}' is not finite", path_, printable(key))};
  return *x;
}

Result<bool> File::get_bool(std::string_view key, std::optional<bool> absent) const {
  const Value* v = find(key);
  if (!v) return absent ? Result<bool>(*absent) : no_key(path_, key);
  std::optional<bool> x = v->as_bool();
  if (!x) return wrong_kind(path_, key, *v, "a bool");
  return *x;
}

Result<std::string> File::get_string(std::string_view key, std::optional<std::string> absent) const {
  const Value* v = find(key);
  if (!v) return absent ? Result<std::string>(*std::move(absent)) : no_key(path_, key);
  const std::string* x = v->as_string();
  if (!x) return wrong_kind(path_, key, *v, "a string");
  return *x;
}

void File::drop(const Tensor& t) const {
  if (size_t(t.piece) < mappings_.size()) mappings_[size_t(t.piece)]->drop(size_t(t.offset), t.data.size());
}

}  // namespace fewbit::gguf
