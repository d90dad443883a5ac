#!/usr/bin/env python3
"""Perplexity, KL and size of models in many types -> docs/quality.md and docs/quality.svg.

usage: quality_table.py measure ROWS.jsonl FEWBIT MODEL.gguf TEXT [--imatrix FILE] [--types Q4_K_M,IQ2_XS] [--hadamard 256] [--chunks N]
       quality_table.py write ROWS.jsonl [--out docs]

measure: each type is made with and without the importance matrix (where the type can do without) and, with --hadamard, from rotated
weights too; a line per model made, added to ROWS; what is there already is not measured again.  KL is against the model as given.
Everything runs on the exact path: the numbers do not depend on the machine.  write: the table and the plot, of the first model.
"""
import argparse
import json
import os
import subprocess
import tempfile

TYPES = "Q8_0,Q6_K,Q5_K_M,Q4_K_M,Q4_0,IQ4_XS,IQ3_S,Q3_K_M,IQ3_XXS,Q2_K,IQ2_S,IQ2_XS,IQ2_XXS,IQ1_M,IQ1_S,PQ2_0"
COLOURS = {"plain": "#888888", "imatrix": "#1f77b4", "rotated": "#d62728", "rotated + imatrix": "#2ca02c"}


def measure(a, model, *kl):
    command = [a.fewbit, "perplexity", "-m", model, "-f", a.text, "-c", "512", "--exact", "--device", "cpu", "--json", *kl]
    if a.chunks:
        command += ["--chunks", str(a.chunks)]
    if a.threads:
        command += ["-t", str(a.threads)]
    return json.loads(subprocess.check_output(command))


def load(path):
    return [json.loads(line) for line in open(path)] if os.path.exists(path) else []


def add_rows(a):
    rows, name = load(a.rows), os.path.basename(a.model)
    done = {(r["model"], r["type"], r["how"]) for r in rows}

    def keep(row):
        row = {"model": name, "text": os.path.basename(a.text), **row}
        with open(a.rows, "a") as f:
            f.write(json.dumps(row) + "\n")
        print(row, flush=True)

    with tempfile.TemporaryDirectory() as folder:
        kl, made = os.path.join(folder, "kl"), os.path.join(folder, "model.gguf")
        base = measure(a, a.model, "--kl-save", kl)
        if (name, "as given", "") not in done:
            keep({"type": "as given", "how": "", "mb": os.path.getsize(a.model) / 1e6, "ppl": base["perplexity"], "error": base["error"],
                  "chunks": base["chunks"]})
        for turn in [[], ["--hadamard", str(a.hadamard)]] if a.hadamard else [[]]:
            for matrix in [["--imatrix", a.imatrix], []] if a.imatrix else [[]]:
                how = " + ".join((["rotated"] if turn else []) + (["imatrix"] if matrix else [])) or "plain"
                for kind in a.types.split(","):
                    if (name, kind, how) in done:
                        continue
                    extra = ["--allow-requantize"] if a.allow_requantize else []
                    q = subprocess.run([a.fewbit, "quantize", a.model, made, kind, *turn, *matrix, *extra], capture_output=True, text=True)
                    if q.returncode:
                        if "needs an importance matrix" in q.stderr:
                            continue
                        raise SystemExit(q.stderr)
                    r = measure(a, made, "--kl-base", kl)
                    keep({"type": kind, "how": how, "mb": os.path.getsize(made) / 1e6, "ppl": r["perplexity"], "kl": r["kl"]["mean"],
                          "kl_error": r["kl"]["mean_error"], "top": r["kl"]["same_top"]})


