// Paired, interleaved comparison of two ways to do one operation: the same inputs, in turns (A B B A), with A against itself as a control
// in the same run.  The machine is shared and its clock moves, so nothing but ratios of neighbours is believed.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernel/kernel.h"

namespace fewbit::kernel {

// Something that can be timed: a kernel of this process, or another build's in a process of its own.
class Contestant {
 public:
  virtual ~Contestant() = default;
  // Does the operation `times` times; the seconds that took.
  virtual f64 run(int times) = 0;
  // The bits of its result, to compare.
  virtual std::vector<u32> bits() = 0;
  virtual bool lost() const { return false; }  // another build's process answers no more; times and bits mean nothing then
  virtual u64 bytes() const { return 0; }      // of weights that one run reads
  virtual f64 products() const { return 0; }   // multiply-adds of one run
};

struct AbOptions {
  int pairs = 101;      // rounds of A B B A
  f64 seconds = 0.002;  // at least this much per timing
  u64 seed = 1;         // of the bootstrap
  f64 floor = 0;        // differences up to this share count as none
  const std::atomic<bool>* cancel = nullptr;
};
constexpr int most_repetitions = 1'000'000;  // of a timing

struct Ratio {
  f64 median = 1, low = 1, high = 1;  // B's time over A's, and its 95 % interval (bootstrap over rounds)
};

struct AbResult {
  Ratio ratio, control;              // control: A against A
  f64 seconds_a = 0, seconds_b = 0;  // medians of one run
  bool same_bits = false;
  int rounds = 0;
  enum Verdict { no_difference, a_faster, b_faster } verdict = no_difference;
  std::string text() const;
};

// The statistics alone: one entry per round, each the time of two runs of A, of B, and of the control's two sides.  A verdict needs an
// interval that lies further from 1 than the control's does on either side: what A against itself shows, B may show by chance.
struct Round {
  f64 a = 0, b = 0, control_a = 0, control_b = 0;
};
AbResult judge_rounds(const std::vector<Round>& rounds, u64 seed, f64 floor = 0);

// Ends early, without a verdict, when one of them is lost or `cancel` is set.
AbResult compare(Contestant& a, Contestant& b, const AbOptions& options);

// ---- products on the CPU ---------------------------------------------------------------------------------------------------------

struct AbShape {
  std::string op = "matmul";  // matmul, moe_glu, moe_down
  Type type = Type::PQ2_0;
  i64 rows = 2048, n = 2048;
  int cols = 1;      // columns; for experts: tokens per expert
  i64 experts = 0;   // how many are used at once
  int panel = 0;     // columns that a tile of 16 rows is multiplied with at once, at most (0 = as the kernel prefers)
  bool cold = true;  // weights that do not fit in three times the last cache
  f64 planted = 0;   // part of the rows (on a GPU: of the launches) that is done twice, to see whether it is noticed
  const std::atomic<bool>* cancel = nullptr;  // on a CPU: ends a timing early, which means nothing then
};
// The rows that are done twice for `planted` on the CPU: whole tiles of 16.  Error: so few tiles that what is planted would differ from
// the share asked for by more than a fifth of it.
Result<i64> planted_rows(const AbShape& shape);
// Names of the kernels that this processor can run for a type: "gemv.PQ2_0/avx2.bits2.r16", ...
std::vector<std::string> kernel_names(Type type);
// `kernel`: such a name; or what follows its '/', or only the instruction set (then its packed layout, if it has one for the type).
// Error: no such kernel here.
Result<std::unique_ptr<Contestant>> cpu_contestant(Device& device, const std::string& kernel, const AbShape& shape);

// ---- products on a GPU -----------------------------------------------------------------------------------------------------------

// The format in a kernel's name, its last word ("auto.b2.g128.PQ2_0", "PQ2_0"); `otherwise` if it has none.
Type named_format(const std::string& kernel, Type otherwise);

namespace cuda {  // kernel/cuda, or none in a build without CUDA
// What multiplies a format there: "auto.b2.g128.PQ2_0" (what a model gets), "matvec...." (by eights at every width), "wide....".
std::vector<std::string> kernel_names(Device& device, Type type);
// `kernel`: such a name, its first word, or a format (then "auto").  A format in it goes before the shape's, so that formats can be
// compared.  Error: no such kernel for the format, the operation or the width.
Result<std::unique_ptr<Contestant>> contestant(Device& device, const std::string& kernel, const AbShape& shape);
}  // namespace cuda

}  // namespace fewbit::kernel
