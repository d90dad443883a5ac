#!/usr/bin/env bash
# Builds emulate_verify for 64-bit ARM with the cross compiler: the kernels and what they need, nothing else of the program.
# Of third parties only header libraries are used; they come from the host's folder, one by one (its system headers are not ARM's).
#   tests/build_arm.sh OUT_FOLDER        (after a build into build/, whose generated headers it uses)
#   qemu-aarch64 -cpu max OUT_FOLDER/emulate_verify 9             each 9th case with the matrix products; neoverse-n1: dot products;
#                                                                 cortex-a57: neither
set -euo pipefail
cd "$(dirname "$0")/.."
out=$1
mkdir -p "$out/include"
for library in fmt spdlog nlohmann; do ln -sfn "/usr/include/$library" "$out/include/$library"; done
compiler=(aarch64-linux-gnu-g++)
command -v ccache >/dev/null && compiler=(ccache "${compiler[@]}")
flags=(-std=c++20 -O2 -DNDEBUG -Wall -Wextra -Werror -ffp-contract=off -fno-math-errno -DFMT_HEADER_ONLY -DSPDLOG_FMT_EXTERNAL
       -Isrc -Ibuild/generated -isystem "$out/include")
# The slowest first, so that no processor is idle at the end.
sources=$(ls src/kernel/cpu/r16_neon_*.cpp
          ls src/{base,format,device,kernel}/*.cpp src/format/*/*.cpp src/device/{cpu,cuda}/*.cpp src/kernel/{cpu,exact,layout,ref}/*.cpp \
             src/kernel/cuda/absent.cpp tests/emulate_verify.cpp | grep -Ev '_(test|fuzz)\.cpp$|r16_|/ab(_product)?\.cpp$|/regex\.cpp$')
export out
compile() { "$@" -c -o "$out/$(echo "${!#}" | tr / _).o"; }  # the last argument is the source
export -f compile
printf '%s\n' $sources | xargs -P "$(nproc)" -I{} bash -c 'compile "$@"' _ "${compiler[@]}" "${flags[@]}" {}
rm -f "$out/all.a"  # an archive: what nobody calls is left out
for s in $sources; do echo "$out/$(echo "$s" | tr / _).o"; done | xargs aarch64-linux-gnu-ar rcs "$out/all.a"
aarch64-linux-gnu-g++ -static -pthread -o "$out/emulate_verify" "$out/tests_emulate_verify.cpp.o" "$out/all.a"
