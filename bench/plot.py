#!/usr/bin/env python3
"""Plot: draws the benchmark results that rows.py collected, as one HTML page.

    plot.py ROWS.jsonl PAGE.html

rows.py lists the kinds of rows.  The page loads nothing and follows the reader's choice of light or dark.
"""
import json
import os
import platform
import sys
from html import escape

WIDTH, RIGHT, ROW = 920, 110, 26
STYLE = """
:root { --paper: #fff; --ink: #1d2126; --soft: #5d6670; --line: #e3e6ea; --ours: #0067b8; --peer: #9aa5b0; --stream: #d1620a; --memcpy: #00855f; color-scheme: light dark; }
@media (prefers-color-scheme: dark) { :root { --paper: #14171b; --ink: #e7eaee; --soft: #a3acb6; --line: #2c323a; --ours: #5aaeff; --peer: #66717c; --stream: #ff9d4d; --memcpy: #42c79b; } }
body { font: 15px/1.5 system-ui, Helvetica, Arial, sans-serif; color: var(--ink); background: var(--paper); max-width: 960px; margin: 0 auto; padding: 20px; }
h1 { font-size: 20px; margin: 0; } h2 { font-size: 16px; margin: 30px 0 2px; } p { color: var(--soft); margin: 2px 0 10px; font-size: 14px; }
svg { width: 100%; height: auto; display: block; } text { font: 13px system-ui, Helvetica, Arial, sans-serif; fill: var(--ink); dominant-baseline: central; }
.soft { fill: var(--soft); font-size: 11px; paint-order: stroke; stroke: var(--paper); stroke-width: 4px; } .cell { font-size: 11px; } .grid { stroke: var(--line); } .ours { fill: var(--ours); } .peer { fill: var(--peer); }
.stream { fill: var(--stream); } .memcpy { fill: var(--memcpy); } .asked { stroke: var(--ink); stroke-width: 1.5; stroke-dasharray: 3 2; }
.scroll { overflow-x: auto; } .scroll svg { min-width: 640px; }
.key span { margin-right: 20px; white-space: nowrap; } .key i { display: inline-block; width: 12px; height: 12px; border-radius: 3px; margin-right: 6px; vertical-align: -1px; }
"""


def round_step(most):
    """Returns the smallest of 1, 2, 5, 10, ... that divides `most` into at most six steps."""
    step = 10.0 ** -12
    while True:
        for factor in (1, 2, 5):
            if most / (step * factor) <= 6:
                return step * factor
        step *= 10


class Chart:
    """Rows of bars below a scale.  Names are left of the bars, or above them if one is long."""

    def __init__(self, names, most, words):
        self.above = max(map(len, names)) > 46
        self.left, self.row = (4, 44) if self.above else (330, ROW)
        self.height, self.parts = 22 + self.row * len(names), []
        self.scale, step = (WIDTH - self.left - RIGHT) / most, round_step(most)
        for i in range(int(most / step) + 1):
            x = self.place(i * step)
            self.parts.append(f'<path class="grid" d="M{x:.1f} 18V{self.height}"/><text class="soft" x="{x:.1f}" y="8" text-anchor="middle">{words(i * step)}</text>')
        for i, name in enumerate(names):
            x, y, anchor = (self.left, self.middle(i) - 19, "start") if self.above else (self.left - 10, self.middle(i), "end")
            self.parts.append(f'<text x="{x}" y="{y}" text-anchor="{anchor}">{escape(name)}</text>')

    def place(self, value):
        return self.left + value * self.scale

    def middle(self, i):
        return 22 + self.row * (i + 1) - 13

    def bar(self, kind, i, value, tip):
        width = max(1, self.place(value) - self.left)
        self.parts.append(f'<rect class="{kind}" x="{self.left}" y="{self.middle(i) - 8}" width="{width:.1f}" height="16" rx="2"><title>{escape(tip)}</title></rect>')

    def diamond(self, kind, i, value, tip):
        self.parts.append(f'<path class="{kind}" d="M{self.place(value):.1f} {self.middle(i) - 7}l5 7l-5 7l-5 -7z"><title>{escape(tip)}</title></path>')

    def dash(self, value, top, bottom, tip):
        self.parts.append(f'<path class="asked" d="M{self.place(value):.1f} {top}V{bottom}"><title>{escape(tip)}</title></path>')

    def remark(self, i, value, words):
        """Adds a text behind a bar, or at the right edge if there is no value."""
        x, anchor = (WIDTH - 4, "end") if value is None else (self.place(value) + 6, "start")
        self.parts.append(f'<text class="soft" x="{x:.1f}" y="{self.middle(i)}" text-anchor="{anchor}">{escape(words)}</text>')

    def figure(self):
        return figure(self.parts, self.height)


def figure(parts, height):
    return f'<div class="scroll"><svg viewBox="0 0 {WIDTH} {height}" role="img">' + "\n".join(parts) + "</svg></div>"


def key(*entries):
    """The legend: pairs of a colour (or None) and a text."""
    swatch = lambda colour: f'<i style="background:var(--{colour})"></i>' if colour else ""
    return '<p class="key">' + "".join(f"<span>{swatch(colour)}{escape(words)}</span>" for colour, words in entries) + "</p>"


