// A weight with everything that belongs to it: name, scale, bias and the transform of its input.  It has no data that anyone but Pass can
// multiply, and Pass always applies the transform, so a rotated weight cannot meet a plain activation (hadamard.md 8, rule 10).
#pragma once
#include <string>

#include "kernel/kernel.h"

namespace fewbit::model {

class Linear {
 public:
  explicit operator bool() const { return present_; }
  const std::string& name() const { return w_.name; }
  int n_in() const { return int(w_.cols); }
  int n_out() const { return int(w_.rows); }
  int n_experts() const { return int(w_.experts); }

 private:
  friend class Builder;  // makes it
  friend class Pass;     // multiplies by it
  friend class Input;    // prepares activations for it
  bool present_ = false;
  kernel::Weight w_;
  const kernel::Rotation* rotation_ = nullptr;  // of the input, or of the rows when it is looked up; nullptr: plain
};

}  // namespace fewbit::model
