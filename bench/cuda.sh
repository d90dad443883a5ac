#!/usr/bin/env bash
# The CUDA backend on a bare machine with a GPU: no compiler, no packages, no network.  JSON lines on standard output.
#   bench/cuda.sh pack       after `cmake --preset cuda-sm90 -DFEWBIT_STATIC=ON && ninja -C build-cuda fewbit cuda_check`: the programs, and what
#                            libraries they need, into build-cuda/pack
#   bench/cuda.sh verify     every operation against the definition, the same bits at every width
#   bench/cuda.sh sanitize   compute-sanitizer's memcheck and racecheck over the quick half of it (SANITIZER: the tool, if not on the PATH)
#   bench/cuda.sh oracles    logits of the seven oracles; perplexity and greedy tokens of trained models (EXTRA_MODELS: more of them)
#   bench/cuda.sh bench      ceilings, multiplies by shape and type, decode, batches, prefill, experts
# PACK (default build-cuda/pack) is where the programs lie.  Each stage takes less than 8 minutes and fails on the first thing wrong.
set -euo pipefail
cd "$(dirname "$0")/.."
pack=${PACK:-build-cuda/pack}
stage=${1:-}
say() { printf '{"stage":"%s",%s}\n' "$stage" "$1"; }
run() { LD_LIBRARY_PATH="$pack/lib" "$@"; }

case $stage in
pack)
  mkdir -p "$pack/lib"
  for program in fewbit cuda_check; do
    strip -o "$pack/$program" "build-cuda/$program"
    ldd "build-cuda/$program" | awk '/=>/ && $1 !~ /^lib(c|m|dl|rt|pthread)\./ { print $3 }' | xargs -I{} cp -L {} "$pack/lib/"
  done
  say "\"bytes\":$(du -sb "$pack" | cut -f1)"
  ;;
verify)
  run "$pack/cuda_check" verify
  counts() { awk -F, -v "what=$1" 'NR > 1 { n[$6]++ } $6 == "NOT OFFERED" { types[$2] } END { s = ""; for (t in types) s = s " " t
    printf "{\"stage\":\"verify\",\"rows\":\"%s\",\"ok\":%d,\"fail\":%d,\"missing\":%d,\"not_offered\":\"%s\"}\n", what, n["OK"], n["FAIL"], n["MISSING"], s
    exit n["FAIL"] + n["MISSING"] > 0 }'; }
  run "$pack/fewbit" verify --device cuda -o csv | counts cases
  for type in PTQ1_0 TQ1_0; do  # both layouts, whichever this GPU's is
    for dense in 0 1; do
      FEWBIT_CUDA_DENSE=$dense run "$pack/fewbit" verify --device cuda --type $type -o csv | counts "$type, dense $dense"
    done
  done
  run "$pack/fewbit" verify --device cuda --mutate --every 7 -o csv | counts "faults in each 7th case"
  ;;
sanitize)
  sanitizer=${SANITIZER:-compute-sanitizer}
  version=$("$sanitizer" --version | grep -o '20[0-9][0-9]\.[0-9.]*' | head -1)
  # racecheck leaves out the wide kernel (gemm.cuh): it reports that a slot is copied into after it was read.  A lane arrives at the slot's
  # barrier for its warp, behind a __syncwarp(), and the copying thread waits there; racecheck sees no order through the __syncwarp().  The
  # reports go when every lane arrives for itself (tried), as the mat-vec's 516 did, but here that is 32 times the arrivals at two blocks.
  for check in "memcheck quick" "memcheck quick-wide" "racecheck quick"; do
    tool=${check% *} cases=${check#* } start=$(date +%s)
    result=$(run "$sanitizer" --tool "$tool" --error-exitcode 9 "$pack/cuda_check" "$cases" | tee >(cat >&2) | tail -1)
    say "\"tool\":\"$tool\",\"cases\":\"$cases\",\"version\":\"$version\",\"seconds\":$(($(date +%s) - start)),\"result\":\"${result#=* }\""
  done
  ;;
oracles)
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  for gz in tests/data/oracles/*.f16.gguf.gz; do
    name=$(basename "$gz" .f16.gguf.gz)
    gunzip -c "$gz" > "$work/$name.gguf"
    run python3 bench/oracle.py "$pack/fewbit" "$work/$name.gguf" "tests/data/oracles/$name.expected.json" --device cuda -ctk f32 -ctv f32
  done
  for model in models/*.gguf ${EXTRA_MODELS:-}; do
    expected=${model%.gguf}.expected.json
    [ -e "$expected" ] || expected=
    run python3 bench/model.py "$pack/fewbit" "$model" tests/data/mini.ppl.txt $expected
  done
  ;;
bench)
  run "$pack/fewbit" ceiling --device cuda | sed 's/.*/{"stage":"bench","ceiling":"&"}/'
  run "$pack/cuda_check" time
  for type in PQ2_0 PTQ1_0 Q1_0; do
    run "$pack/fewbit" bench --synthetic bonsai-27b:$type --device cuda -p 512 -n 128 -r 5 -o jsonl
  done
  run "$pack/fewbit" bench --synthetic bonsai-27b:PQ2_0 --device cuda -p 512 -n 64 -d 8192 -r 2 -o jsonl
  run "$pack/fewbit" batched-bench --synthetic bonsai-27b:PQ2_0 -npp 32 -ntg 64 -npl 1,2,4,8 -r 2 --device cuda -o jsonl
  run "$pack/fewbit" bench --synthetic qwen35-35b-a3b:IQ2_XS --device cuda -p 512 -n 128 -r 3 -o jsonl
  run "$pack/fewbit" launches --synthetic bonsai-27b:PQ2_0 --device cuda --total
  ;;
*)
  sed -n '2,9s/^# \{0,1\}//p' "$0" >&2
  exit 2
  ;;
esac
