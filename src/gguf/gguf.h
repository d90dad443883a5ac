// GGUF files: named, typed, bounds-checked views of one, and writing one.  spec: gguf.md, every check of its section 3.
// Errors name the file, the byte offset and the offending thing; nothing here trusts a number from the file.
#pragma once
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/mapping.h"
#include "base/result.h"
#include "format/format.h"

namespace fewbit::gguf {

enum class ValueType : u32 { u8 = 0, i8, u16, i16, u32, i32, f32, boolean, string, array, u64, i64, f64 };
const char* value_type_name(ValueType type);

// A metadata value.  Scalars are widened (u64 / i64 / f64 / bool); `type` keeps what the file says.
struct Value {
  ValueType type = ValueType::u32;
  ValueType element = ValueType::u32;  // of arrays
  std::variant<u64, i64, f64, bool, std::string, std::vector<u64>, std::vector<i64>, std::vector<f64>, std::vector<bool>,
               std::vector<std::string>>
      v;

  bool is_array() const { return type == ValueType::array; }
  std::string type_text() const;  // "u32", "array of string"
  // Typed getters: nothing if the value is of another kind or out of range.  Integers of any width are interchangeable.
  std::optional<i64> as_int() const;
  std::optional<f64> as_float() const;  // f32, f64
  std::optional<bool> as_bool() const;
  const std::string* as_string() const;
  std::optional<std::vector<i64>> as_ints() const;  // any integer element type (bool too, as 0 and 1)
  std::optional<std::vector<f32>> as_floats() const;
  const std::vector<std::string>* as_strings() const;

  static Value of(fewbit::u32 x) { return {ValueType::u32, ValueType::u32, fewbit::u64(x)}; }
  static Value of(fewbit::i32 x) { return {ValueType::i32, ValueType::u32, fewbit::i64(x)}; }
  static Value of(fewbit::u64 x) { return {ValueType::u64, ValueType::u32, x}; }
  static Value of(fewbit::f32 x) { return {ValueType::f32, ValueType::u32, fewbit::f64(x)}; }
  static Value of(bool x) { return {ValueType::boolean, ValueType::u32, x}; }
  static Value of(std::string x) { return {ValueType::string, ValueType::u32, std::move(x)}; }
  static Value of(std::vector<std::string> x) { return {ValueType::array, ValueType::string, std::move(x)}; }
  static Value of_i32s(std::vector<fewbit::i64> x) { return {ValueType::array, ValueType::i32, std::move(x)}; }
  static Value of_f32s(std::vector<fewbit::f64> x) { return {ValueType::array, ValueType::f32, std::move(x)}; }
};

struct KeyValue {
  std::string key;
  Value value;
};

struct Tensor {
  std::string name;
  Type type = Type::F32;
  int n_dims = 0;
  std::array<i64, 4> dims{1, 1, 1, 1};  // fastest first
  u64 offset = 0;                       // from the start of its piece
  int piece = 0;
  std::span<const u8> data;  // within the mapping of its piece

  i64 elements() const { return dims[0] * dims[1] * dims[2] * dims[3]; }
  i64 rows() const { return dims[1] * dims[2] * dims[3]; }
  std::string shape() const;  // "512 x 1024"
};

// A tensor that is yet to be written.
struct TensorInfo {
  std::string name;
  Type type;
  std::vector<i64> dims;  // fastest first
};

struct OpenOptions {
  bool q2_0_legacy = false;  // read id 42 as group 128 (formats.md 4.31): such tensors get Type::PQ2_0, the same bytes
  bool check_data = false;   // also reject non-finite scales and forbidden codes
  bool copy = false;         // read instead of map: for untrusted files
};

class File {
 public:
  // Opens the file and, if it is the first of a split set, all its pieces.
  static Result<File> open(const std::string& path, const OpenOptions& options = {});
  // The same from memory (tests, fuzzing): one piece, not copied.
  static Result<File> parse(std::span<const u8> bytes, const std::string& name, const OpenOptions& options = {});
  // A model that is in no file.  fill() gets the memory of all tensors, each in pages of its own: drop() gives them back.
  using Fill = std::function<void(const std::vector<std::span<u8>>& tensors)>;
  static Result<File> assemble(const std::string& name, std::vector<KeyValue> metadata, const std::vector<TensorInfo>& tensors,
                               const Fill& fill);

  const std::string& path() const { return path_; }
  int version() const { return version_; }
  u64 alignment() const { return alignment_; }
  int pieces() const { return pieces_; }
  u64 file_bytes() const { return file_bytes_; }
  bool early_q2_0() const { return early_q2_0_; }  // some Q2_0 was read in groups of 128, as asked
  const std::vector<KeyValue>& metadata() const { return metadata_; }
  const std::vector<Tensor>& tensors() const { return tensors_; }

  const Value* find(std::string_view key) const;
  const Tensor* tensor(std::string_view name) const;

  // Getters with a default for an absent key; an error that names the key for a value of the wrong kind or out of [lo, hi].
  Result<i64> get_int(std::string_view key, std::optional<i64> absent, i64 lo = 0, i64 hi = i64(1) << 40) const;
  Result<f64> get_float(std::string_view key, std::optional<f64> absent) const;
  Result<bool> get_bool(std::string_view key, std::optional<bool> absent) const;
  Result<std::string> get_string(std::string_view key, std::optional<std::string> absent) const;

  // After a tensor's bytes were packed elsewhere, its pages need not stay in memory.
  void drop(const Tensor& t) const;

 private:
  friend struct Reader;
  std::string path_;
  int version_ = 3, pieces_ = 1;
  u64 alignment_ = 32, file_bytes_ = 0;
  bool early_q2_0_ = false;
  std::vector<KeyValue> metadata_;
  std::vector<Tensor> tensors_;
  std::map<std::string, size_t, std::less<>> key_index_, tensor_index_;
  std::vector<std::shared_ptr<Mapping>> mappings_;
};

// Writes a file in one pass: metadata first, then the data in the order of the tensor infos.  The file appears under its name only
// when finish() succeeds (base/new_file.h); a failure leaves nothing behind.
class Writer {
 public:
  using TensorInfo = gguf::TensorInfo;
  // The tensors' bytes are given later, through write().  alignment 0: what the metadata says (general.alignment), else 32.
  static Result<Writer> create(const std::string& path, const std::vector<KeyValue>& metadata, const std::vector<TensorInfo>& tensors,
                               u64 alignment = 0);
  Writer(Writer&&) noexcept;
  Writer& operator=(Writer&&) noexcept;
  ~Writer();

  // Bytes of the next tensor, in one or several calls; a tensor is complete when tensor_bytes of it have arrived.
  Status write(std::span<const u8> bytes);
  Status finish();
  u64 file_bytes() const;  // of the finished file

 private:
  friend class SplitWriter;
  struct State;
  Writer();
  std::unique_ptr<State> s_;
};

// The same over several files PREFIX-00001-of-0000N.gguf of at most max_bytes of data each (a larger tensor gets its own).  All appear
// at finish(), the first one last.
class SplitWriter {
 public:
  static Result<SplitWriter> create(const std::string& prefix, const std::vector<KeyValue>& metadata,
                                    const std::vector<Writer::TensorInfo>& tensors, u64 max_bytes, u64 alignment = 0);
  Status write(std::span<const u8> bytes);
  Status finish();
  int pieces() const { return int(pieces_.size()); }

 private:
  std::vector<Writer> pieces_;
  size_t at_ = 0;
};
// PREFIX-00001-of-0000N.gguf; `no` counts from 0.
std::string piece_path(std::string_view prefix, int no, int count);

}  // namespace fewbit::gguf
