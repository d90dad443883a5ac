#!/usr/bin/env bash
# Every kernel of a CPU alone, cold and warm, against its AVX2 form: paired and interleaved (`fewbit ab`), one JSON line each.
#   bench/cpu_kernels.sh [OUT.jsonl]     about 10 minutes on two quiet cores; FEWBIT=build/fewbit, SET=avx512_vnni
#
# Columns 1 to 16 of every format, the widths of the tiles of one, experts of three (tokens per expert), one thread.  A line without a
# memory wall (`cold` false: the matrix stays in the cache) is the arithmetic ceiling of its kernel.  Lines whose b ends with .file: packed
# against the bytes of the file (--no-repack).
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-bench/cpu_kernels.jsonl}
fewbit=${FEWBIT:-build/fewbit}
set_=${SET:-}
for s in avx512_vnni avx_vnni avx2; do
  [ -n "$set_" ] || ! "$fewbit" devices --json | grep -qw "$s" || set_=$s
done
all=PQ2_0,Q2_0,PTQ1_0,TQ1_0,TQ2_0,Q1_0,IQ1_S,IQ1_M,IQ2_XXS,IQ2_XS,IQ2_S,IQ3_XXS,IQ3_S,Q2_K,Q3_K,Q4_0,Q8_0,Q4_K,Q6_K,IQ4_XS
ab() { "$fewbit" ab "$set_" avx2 -t 1 --pairs 7 --seconds 0.004 -o jsonl "$@" >>"$out"; }
: >"$out"
ab --type "$all" --shape 4096x4096 --cols 1,8
ab --type "$all" --shape 1024x2048 --cols 1,8,64 --warm
ab --type PQ2_0,Q1_0,IQ2_XS --shape 4096x4096 --cols 2,3,4,5,6,7,16
ab --type PQ2_0 --shape 4096x4096 --cols 8 --tile 1,2,4,8
ab --type PQ2_0,IQ2_XS,Q4_K --op moe_glu --shape 512x2048 --experts 8 --cols 1,2,4,8
ab --type PQ2_0,IQ2_XS,Q4_K --op moe_down --shape 2048x512 --experts 8 --cols 1,2,4,8
"$fewbit" ab "$set_" "$set_.file" -t 1 --pairs 7 -o jsonl --type "$all" --shape 4096x4096 --cols 1,8,64 >>"$out"
FEWBIT_CPU_MAX=avx2 "$fewbit" ab avx2 avx2.file -t 1 --pairs 7 -o jsonl --type "$all" --shape 4096x4096 --cols 1,8,64 >>"$out"
