#!/usr/bin/env python3
"""A trained model on a GPU: perplexity against its reference, greedy tokens against the CPU's; standard library only.

usage: model.py FEWBIT MODEL.gguf TEXT [EXPECTED.json]
JSON lines: perplexity of TEXT with 512 and 8 columns at once, which must be the same bits, and within 0.3 % of the reference if there is one;
256 greedy tokens on both devices, and on the GPU with weights in the file's bytes, which must be equal.  Where the devices part, the margin by
which each prefers its own token: it must be below 0.2, as an activation that rounds the other way moves logits by 0.1 (by more in a mixture of
experts, where it may choose another expert: there the margin is only said).  Exit 1 otherwise.
"""
import json, os, subprocess, sys, tempfile

from oracle import rows

PERPLEXITY_BOUND, MARGIN_BOUND = 0.003, 0.2
COUNT = 256
PROMPT = "Once upon a time"


def main(fewbit, model, text, expected=None):
    def run(command, device, *arguments):
        done = subprocess.run([fewbit, command, "-m", model, "--device", device, *arguments], capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{model}: {command} on {device}: {done.stderr.strip()}")
        return done.stdout

    def say(**line):
        print(json.dumps({"stage": "oracles", "model": os.path.basename(model), **line}), flush=True)

    moe = expected is not None and "moe" in json.load(open(expected))["architecture"]
    found = [json.loads(run("perplexity", "cuda", "-f", text, "-ub", str(ub), "--json"))["perplexity"] for ub in (512, 8)]
    good = found[0] == found[1]
    line = {"perplexity": found[0], "same_at_ub_8": good}
    if expected:
        reference = json.load(open(expected))["perplexity"]["second_half"]
        line |= {"reference": reference, "ratio": round(found[0] / reference, 6)}
        good &= abs(found[0] / reference - 1) <= PERPLEXITY_BOUND
    say(**line)

    kept = json.loads(run("eval", "cuda", "--no-repack", "--prompt", PROMPT, "--greedy", str(COUNT), "--json"))["greedy"]
    devices = ["cpu", "cuda"]
    outs = [json.loads(run("eval", d, "--prompt", PROMPT, "--greedy", str(COUNT), "--json")) for d in devices]
    tokens = [out["greedy"] for out in outs]
    line = {"greedy": COUNT, "equal_with_no_repack": kept == tokens[1], "equal_to_cpu": tokens[0] == tokens[1]}
    good &= line["equal_with_no_repack"]
    if not line["equal_to_cpu"]:
        at = next(i for i, pair in enumerate(zip(*tokens)) if pair[0] != pair[1])
        before = ",".join(map(str, outs[0]["tokens"] + tokens[0][:at]))
        margins = {}
        for d, mine, other in zip(devices, (tokens[0][at], tokens[1][at]), (tokens[1][at], tokens[0][at])):
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "logits.npy")
                run("eval", d, "--tokens", before, "--logits", path)
                last = rows(path)[-1]
            margins[d] = round(last[mine] - last[other], 4)
        line |= {"first_difference": at, "margins": margins}
        good &= moe or max(margins.values()) < MARGIN_BOUND
    say(**line)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main(*sys.argv[1:])
