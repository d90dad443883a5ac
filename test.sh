#!/usr/bin/env bash
# Installs what is needed, builds fewbit and runs every test.  CI=true: absent test models, nvcc or tools are failures.
#   ./test.sh            tests, format check, emulated instruction sets, the CUDA build, sanitizers and a minute of fuzzing for the file reader
#   ./test.sh quick      the unit and whole-program tests only
#   ./test.sh deep       all of it, the sanitizers over every module, and a minute of every fuzz target
set -euo pipefail
cd "$(dirname "$0")"
. tools/packages.sh
need "${build_packages[@]}" "${test_packages[@]}"
mode=${1:-all}
step() { printf '\n== %s (%ds)\n' "$*" "$SECONDS"; }

step "SmolLM2-135M-Instruct for the tests"
if ! tools/fetch-smollm2.sh; then
  echo "SmolLM2 could not be fetched: its tests are skipped"
fi

step "build"
cmake --preset release -DFEWBIT_TESTS=ON >/dev/null
cmake --build build

step "tests"
ctest --test-dir build --output-on-failure -j "$(nproc)"
[ "$mode" = quick ] && exit 0

step "format and lint"
tools/lint.sh

step "instruction sets under emulation"
tests/emulate.sh

step "CUDA compiles"
if command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ]; then
  cmake --preset cuda-sm90 -DFEWBIT_TESTS=OFF >/dev/null
  cmake --build build-cuda --target fewbit
else
  echo "nvcc is not installed: the CUDA backend was not compiled"
  [ "${CI:-}" != true ]
fi

step "sanitizers: what reads files and text"
cmake --preset fuzz >/dev/null
targets=(base format gguf text)
[ "$mode" != deep ] || targets+=(device kernel model runtime whole)
cmake --build build-fuzz --target "${targets[@]/%/_test}" gguf_fuzz
only=$(printf '|%s' "${targets[@]}")
ctest --test-dir build-fuzz --output-on-failure -j "$(nproc)" -R "^(${only:1})[.]"

step "fuzz"
if [ "$mode" = deep ]; then
  tests/fuzz.sh "${FEWBIT_FUZZ_SECONDS:-60}"  # of each target
else
  tests/fuzz.sh 60 gguf_fuzz
fi
step "all passed"
