// The prism.hadamard.* contract of a file: which weights want their input rotated, and by what.  spec: hadamard.md.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "gguf/gguf.h"
#include "model/config.h"

namespace fewbit::model {

// Parts of the contract left out on purpose, for the tests that show each of them matters.  Read from FEWBIT_TEST_OMIT by
// omissions_from_environment: a comma-separated list of signs, transform, permutation, inverse, plain=TENSOR, force.
struct Omissions {
  bool signs = false, transform = false, permutation = false, inverse = false;
  std::string plain;   // this listed weight gets no transform (which fails the load ...
  bool force = false;  // ... unless forced)
};
Omissions omissions_from_environment();

struct Hadamard {
  int block = 0;
  bool v_grouped = false;                    // columns of ssm_out are in training order
  bool embedding = false;                    // token_embd.weight holds rotated rows
  bool tied = false;                         // version 2: the head reads them too
  std::map<i64, std::vector<f32>> signs;     // by width; empty: identity
  std::set<std::string, std::less<>> names;  // weights whose input is transformed

  // Nothing if the file carries no prism.hadamard.* key; otherwise every refusal of hadamard.md section 8 except the claims (rule 10),
  // which the loader makes good.
  static Result<std::optional<Hadamard>> read(const gguf::File& file, const Config& config);
};

}  // namespace fewbit::model
