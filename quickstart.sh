#!/usr/bin/env bash
# Installs what is needed, builds fewbit and lets the model that ships with it tell a story.
set -euo pipefail
cd "$(dirname "$0")"
. tools/packages.sh
need "${build_packages[@]}"
cmake --preset release -DFEWBIT_TESTS=OFF >/dev/null
cmake --build build --target fewbit
exec build/fewbit run -n 160 -p "${*:-Tell me a short story about a fox and a lantern.}"
