#!/usr/bin/env python3
"""Plot: what the benchmarks print becomes rows, and the page has a bar or a cell for every row, as long as its number says.

    check_plot.py FOLDER        of rows.py and plot.py

output.txt has lines of every benchmark, as they print them, and rows.py names every program whose lines it knows.
"""
import json
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
TABLES = {
    "Moves beside memory": 3, "16 KiB, rows to columns": 2, "MPI, ScaLAPACK, PyTorch and us: f32[8192/x, 8192] on x=2 to f32[8192, 8192/x]": 3,
    "reshard simulate, on threads: what it predicts beside what is seen": 2,
    "reshard simulate, two hosts, 1 Gbit/s: what it predicts beside what is seen": 1, "A checkpoint from 4 ranks to 2, on disk, flushed": 2,
    "A checkpoint from 4 ranks to 2, on tmpfs, not flushed": 2, "Layers": 2, "Copying loops": 1, "Short calls": 9, "rsh_reshard into new memory": 2,
    "Planning for a model": 2, "Planning for 65,536 ranks, every form to every other": 2, "The slowest share of such a plan": 2,
    "f32 64x64, dim 0 to dim 1, 2 ranks on threads": 2, "2 ranks (processes), f32[64, 64], rows to columns": 1, "Ops": 3,
    "MPI, ScaLAPACK, PyTorch and us: f32[8192/x, 8192] on x=32 to f32[8192, 8192/x]": 1, "More ranks than cores": 1,
}


def run(*words, **options):
    return subprocess.run([sys.executable, *words], stdout=subprocess.DEVNULL, **options)


def plot_of(page, table):
    return page[page.index(f"<h2>{table}</h2>"):].split("<h2>")[1]


def widths(page, table, kind):
    return [float(w) for w in re.findall(rf'<rect class="{kind}"[^>]* width="([0-9.]+)"', plot_of(page, table))]


def near(a, b):
    return abs(a / b - 1) < 0.02


def check_programs(folder):
    with open(os.path.join(folder, "rows.py"), encoding="utf-8") as file:
        known = set(re.findall(r"bench_\w+", "".join(line for line in file if line.lstrip().startswith("#"))))
    there = {name[:-2] for name in os.listdir(folder) if re.fullmatch(r"bench_\w+\.c", name)}
    assert there and there <= known, there - known


def main(folder):
    check_programs(folder)
    with tempfile.TemporaryDirectory() as scratch:
        rows, page = os.path.join(scratch, "rows.jsonl"), os.path.join(scratch, "page.html")
        run(os.path.join(folder, "rows.py"), rows, "cat", os.path.join(HERE, "output.txt"), check=True)
        with open(rows, encoding="utf-8") as file:
            tables = [json.loads(line)["table"] for line in file]
        assert {name: tables.count(name) for name in tables} == TABLES, {name: tables.count(name) for name in tables}
        with open(rows, "a", encoding="utf-8") as file:
            file.write(json.dumps({"kind": "seconds", "table": "Ops", "name": "<b>", "seconds": 1e-3}) + "\n")
        run(os.path.join(folder, "plot.py"), rows, page, check=True)
        with open(page, encoding="utf-8") as file:
            text = file.read()
        wrong = run(os.path.join(folder, "rows.py"), rows, "echo", "nothing that is known", stderr=subprocess.PIPE, text=True)
        assert wrong.returncode == 1 and "no line of the output of echo" in wrong.stderr, wrong
        assert run(os.path.join(folder, "rows.py"), rows, "sh", "-c", "exit 3").returncode == 3
    bars = sum(len(widths(text, name, kind)) for name in TABLES for kind in ("ours", "peer"))
    assert bars == sum(TABLES.values()) + 1, bars
    ours, peers = widths(text, list(TABLES)[2], "ours"), widths(text, list(TABLES)[2], "peer")
    assert near(peers[0] / ours[0], 8) and near(peers[1] / ours[0], 20), (ours, peers)
    moves = widths(text, "Moves beside memory", "ours")
    assert near(moves[0] / moves[2], 2), moves
    predicted = widths(text, list(TABLES)[3], "ours")
    assert near(predicted[0] / predicted[1], 1.5), predicted
    for mark, count in (("stream", 3), ("memcpy", 3), ("asked", 2)):
        assert plot_of(text, "Moves beside memory").count(f'<path class="{mark}"') == count, mark
    for name in TABLES:
        sentence = re.match(r"<h2>[^<]*</h2><p>([^<]+)</p>", text[text.index(f"<h2>{name}</h2>"):])
        assert sentence, f"no sentence says what the table {name} measures"
    for term in ("stream", "share", "peers", "target", "engine"):
        assert f"<dt>{term}</dt>" in text, f"the page does not explain {term}"
    assert "&lt;b&gt;" in text and "<b>" not in text
    assert not re.search(r"https?://(?!www\.w3\.org)", text), "the page loads something"
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
