#!/usr/bin/env bash
# tools/lint.sh        clang-format over the sources (the include order of target_begin.inl matters, so it is left alone)
# tools/lint.sh tidy   clang-tidy too, with .clang-tidy: a few seconds for each file [FILE...]
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "${1:-}" = tidy ]; then
  shift
  cmake --preset tidy >/dev/null
  cmake --build build-tidy --target fewbit_codebooks fewbit_version >/dev/null
  # ARM files need an ARM compiler, and the r16_*.cpp (instances of r16.inl) are written for GCC.
  [ $# -gt 0 ] || mapfile -t files < <(git ls-files 'src/*.cpp' 'tests/*.cpp' | grep -v -e /cuda/ -e neon -e _fuzz.cpp -e r16_)
  [ $# -eq 0 ] || files=("$@")
  printf '%s\n' "${files[@]}" | xargs -P "${LINT_JOBS:-$(nproc)}" -n 1 clang-tidy -p build-tidy --quiet
  echo "clang-tidy: ${#files[@]} files clean"
  exit
fi
mapfile -t files < <(git ls-files '*.h' '*.cpp' '*.inl' '*.cu' '*.cuh' | grep -v -e target_begin.inl)
clang-format --dry-run --Werror "${files[@]}"
echo "clang-format: ${#files[@]} files clean"
