#include "kernel/int8_peak.h"

#include <gtest/gtest.h>

namespace fewbit::kernel {

TEST(Int8Peak, EverySetOfThisMachineWithItsBestLast) {
  ThreadPool one(1);
  const std::vector<Int8Peak> peaks = measure_int8_peak(one, 0.001);
  const CpuFeatures& cpu = cpu_features();
  EXPECT_EQ(peaks.size(), size_t(cpu.avx2) + cpu.avx_vnni + cpu.avx512_vnni + cpu.dotprod + cpu.i8mm);
  for (const Int8Peak& p : peaks) {
    EXPECT_TRUE(cpu.has(p.set)) << isa_name(p.set);
    // From an emulator to the widest core at 6 GHz: two vectors of 64 products a cycle.
    EXPECT_GT(p.gops, 0.01) << isa_name(p.set);
    EXPECT_LT(p.gops, 2 * 64 * 2 * 6.0) << isa_name(p.set);
  }
}

}  // namespace fewbit::kernel
