#!/usr/bin/env bash
# Builds emulate_verify, the kernels and what they need and nothing else of the program, for sets that this machine may lack.
#   tests/build_emulated.sh arm OUT      64-bit ARM, by the cross compiler.  Of third parties only header libraries are used; they come from
#                                        the host's folder, one by one (its system headers are not ARM's).
#       qemu-aarch64 -cpu max OUT/emulate_verify 9              each 9th case with the matrix products; neoverse-n1: dot products;
#                                                               cortex-a57: neither
#   tests/build_emulated.sh simde OUT    SIMDe's versions of the AVX-512 and AVX-VNNI intrinsics (libsimde-dev): qemu has neither, so this is
#                                        how a machine with AVX2 alone tests those kernels.  Products are defined to the bit, so the lines
#                                        must equal those of every other instruction set.
#       FEWBIT_CPU_MAX=avx512_vnni OUT/emulate_verify 9         each 9th case; avx_vnni likewise
# After a build into build/, whose generated headers it uses.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${1:-}
out=${2:-}
flags=(-std=c++20 -DNDEBUG -ffp-contract=off -fno-math-errno -DFMT_HEADER_ONLY -DSPDLOG_FMT_EXTERNAL -Isrc -Ibuild/generated)
case $target/$out in
arm/?*)
  prefix=aarch64-linux-gnu- first='r16_neon_' leave_out='^$' optimise=-O2
  mkdir -p "$out/include"
  for library in fmt spdlog nlohmann; do ln -sfn "/usr/include/$library" "$out/include/$library"; done
  flags+=(-Wall -Wextra -Werror -isystem "$out/include")
  ;;
simde/?*)
  prefix= first='r16_av' leave_out='/(ceiling|int8_peak)\.cpp$' optimise=-O1
  mkdir -p "$out"
  flags+=(-DFEWBIT_EMULATED -mavx2 -mfma -mf16c -w -Itests/simde)
  ;;
*)
  sed -n '2,12s/^# \{0,1\}//p' "$0" >&2
  exit 2
  ;;
esac
compiler=("${prefix}g++")
command -v ccache >/dev/null && compiler=(ccache "${compiler[@]}")
# The slowest first, so that no processor is idle at the end.
sources=$(ls src/kernel/cpu/"$first"*.cpp
          ls src/{base,format,device,kernel}/*.cpp src/format/*/*.cpp src/device/{cpu,cuda}/*.cpp src/kernel/{cpu,exact,layout,ref}/*.cpp \
             src/kernel/cuda/absent.cpp tests/emulate_verify.cpp |
             grep -Ev '_(test|fuzz)\.cpp$|r16_|/ab(_product)?\.cpp$|/regex\.cpp$' | grep -Ev "$leave_out")
export out target optimise
# The last argument is the source.  Unrolled kernels over functions that emulate one instruction each take minutes to optimise.
compile() {
  local level=$optimise
  case $target/${!#} in simde/*r16_avx512_vnni* | simde/*r16_avx_vnni*) level=-O0 ;; esac
  "${@:1:$#-1}" $level -c -o "$out/$(echo "${!#}" | tr / _).o" "${!#}"
}
export -f compile
printf '%s\n' $sources | xargs -P "$(nproc)" -I{} bash -c 'compile "$@"' _ "${compiler[@]}" "${flags[@]}" {}
rm -f "$out/all.a"  # an archive: what nobody calls is left out
for s in $sources; do echo "$out/$(echo "$s" | tr / _).o"; done | xargs "${prefix}ar" rcs "$out/all.a"
static=()
[ "$target" = arm ] && static=(-static)
"${prefix}g++" "${static[@]}" -pthread -o "$out/emulate_verify" "$out/tests_emulate_verify.cpp.o" "$out/all.a"
