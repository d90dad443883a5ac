// A model in other types: plan (which tensor becomes what, and why), then write.  Streaming: at most one piece of a tensor is in memory.
// The bytes do not depend on the number of threads.
#pragma once
#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/thread_pool.h"
#include "gguf/fold.h"
#include "gguf/gguf.h"
#include "gguf/imatrix.h"
#include "gguf/recipe.h"

namespace fewbit::gguf {

struct QuantizeOptions {
  std::string type;                                        // a name of recipe.h
  bool pure = false;                                       // the base type for every matrix, no mix by role
  std::vector<std::pair<std::string, Type>> tensor_types;  // (regular expression searched in the name, type); the first that matches wins
  bool allow_requantize = false;                           // round weights again that were already rounded, or that are exactly ternary
  const Imatrix* imatrix = nullptr;                        // split()
  std::string imatrix_path;                                // for the metadata of the result
  std::optional<FoldOptions> fold;                         // rotate the weights first (hadamard.md)
  u64 split_bytes = 0;                                     // > 0: several files of at most so many bytes of data
  const std::atomic<bool>* cancel = nullptr;               // looked at between pieces
};

struct TensorPlan {
  const Tensor* from = nullptr;
  Type to = Type::F32;
  u64 bytes = 0;
  bool copy = false;       // byte for byte
  bool exact = false;      // known in advance: the values do not change
  bool folded = false;     // stored as W diag(s) H
  bool embedding = false;  // ... and read by rows
  std::string note;        // why another type than the recipe's, or what is odd; "" if nothing
};

struct QuantizePlan {
  std::vector<TensorPlan> tensors;  // in the order of the file
  std::vector<KeyValue> metadata;
  std::vector<std::string> notes;  // about the whole, one line each
  FoldSigns signs;
  u64 bytes_before = 0, bytes_after = 0;
};
// Gives the entries of an old-form importance matrix the shapes of the file's weights; before plan_quantize.
Status fit_imatrix(Imatrix& imatrix, const File& file);

// Error: one line that names the tensor (refused rounding, missing importance) or the option.
Result<QuantizePlan> plan_quantize(const File& file, const QuantizeOptions& options, ThreadPool& pool);

struct TensorReport {
  std::string name;
  Type from, to;
  u64 bytes_before = 0, bytes_after = 0;
  f64 relative_rmse = 0;  // root of sum (decoded - value)^2 / sum value^2
  bool exact = false;     // every value is what it was
  i64 without_data = 0;   // experts for which the mean importance of the others stood
  i64 zero_columns = 0;   // columns that the calibration text never used: a small importance stands for 0
  std::string note;
};
// Called after every piece: elements done, elements in all, name of the tensor.
using QuantizeProgress = std::function<void(i64 done, i64 all, const std::string& tensor)>;

// Writes to `path` (with split_bytes: path without ".gguf" is the prefix).  Nothing appears there unless everything succeeded.
Result<std::vector<TensorReport>> quantize(const File& file, const QuantizePlan& plan, const QuantizeOptions& options,
                                           const std::string& path, ThreadPool& pool, const QuantizeProgress& progress = {});

// Do all values survive in `type`?  Tries rows until one does not.
bool is_exact_in(const Tensor& t, Type type, ThreadPool& pool);

}  // namespace fewbit::gguf
