// What this processor can do.  FEWBIT_CPU_MAX, a set's name, caps what is reported, so that a newer machine can run (and time) an older
// one's code.
#pragma once
#include <string>

namespace fewbit {

enum class Isa : int { scalar = 0, avx2, avx_vnni, avx512, avx512_vnni, neon, neon_dotprod, neon_i8mm };

const char* isa_name(Isa isa);

struct CpuFeatures {
  bool avx2 = false;         // AVX2 + FMA + F16C
  bool avx_vnni = false;     // 256-bit vpdpbusd, VEX-encoded
  bool avx512 = false;       // F, BW, DQ, VL (and VBMI where `vbmi`)
  bool avx512_vnni = false;  // 512-bit vpdpbusd
  bool vbmi = false;
  bool neon = false, dotprod = false, i8mm = false;
  std::string name;  // as the system gives it

  bool has(Isa isa) const;
  Isa best() const;          // the widest set our kernels have a table for
  std::string sets() const;  // "avx2 avx512 avx512_vnni"
};

const CpuFeatures& cpu_features();  // detected once

// Empty, or one line that FEWBIT_CPU_MAX names no set: it would be ignored, and another set than the one meant would be tested.
std::string cpu_cap_error();

}  // namespace fewbit
