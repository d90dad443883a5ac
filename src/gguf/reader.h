// The reader's inside: one piece of a file, checked step by step.  Callers use File::open and File::parse.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "gguf/cursor.h"
#include "gguf/gguf.h"

namespace fewbit::gguf {

// Limits of our own, beyond those that the file's length sets.
inline constexpr u64 max_tensors = u64(1) << 20, max_keys = u64(1) << 20, max_key_length = 65535, max_name_length = 63;
inline constexpr u64 max_value_string = u64(1) << 26, max_array = u64(1) << 26, max_alignment = u64(1) << 16, max_pieces = 1024;

struct Reader {
  Reader(std::span<const u8> bytes, std::string file_name, const OpenOptions& open_options);
  Reader(const Reader&) = delete;  // the cursor looks at `name`
  Reader& operator=(const Reader&) = delete;

  // Everything of one piece: header, key/values, tensor infos, layout, data.  Fills `file`.
  Status read(int piece_number);

  // The split keys, checked; count is 1 for a file that is not split.
  struct Split {
    int no = 0, count = 1;
    i64 tensors = 0;
  };
  Result<Split> split() const;

  // Joins the next piece's tensors to this file's.
  Status append(Reader& piece);
  // What can only be judged when all pieces are there.
  Status check_ids() const;

  // Byte at which a key starts (0 if it is absent).
  u64 key_at(std::string_view key) const;

  std::string name;
  OpenOptions options;
  Cursor c;
  std::span<const u8> bytes;
  File file;

 private:
  struct Info {  // what a tensor info says, beside what Tensor keeps
    u64 at, offset_at, offset;
    u32 id;
    u64 size;
    bool legacy;  // id 42, read as group 128
  };
  struct Walk {  // the running sum of padded sizes
    bool overflow = false;
    size_t mismatch;   // first tensor whose offset is not the sum before it; the number of tensors if there is none
    u64 expected = 0;  // that sum
    u64 end = 0;       // of the last tensor, not padded
  };

  Status header();
  Status key_values();
  Result<Value> value(ValueType type, std::string_view key);
  Result<Value> array(std::string_view key);
  Status check_alignment();
  Status tensor_infos();
  Status tensor_info();
  Status layout();
  Status check_data() const;
  Walk walk(u64 data_bytes, bool legacy) const;
  u64 size_of(size_t tensor, bool legacy) const;
  Status layout_error(const Walk& w, u64 data_bytes, bool legacy) const;
  bool is_legacy(const Walk& current, u64 data_bytes) const;
  Error legacy_error(size_t tensor) const;

  u64 n_tensors_ = 0, n_keys_ = 0;
  std::vector<u64> key_at_;
  std::vector<Info> infos_;
};

// Check 10: hyper-parameters that would become sizes or divisors, and the tokeniser's arrays.  `key_at`: where a key starts.
Status check_parameters(const File& file, const Reader& reader);

}  // namespace fewbit::gguf
