#!/usr/bin/env python3
"""Draws bench/cpu_peers.jsonl as an SVG: our speed over the better peer's, per type, with the bar that each had to reach.

  bench/plot_peers.py bench/cpu_peers.jsonl bench/cpu_peers.svg
"""
import html
import json
import sys

COLUMNS = [("tg", 1, "decode, 1 thread"), ("tg", 2, "decode, 2 threads"), ("bseq", 2, "8 sequences, 2 threads"), ("pp", 2, "pp512, 2 threads")]
COLOURS = {"native": "#3366aa", "avx2": "#cc8833"}
rows = [json.loads(line) for line in open(sys.argv[1])]
newest = {(r["type"], r["what"], r["threads"], r["set"]): r for r in rows}  # a later line replaces an earlier one
types = list(dict.fromkeys(r["type"] for r in rows))
line, panel, left, top = 30, 200, 76, 64
width, height = left + len(COLUMNS) * (panel + 24), top + len(types) * line + 30
most = 8.0  # ratios beyond are cut, with their number


def x_of(ratio):
    return min(ratio, most) / most * panel


out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" font-size="11">',
       f'<rect width="{width}" height="{height}" fill="white"/>']


def text(x, y, s, **more):
    attributes = "".join(f' {k.replace("_", "-")}="{v}"' for k, v in more.items())
    out.append(f'<text x="{x:.1f}" y="{y:.1f}"{attributes}>{html.escape(s)}</text>')


def rect(x, y, w, h, fill):
    out.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h:.1f}" fill="{fill}"/>')


text(8, 18, f"tokens per second over the better peer's, {rows[0]['shape']}; {rows[-1]['cpu']}, {rows[-1]['date']}", font_size=13)
for i, (name, colour) in enumerate(COLOURS.items()):
    rect(8 + 150 * i, 28, 10, 10, colour)
    text(22 + 150 * i, 37, {"native": "best set of the machine", "avx2": "AVX2 forced"}[name])
text(330, 37, "black: the bar to reach; grey: 1 x")
for c, (what, threads, title) in enumerate(COLUMNS):
    x0 = left + c * (panel + 24)
    text(x0, top - 8, title, font_weight="bold")
    rect(x0 + x_of(1), top, 1, len(types) * line, "#bbbbbb")
    for t, kind in enumerate(types):
        y = top + t * line
        if c == 0:
            text(8, y + 16, kind)
        for i, (set_name, colour) in enumerate(COLOURS.items()):
            r = newest.get((kind, what, threads, set_name))
            if not r:
                continue
            yy = y + 2 + i * 12
            if "ratio" in r:
                rect(x0, yy, x_of(r["ratio"]), 10, colour)
                rect(x0 + x_of(r["bar"]), yy, 2, 10, "black")
            share = f", {100 * r['share_of_read']:.0f} % of read" if "share_of_read" in r else ""
            text(x0 + x_of(r.get("ratio", 0)) + 4 if r.get("ratio", 0) < 4 else x0 + 4, yy + 9, f"{r.get('ratio', '-')} x{share}",
                 font_size=9, fill="black" if r.get("ratio", 0) < 4 else "white")
out.append("</svg>")
open(sys.argv[2], "w").write("\n".join(out) + "\n")
