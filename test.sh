#!/usr/bin/env bash
# Installs what is needed, builds fewbit and runs every test.  CI=true: absent test models, nvcc or tools are failures.
#   ./test.sh            tests, format check, emulated instruction sets, the CUDA build
#   ./test.sh quick      the unit and whole-program tests only
#   ./test.sh deep       everything, then the sanitizers and a minute of fuzzing
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
if [ "$mode" = deep ]; then
  step "sanitizers: everything that reads files and text"
  cmake --preset debug >/dev/null
  cmake --build build-debug --target base_test format_test gguf_test text_test
  ctest --test-dir build-debug --output-on-failure -j "$(nproc)" -R '^(base|format|gguf|text)\.'
  step "fuzz"
  tests/fuzz.sh "${FEWBIT_FUZZ_SECONDS:-15}"  # of each target
fi
step "all passed"
