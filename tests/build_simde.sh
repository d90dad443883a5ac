#!/usr/bin/env bash
# Builds emulate_verify with SIMDe's versions of the AVX-512 and AVX-VNNI intrinsics: qemu has neither, so this is how a machine with AVX2
# alone tests those kernels.  Products are defined to the bit, so the lines must equal those of every other instruction set.
#   tests/build_simde.sh OUT_FOLDER      (after a build into build/, whose generated headers it uses; needs libsimde-dev)
#   FEWBIT_CPU_MAX=avx512_vnni OUT_FOLDER/emulate_verify 9        each 9th case; avx_vnni likewise
set -euo pipefail
cd "$(dirname "$0")/.."
out=$1
mkdir -p "$out"
compiler=(g++)
command -v ccache >/dev/null && compiler=(ccache "${compiler[@]}")
flags=(-std=c++20 -DNDEBUG -DFEWBIT_EMULATED -ffp-contract=off -fno-math-errno -mavx2 -mfma -mf16c -w -DFMT_HEADER_ONLY -DSPDLOG_FMT_EXTERNAL
       -Itests/simde -Isrc -Ibuild/generated)
# The slowest first, so that no processor is idle at the end.
sources=$(ls src/kernel/cpu/r16_av*.cpp
          ls src/{base,format,device,kernel}/*.cpp src/format/*/*.cpp src/device/{cpu,cuda}/*.cpp src/kernel/{cpu,exact,layout,ref}/*.cpp \
             src/kernel/cuda/absent.cpp tests/emulate_verify.cpp |
             grep -Ev '_(test|fuzz)\.cpp$|r16_|/ab(_product)?\.cpp$|/regex\.cpp$|/(ceiling|int8_peak)\.cpp$')
export out
# The last argument is the source.  Unrolled kernels over functions that emulate one instruction each take minutes to optimise.
compile() {
  local level=-O1
  case ${!#} in *r16_avx512_vnni* | *r16_avx_vnni*) level=-O0 ;; esac
  "${@:1:$#-1}" $level -c -o "$out/$(echo "${!#}" | tr / _).o" "${!#}"
}
export -f compile
printf '%s\n' $sources | xargs -P "$(nproc)" -I{} bash -c 'compile "$@"' _ "${compiler[@]}" "${flags[@]}" {}
rm -f "$out/all.a"  # an archive: what nobody calls is left out
for s in $sources; do echo "$out/$(echo "$s" | tr / _).o"; done | xargs ar rcs "$out/all.a"
g++ -pthread -o "$out/emulate_verify" "$out/tests_emulate_verify.cpp.o" "$out/all.a"
