// Importance matrices: how strongly each input column of each weight was used.  spec: gguf.md, last section.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "gguf/gguf.h"

namespace fewbit::gguf {

struct Imatrix {
  struct Entry {
    i64 n_in = 0, n_matrices = 1;  // n_matrices: experts, else 1
    std::vector<f64> sums;         // (n_matrices, n_in) sums of squared inputs, as the file has them
    std::vector<f64> counts;       // (n_matrices) rows seen

    // Mean squared input of each column of matrix m, as the quantisers want it; empty if there are no data for it.  The mean of the
    // others stands for a sum that is no number.
    std::vector<f32> importance(i64 m) const;
    i64 unused() const;  // matrices without data
  };
  std::map<std::string, Entry, std::less<>> entries;  // by the weight's tensor name
  std::vector<std::string> datasets;
  i64 chunks = 0, chunk_size = 0;
  bool rows_known = true;          // false: from the old form, whose counts are calls, not rows
  std::string source;              // which tokens and which model made it (source_of); empty: merged, or another program's
  std::vector<std::string> notes;  // what was odd in the file, one line each: values that are no numbers, unused experts

  // GGUF form or old binary form, told apart by the first bytes.
  static Result<Imatrix> read(const std::string& path);
  static Result<Imatrix> parse(std::span<const u8> bytes, const std::string& name);
  // n_matrices of entries from the old form is 1 until the weight is known: this splits them.
  Status split(std::string_view name, i64 n_in);

  // Adds the other's sums and counts.  Where one side's rows are not known, an entry counts as many as the other side's has per chunk.
  // Error if an entry has another shape.
  Status merge(const Imatrix& other);
  // The GGUF form, as other tools read it.
  Status write(const std::string& path) const;
};

// A fingerprint (16 hexadecimal digits) of a text's tokens and a model: names, shapes, formats and first bytes of its tensors.
std::string source_of(std::span<const i32> tokens, const File& model);

}  // namespace fewbit::gguf
