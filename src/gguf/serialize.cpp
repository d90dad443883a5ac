#include "gguf/serialize.h"

#include <limits>
#include <set>

#include "gguf/reader.h"

namespace fewbit::gguf {

namespace {

template <class... A>
Error bad(fmt::format_string<A...> f, A&&... a) {
  return {Code::invalid_argument, fmt::format(f, std::forward<A>(a)...)};
}

struct Out {
  std::vector<u8>& bytes;

  template <class T>
  void number(T v) {
    const u8* p = reinterpret_cast<const u8*>(&v);
    bytes.insert(bytes.end(), p, p + sizeof v);
  }
  void string(std::string_view s) {
    number(u64(s.size()));
    bytes.insert(bytes.end(), s.begin(), s.end());
  }
  // x as a T, if it is one.
  template <class T, class W>
  bool narrow(W x) {
    if constexpr (std::is_integral_v<T>) {
      if (!std::in_range<T>(x)) return false;
    }
    number(T(x));
    return true;
  }
  template <class W>
  bool scalar(ValueType type, W x) {
    switch (type) {
      case ValueType::u8:
        return narrow<u8>(x);
      case ValueType::i8:
        return narrow<i8>(x);
      case ValueType::u16:
        return narrow<u16>(x);
      case ValueType::i16:
        return narrow<i16>(x);
      case ValueType::u32:
        return narrow<u32>(x);
      case ValueType::i32:
        return narrow<i32>(x);
      case ValueType::u64:
        return narrow<u64>(x);
      case ValueType::i64:
        return narrow<i64>(x);
      default:
        return false;
    }
  }
  bool scalar(ValueType type, f64 x) {
    if (type == ValueType::f32) return narrow<f32>(x);
    return type == ValueType::f64 && narrow<f64>(x);
  }
  bool scalar(ValueType type, bool x) { return type == ValueType::boolean && (number(u8(x)), true); }
  bool scalar(ValueType type, const std::string& x) { return type == ValueType::string && (string(x), true); }

  // False if the value is not of the type it claims.
  bool value(const Value& v) {
    number(u32(v.type));
    return std::visit(
        [&]<class X>(const X& x) {
          if constexpr (requires(X y) { y.push_back(y[0]); } && !std::is_same_v<X, std::string>) {
            if (!v.is_array()) return false;
            number(u32(v.element));
            number(u64(x.size()));
            for (size_t i = 0; i < x.size(); i++) {
              if (!scalar(v.element, typename X::value_type(x[i]))) return false;
            }
            return true;
          } else {
            return !v.is_array() && scalar(v.type, x);
          }
        },
        v.v);
  }
};

Status check_key(const std::string& key, std::set<std::string_view>& seen) {
  if (key.empty() || key.size() > max_key_length) return bad("key of {} bytes", key.size());
  for (char ch : key) {
    if (ch < 0x20 || ch > 0x7e) return bad("key '{}' has a byte that is not printable ASCII", printable(key));
  }
  if (!seen.insert(key).second) return bad("key '{}' appears twice", key);
  return {};
}

Result<u64> check_tensor(const Writer::TensorInfo& t, std::set<std::string_view>& seen) {
  const std::string name = printable(t.name);
  if (t.name.empty() || t.name.size() > max_name_length) return bad("tensor '{}': name of {} bytes, 1 to 63 fit", name, t.name.size());
  if (t.name.find('\0') != t.name.npos) return bad("tensor '{}': zero byte in the name", name);
  if (!seen.insert(t.name).second) return bad("tensor '{}' appears twice", name);
  if (t.dims.size() > 4) return bad("tensor '{}': {} dimensions, at most 4", name, t.dims.size());
  if (u32(t.type) > 0xffff || !find_format(t.type)) return bad("tensor '{}': type {} cannot be written", name, u32(t.type));
  u64 elements = 1, rows = 1;
  for (size_t d = 0; d < t.dims.size(); d++) {
    auto product = t.dims[d] > 0 ? checked_mul(elements, u64(t.dims[d])) : std::nullopt;
    if (!product || *product > u64(std::numeric_limits<i64>::max())) return bad("tensor '{}': dimension {} is {}", name, d, t.dims[d]);
    elements = *product;
    if (d > 0) rows *= u64(t.dims[d]);
  }
  const u64 n0 = t.dims.empty() ? 1 : u64(t.dims[0]);
  auto size = tensor_bytes(t.type, n0, rows);
  if (!size || *size > u64(std::numeric_limits<i64>::max()) / 2) {
    return bad("tensor '{}': rows of {} do not fit {}'s block of {}", name, n0, format_info(t.type).name, format_info(t.type).block);
  }
  return *size;
}

}  // namespace

Result<Layout> serialize(const std::vector<KeyValue>& metadata, std::span<const Writer::TensorInfo> tensors, u64 alignment) {
  Layout out;
  const Value* stated = nullptr;
  for (const KeyValue& kv : metadata) {
    if (kv.key == "general.alignment") stated = &kv.value;
  }
  if (stated) {
    auto x = stated->type == ValueType::u32 ? stated->as_int() : std::nullopt;
    if (!x || (alignment != 0 && u64(*x) != alignment)) return bad("general.alignment in the metadata is not the alignment {}", alignment);
    alignment = u64(*x);
  }
  if (alignment == 0) alignment = 32;
  if (alignment < 8 || alignment > max_alignment || (alignment & (alignment - 1)) != 0) {
    return bad("alignment {} is not a power of two from 8 to {}", alignment, max_alignment);
  }
  const bool say_alignment = !stated && alignment != 32;
  if (metadata.size() >= max_keys || tensors.size() > max_tensors) return bad("{} keys and {} tensors", metadata.size(), tensors.size());

  Out o{out.head};
  for (char ch : {'G', 'G', 'U', 'F'}) out.head.push_back(u8(ch));
  o.number(u32(3));
  o.number(u64(tensors.size()));
  o.number(u64(metadata.size() + say_alignment));
  std::set<std::string_view> seen;
  for (const KeyValue& kv : metadata) {
    FEWBIT_OK(check_key(kv.key, seen));
    o.string(kv.key);
    if (!o.value(kv.value)) return bad("key '{}': the value does not fit its type {}", kv.key, kv.value.type_text());
  }
  if (say_alignment) {
    o.string("general.alignment");
    o.value(Value::of(u32(alignment)));
  }
  seen.clear();
  u64 sum = 0;
  for (const Writer::TensorInfo& t : tensors) {
    FEWBIT_TRY(u64 size, check_tensor(t, seen));
    o.string(t.name);
    o.number(u32(t.dims.size()));
    for (i64 d : t.dims) o.number(u64(d));
    o.number(u32(t.type));
    o.number(sum);
    out.sizes.push_back(size);
    out.offsets.push_back(sum);
    auto end = checked_add(sum, size + alignment - 1);
    if (!end || *end > u64(std::numeric_limits<i64>::max()) / 2) return bad("tensor '{}': the file would exceed 2^62 bytes", t.name);
    sum = *end & ~(alignment - 1);
  }
  if (!tensors.empty()) out.head.resize((out.head.size() + alignment - 1) & ~(alignment - 1), 0);
  out.alignment = alignment;
  out.file_bytes = out.head.size() + sum;
  return out;
}

}  // namespace fewbit::gguf
