// The cases of `verify`: each can run on any table and says which faults apply to it.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "kernel/verify_mutate.h"
#include "kernel/verify_side.h"

namespace fewbit::kernel {

struct CaseResult {
  std::vector<f32> out;
  bool guards = true;
  std::string kernel, missing;  // missing: why there is no kernel
};

struct Case {
  std::string op, type, shape;
  int columns = 0;
  // The inputs depend on nothing but the case, and the fault.
  std::function<CaseResult(Side&, Fault)> run;
  std::vector<Fault> faults;
};

// Cases of products with weights of one type (verify_weights.cpp) and of everything else (verify_steps.cpp).  `layout_of`: what the
// table under test takes as input for the type; the reference rounds its inputs the same way.
struct CaseRequest {
  const Kernels* table = nullptr;
  bool quick = false;
};
void weight_cases(const CaseRequest& request, std::vector<Case>& cases);
void step_cases(const CaseRequest& request, std::vector<Case>& cases);

// Inputs (cols, n) with a fault in them, as far as it is one of inputs.
void spoil_inputs(Fault fault, std::vector<f32>& x, i64 n, i64 cols);

}  // namespace fewbit::kernel
