// `fewbit verify -o csv` without the rest of the program and its libraries, for processors under emulation: tests/build_emulated.sh arm
// builds it for 64-bit ARM.  Products are defined to the bit, so its lines for them must equal those of every other processor.
//
//   emulate_verify [N [mutate]]    each N-th case; or the faults in them
#include <cstdio>
#include <cstdlib>

#include "kernel/verify.h"

int main(int argc, char** argv) {
  using namespace fewbit;
  auto device = open_device("cpu", {.threads = 1});
  if (!device.ok()) return std::fprintf(stderr, "%s\n", device.error().what.c_str()), 1;
  const kernel::Kernels* table = *kernel::kernels_for(**device, kernel::Path::fast);
  kernel::VerifyOptions options;
  if (argc > 1) options.every = std::atoi(argv[1]);
  options.mutate = argc > 2;
  int failed = 0;
  const auto report = kernel::verify(**device, *table, options, [&](const kernel::VerifyRow& r) {
    const bool ok = r.verdict == kernel::Verdict::ok;
    failed += !ok;
    std::printf("%s,%s,%s,%d,%s,%s,%.3e,%.3e,%s\n", r.op.c_str(), r.type.c_str(), r.shape.c_str(), r.columns, r.kernel.c_str(),
                ok ? "OK" : "FAIL", r.nmse, r.max_error, r.note.c_str());
  });
  std::fprintf(stderr, "%s: %d OK, %d not\n", table->name, report.counts[0].ok, failed);
  return failed > 0;
}
