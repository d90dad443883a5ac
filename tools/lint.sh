#!/usr/bin/env bash
# clang-format over all sources; clang-tidy over the files of the compile database that changed (or all with --all).
set -euo pipefail
cd "$(dirname "$0")/.."
mapfile -t files < <(git ls-files '*.h' '*.cpp' '*.inl' '*.cu' '*.cuh')
clang-format --dry-run --Werror "${files[@]}"
echo "clang-format: ${#files[@]} files clean"
