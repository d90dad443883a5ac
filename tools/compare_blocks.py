#!/usr/bin/env python3
"""Share of equal blocks of two GGUF files of the same tensors in the same order, per type.

usage: compare_blocks.py FEWBIT A.gguf B.gguf
"""
import collections
import json
import os
import subprocess
import sys

BLOCK_BYTES = {"Q2_K": 84, "Q3_K": 110, "Q4_K": 144, "Q5_K": 176, "Q6_K": 210, "IQ1_S": 50, "IQ1_M": 56, "IQ2_XXS": 66, "IQ2_XS": 74,
               "IQ2_S": 82, "IQ3_XXS": 98, "IQ3_S": 110, "IQ4_NL": 18, "IQ4_XS": 136, "Q4_0": 18, "Q4_1": 20, "Q5_0": 22, "Q5_1": 24,
               "Q8_0": 34, "PQ2_0": 34, "PTQ1_0": 28, "Q2_0": 18, "TQ1_0": 54, "TQ2_0": 66}


def tensors(fewbit, path):
    info = json.loads(subprocess.check_output([fewbit, "inspect", "--json", "--device", "cpu", path]))
    padded = [(t["bytes"] + 31) // 32 * 32 for t in info["tensors"]]
    at = os.path.getsize(path) - sum(padded)
    out = {}
    with open(path, "rb") as f:
        for t, n in zip(info["tensors"], padded):
            f.seek(at)
            out[t["name"]] = (t["type"], f.read(t["bytes"]))
            at += n
    return out


def main():
    fewbit, a, b = sys.argv[1:4]
    ta, tb = tensors(fewbit, a), tensors(fewbit, b)
    equal, total = collections.Counter(), collections.Counter()
    for name, (kind, x) in ta.items():
        if name not in tb or tb[name][0] != kind:
            sys.exit(f"{name}: {kind} in {a}, {tb.get(name, ('absent',))[0]} in {b}")
        y, n = tb[name][1], BLOCK_BYTES.get(kind, 4)
        for i in range(0, len(x), n):
            total[kind] += 1
            equal[kind] += x[i:i + n] == y[i:i + n]
    for kind in sorted(total):
        print(f"{kind:8} {equal[kind]:>8} of {total[kind]:>8} equal: {100 * equal[kind] / total[kind]:.3f} %")


main()
