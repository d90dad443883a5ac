#!/usr/bin/env bash
# clang-format over the sources (the CUDA files and the include order of target_begin.inl are not formatted yet).  clang-tidy: .clang-tidy is its configuration;
# `clang-tidy -p build FILE` by hand.
set -euo pipefail
cd "$(dirname "$0")/.."
mapfile -t files < <(git ls-files '*.h' '*.cpp' '*.inl' | grep -v -e /cuda/ -e target_begin.inl)
clang-format --dry-run --Werror "${files[@]}"
echo "clang-format: ${#files[@]} files clean"