def plot_moves(rows):
    chart = Chart([r["name"] for r in rows], max(max(r["ours"], r["stream"], r["memcpy"]) for r in rows), lambda v: f"{v:g}")
    for i, r in enumerate(rows):
        chart.bar("ours", i, r["ours"], f'{r["name"]}: {r["ours"]:.2f} GB/s')
        for kind in ("stream", "memcpy"):
            chart.diamond(kind, i, r[kind], f"{kind}: {r[kind]:.2f} GB/s")
        if r["asked"] and r["share"]:
            chart.dash(r["asked"] / r["share"] * r["ours"], chart.middle(i) - 11, chart.middle(i) + 11, f'asked: {r["asked"]} of the stream')
        chart.remark(i, None, f'{r["share"]:.2f} of stream')
    return key(("ours", "ours, GB/s written"), ("stream", "stream: the fastest plain pass over memory"), ("memcpy", "memcpy"),
               (None, "dashes: what is asked")) + chart.figure()


def seconds(value):
    for unit, size in (("s", 1), ("ms", 1e-3), ("us", 1e-6)):
        if value >= size * (1 - 1e-9):
            return f"{value / size:.3g} {unit}"
    return f"{value / 1e-9:.3g} ns"


def plot_seconds(rows):
    peers = any(r.get("peer") for r in rows)
    rows = sorted(rows, key=lambda r: r["seconds"]) if peers else rows
    chart = Chart([r["name"] for r in rows], max(r["seconds"] for r in rows), lambda v: seconds(v) if v else "0")
    for i, r in enumerate(rows):
        chart.bar("peer" if r.get("peer") else "ours", i, r["seconds"], f'{r["name"]}: {seconds(r["seconds"])}')
        chart.remark(i, r["seconds"], seconds(r["seconds"]))
    return key(*([("ours", "ours"), ("peer", "peers")] if peers else []), (None, "shorter is better")) + chart.figure()


def plot_ratio(rows):
    """Ours divided by the reference: 1 is equal."""
    chart = Chart([r["name"] for r in rows], max(1.2, *(r["seconds"] / r["beside"] for r in rows)), lambda v: f"{v:g}")
    for i, r in enumerate(rows):
        share = r["seconds"] / r["beside"]
        chart.bar("ours", i, share, f'{r["name"]}: {seconds(r["seconds"])}, {r["reference"]}: {seconds(r["beside"])}')
    chart.dash(1, 18, chart.height, "as long")
    for i, r in enumerate(rows): # over the dashes
        share = r["seconds"] / r["beside"]
        chart.remark(i, share, f'{share:.2f}: {seconds(r["seconds"])}')
    return key(("ours", f"time, divided by that of {rows[0]['reference']}"), (None, "dashes: as long")) + chart.figure()


def plot_grid(rows):
    """One cell for each pair of names; longer times are darker."""
    downs, acrosses = list(dict.fromkeys(r["row"] for r in rows)), list(dict.fromkeys(r["column"] for r in rows))
    most, left, side = max(r["seconds"] for r in rows), 90, (WIDTH - 94) / len(acrosses)
    height, parts = 24 + ROW * len(downs), []
    parts += [f'<text class="soft" x="{left + (i + 0.5) * side:.1f}" y="10" text-anchor="middle">{escape(name)}</text>' for i, name in enumerate(acrosses)]
    parts += [f'<text x="{left - 8}" y="{24 + (i + 0.5) * ROW}" text-anchor="end">{escape(name)}</text>' for i, name in enumerate(downs)]
    for r in rows:
        x, y, share = left + acrosses.index(r["column"]) * side, 24 + downs.index(r["row"]) * ROW, r["seconds"] / most
        parts.append(f'<rect class="ours" x="{x + 1:.1f}" y="{y + 1}" width="{side - 2:.1f}" height="{ROW - 2}" rx="3" fill-opacity="{0.06 + 0.6 * share:.2f}">'
                     f'<title>{escape(r["row"])} to {escape(r["column"])}: {seconds(r["seconds"])}</title></rect>')
        parts.append(f'<text class="cell" x="{x + side / 2:.1f}" y="{y + ROW / 2}" text-anchor="middle">{seconds(r["seconds"])}</text>')
    return key((None, "from the form on the left to the form above; the darker, the longer")) + figure(parts, height)


PLOTS = {"moves": plot_moves, "seconds": plot_seconds, "ratio": plot_ratio, "grid": plot_grid}


def main(rows_path, page_path):
    with open(rows_path, encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    tables = {}
    for row in rows:
        tables.setdefault(row["table"], []).append(row)
    plots = [f"<h2>{escape(name)}</h2>" + PLOTS[t[0]["kind"]](t) for name, t in tables.items()]
    machine = f"{platform.machine()}, {os.cpu_count()} cores, {platform.system()} {platform.release()}"
    with open(page_path, "w", encoding="utf-8") as file:
        file.write(f'<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<meta name="viewport" content="width=device-width,initial-scale=1">\n<title>reshard: benchmarks</title>\n'
                   f"<style>{STYLE}</style>\n<h1>reshard: benchmarks</h1>\n<p>{escape(machine)}; {len(rows)} rows</p>\n" + "\n".join(plots) + "\n</html>\n")
    print(f"{page_path}: plots of {len(rows)} rows")


if __name__ == "__main__":
    main(*sys.argv[1:3])
