#include "base/cpu_features.h"

#include <cstdlib>
#include <fstream>
#include <string_view>

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace fewbit {

static constexpr const char* names[] = {"scalar", "avx2", "avx_vnni", "avx512", "avx512_vnni", "neon", "neon_dotprod", "neon_i8mm"};

const char* isa_name(Isa isa) { return names[int(isa)]; }

static std::string processor_name() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    if (line.rfind("model name", 0) == 0 || line.rfind("Processor", 0) == 0) {
      size_t at = line.find(':');
      if (at != std::string::npos) return line.substr(at + 2 <= line.size() ? at + 2 : at + 1);
    }
  }
  return "unknown processor";
}

#if defined(FEWBIT_EMULATED)
// tests/build_simde.sh: every set is plain code.
static void detect(CpuFeatures& f) { f.avx2 = f.avx_vnni = f.avx512 = f.avx512_vnni = f.vbmi = true; }
#elif defined(__x86_64__)
static unsigned long long xgetbv0() {
  unsigned eax, edx;
  asm volatile("xgetbv" : "=a"(eax), "=d"(edx) : "c"(0));
  return static_cast<unsigned long long>(edx) << 32 | eax;
}

static void detect(CpuFeatures& f) {
  unsigned a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d)) return;
  const bool osxsave = c >> 27 & 1, avx = c >> 28 & 1, fma = c >> 12 & 1, f16c = c >> 29 & 1;
  if (!osxsave || !avx || (xgetbv0() & 6) != 6) return;  // the system must save the YMM registers
  const bool zmm = (xgetbv0() & 0xe6) == 0xe6;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return;
  const unsigned max_sub = a;
  f.avx2 = (b >> 5 & 1) && fma && f16c;
  if (f.avx2 && zmm) {
    f.avx512 = (b >> 16 & 1) && (b >> 30 & 1) && (b >> 17 & 1) && (b >> 31 & 1);
    f.avx512_vnni = f.avx512 && (c >> 11 & 1);
    f.vbmi = f.avx512 && (c >> 1 & 1);
  }
  if (f.avx2 && max_sub >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d)) f.avx_vnni = a >> 4 & 1;
}
#elif defined(__aarch64__)
static void detect(CpuFeatures& f) {
  f.neon = true;
  f.dotprod = getauxval(AT_HWCAP) & HWCAP_ASIMDDP;
  f.i8mm = getauxval(AT_HWCAP2) & HWCAP2_I8MM;
}
#else
static void detect(CpuFeatures&) {}
#endif

static void cap(CpuFeatures& f) {
  const char* env = std::getenv("FEWBIT_CPU_MAX");
  if (!env) return;
  std::string_view max = env;
  auto below = [&](std::string_view s) { return max == s; };
  if (below("scalar")) {
    f.avx2 = f.avx_vnni = f.avx512 = f.avx512_vnni = f.vbmi = f.neon = f.dotprod = f.i8mm = false;
  } else if (below("avx2")) {
    f.avx_vnni = f.avx512 = f.avx512_vnni = f.vbmi = false;
  } else if (below("avx_vnni")) {
    f.avx512 = f.avx512_vnni = f.vbmi = false;
  } else if (below("avx512")) {
    f.avx_vnni = f.avx512_vnni = false;
  } else if (below("neon")) {
    f.dotprod = f.i8mm = false;
  } else if (below("dotprod") || below("neon_dotprod")) {
    f.i8mm = false;
  }
}

bool CpuFeatures::has(Isa isa) const {
  switch (isa) {
    case Isa::scalar:
      return true;
    case Isa::avx2:
      return avx2;
    case Isa::avx_vnni:
      return avx_vnni;
    case Isa::avx512:
      return avx512;
    case Isa::avx512_vnni:
      return avx512_vnni;
    case Isa::neon:
      return neon;
    case Isa::neon_dotprod:
      return dotprod;
    case Isa::neon_i8mm:
      return i8mm;
  }
  return false;
}

Isa CpuFeatures::best() const {
  if (avx512_vnni && vbmi) return Isa::avx512_vnni;
  if (avx_vnni) return Isa::avx_vnni;
  if (avx2) return Isa::avx2;
  if (i8mm) return Isa::neon_i8mm;
  if (dotprod) return Isa::neon_dotprod;
  if (neon) return Isa::neon;
  return Isa::scalar;
}

std::string CpuFeatures::sets() const {
  std::string s;
  for (int i = 1; i < 8; i++) {
    if (has(Isa(i))) s += (s.empty() ? "" : " ") + std::string(names[i]);
  }
  return s.empty() ? "scalar" : s;
}

const CpuFeatures& cpu_features() {
  static const CpuFeatures f = [] {
    CpuFeatures made;
    made.name = processor_name();
    detect(made);
    cap(made);
    return made;
  }();
  return f;
}

}  // namespace fewbit
