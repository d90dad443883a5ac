#!/usr/bin/env python3
"""Does llama.cpp load what we wrote, and does it compute the same?  Perplexity of both, per file.

usage: llama_perplexity.py FEWBIT TEXT MODEL.gguf ... [--chunks N] [--threads N]

Runs in a virtual environment that has llama-cpp-python (no dependency of the project).  Counts as llama-perplexity does: windows of 512,
second halves, no BOS.  The ids come from `fewbit tokenize`, so that only the arithmetic is compared; ours runs on the default path, which
rounds activations to 8 bits as theirs does.
"""
import argparse
import ctypes
import json
import subprocess
import tempfile

import llama_cpp as C
import numpy as np

N_CTX = 512


def theirs(path, ids, threads):
    model = C.llama_model_load_from_file(path.encode(), C.llama_model_default_params())
    if not model:
        return None
    n_vocab = C.llama_vocab_n_tokens(C.llama_model_get_vocab(model))
    p = C.llama_context_default_params()
    p.n_ctx = p.n_batch = p.n_ubatch = N_CTX
    p.n_threads = p.n_threads_batch = threads
    context = C.llama_init_from_model(model, p)
    first, total, count = N_CTX // 2, 0.0, 0
    batch = C.llama_batch_init(N_CTX, 0, 1)
    for at in range(0, len(ids) - N_CTX + 1, N_CTX):
        window = ids[at:at + N_CTX]
        C.llama_memory_clear(C.llama_get_memory(context), True)
        batch.n_tokens = N_CTX
        for i, t in enumerate(window):
            batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.logits[i] = t, i, 1, int(i >= first)
            batch.seq_id[i][0] = 0
        if C.llama_decode(context, batch):
            raise SystemExit(f"{path}: llama_decode failed")
        logits = C.llama_get_logits(context)
        x = np.ctypeslib.as_array(ctypes.cast(logits, ctypes.POINTER(ctypes.c_float)), (N_CTX - first, n_vocab)).astype(np.float64)
        top = x.max(axis=1)
        lse = top + np.log(np.exp(x - top[:, None]).sum(axis=1))
        want = np.array(window[first + 1:])
        total += (lse[:-1] - x[np.arange(len(want)), want]).sum()
        count += len(want)
    C.llama_batch_free(batch)
    C.llama_free(context)
    C.llama_model_free(model)
    return float(np.exp(total / count))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("fewbit")
    p.add_argument("text")
    p.add_argument("models", nargs="+")
    p.add_argument("--chunks", type=int, default=0)
    p.add_argument("--threads", type=int, default=1)
    a = p.parse_args()
    quiet = C.llama_log_callback(lambda *_: None)
    C.llama_log_set(quiet, None)
    C.llama_backend_init()
    text = open(a.text, encoding="utf-8").read()
    worst = 0
    for path in a.models:
        ids = json.loads(subprocess.check_output([a.fewbit, "tokenize", "-m", path, "--no-special", text]))
        if a.chunks:
            ids = ids[:a.chunks * N_CTX]
        with tempfile.NamedTemporaryFile("w", suffix=".ids") as f:
            f.write(" ".join(map(str, ids)))
            f.flush()
            ours = json.loads(subprocess.check_output([a.fewbit, "perplexity", "-m", path, "--tokens-file", f.name, "-c", str(N_CTX),
                                                       "--device", "cpu", "-t", str(a.threads), "--json"]))["perplexity"]
        other = theirs(path, ids, a.threads)
        if other is None:
            print(f"{path}: llama.cpp cannot load it", flush=True)
            worst = float("inf")
            continue
        worst = max(worst, abs(ours / other - 1))
        print(f"{path}: ours {ours:.4f}, llama.cpp {other:.4f} ({100 * (ours / other - 1):+.3f} %)", flush=True)
    print(f"largest difference {100 * worst:.3f} %")


main()
