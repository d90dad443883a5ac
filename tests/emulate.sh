#!/usr/bin/env bash
# The same binary on processors that lack what this one has: nothing may depend on the machine that built it.
#   qemu64      SSE2 only: the scalar path
#   Haswell     AVX2, no VNNI
# qemu has no AVX-512; those kernels run natively where the machine has them and are compared with the scalar ones by kernel_test.
set -euo pipefail
cd "$(dirname "$0")/.."
model=models/mini-dense.pq2_0.gguf
args=(eval -m "$model" --tokens 5390,223,17,900,41 --greedy 8 --json -t 1)
want=$(build/fewbit "${args[@]}")
for cpu in qemu64 Haswell; do
  got=$(qemu-x86_64 -cpu "$cpu" build/fewbit "${args[@]}" 2>/tmp/fewbit-qemu.err) || { cat /tmp/fewbit-qemu.err; echo "$cpu: failed"; exit 1; }
  [ "$got" = "$want" ] || { echo "$cpu: got $got, natively $want"; exit 1; }
  echo "$cpu: the same tokens as natively"
done
for max in scalar avx2 avx_vnni avx512; do
  got=$(FEWBIT_CPU_MAX=$max build/fewbit "${args[@]}")
  [ "$got" = "$want" ] || { echo "FEWBIT_CPU_MAX=$max: got $got, natively $want"; exit 1; }
  echo "FEWBIT_CPU_MAX=$max: the same tokens"
done
