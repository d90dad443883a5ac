#!/usr/bin/env bash
# The same binary on processors that lack what this one has: nothing may depend on the machine that built it.
#   qemu64      SSE2 only: the scalar path
#   Haswell     AVX2, no VNNI
# qemu has neither AVX-512 nor AVX-VNNI: those kernels run natively where the machine has them (kernel_test compares them with the scalar
# ones), else through SIMDe, and their results must be those of AVX2 to the bit.  FEWBIT_TEST_SIMDE=1: SIMDe on every machine with AVX2.
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
has=" $(build/fewbit devices --json | sed -n 's/.*"instruction_sets": "\(.*\)".*/\1/p') "
if [[ $has == *" avx2 "* && (-n ${FEWBIT_TEST_SIMDE:-} || $has != *" avx_vnni "* || $has != *" avx512_vnni "*) ]]; then
  tests/build_emulated.sh simde build/simde >build/simde.log 2>&1 || { grep -m5 error build/simde.log; exit 1; }
  lines() { FEWBIT_CPU_MAX=$1 build/simde/emulate_verify 9 2>/dev/null | cut -d, -f1-4,6-8; }  # all but the kernel's name
  want=$(lines avx2)
  for max in avx_vnni avx512_vnni; do
    [ "$(lines $max)" = "$want" ] || { echo "SIMDe, $max: other results than AVX2"; exit 1; }
    echo "SIMDe, $max: $(wc -l <<<"$want") cases as with AVX2"
  done
fi
