// Header and key/values of one piece.  Numbers in comments: the checks of gguf.md section 3.
#include "gguf/reader.h"

#include <algorithm>
#include <cstring>

namespace fewbit::gguf {

Reader::Reader(std::span<const u8> b, std::string file_name, const OpenOptions& open_options)
    : name(std::move(file_name)), options(open_options), c(b, name), bytes(b) {
  file.path_ = name;
  file.file_bytes_ = b.size();
}

u64 Reader::key_at(std::string_view key) const {
  auto it = file.key_index_.find(key);
  return it == file.key_index_.end() ? 0 : key_at_[it->second];
}

Status Reader::read(int piece_number) {
  FEWBIT_OK(header());
  FEWBIT_OK(key_values());
  FEWBIT_OK(check_alignment());
  FEWBIT_OK(tensor_infos());
  for (Tensor& t : file.tensors_) t.piece = piece_number;
  FEWBIT_OK(layout());
  if (piece_number == 0) FEWBIT_OK(check_parameters(file, *this));
  if (options.check_data) FEWBIT_OK(check_data());
  return {};
}

// What people try to open instead of a GGUF file.
static const char* other_file(std::span<const u8> bytes) {
  auto starts = [&](std::string_view s) { return bytes.size() >= s.size() && std::memcmp(bytes.data(), s.data(), s.size()) == 0; };
  if (starts("FUGG")) return " (byte-swapped: a big-endian file?)";
  if (starts("lmgg") || starts("fmgg") || starts("tjgg")) return " (an old GGML file: convert it to GGUF)";
  if (starts("version https://git-lfs")) return " (a git-lfs pointer: the real file was not fetched)";
  if (starts("<!DOCTYPE") || starts("<html")) return " (a web page)";
  if (starts("PK\x03\x04")) return " (a zip archive)";
  return "";
}

Status Reader::header() {  // 1, 2
  if (bytes.size() < 4 || std::memcmp(bytes.data(), "GGUF", 4) != 0) {
    if (bytes.size() < 24) return c.fail(0, "file of {} bytes, a GGUF header takes 24{}", bytes.size(), other_file(bytes));
    return c.fail(0, "magic is '{}', not 'GGUF'{}", printable({reinterpret_cast<const char*>(bytes.data()), 4}), other_file(bytes));
  }
  c.take(4, 1);
  FEWBIT_TRY(u32 version, c.number<u32>("version"));
  if (version == 1) return c.fail(4, "version 1 (32-bit counts) is not read; write the file again with a current converter");
  if ((version & 0xffff) == 0 && version != 0) {
    return c.fail(4, "version 0x{:08x}: the file seems to be big-endian (version {}), only little-endian files are read", version,
                  __builtin_bswap32(version));
  }
  if (version != 2 && version != 3) return c.fail(4, "version {} is not known (2 and 3 are read)", version);
  if (bytes.size() < 24) return c.fail(0, "file of {} bytes, a GGUF header takes 24", bytes.size());
  file.version_ = int(version);
  FEWBIT_TRY(n_tensors_, c.number<u64>("tensor count"));
  FEWBIT_TRY(n_keys_, c.number<u64>("key count"));
  // The shortest key/value is a key of one letter and a byte; the shortest tensor info a scalar with a name of one letter.
  auto check = [&](u64 at, const char* what, u64 n, u64 shortest, u64 cap) -> Status {
    if (n > c.left() / shortest) {
      return c.fail(at, "{} {}: {} bytes are left, room for {} at most", what, n, c.left(), c.left() / shortest);
    }
    if (n > cap) return c.fail(at, "{} {}, at most {} are accepted", what, n, cap);
    return {};
  };
  FEWBIT_OK(check(8, "tensor count", n_tensors_, 8 + 1 + 4 + 4 + 8, max_tensors));
  return check(16, "key count", n_keys_, 8 + 1 + 4 + 1, max_keys);
}

Status Reader::key_values() {  // 3, 4, 5
  for (u64 i = 0; i < n_keys_; i++) {
    const u64 at = c.at();
    FEWBIT_TRY(std::string_view key, c.string([&] { return fmt::format("key {} of {}", i, n_keys_); }, max_key_length));
    if (key.empty()) return c.fail(at, "key {} of {} is empty", i, n_keys_);
    for (char ch : key) {
      if (ch < 0x20 || ch > 0x7e) return c.fail(at, "key '{}' has a byte that is not printable ASCII", printable(key));
    }
    if (file.key_index_.contains(key)) return c.fail(at, "key '{}' appears twice", printable(key));
    const u64 type_at = c.at();
    FEWBIT_TRY(u32 type, c.number<u32>([&] { return fmt::format("type of key '{}'", printable(key)); }));
    if (type > u32(ValueType::f64)) return c.fail(type_at, "key '{}': value type {} is not known", printable(key), type);
    FEWBIT_TRY(Value v, value(ValueType(type), key));
    file.key_index_.emplace(key, file.metadata_.size());
    key_at_.push_back(at);
    file.metadata_.push_back({std::string(key), std::move(v)});
  }
  return {};
}

Result<Value> Reader::value(ValueType type, std::string_view key) {  // 6
  auto what = [&] { return fmt::format("value of key '{}'", printable(key)); };
  Value out;
  out.type = type;
  // Reads a T and keeps it widened to W.
  auto scalar = [&]<class T, class W>(T, W) -> Status {
    FEWBIT_TRY(T x, c.number<T>(what));
    out.v = W(x);
    return {};
  };
  switch (type) {
    case ValueType::u8:
      FEWBIT_OK(scalar(u8(), u64()));
      break;
    case ValueType::i8:
      FEWBIT_OK(scalar(i8(), i64()));
      break;
    case ValueType::u16:
      FEWBIT_OK(scalar(u16(), u64()));
      break;
    case ValueType::i16:
      FEWBIT_OK(scalar(i16(), i64()));
      break;
    case ValueType::u32:
      FEWBIT_OK(scalar(u32(), u64()));
      break;
    case ValueType::i32:
      FEWBIT_OK(scalar(i32(), i64()));
      break;
    case ValueType::u64:
      FEWBIT_OK(scalar(u64(), u64()));
      break;
    case ValueType::i64:
      FEWBIT_OK(scalar(i64(), i64()));
      break;
    case ValueType::f32:
      FEWBIT_OK(scalar(f32(), f64()));
      break;
    case ValueType::f64:
      FEWBIT_OK(scalar(f64(), f64()));
      break;
    case ValueType::boolean: {
      const u64 at = c.at();
      FEWBIT_TRY(u8 x, c.number<u8>(what));
      if (x > 1) return c.fail(at, "key '{}': a bool of value {}", printable(key), x);
      out.v = x == 1;
      break;
    }
    case ValueType::string: {
      FEWBIT_TRY(std::string_view s, c.string(what, max_value_string));
      out.v = std::string(s);
      break;
    }
    case ValueType::array:
      return array(key);
  }
  return out;
}

static u64 least_bytes(ValueType type) {
  switch (type) {
    case ValueType::u8:
    case ValueType::i8:
    case ValueType::boolean:
      return 1;
    case ValueType::u16:
    case ValueType::i16:
      return 2;
    case ValueType::u32:
    case ValueType::i32:
    case ValueType::f32:
      return 4;
    default:
      return 8;  // a string has at least its length
  }
}

template <class T, class W>
static std::vector<W> widen(const u8* p, u64 n) {
  std::vector<W> out(n);
  for (u64 i = 0; i < n; i++) out[i] = W(load_le<T>(p + i * sizeof(T)));
  return out;
}

Result<Value> Reader::array(std::string_view key) {  // 5, 7
  const u64 type_at = c.at();
  FEWBIT_TRY(u32 type, c.number<u32>([&] { return fmt::format("element type of key '{}'", printable(key)); }));
  if (type == u32(ValueType::array)) return c.fail(type_at, "key '{}': arrays of arrays are not read", printable(key));
  if (type > u32(ValueType::f64)) return c.fail(type_at, "key '{}': element type {} is not known", printable(key), type);
  const u64 count_at = c.at();
  FEWBIT_TRY(u64 n, c.number<u64>([&] { return fmt::format("length of key '{}'", printable(key)); }));
  const u64 least = least_bytes(ValueType(type));
  if (n > c.left() / least) { return c.fail(count_at, "key '{}': array of {} elements, {} bytes are left", printable(key), n, c.left()); }
  if (n > max_array) return c.fail(count_at, "key '{}': array of {} elements, at most {} are accepted", printable(key), n, max_array);
  Value out;
  out.type = ValueType::array;
  out.element = ValueType(type);
  const u64 at = c.at();
  switch (ValueType(type)) {
    case ValueType::u8:
      out.v = widen<u8, u64>(c.take(n, 1), n);
      break;
    case ValueType::i8:
      out.v = widen<i8, i64>(c.take(n, 1), n);
      break;
    case ValueType::u16:
      out.v = widen<u16, u64>(c.take(n, 2), n);
      break;
    case ValueType::i16:
      out.v = widen<i16, i64>(c.take(n, 2), n);
      break;
    case ValueType::u32:
      out.v = widen<u32, u64>(c.take(n, 4), n);
      break;
    case ValueType::i32:
      out.v = widen<i32, i64>(c.take(n, 4), n);
      break;
    case ValueType::u64:
      out.v = widen<u64, u64>(c.take(n, 8), n);
      break;
    case ValueType::i64:
      out.v = widen<i64, i64>(c.take(n, 8), n);
      break;
    case ValueType::f32:
      out.v = widen<f32, f64>(c.take(n, 4), n);
      break;
    case ValueType::f64:
      out.v = widen<f64, f64>(c.take(n, 8), n);
      break;
    case ValueType::boolean: {
      const u8* p = c.take(n, 1);
      for (u64 i = 0; i < n; i++) {
        if (p[i] > 1) return c.fail(at + i, "key '{}': element {} is a bool of value {}", printable(key), i, p[i]);
      }
      out.v = std::vector<bool>(p, p + n);
      break;
    }
    default: {
      std::vector<std::string> strings;  // grows as they are read: the count is the file's word, the strings are not
      u64 i = 0;
      auto what = [&] { return fmt::format("element {} of key '{}'", i, printable(key)); };
      for (; i < n; i++) {
        FEWBIT_TRY(std::string_view s, c.string(what, max_value_string));
        strings.emplace_back(s);
      }
      out.v = std::move(strings);
    }
  }
  return out;
}

Status Reader::check_alignment() {  // 8
  const Value* v = file.find("general.alignment");
  if (!v) return {};
  const u64 at = key_at("general.alignment");
  if (v->type != ValueType::u32) return c.fail(at, "key 'general.alignment' is of type {}, expected u32", v->type_text());
  const u64 a = std::get<u64>(v->v);
  if (a < 8 || a > max_alignment || (a & (a - 1)) != 0) {
    return c.fail(at, "general.alignment is {}, expected a power of two from 8 to {}", a, max_alignment);
  }
  file.alignment_ = a;
  return {};
}

}  // namespace fewbit::gguf
