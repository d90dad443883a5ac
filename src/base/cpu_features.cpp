#include "base/cpu_features.h"

#include <cstdlib>
#include <fstream>
#include <iterator>
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
// tests/build_emulated.sh simde: every set is plain code.
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

// A cap, and what it takes away.  Only this architecture's: another's would change nothing, and its tests would test nothing.
struct Cap {
  std::string_view name;
  void (*apply)(CpuFeatures&);
};
static constexpr Cap caps[] = {
    {"scalar", [](CpuFeatures& f) { f.avx2 = f.avx_vnni = f.avx512 = f.avx512_vnni = f.vbmi = f.neon = f.dotprod = f.i8mm = false; }},
#if defined(__x86_64__)
    {"avx2", [](CpuFeatures& f) { f.avx_vnni = f.avx512 = f.avx512_vnni = f.vbmi = false; }},
    {"avx_vnni", [](CpuFeatures& f) { f.avx512 = f.avx512_vnni = f.vbmi = false; }},
    {"avx512", [](CpuFeatures& f) { f.avx_vnni = f.avx512_vnni = false; }},
    {"avx512_vnni", [](CpuFeatures&) {}},
#elif defined(__aarch64__)
    {"neon", [](CpuFeatures& f) { f.dotprod = f.i8mm = false; }},
    {"dotprod", [](CpuFeatures& f) { f.i8mm = false; }},
    {"i8mm", [](CpuFeatures&) {}},
#endif
};

static const Cap* cap_of(std::string_view name) {
  if (name.starts_with("neon_")) name.remove_prefix(5);  // as isa_name() has it
  for (const Cap& c : caps)
    if (c.name == name) return &c;
  return nullptr;
}

static std::string_view cap_wanted() {
  const char* env = std::getenv("FEWBIT_CPU_MAX");
  return env ? env : "";
}

std::string cpu_cap_error() {
  const std::string_view max = cap_wanted();
  if (max.empty() || cap_of(max)) return "";
  std::string sets;
  for (const Cap& c : caps) {
    const bool last = &c == std::end(caps) - 1;
    sets += std::string(sets.empty() ? "" : last ? " or " : ", ") + std::string(c.name);
  }
  return "FEWBIT_CPU_MAX: '" + std::string(max) + "' is not " + sets;
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
    if (const Cap* cap = cap_of(cap_wanted())) cap->apply(made);
    return made;
  }();
  return f;
}

}  // namespace fewbit
