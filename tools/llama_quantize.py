#!/usr/bin/env python3
"""llama.cpp's quantiser through llama-cpp-python (in a virtual environment outside the repository): the peer of `fewbit quantize`.

usage: llama_quantize.py IN.gguf OUT.gguf FILE_TYPE_NUMBER [--imatrix OLD_FORM.dat] [--threads N] [--pure]

FILE_TYPE_NUMBER: general.file_type (20 IQ2_XS, 15 Q4_K_M ...).  Prints seconds of wall clock and of processor.
"""
import argparse
import ctypes
import resource
import struct
import time

import llama_cpp as C


def old_form(path):
    data = open(path, "rb").read()
    at, out = 4, {}
    for _ in range(struct.unpack_from("<i", data)[0]):
        n, = struct.unpack_from("<i", data, at)
        name = data[at + 4:at + 4 + n]
        calls, n_values = struct.unpack_from("<ii", data, at + 4 + n)
        at += 12 + n
        out[name] = [v / max(calls, 1) for v in struct.unpack_from(f"<{n_values}f", data, at)]
        at += 4 * n_values
    return out


def main():
    p = argparse.ArgumentParser()
    p.add_argument("model")
    p.add_argument("out")
    p.add_argument("file_type", type=int)
    p.add_argument("--imatrix")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--pure", action="store_true")
    a = p.parse_args()
    quiet = C.llama_log_callback(lambda *_: None)
    C.llama_log_set(quiet, None)
    C.llama_backend_init()
    q = C.llama_model_quantize_default_params()
    q.ftype, q.nthread, q.pure = a.file_type, a.threads, a.pure
    if a.imatrix:
        entries = old_form(a.imatrix)
        table = (C.llama_model_imatrix_data * (len(entries) + 1))()
        for slot, (name, values) in zip(table, entries.items()):
            data = (ctypes.c_float * len(values))(*values)
            slot.name, slot.data, slot.size = name, ctypes.cast(data, ctypes.POINTER(ctypes.c_float)), len(values)
            entries[name] = data  # alive as long as the table
        q.imatrix = table
    start = time.time()
    if C.llama_model_quantize(a.model.encode(), a.out.encode(), ctypes.byref(q)):
        raise SystemExit("llama_model_quantize failed")
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(f"{time.time() - start:.1f} s wall clock, {used.ru_utime + used.ru_stime:.1f} s of processor, {a.threads} threads")


main()