def plot(rows, base, path):
    w, h, left, bottom = 720, 420, 60, 50
    xs = [r["mb"] for r in rows]
    cap = base * 1.6
    x = lambda v: left + (w - left - 20) * v / (max(xs) * 1.05)
    y = lambda p: h - bottom - (h - bottom - 20) * (min(p, cap) - base * 0.98) / (cap - base * 0.98)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{w}" height="{h}" font-family="sans-serif" font-size="11">',
           f'<rect width="{w}" height="{h}" fill="white"/>',
           f'<line x1="{left}" y1="{y(base):.1f}" x2="{w - 20}" y2="{y(base):.1f}" stroke="#ccc" stroke-dasharray="4"/>',
           f'<text x="{w / 2}" y="{h - 12}">size, MB</text><text x="8" y="14">perplexity (above {cap:.1f}: at the top)</text>']
    for r in rows:
        at_x, at_y = x(r["mb"]), y(r["ppl"])
        out.append(f'<circle cx="{at_x:.1f}" cy="{at_y:.1f}" r="4" fill="{COLOURS[r["how"]]}"><title>{r["type"]} {r["how"]} {r["ppl"]:.4f}</title></circle>')
        if r["how"] == "imatrix" or r["how"] == "plain" and not any(o["type"] == r["type"] and o["how"] == "imatrix" for o in rows):
            out.append(f'<text x="{at_x + 6:.1f}" y="{at_y - 5:.1f}" transform="rotate(-35 {at_x + 6:.1f} {at_y - 5:.1f})">{r["type"]}</text>')
    for i, (name, c) in enumerate(COLOURS.items()):
        out.append(f'<circle cx="{w - 160}" cy="{20 + 16 * i}" r="4" fill="{c}"/><text x="{w - 150}" y="{24 + 16 * i}">{name}</text>')
    for tick in range(0, int(max(xs)) + 1, max(1, int(max(xs) / 6))):
        out.append(f'<text x="{x(tick):.1f}" y="{h - bottom + 16}" text-anchor="middle">{tick}</text>')
    for k in range(5):
        p = base + (cap - base) * k / 4
        out.append(f'<text x="{left - 6}" y="{y(p) + 4:.1f}" text-anchor="end">{p:.1f}</text>')
    with open(path, "w") as f:
        f.write("\n".join(out + ["</svg>", ""]))


def write(a):
    rows = load(a.rows)
    order = {k: i for i, k in enumerate(TYPES.split(","))}
    lines = ["# Quality of the types", "",
             "Made by `tools/quality_table.py`, on the exact path.  A type here is a name that `quantize` takes, its mix by role included: the size says",
             "what it costs.  KL: mean over positions, in nats, against the model as given; its error is the standard error.  A model that was given",
             "in few bits already (q4_1) is rounded a second time here.", ""]
    models = list(dict.fromkeys(r["model"] for r in rows))
    for n, model in enumerate(models):
        base = next(r for r in rows if r["model"] == model and r["type"] == "as given")
        own = sorted((r for r in rows if r["model"] == model and r["type"] != "as given"), key=lambda r: (order.get(r["type"], 99), list(COLOURS).index(r["how"])))
        lines += [f"## {model}", "", f"{base['text']}, {base['chunks']} windows of 512.  As given: {base['mb']:.2f} MB, perplexity {base['ppl']:.4f} +- {base['error']:.4f}.", ""]
        if n == 0:
            lines += ["![size and perplexity](quality.svg)", ""]
            plot(own, base["ppl"], os.path.join(a.out, "quality.svg"))
        lines += ["| type | weights | MB | perplexity | against the original | mean KL | same top token |", "|---|---|---:|---:|---:|---:|---:|"]
        lines += [f"| {r['type']} | {r['how']} | {r['mb']:.2f} | {r['ppl']:.4f} | {100 * (r['ppl'] / base['ppl'] - 1):+.2f} % | {r['kl']:.4f} +- {r['kl_error']:.4f} | {100 * r['top']:.1f} % |"
                  for r in own]
        lines.append("")
    with open(os.path.join(a.out, "quality.md"), "w") as f:
        f.write("\n".join(lines))


def main():
    p = argparse.ArgumentParser()
    sub = p.add_subparsers(dest="what", required=True)
    m, w = sub.add_parser("measure"), sub.add_parser("write")
    for name in ("rows", "fewbit", "model", "text"):
        m.add_argument(name)
    m.add_argument("--imatrix")
    m.add_argument("--types", default=TYPES)
    m.add_argument("--hadamard", type=int, default=0)
    m.add_argument("--chunks", type=int, default=0)
    m.add_argument("--threads", type=int, default=0)
    m.add_argument("--allow-requantize", action="store_true")
    w.add_argument("rows")
    w.add_argument("--out", default="docs")
    a = p.parse_args()
    add_rows(a) if a.what == "measure" else write(a)


main()
