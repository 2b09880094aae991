#!/usr/bin/env python3
"""Plot: the page of the benchmarks has a bar for every row, as long as its number says.

    check_plot.py PLOT
"""
import json
import os
import re
import subprocess
import sys
import tempfile

MOVES = [{"table": "moves", "name": f"move <{i}>", "ours": 1.5 * i, "stream": 9, "memcpy": 12, "factor": 1, "share": 0.5, "asked": asked}
         for i, asked in ((1, "0.7"), (2, "-"), (4, "0.9"))]
PEERS = [{"table": "a peer's table", "name": name, "seconds": s} for name, s in (("reshard, engine shm", 1e-6), ("MPI", 4e-6), ("PyTorch reshard", 8e-6))]


def widths(page, kind):
    return [float(w) for w in re.findall(rf'<rect class="{kind}"[^>]* width="([0-9.]+)"', page)]


def main(plot):
    with tempfile.TemporaryDirectory() as folder:
        rows, page = os.path.join(folder, "rows.jsonl"), os.path.join(folder, "page.html")
        with open(rows, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in MOVES + PEERS)
        subprocess.run([sys.executable, plot, rows, page], check=True, stdout=subprocess.DEVNULL)
        with open(page, encoding="utf-8") as file:
            text = file.read()
    ours, peers = widths(text, "ours"), widths(text, "peer")
    assert len(ours) == 4 and len(peers) == 2, (ours, peers)
    assert abs(ours[1] / ours[0] - 2) < 0.01 and abs(ours[2] / ours[0] - 4) < 0.01, ours
    assert abs(peers[1] / peers[0] - 2) < 0.01 and abs(peers[0] / ours[3] - 4) < 0.01, (ours, peers)
    for mark, count in (("stream", 3), ("memcpy", 3), ("asked", 2)):
        assert text.count(f'<path class="{mark}"') == count, mark
    assert "move &lt;1&gt;" in text and "move <1>" not in text
    assert not re.search(r"https?://(?!www\.w3\.org)", text), "the page loads something"
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
