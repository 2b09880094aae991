#!/usr/bin/env python3
"""Plot: what rows.py kept of the benchmarks, as one page with a plot of every row.

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
dl { display: grid; grid-template-columns: max-content 1fr; gap: 2px 16px; font-size: 14px; margin: 6px 0 0; } dt { font-weight: 600; } dd { margin: 0; color: var(--soft); }
.scroll { overflow-x: auto; } .scroll svg { min-width: 640px; }
.key span { margin-right: 20px; white-space: nowrap; } .key i { display: inline-block; width: 12px; height: 12px; border-radius: 3px; margin-right: 6px; vertical-align: -1px; }
"""

# Words of the page.
TERMS = {
    "move": "A tensor goes from one layout to another. \"Rows to columns\" means that every rank first holds some of the rows and then some of the columns.",
    "rank": "One of the threads or processes that hold the tensor together.",
    "ours, GB/s": "Bytes of the tensor written, divided by the time of a move; 1 GB is 10^9 bytes.",
    "stream": "The fastest plain pass over the same memory on this machine, measured in the same round: the limit for any copy.",
    "memcpy": "The C library's memcpy of as many bytes, by as many threads.",
    "of stream": "Our speed divided by that of the stream: 1.00 is as fast as memory allows.",
    "target": "The share of the stream that the project sets itself for this move, on two cores.",
    "peers": "Other programs that do the same work: MPI, ScaLAPACK, PyTorch, NumPy, cp. They run in turn with ours.",
    "exec": "A move that is planned and bound to its memory once and then run often: rsh_exec_run.",
    "reshard": "The same in one call, which looks up or makes the plan: rsh_reshard.",
    "share": "The part of a plan that one rank carries out. A rank needs only its own.",
    "engine": "How ranks reach each other: threads of one process, processes with shared memory (shm), or MPI.",
}
# What a table measures: the beginning of its name, and a sentence.
ABOUT = {
    "Moves beside memory": "Speed of whole moves of 256 MiB, beside what memory allows.",
    "16 KiB": "Time of one small move between threads, where the cost of meeting counts and not that of copying.",
    "MPI, ScaLAPACK": "The same move by other libraries: the least time of alternating rounds, every element checked.",
    "reshard simulate": "Time that `reshard simulate` predicts, divided by the time that the move then takes. 1 is exact.",
    "A checkpoint": "Rewriting a checkpoint of 2.5 GB for another number of ranks, beside copying its files.",
    "Layers": "Time of a layer or a training step, divided by that of the library named in its row.",
    "Copying loops": "Time of the inner loops on one shape each, divided by that of memcpy of as many bytes.",
    "Short calls": "The least that a call costs, with next to nothing to move.",
    "rsh_reshard into": "Time of one call of rsh_reshard that allocates its result, divided by that of a bound exec. \"Alive\" results are kept while the next ones are made.",
    "Planning for a model": "Time to plan the move of all tensors of a model, and of the rank whose share takes longest.",
    "Planning for 65,536": "Time to plan a move between two ways to cut a tensor (forms), and to add up what it costs.",
    "The slowest share": "Time until the rank with most to do knows what it sends and receives, for the same plans.",
    "Planning for many": "Time to plan moves of very many ranks or boxes.",
    "f32 64x64": "Time of one small move through the interface of PyTorch's sharded tensors and through ours.",
    "2 ranks (processes)": "Time of one small move between two processes, by each interface.",
    "Ops": "Time of differentiable ops.",
    "More ranks than cores": "Time of a move by 64 ranks on few cores, divided by that of as many threads as cores.",
}
FORMS = ("chunk: equal parts, the last may be shorter; balanced: parts differ by at most one; sizes: explicit sizes; unit: multiples of a unit; cyclic: blocks dealt in turn; "
         "nested: two axes cut one dim; segments: a fused dim, each segment cut by itself; flat: all elements in a row; flat/cut: flat inside of a cut; replicas: some ranks hold the same; "
         "sum: partial sums; boxes: explicit boxes")


def round_step(most):
    """Of 1, 2, 5, 10, ..: the first that divides `most` into six at most."""
    step = 10.0 ** -12
    while True:
        for factor in (1, 2, 5):
            if most / (step * factor) <= 6:
                return step * factor
        step *= 10


