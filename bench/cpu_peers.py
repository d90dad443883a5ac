#!/usr/bin/env python3
"""Our speed against the peers' on a CPU: one JSON line per type, measure, thread count and instruction set.

  bench/cpu_peers.py --peers VENV/bin/python --peer-bench PATH/peer_bench.py [--peers-avx2 VENV2/bin/python]
                     [--types PQ2_0,Q4_0] [--out bench/cpu_peers.jsonl]

peer_bench.py is the small driver of llama.cpp and ik_llama.cpp that takes `llama|ik MODEL --threads --pp --tg --seqs --reps` and prints
JSON lines; the peers live in a virtual environment outside this repository.  Contestants take turns (A B C D, D C B A, ...), every round
gives one ratio, and the median of the ratios is what counts: the machine is shared and its clock moves.

  tg    one sequence, 1 and 2 threads     bseq  8 sequences at once, 2 threads (llama.cpp only)     pp  a prompt of 512, 2 threads

Ours runs twice: with the best set of the machine, and with AVX2 forced (FEWBIT_CPU_MAX=avx2).  Peers run as they were built: llama.cpp
natively, ik_llama.cpp for AVX2, and llama.cpp for AVX2 from the environment that --peers-avx2 names; ours with AVX2 is held to those two.
The peers cannot read PQ2_0 and PTQ1_0: they get the same model in the nearest type that they have (TQ2_0, TQ1_0).
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

NEAREST = {"PQ2_0": "TQ2_0", "PTQ1_0": "TQ1_0", "Q2_0": "TQ2_0"}
IK_CANNOT = {"TQ1_0", "TQ2_0", "Q2_0"}
TERNARY = {"PQ2_0", "PTQ1_0", "Q2_0", "TQ1_0", "TQ2_0", "I2_S"}


def bar(kind, what, vnni):
    """The least ratio that we want to reach."""
    group = "ternary" if kind in TERNARY else "q1" if kind == "Q1_0" else "iq" if kind[:3] in ("IQ1", "IQ2", "IQ3") else "other"
    if what == "tg":
        return {"ternary": (1.3, 1.8), "q1": (1.5, 2.5), "iq": (2.0, 2.5), "other": (1.2, 1.2)}[group][vnni]
    if what == "bseq":
        return (1.5, 2.5)[vnni]
    return (1.1, 1.4)[vnni]


def lines(command, env=None, limit=150):
    try:
        r = subprocess.run(command, env={**os.environ, **(env or {})}, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return []
    out = []
    for line in r.stdout.splitlines():
        try:
            out.append(json.loads(line))
        except ValueError:
            pass
    if r.returncode:
        print(f"{' '.join(command[:4])} ...: exit {r.returncode} {r.stderr.strip()[-200:]}", file=sys.stderr)
    return out


class Ours:
    def __init__(self, a, model, env):
        self.a, self.model, self.env, self.more = a, model, env, {}

    def note(self, key, r):
        """The ceilings that this run measured beside its speed."""
        self.cpu = r["cpu"]
        self.more.setdefault(key, []).append(r)

    def once(self, what):
        f, m = self.a.fewbit, self.model
        found = {}
        if "tg" in what:
            for r in lines([f, "bench", "-m", m, "-p", "0", "-n", str(self.a.tg), "-r", "1", "-t", "1,2", "-o", "jsonl"], self.env):
                found["tg", r["n_threads"]] = r["avg_ts"]
                self.note(("tg", r["n_threads"]), r)
        if "pp" in what:
            for r in lines([f, "bench", "-m", m, "-p", "512", "-n", "0", "-r", "1", "-t", "2", "-o", "jsonl"], self.env):
                found["pp", 2] = r["avg_ts"]
                self.note(("pp", 2), r)
        if "bseq" in what:
            for r in lines([f, "batched-bench", "-m", m, "-npp", "1", "-ntg", "16", "-npl", "8", "-r", "1", "-t", "2", "-o", "jsonl"], self.env):
                found["bseq", 2] = r["speed_tg"]
        return found


class Peer:
    def __init__(self, a, name, model, python=None):
        self.a, self.name, self.model, self.python = a, name, model, python or a.peers

    def once(self, what):
        base = [self.python, self.a.peer_bench, self.name, self.model, "--reps", "1"]
        found = {}
        if "tg" in what:
            for r in lines(base + ["--threads", "1,2", "--pp", "0", "--tg", str(self.a.tg), "--seqs", "1"]):
                found["tg", r["threads"]] = r["tok_s"]
        more = (["--pp", "512"] if "pp" in what else ["--pp", "0"])
        if "bseq" in what and self.name == "llama":
            more += ["--tg", "16", "--seqs", "8"]
        else:
            more += ["--tg", "0"]
        if more != ["--pp", "0", "--tg", "0"]:
            for r in lines(base + ["--threads", "2"] + more):
                found[("pp", 2) if r["what"].startswith("pp") else ("bseq", 2)] = r["tok_s"]
        return found


def synth(a, kind):
    path = f"{a.models}/{a.shape}.{kind}.gguf"
    if not os.path.exists(path):
        subprocess.run([a.fewbit, "synth", a.shape, kind, path], check=True, stdout=subprocess.DEVNULL)
    return path


def run_type(a, kind):
    near = NEAREST.get(kind, kind)
    model, peer_model = synth(a, kind), synth(a, near)
    ours = {"native": Ours(a, model, {}), "avx2": Ours(a, model, {"FEWBIT_CPU_MAX": "avx2"})}
    peers = {"llama": Peer(a, "llama", peer_model)}
    if a.peers_avx2:
        peers["llama_avx2"] = Peer(a, "llama", peer_model, a.peers_avx2)
    if near not in IK_CANNOT:
        peers["ik"] = Peer(a, "ik", peer_model)
    everyone = list(ours.items()) + list(peers.items())
    started, rounds = time.time(), []
    for i in range(a.rounds):
        if i and (time.time() - started) * (i + 1) / i > a.seconds:
            break
        found = {}
        for name, contestant in everyone if i % 2 == 0 else everyone[::-1]:
            found[name] = contestant.once(a.measures)
        rounds.append(found)
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    for set_name, our in ours.items():
        for what, threads in (("tg", 1), ("tg", 2), ("bseq", 2), ("pp", 2)):
            key = (what, threads)
            mine = [r[set_name][key] for r in rounds if key in r[set_name]]
            if not mine:
                continue
            row = dict(type=kind, peer_type=near, shape=a.shape, what=what, threads=threads, set=set_name,
                       tok_s=round(statistics.median(mine), 2), rounds=len(mine))
            ratios = {}
            for p in peers:
                if a.peers_avx2 and p == ("llama_avx2" if set_name == "native" else "llama"):
                    continue
                both = [r[set_name][key] / r[p][key] for r in rounds if key in r[set_name] and key in r[p]]
                if both:
                    row[p] = round(statistics.median(r[p][key] for r in rounds if key in r[p]), 2)
                    row["ratio_" + p] = round(statistics.median(both), 2)
                    ratios[p] = row["ratio_" + p]
            if ratios:
                row["ratio"] = min(ratios.values())
            row["bar"] = bar(kind, what, set_name == "native")
            if key in our.more:
                def median(name):
                    return statistics.median(x[name] for x in our.more[key])
                if what == "tg":
                    row["read_gb_s"] = round(median("ceiling_read_gb_s"), 1)
                    row["share_of_read"] = round(row["tok_s"] * median("bytes_per_token") * 1e-9 / median("ceiling_read_gb_s"), 3)
                row["int8_gops"] = round(median("int8_gops"))
                row["share_of_int8"] = round(median("share_of_int8"), 3)
            row["reached"] = row.get("ratio", 0) >= row["bar"] or (what == "tg" and row.get("share_of_read", 0) >= 0.85)
            row.update(cpu=getattr(our, "cpu", ""), commit=commit, date=time.strftime("%Y-%m-%d"))
            with open(a.out, "a") as f:
                f.write(json.dumps(row) + "\n")
            print(f"{kind:8} {what:4} {threads}T {set_name:6} {row['tok_s']:8.1f} tok/s  ratio {row.get('ratio', '-')} (bar {row['bar']})"
                  f"  {ratios}  share {row.get('share_of_read', '-')}", flush=True)
    print(f"{kind}: {len(rounds)} rounds, {time.time() - started:.0f} s", flush=True)
    if not a.keep:
        for path in {model, peer_model}:
            os.path.exists(path) and os.remove(path)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--peers", required=True, help="python of the environment with the peers")
    p.add_argument("--peers-avx2", help="python of an environment whose llama.cpp was built for AVX2")
    p.add_argument("--peer-bench", required=True)
    p.add_argument("--fewbit", default="build/fewbit")
    p.add_argument("--shape", default="qwen3-0.6b")
    p.add_argument("--types", default="PQ2_0,Q2_0,TQ2_0,Q1_0,IQ1_S,IQ2_XXS,IQ2_XS,IQ2_S,IQ3_XXS,IQ3_S,Q2_K,Q3_K,Q4_0,Q4_K,Q6_K,Q8_0")
    p.add_argument("--measures", default="tg,bseq,pp")
    p.add_argument("--tg", type=int, default=24)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--seconds", type=float, default=140, help="no further round is begun that would end later, per type")
    p.add_argument("--models", default="/tmp/bench-models")
    p.add_argument("--out", default="bench/cpu_peers.jsonl")
    p.add_argument("--keep", action="store_true", help="keep the models")
    p.add_argument("--synth-only", action="store_true", help="only write the models")
    a = p.parse_args()
    os.makedirs(a.models, exist_ok=True)
    for kind in a.types.split(","):
        if a.synth_only:
            synth(a, kind), synth(a, NEAREST.get(kind, kind))
        else:
            run_type(a, kind)


main()
