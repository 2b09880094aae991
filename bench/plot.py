#!/usr/bin/env python3
"""Plot: the rows of table.sh and peers.sh as one page with a plot of every row.

    plot.py ROWS.jsonl PAGE.html

Rows of a table "moves" have GB/s of ours, of the machine's fastest plain pass ("stream") and of memcpy; rows of other tables have seconds,
ours beside peers.  The page loads nothing and follows the reader's choice of light or dark.
"""
import json
import os
import platform
import sys
from html import escape

WIDTH, LEFT, RIGHT, ROW = 920, 270, 100, 26
STYLE = """
:root { --paper: #fff; --ink: #1d2126; --soft: #5d6670; --line: #e3e6ea; --ours: #0067b8; --peer: #9aa5b0; --stream: #d1620a; --memcpy: #00855f; color-scheme: light dark; }
@media (prefers-color-scheme: dark) { :root { --paper: #14171b; --ink: #e7eaee; --soft: #a3acb6; --line: #2c323a; --ours: #5aaeff; --peer: #66717c; --stream: #ff9d4d; --memcpy: #42c79b; } }
body { font: 15px/1.5 system-ui, Helvetica, Arial, sans-serif; color: var(--ink); background: var(--paper); max-width: 960px; margin: 0 auto; padding: 20px; }
h1 { font-size: 20px; margin: 0; } h2 { font-size: 16px; margin: 30px 0 2px; } p { color: var(--soft); margin: 2px 0 10px; font-size: 14px; }
svg { width: 100%; height: auto; display: block; } text { font: 13px system-ui, Helvetica, Arial, sans-serif; fill: var(--ink); dominant-baseline: central; }
.soft { fill: var(--soft); font-size: 11px; } .grid { stroke: var(--line); } .ours { fill: var(--ours); } .peer { fill: var(--peer); }
.stream { fill: var(--stream); } .memcpy { fill: var(--memcpy); } .asked { stroke: var(--ink); stroke-width: 1.5; stroke-dasharray: 3 2; }
.scroll { overflow-x: auto; } .scroll svg { min-width: 640px; }
.key span { margin-right: 20px; white-space: nowrap; } .key i { display: inline-block; width: 12px; height: 12px; border-radius: 3px; margin-right: 6px; vertical-align: -1px; }
"""


def round_step(most):
    """Of 1, 2, 5, 10, ..: the first that divides `most` into six at most."""
    step = 10.0 ** -12
    while True:
        for factor in (1, 2, 5):
            if most / (step * factor) <= 6:
                return step * factor
        step *= 10


def grid(most, height, label):
    """Lines at round values, and the place of a value."""
    scale, step, out = (WIDTH - LEFT - RIGHT) / most, round_step(most), []
    for i in range(int(most / step) + 1):
        x = LEFT + i * step * scale
        out.append(f'<path class="grid" d="M{x:.1f} 18V{height}"/><text class="soft" x="{x:.1f}" y="8" text-anchor="middle">{label(i * step)}</text>')
    return out, lambda value: LEFT + value * scale


def bar(kind, y, x, tip):
    return f'<rect class="{kind}" x="{LEFT}" y="{y + 5}" width="{max(1, x - LEFT):.1f}" height="{ROW - 10}" rx="2"><title>{escape(tip)}</title></rect>'


def diamond(kind, x, y, tip):
    return f'<path class="{kind}" d="M{x:.1f} {y - 7}l5 7l-5 7l-5 -7z"><title>{escape(tip)}</title></path>'


def figure(parts, height):
    return f'<div class="scroll"><svg viewBox="0 0 {WIDTH} {height}" role="img">' + "\n".join(parts) + "</svg></div>"


def plot_moves(rows):
    height = 22 + ROW * len(rows)
    parts, place = grid(max(max(r["ours"], r["stream"], r["memcpy"]) for r in rows), height, lambda v: f"{v:g}")
    for i, r in enumerate(rows):
        y = 22 + ROW * i
        middle = y + ROW / 2
        parts.append(f'<text x="{LEFT - 10}" y="{middle}" text-anchor="end">{escape(r["name"])}</text>')
        parts.append(bar("ours", y, place(r["ours"]), f'{r["name"]}: {r["ours"]:.2f} GB/s'))
        parts.append(diamond("stream", place(r["stream"]), middle, f'stream: {r["stream"]:.2f} GB/s'))
        parts.append(diamond("memcpy", place(r["memcpy"]), middle, f'memcpy: {r["memcpy"]:.2f} GB/s'))
        if r["asked"] != "-":
            x = place(float(r["asked"]) * r["stream"] / r["factor"])
            parts.append(f'<path class="asked" d="M{x:.1f} {y + 2}V{y + ROW - 2}"><title>asked: {r["asked"]} of the stream</title></path>')
        parts.append(f'<text class="soft" x="{WIDTH - 4}" y="{middle}" text-anchor="end">{r["share"]:.2f} of stream</text>')
    key = ('<p class="key"><span><i style="background:var(--ours)"></i>ours, GB/s read and written</span><span><i style="background:var(--stream)"></i>'
           'stream: the fastest plain pass over memory</span><span><i style="background:var(--memcpy)"></i>memcpy</span><span>dashes: what is asked</span></p>')
    return f"<h2>Moves beside memory</h2>{key}" + figure(parts, height)


def seconds(value):
    for unit, size in (("s", 1), ("ms", 1e-3), ("us", 1e-6)):
        if value >= size * (1 - 1e-9):
            return f"{value / size:.3g} {unit}"
    return f"{value / 1e-9:.3g} ns"


def plot_seconds(table, rows):
    rows, height = sorted(rows, key=lambda r: r["seconds"]), 22 + ROW * len(rows)
    parts, place = grid(max(r["seconds"] for r in rows), height, seconds)
    parts[0] = parts[0].replace(">0 ns<", ">0<")
    for i, r in enumerate(rows):
        y = 22 + ROW * i
        ours = r["name"].startswith("reshard") or r["name"].endswith(" ranks")
        parts.append(f'<text x="{LEFT - 10}" y="{y + ROW / 2}" text-anchor="end">{escape(r["name"])}</text>')
        parts.append(bar("ours" if ours else "peer", y, place(r["seconds"]), f'{r["name"]}: {seconds(r["seconds"])}'))
        parts.append(f'<text class="soft" x="{place(r["seconds"]) + 6:.1f}" y="{y + ROW / 2}">{seconds(r["seconds"])}</text>')
    key = '<p class="key"><span><i style="background:var(--ours)"></i>ours</span><span><i style="background:var(--peer)"></i>peers</span><span>seconds a run: shorter is better</span></p>'
    return f"<h2>{escape(table)}</h2>{key}" + figure(parts, height)


def main(rows_path, page_path):
    with open(rows_path, encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    tables = {}
    for row in rows:
        tables.setdefault(row["table"], []).append(row)
    plots = [plot_moves(t) if name == "moves" else plot_seconds(name, t) for name, t in tables.items()]
    machine = f"{platform.machine()}, {os.cpu_count()} cores, {platform.system()} {platform.release()}"
    with open(page_path, "w", encoding="utf-8") as file:
        file.write(f'<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<meta name="viewport" content="width=device-width,initial-scale=1">\n<title>reshard: benchmarks</title>\n'
                   f"<style>{STYLE}</style>\n<h1>reshard: benchmarks</h1>\n<p>{escape(machine)}; {len(rows)} rows</p>\n" + "\n".join(plots) + "\n</html>\n")
    print(f"{page_path}: plots of {len(rows)} rows")


if __name__ == "__main__":
    main(*sys.argv[1:3])