class Chart:
    """Rows of bars below a scale; names stand left of the bars, or above them if one is long."""

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
        """Behind a bar, or at the edge."""
        x, anchor = (WIDTH - 4, "end") if value is None else (self.place(value) + 6, "start")
        self.parts.append(f'<text class="soft" x="{x:.1f}" y="{self.middle(i)}" text-anchor="{anchor}">{escape(words)}</text>')

    def figure(self):
        return figure(self.parts, self.height)


def figure(parts, height):
    return f'<div class="scroll"><svg viewBox="0 0 {WIDTH} {height}" role="img">' + "\n".join(parts) + "</svg></div>"


def key(*entries):
    """What colours mean: pairs of a colour, or None, and words."""
    swatch = lambda colour: f'<i style="background:var(--{colour})"></i>' if colour else ""
    return '<p class="key">' + "".join(f"<span>{swatch(colour)}{escape(words)}</span>" for colour, words in entries) + "</p>"


def plot_moves(rows):
    chart = Chart([r["name"] for r in rows], max(max(r["ours"], r["stream"], r["memcpy"]) for r in rows), lambda v: f"{v:g} GB/s")
    for i, r in enumerate(rows):
        chart.bar("ours", i, r["ours"], f'{r["name"]}: {r["ours"]:.2f} GB/s')
        for kind in ("stream", "memcpy"):
            chart.diamond(kind, i, r[kind], f"{kind}: {r[kind]:.2f} GB/s")
        if r["asked"] and r["share"]:
            chart.dash(r["asked"] / r["share"] * r["ours"], chart.middle(i) - 11, chart.middle(i) + 11, f'target: {r["asked"]} of the stream')
        chart.remark(i, None, f'{r["share"]:.2f} of stream')
    return key(("ours", "ours, GB/s"), ("stream", "stream"), ("memcpy", "memcpy"), (None, "dashes: target")) + chart.figure()


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
    chart.dash(1, 18, chart.height, "equal times")
    for i, r in enumerate(rows): # over the dashes
        share = r["seconds"] / r["beside"]
        chart.remark(i, share, f'{share:.2f}: {seconds(r["seconds"])}')
    return key(("ours", f"time, divided by that of {rows[0]['reference']}"), (None, "dashes: equal times"),
               *([] if rows[0]["reference"] == "what is seen" else [(None, "shorter is better")])) + chart.figure()


def plot_grid(rows):
    """One cell for each pair of names, the darker the longer."""
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
    return key((None, "from the form on the left to the form above; the darker, the longer")) + figure(parts, height) + f"<p>{escape(FORMS)}.</p>"


PLOTS = {"moves": plot_moves, "seconds": plot_seconds, "ratio": plot_ratio, "grid": plot_grid}


def about(table):
    """The sentence below a table's name."""
    return next((f"<p>{escape(sentence)}</p>" for begin, sentence in ABOUT.items() if table.startswith(begin)), "")


def glossary():
    return "<h2>Terms</h2>\n<dl>" + "".join(f"<dt>{escape(word)}</dt><dd>{escape(meaning)}</dd>" for word, meaning in TERMS.items()) + "</dl>\n"


def main(rows_path, page_path):
    with open(rows_path, encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    tables = {}
    for row in rows:
        tables.setdefault(row["table"], []).append(row)
    plots = [f"<h2>{escape(name)}</h2>" + about(name) + PLOTS[t[0]["kind"]](t) for name, t in tables.items()]
    machine = f"{platform.machine()}, {os.cpu_count()} cores, {platform.system()} {platform.release()}"
    with open(page_path, "w", encoding="utf-8") as file:
        file.write(f'<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<meta name="viewport" content="width=device-width,initial-scale=1">\n<title>reshard: benchmarks</title>\n'
                   f"<style>{STYLE}</style>\n<h1>reshard: benchmarks</h1>\n<p>{escape(machine)}; {len(rows)} rows</p>\n" + glossary() + "\n".join(plots) + "\n</html>\n")
    print(f"{page_path}: plots of {len(rows)} rows")


if __name__ == "__main__":
    main(*sys.argv[1:3])
