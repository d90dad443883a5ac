#!/usr/bin/env python3
"""Share of blocks that are equal to the byte, per type: of two GGUF files, or of our quantiser and llama.cpp's.

usage: compare_blocks.py FEWBIT A.gguf B.gguf
       compare_blocks.py FEWBIT MODEL.gguf --library libggml-base.so [--imatrix OLD_FORM.dat] [--types IQ2_XS,Q4_K] [--every 16]

The second form makes MODEL (F16) in every type with `fewbit quantize --pure` and gives every 16th row of each weight, with the
importance of its expert, to the function that llama-quantize calls for it (ggml_quantize_chunk).  Needs numpy.
"""
import argparse
import collections
import ctypes
import json
import os
import struct
import subprocess
import sys
import tempfile

BLOCK_BYTES = {"Q2_K": 84, "Q3_K": 110, "Q4_K": 144, "Q5_K": 176, "Q6_K": 210, "IQ1_S": 50, "IQ1_M": 56, "IQ2_XXS": 66, "IQ2_XS": 74,
               "IQ2_S": 82, "IQ3_XXS": 98, "IQ3_S": 110, "IQ4_NL": 18, "IQ4_XS": 136, "Q4_0": 18, "Q4_1": 20, "Q5_0": 22, "Q5_1": 24,
               "Q8_0": 34, "PQ2_0": 34, "PTQ1_0": 28, "Q2_0": 18, "Q1_0": 18, "TQ1_0": 54, "TQ2_0": 66, "MXFP4": 17}
TYPE_ID = {"Q4_0": 2, "Q4_1": 3, "Q5_0": 6, "Q5_1": 7, "Q8_0": 8, "Q2_K": 10, "Q3_K": 11, "Q4_K": 12, "Q5_K": 13, "Q6_K": 14,
           "IQ2_XXS": 16, "IQ2_XS": 17, "IQ3_XXS": 18, "IQ1_S": 19, "IQ4_NL": 20, "IQ3_S": 21, "IQ2_S": 22, "IQ4_XS": 23, "IQ1_M": 29,
           "TQ1_0": 34, "TQ2_0": 35, "MXFP4": 39}
NEEDS_IMPORTANCE = {"IQ2_XXS", "IQ2_XS", "IQ1_S"}


def tensors(fewbit, path):
    info = json.loads(subprocess.check_output([fewbit, "inspect", "--json", "--device", "cpu", path]))
    padded = [(t["bytes"] + 31) // 32 * 32 for t in info["tensors"]]
    at = os.path.getsize(path) - sum(padded)
    out = {}
    with open(path, "rb") as f:
        for t, n in zip(info["tensors"], padded):
            f.seek(at)
            out[t["name"]] = (t["type"], t["shape"], f.read(t["bytes"]))
            at += n
    return out


def old_form(path):  # name -> mean squared inputs
    data = open(path, "rb").read()
    at, out = 4, {}
    for _ in range(struct.unpack_from("<i", data)[0]):
        n, = struct.unpack_from("<i", data, at)
        name = data[at + 4:at + 4 + n].decode()
        calls, n_values = struct.unpack_from("<ii", data, at + 4 + n)
        at += 12 + n
        out[name] = [v / max(calls, 1) for v in struct.unpack_from(f"<{n_values}f", data, at)]
        at += 4 * n_values
    return out


def show(equal, total):
    for kind in sorted(total):
        print(f"{kind:8} {equal[kind]:>8} of {total[kind]:>8} equal: {100 * equal[kind] / total[kind]:.3f} %", flush=True)


def two_files(fewbit, a, b):
    ta, tb = tensors(fewbit, a), tensors(fewbit, b)
    equal, total = collections.Counter(), collections.Counter()
    for name, (kind, _, x) in ta.items():
        if name not in tb or tb[name][0] != kind:
            sys.exit(f"{name}: {kind} in {a}, {tb.get(name, ('absent',))[0]} in {b}")
        y, n = tb[name][2], BLOCK_BYTES.get(kind, 4)
        for i in range(0, len(x), n):
            total[kind] += 1
            equal[kind] += x[i:i + n] == y[i:i + n]
    show(equal, total)


def with_library(a):
    import numpy
    chunk = ctypes.CDLL(a.ggml).ggml_quantize_chunk
    chunk.restype = ctypes.c_size_t
    chunk.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p] + [ctypes.c_int64] * 3 + [ctypes.c_void_p]
    source, importance = tensors(a.fewbit, a.model), old_form(a.imatrix) if a.imatrix else {}
    for kind in a.types.split(","):
        if kind in NEEDS_IMPORTANCE and not importance:
            continue
        with tempfile.TemporaryDirectory() as folder:
            made = os.path.join(folder, "made.gguf")
            matrix = ["--imatrix", a.imatrix] if a.imatrix else []
            subprocess.run([a.fewbit, "quantize", "--pure", *matrix, a.model, made, kind], check=True, stdout=subprocess.DEVNULL)
            ours = tensors(a.fewbit, made)
        equal, total, n = collections.Counter(), collections.Counter(), BLOCK_BYTES[kind]
        for name, (made_as, shape, x) in ours.items():
            if made_as != kind or source[name][0] != "F16":
                continue
            n0, n1, experts = (list(shape) + [1])[:3]
            values = numpy.frombuffer(source[name][2], "<f2").astype(numpy.float32).reshape(experts, n1, n0)
            ours_rows = numpy.frombuffer(x, numpy.uint8).reshape(experts, n1, -1)[:, ::a.every]
            q = numpy.array(importance[name], numpy.float32).reshape(experts, n0) if name in importance else None
            for e in range(experts):
                rows = numpy.ascontiguousarray(values[e, ::a.every])
                out = numpy.zeros(ours_rows[e].size, numpy.uint8)
                w = numpy.ascontiguousarray(q[e]) if q is not None else None
                done = chunk(TYPE_ID[kind], rows.ctypes.data, out.ctypes.data, 0, rows.shape[0], n0, None if w is None else w.ctypes.data)
                if done != out.size:
                    sys.exit(f"{name}: {done} bytes, not {out.size}")
                same = (out.reshape(-1, n) == ours_rows[e].reshape(-1, n)).all(axis=1)
                equal[kind] += int(same.sum())
                total[kind] += same.size
        show(equal, total)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("fewbit")
    p.add_argument("model")
    p.add_argument("other", nargs="?")
    p.add_argument("--library", dest="ggml")
    p.add_argument("--imatrix")
    p.add_argument("--types", default=",".join(TYPE_ID))
    p.add_argument("--every", type=int, default=16)
    a = p.parse_args()
    if a.ggml:
        with_library(a)
    elif a.other:
        two_files(a.fewbit, a.model, a.other)
    else:
        p.error("a second file or --library is needed")


main()
