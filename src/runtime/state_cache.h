// What sequences keep between steps: pages of keys and values, shared and counted, and slots of recurrent state.
//
// A page holds page_tokens positions of one sequence in every attention layer; its number is the same in all of them.  A page is written
// only by the one sequence that holds it: a shared page is copied before the next position goes into it. A recurrent state cannot be cut
// back, so checkpoints of it are copies in slots of their own.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "device/device.h"
#include "model/model.h"

namespace fewbit::runtime {

struct StateOptions {
  int n_seqs = 1, n_ctx = 0;
  int checkpoints = 1;  // per sequence, taken from one pool
  Type k_type = Type::F16, v_type = Type::F16;
};

class StateCache {
 public:
  static constexpr int page_tokens = 64;

  // Error: a head size that is not a whole number of blocks of the type.
  static Status check(const model::StateSpec& spec, const StateOptions& options);
  static u64 kv_bytes(const model::StateSpec& spec, const StateOptions& options);
  static u64 recurrent_bytes(const model::StateSpec& spec, const StateOptions& options);

  StateCache(Device& device, const model::StateSpec& spec, const StateOptions& options);
  Status allocate();

  std::span<const model::LayerState> layers() const { return layers_; }
  int max_pages() const { return max_pages_; }
  bool recurrent() const { return n_slots_ > 0; }

  bool exists(int seq) const { return seq >= 0 && seq < int(seqs_.size()) && seqs_[size_t(seq)].used; }
  Result<int> add();  // error: all sequences are in use
  void remove(int seq);
  int length(int seq) const { return seqs_[size_t(seq)].length; }
  int slot(int seq) const { return recurrent() ? seq : 0; }
  std::span<const i32> pages(int seq) const { return seqs_[size_t(seq)].pages; }

  // Makes pages for n more positions, copying a shared one; then they count with advance().  The caller keeps within n_ctx.
  void reserve(int seq, int n);
  void advance(int seq, int n) { seqs_[size_t(seq)].length += n; }

  int truncate(int seq, int n);  // length reached
  Status checkpoint(int seq);
  Result<int> fork(int seq);

 private:
  struct Sequence {
    bool used = false;
    int length = 0;
    std::vector<i32> pages;
  };
  struct Checkpoint {
    int seq = -1, length = 0;
    u64 age = 0;
  };
  i32 take_page();
  void drop_page(i32 page);
  void copy_page(i32 to, i32 from);
  void copy_slot(int to, int from);
  void zero_slot(int slot);

  Device& device_;
  model::StateSpec spec_;
  StateOptions options_;
  int max_pages_ = 0, n_slots_ = 0;
  u64 clock_ = 0;
  std::vector<Buffer> buffers_;
  std::vector<model::LayerState> layers_;
  std::vector<Sequence> seqs_;
  std::vector<Checkpoint> checkpoints_;  // of slot n_seqs + i
  std::vector<i32> free_pages_;
  std::vector<int> users_;  // of each page
};

}  // namespace fewbit::runtime
