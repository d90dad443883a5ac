#!/usr/bin/env bash
# Builds the fuzz targets (clang) and runs each: tests/fuzz.sh [SECONDS PER TARGET] [TARGET...]
# Inputs that were found stay in build-fuzz/corpus.  Exit 1 if a target found a fault; the input that shows it lies in build-fuzz/faults.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-20}
shift || true
cmake --preset fuzz >/dev/null
targets=("$@")
cmake --build build-fuzz --target "${targets[@]:-fuzz_targets}"
if [ ${#targets[@]} -eq 0 ]; then
  for t in build-fuzz/*_fuzz; do [ -x "$t" ] && targets+=("$(basename "$t")"); done
fi
mkdir -p build-fuzz/faults
failed=0
for t in "${targets[@]}"; do
  corpus=build-fuzz/corpus/$t
  mkdir -p "$corpus"
  FEWBIT_FUZZ_SEEDS=$corpus build-fuzz/"$t" -runs=0 >/dev/null 2>&1
  dict=$(find src -name "$t.dict")
  echo "$t: $(ls "$corpus" | wc -l) inputs, $seconds s"
  if ! build-fuzz/"$t" -seed=1 -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=16384 -print_final_stats=1 \
       -artifact_prefix="build-fuzz/faults/$t-" ${dict:+-dict="$dict"} "$corpus" >build-fuzz/"$t".log 2>&1; then
    failed=1
    grep -E "ERROR|SUMMARY|check failed|Test unit written" build-fuzz/"$t".log || tail -5 build-fuzz/"$t".log
  fi
  grep -E "average_exec_per_sec|number_of_executed_units" build-fuzz/"$t".log || true
done
exit $failed
