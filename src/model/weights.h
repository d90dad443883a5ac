// From named tensors to weights in place: shape and type of every tensor checked before anything reads it, rotated names claimed,
// everything counted.  Runs dry (nothing is allocated, only counted) for the memory plan, and then for real.
#pragma once
#include <atomic>
#include <deque>
#include <functional>
#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "gguf/gguf.h"
#include "kernel/kernel.h"
#include "model/config.h"
#include "model/hadamard.h"
#include "model/linear.h"

namespace fewbit::model {

struct LoadOptions {
  kernel::PlaceOptions place;
  bool act_int8 = false;   // BitNet's own activation rounding in front of its projections
  int positions = 0;       // length of the rope table
  bool in_memory = false;  // the file's tensors are pages that are there from the start (synthetic), not read when touched
  bool dry = false;        // count only
  int dense_groups = 0;    // so many of the groups of weights, from the first on, are placed in their densest form
  Omissions omit;
  std::function<void(f64 fraction)> progress;
  const std::atomic<bool>* cancel = nullptr;  // looked at between tensors
};

// Bytes: of the file that stay mapped and are read in place; allocated for packed weights; for norms, signs and the rope table.
// `peak`: the most of all that at any time of the load, with what is still to be packed.  Groups of weights that were placed together.
struct Footprint {
  u64 mapped = 0, packed = 0, other = 0, peak = 0;
  int groups = 0;
};

// What a loaded model owns.
struct Storage {
  std::vector<Buffer> buffers;
  std::deque<std::vector<u8>> copies;        // rows brought into another order, where the table reads them in place
  std::deque<std::vector<f32>> host_floats;  // scales and biases
  std::deque<kernel::Rotation> rotations;
  std::vector<kernel::Weight> weights;
  Footprint footprint;
};

std::string block_name(int layer, std::string_view suffix);  // "blk.3.attn_q.weight"

class Builder {
 public:
  Builder(const gguf::File& file, const Config& config, std::optional<Hadamard> hadamard, kernel::Ctx& ctx, const LoadOptions& options,
          Storage& storage);

  const Config& config() const { return config_; }
  bool has(const std::string& tensor) const { return file_.tensor(tensor) != nullptr; }

  // A matrix (experts, n_out, n_in); `.scale` and `.bias` of its name come along.  With `rows`, row i of the weight is row rows[i] of a
  // tensor of source_rows rows.
  struct Want {
    Linear* to;
    std::string name;
    i64 n_in, n_out;
    i64 experts = 1;
    bool optional = false;
    std::vector<i64> rows = {};
    i64 source_rows = 0;
  };
  // Errors stay: after the first one every call does nothing, and finish() reports it.
  void place(kernel::GroupUse use, std::vector<Want> wants);
  void place(Want want) { place(kernel::GroupUse::separate, {std::move(want)}); }
  // The embedding table, and the head that it is too when tied.
  void place_embedding(Linear& embed, Linear& head);
  // Norms and other vectors: floats of exactly this shape, on the device.
  const f32* floats(const std::string& name, std::initializer_list<i64> dims, bool optional = false);
  const f32* rope_table();
  // A pair that only a fused operation multiplies must agree on what it reads.
  void require_same_input(const Linear& a, const Linear& b);

  void fail(Error e);
  bool ok() const { return ok_; }
  // The first error, or what is wrong only once everything was asked for: rotated names that nobody claimed.
  Status finish();

 private:
  const gguf::Tensor* find(const std::string& name, bool optional);
  bool check(const Want& want, const gguf::Tensor& t);
  std::vector<f32> host_floats(const gguf::Tensor& t);
  const std::vector<f32>* companion(const std::string& weight, std::string_view suffix, std::vector<i64> allowed);
  const kernel::Rotation* rotation_for(const std::string& name, i64 width);
  const kernel::Rotation* rotation(i64 width, bool permuted);
  const f32* upload(std::span<const f32> values);
  std::span<const u8> reordered(const Want& want, const gguf::Tensor& t);
  void count(const kernel::HostTensor& host, const kernel::PlaceOptions& place, u64 file_bytes, bool copied);
  void settle(const gguf::Tensor& t, bool in_place);

  const gguf::File& file_;
  const Config& config_;
  std::optional<Hadamard> hadamard_;
  kernel::Ctx& ctx_;
  const LoadOptions& options_;
  Storage& out_;
  std::set<std::string, std::less<>> used_, claimed_;
  std::map<std::pair<i64, bool>, const kernel::Rotation*> rotations_;
  u64 slab_left_ = 0, bytes_done_ = 0, bytes_total_ = 0;
  u64 waiting_ = 0;  // in memory, not placed yet
  u8* slab_ = nullptr;
  bool ok_ = true;
  Error error_;
};

}  // namespace fewbit::model
