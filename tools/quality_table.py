#!/usr/bin/env python3
"""Perplexity, KL and size of one model in many types -> docs/quality.md and docs/quality.svg.

usage: quality_table.py FEWBIT MODEL.gguf TEXT --imatrix FILE [--types Q4_K_M,IQ2_XS] [--hadamard 256] [--chunks N] [--threads N] [--out docs]

Each type is made with and without the importance matrix (where the type can do without) and, with --hadamard, from rotated weights.
KL is measured against the model as given.  Everything runs on the exact path: the numbers do not depend on the machine.
"""
import argparse
import datetime
import json
import os
import subprocess
import tempfile

TYPES = "Q8_0,Q6_K,Q5_K_M,Q4_K_M,Q4_0,IQ4_XS,IQ3_S,Q3_K_M,IQ3_XXS,Q2_K,IQ2_S,IQ2_XS,IQ2_XXS,IQ1_M,IQ1_S,PQ2_0"


def measure(a, model, *kl):
    command = [a.fewbit, "perplexity", "-m", model, "-f", a.text, "-c", "512", "--exact", "--device", "cpu", "--json", *kl]
    if a.chunks:
        command += ["--chunks", str(a.chunks)]
    if a.threads:
        command += ["-t", str(a.threads)]
    return json.loads(subprocess.check_output(command))


def plot(rows, base, path):
    w, h, left, bottom = 720, 420, 60, 50
    xs = [r["mb"] for r in rows]
    cap = base * 2
    x = lambda v: left + (w - left - 20) * v / (max(xs) * 1.05)
    y = lambda p: h - bottom - (h - bottom - 20) * (min(p, cap) - base * 0.98) / (cap - base * 0.98)
    colours = {"plain": "#888888", "imatrix": "#1f77b4", "rotated": "#d62728", "rotated + imatrix": "#2ca02c"}
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{w}" height="{h}" font-family="sans-serif" font-size="11">',
           f'<rect width="{w}" height="{h}" fill="white"/>',
           f'<line x1="{left}" y1="{y(base)}" x2="{w - 20}" y2="{y(base)}" stroke="#ccc" stroke-dasharray="4"/>',
           f'<text x="{w / 2}" y="{h - 12}">size, MB</text><text x="8" y="14">perplexity (above {cap:.1f}: at the top)</text>']
    for r in rows:
        c = colours[r["how"]]
        out.append(f'<circle cx="{x(r["mb"]):.1f}" cy="{y(r["ppl"]):.1f}" r="4" fill="{c}"><title>{r["type"]} {r["how"]} {r["ppl"]:.4f}</title></circle>')
        if r["how"] == "imatrix" or r["how"] == "plain" and not any(o["type"] == r["type"] and o["how"] == "imatrix" for o in rows):
            out.append(f'<text x="{x(r["mb"]) + 6:.1f}" y="{y(r["ppl"]) - 5:.1f}" transform="rotate(-35 {x(r["mb"]) + 6:.1f} {y(r["ppl"]) - 5:.1f})">{r["type"]}</text>')
    for i, (name, c) in enumerate(colours.items()):
        out.append(f'<circle cx="{w - 160}" cy="{20 + 16 * i}" r="4" fill="{c}"/><text x="{w - 150}" y="{24 + 16 * i}">{name}</text>')
    for tick in range(0, int(max(xs)) + 1, max(1, int(max(xs) / 6))):
        out.append(f'<text x="{x(tick):.1f}" y="{h - bottom + 16}" text-anchor="middle">{tick}</text>')
    for k in range(5):
        p = base + (cap - base) * k / 4
        out.append(f'<text x="{left - 6}" y="{y(p) + 4:.1f}" text-anchor="end">{p:.1f}</text>')
    with open(path, "w") as f:
        f.write("\n".join(out + ["</svg>", ""]))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("fewbit")
    p.add_argument("model")
    p.add_argument("text")
    p.add_argument("--imatrix")
    p.add_argument("--types", default=TYPES)
    p.add_argument("--hadamard", type=int, default=0)
    p.add_argument("--chunks", type=int, default=0)
    p.add_argument("--threads", type=int, default=0)
    p.add_argument("--out", default="docs")
    a = p.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        kl, made = os.path.join(folder, "kl"), os.path.join(folder, "model.gguf")
        base = measure(a, a.model, "--kl-save", kl)
        for kind in a.types.split(","):
            for turn in [[], ["--hadamard", str(a.hadamard)]] if a.hadamard else [[]]:
                for matrix in [[], ["--imatrix", a.imatrix]] if a.imatrix else [[]]:
                    q = subprocess.run([a.fewbit, "quantize", a.model, made, kind, *turn, *matrix], capture_output=True, text=True)
                    if q.returncode:
                        if "needs an importance matrix" in q.stderr:
                            continue
                        raise SystemExit(q.stderr)
                    r = measure(a, made, "--kl-base", kl)
                    how = " + ".join((["rotated"] if turn else []) + (["imatrix"] if matrix else [])) or "plain"
                    rows.append({"type": kind, "how": how, "mb": os.path.getsize(made) / 1e6, "ppl": r["perplexity"], "kl": r["kl"]["mean"],
                                 "top": r["kl"]["same_top"]})
                    print(rows[-1], flush=True)
    lines = ["# Quality of the types", "",
             f"Made by `tools/quality_table.py` on {datetime.date.today()}: {os.path.basename(a.model)}, {os.path.basename(a.text)}, "
             f"{base['chunks']} windows of 512, exact path.  The model as given: {os.path.getsize(a.model) / 1e6:.2f} MB, "
             f"perplexity {base['perplexity']:.4f} +- {base['error']:.4f}.", "", "![size and perplexity](quality.svg)", "",
             "| type | weights | MB | perplexity | against the original | mean KL | same top token |", "|---|---|---:|---:|---:|---:|---:|"]
    for r in rows:
        lines.append(f"| {r['type']} | {r['how']} | {r['mb']:.2f} | {r['ppl']:.4f} | {100 * (r['ppl'] / base['perplexity'] - 1):+.2f} % | {r['kl']:.5f} | {100 * r['top']:.2f} % |")
    os.makedirs(a.out, exist_ok=True)
    with open(os.path.join(a.out, "quality.md"), "w") as f:
        f.write("\n".join(lines + [""]))
    plot(rows, base["perplexity"], os.path.join(a.out, "quality.svg"))


main()
