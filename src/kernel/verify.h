// Holds every operation of a table to the double-precision definition (kernel/ref): every op x type x shape, guards around outputs,
// and, with `mutate`, seeded faults that must all be noticed.
#pragma once
#include <atomic>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "kernel/kernel.h"

namespace fewbit::kernel {

// missing: a kernel that the table should have; not_offered: one that this kind of device leaves to the CPU (see verify.cpp); listed: a
// row that was asked for without running it.
enum class Verdict { ok, fail, missing, not_offered, listed };

struct VerifyRow {
  std::string op, type, shape, kernel;
  int columns = 0;
  Verdict verdict = Verdict::missing;
  f64 nmse = 0, max_error = 0;  // max_error: largest difference over the root mean square of the reference
  std::string note;             // why it failed or is missing; the class of a mutation
};

struct VerifyOptions {
  std::string op, type;                          // only these, if not empty
  std::function<bool(std::string_view)> kernel;  // only kernels with such a name, if set
  bool mutate = false;                           // every row becomes one fault; ok = it was caught
  bool list = false;                             // rows without running them
  bool repack = true;                            // as PlaceOptions::repack: false = the kernels of the file's own layout
  int every = 1;                                 // only each n-th case (tests)
  const std::atomic<bool>* cancel = nullptr;     // ends before the next case once it is true
};

struct VerifyCount {
  std::string name;  // "" for all rows, else a class of mutation
  int ok = 0, fail = 0, missing = 0, not_offered = 0, listed = 0;
};

struct VerifyReport {
  std::vector<VerifyRow> rows;
  std::vector<VerifyCount> counts;  // the first counts everything
};

// on_row sees each row as it is made.  Throws NoMemory (verify_side.h).
VerifyReport verify(Device& device, const Kernels& table, const VerifyOptions& options,
                    const std::function<void(const VerifyRow&)>& on_row);

// A few cases per kernel of the table in under 50 ms, for start-up.  The error names the broken kernel, or says what memory is missing.
// FEWBIT_TEST_BREAK=NAME (tests) spoils the results of every kernel whose name contains NAME.
Status self_test(Device& device, const Kernels& table);

// kernels_for(), and on a CPU the self-test before the table's first use in this process.
Result<const Kernels*> tested_kernels_for(Device& device, Path path);

}  // namespace fewbit::kernel
