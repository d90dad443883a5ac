#!/usr/bin/env python3
"""Logits and greedy tokens of `fewbit eval` against an oracle's expected.json; standard library only.

usage: oracle.py FEWBIT MODEL.gguf EXPECTED.json [arguments of eval...]
One JSON line: the largest difference of a logit or a log-sum-exp, and whether the greedy tokens agree.  Exit 1 above 2e-3.
"""
import array, json, math, os, subprocess, sys, tempfile

BOUND = 2e-3


def rows(path):
    """The rows of a two-dimensional float32 .npy file."""
    data = open(path, "rb").read()
    at = 10 + int.from_bytes(data[8:10], "little")
    shape = eval(data[10:at].split(b"'shape':")[1].split(b")")[0] + b")")
    numbers = array.array("f", data[at:])
    return [numbers[i * shape[1]:(i + 1) * shape[1]] for i in range(shape[0])]


def main(fewbit, model, expected, *extra):
    expected = json.load(open(expected))

    def evaluate(*arguments):
        done = subprocess.run([fewbit, "eval", "-m", model, *arguments, *extra], capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{model}: {done.stderr.strip()}")
        return done.stdout

    worst = 0.0
    sequences = expected["sequences"]
    for s in sequences.values() if isinstance(sequences, dict) else sequences:
        wanted = s["logits"].items() if isinstance(s["logits"], dict) else s["logits"]
        for width in (0, 1, 64):
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "logits.npy")
                evaluate("--tokens", ",".join(map(str, s["tokens"])), "--logits", path, *(["--ubatch", str(width)] if width else []))
                got = rows(path)
            for position, reference in wanted:
                worst = max([worst] + [abs(a - b) if math.isfinite(a) else math.inf for a, b in zip(got[int(position)], reference)])
            for row, lse in zip(got, s["lse"]):
                top = max(row)
                worst = max(worst, abs(top + math.log(sum(math.exp(x - top) for x in row)) - lse))

    greedy = expected["greedy"]
    out = json.loads(evaluate("--tokens", ",".join(map(str, greedy["prompt"])), "--greedy", str(len(greedy["tokens"])), "--json"))
    tokens = out["greedy"]["tokens"] if isinstance(out["greedy"], dict) else out["greedy"]
    equal = tokens == greedy["tokens"]
    print(json.dumps({"stage": "oracles", "model": os.path.basename(model), "worst": worst, "greedy_equal": equal}), flush=True)
    sys.exit(0 if worst <= BOUND and equal else 1)


if __name__ == "__main__":
    main(*sys.argv[1:])
