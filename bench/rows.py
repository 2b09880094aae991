#!/usr/bin/env python3
"""Rows: runs a benchmark, prints its output, and appends the results that it recognises to a file for plot.py.

    rows.py ROWS.jsonl COMMAND...

A row is a JSON object on a line of its own.  The kind of its table says how it is plotted:

    moves    ours, stream, memcpy (GB/s); share: ours / stream; asked: the target of that share, or null
    seconds  seconds; with "peer" if it is not ours
    ratio    seconds, beside: what it is compared with, which the table names as "reference"
    grid     row, column, seconds: one cell

It is an error if no line of a benchmark is recognised: the output has changed, or nothing was measured.
"""
import json
import re
import subprocess
import sys

N = r"([0-9][-+.0-9e]*)"
UNITS = {"s": 1, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


def number(text, unit="s"):
    return float(text) * UNITS[unit]


def ratio(table, reference, name, mine, other):
    return [{"kind": "ratio", "table": table, "reference": reference, "name": name, "seconds": mine, "beside": other}]


def timed(table, name, value, peer=False):
    return [{"kind": "seconds", "table": table, "name": name.strip(), "seconds": value, **({"peer": True} if peer else {})}]


def from_table(m, _):
    return [{"kind": "moves", "table": "Moves beside memory", "name": m[1].strip(), "ours": float(m[2]), "stream": float(m[3]),
             "memcpy": float(m[4]), "share": float(m[5]), "asked": None if m[6] == "-" else float(m[6])}]


def from_simulate(m, heading):
    return ratio(f"reshard simulate, {heading}: what it predicts beside what is seen", "what is seen", f"{m[1].strip()} to {m[2].strip()}",
                 number(m[3]), number(m[4]))


def from_forms(m, _):
    return [{"kind": "grid", "table": table, "row": m[1], "column": m[2], "seconds": value}
            for table, value in (("Planning for 65,536 ranks, every form to every other", number(m[3])), ("The slowest share of such a plan", number(m[4], "ms")))]


def from_checkpoint(m, heading):
    where = "on tmpfs, not flushed" if "tmpfs" in heading else "on disk, flushed"
    return timed(f"A checkpoint from 4 ranks to 2, {where}", m[1], number(m[2]), not m[1].startswith("reshard"))


# Patterns of lines, with the function that makes rows of them.  A pattern without a function is the heading of the lines that follow.
LINES = [
    # table.sh
    (rf"(\S.{{33}}) +{N} +{N} +{N} +{N} +(-|{N})$", from_table),
    (rf"(16 KiB, rows to columns), (\d+ ranks): {N} s a run", lambda m, _: timed(m[1], m[2], number(m[3]))),
    # simulate.sh
    (r"(on threads|two hosts, 1 Gbit/s) .*predicted", None),
    (rf"(\w+\[.*?\] on \S+(?: \w+\(\S+\))?) +(\w+\[.*?\] on .*?) +{N} +{N} +{N} ", from_simulate),
    # peers.sh
    (r"(f32\[(\d+)/x, \d+\] on x=\d+ to .*), least of", None),
    (rf"(\S.{{33}}) +(\d+\.\d{{9}}) +{N}", lambda m, heading: timed(f"MPI, ScaLAPACK, PyTorch and us: {heading}", m[1], number(m[2]),
                                                                  not m[1].startswith("reshard"))),
    # bench_plan
    (rf"(\S+) to (\S+?)(?:, worst of \d+)? +{N} s +\d+ MB +share +{N} ms", from_forms),
    (rf"(\d.*?) +{N} s +\d+ MB +share +{N} ms", lambda m, _: timed("Planning for many", m[1], number(m[2]))),
    (rf"(\d+ tensors, \d+ ranks): plan {N} ms +slowest share {N} ms",
     lambda m, _: timed("Planning for a model", f"{m[1]}: plan", number(m[2], "ms")) + timed("Planning for a model", f"{m[1]}: slowest share", number(m[3], "ms"))),
    # bench_copy
    (rf"(\S.*?) +{N} ms +memcpy +{N} ms", lambda m, _: ratio("Copying loops", "memcpy", m[1], number(m[2], "ms"), number(m[3], "ms"))),
    (rf"(64 runs of 128 B, cached) +{N} ns", lambda m, _: timed("Short calls", f"copy: {m[1]}", number(m[2], "ns"))),
    # bench_fresh, bench_unseen
    (rf"(\w+) +(\d+)\^2 +(\d) alive +exec +{N} us +reshard +{N} us",
     lambda m, _: ratio("rsh_reshard into new memory", "a bound exec", f"{m[1]}, {m[2]} x {m[2]}, {m[3]} alive", number(m[5], "us"), number(m[4], "us"))),
    (rf"(\w+) +64\^2 +layouts not seen before +median {N} us", lambda m, _: timed("Short calls", f"reshard, layouts not seen before, {m[1]}", number(m[2], "us"))),
    # bench_crowd
    (rf"(rows to columns, +\d+ ranks): exec +{N} ms, local +{N} ms", lambda m, _: ratio("More ranks than cores", "rsh_local_exec_run by as many threads as cores",
                                                                                    " ".join(m[1].split()), number(m[2], "ms"), number(m[3], "ms"))),
    # bench_torch, bench_torch_tensor
    (r"(f32 \d+x\d+, dim 0 to dim 1, \d+ ranks on \w+)", None),
    (r"(\d+ ranks \(\w+\), f32\[.*\], rows to columns):", None),
    (rf"  (\S.*?) +{N} us", lambda m, heading: timed(heading, m[1], number(m[2], "us"), m[1].startswith("PyTorch"))),
    # bench_grad
    (rf"an op on one element: {N} us forward, {N} us backward",
     lambda m, _: timed("Short calls", "an op on one element, forward", number(m[1], "us")) + timed("Short calls", "the same, backward", number(m[2], "us"))),
    (rf"(a reshard of 16 KiB on \d+ ranks): {N} us bare, {N} us as an op",
     lambda m, _: timed("Short calls", f"{m[1]}, bare", number(m[2], "us")) + timed("Short calls", "the same as an op", number(m[3], "us"))),
    # nn
    (rf"linear 1024x1024x1024.*? +{N} ms, bare cblas_sgemm +{N} ms", lambda m, _: ratio("Layers", "cblas, PyTorch", "Linear 1024 x 1024 x 1024, beside bare cblas_sgemm",
                                                                                  number(m[1], "ms"), number(m[2], "ms"))),
    (rf"transformer block, one training step: reshard {N} ms, PyTorch (\S+) {N} ms",
     lambda m, _: ratio("Layers", "cblas, PyTorch", f"transformer block, a training step, beside PyTorch {m[2]}", number(m[1], "ms"), number(m[3], "ms"))),
    (rf"relu of one element +{N} ns, recorded {N} ns, with backward {N} ns",
     lambda m, _: [row for name, k in (("relu of one element", 1), ("the same, recorded", 2), ("the same, with backward", 3))
                   for row in timed("Short calls", name, number(m[k], "ns"))]),
    (rf"(\S.*?) +forward +{N} ms, backward +{N} ms",
     lambda m, _: timed("Ops", f"{m[1]}, forward", number(m[2], "ms")) + timed("Ops", f"{m[1]}, backward", number(m[3], "ms"))),
    (rf"transformer block, one training step, \d+ threads: least {N} ms", lambda m, _: timed("Ops", "transformer block, a training step", number(m[1], "ms"))),
    # checkpoint.py
    (r"(checkpoint of .*on disk|the same on tmpfs)", None),
    (rf"  (reshard convert|cp, sync -f|NumPy memmap) +{N} s ", from_checkpoint),
]
LINES = [(re.compile(pattern), rows) for pattern, rows in LINES]


def read(line, heading):
    """Returns the rows of a line, and the heading that holds for the next line."""
    for pattern, rows in LINES:
        m = pattern.match(line)
        if m:
            return (rows(m, heading), heading) if rows else ([], m[1])
    return [], heading


def main(path, *command):
    heading, found = "", 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child, open(path, "a", encoding="utf-8") as out:
        for line in child.stdout:
            print(line, end="", flush=True)
            rows, heading = read(line.rstrip("\n"), heading)
            found += len(rows)
            out.writelines(json.dumps(row) + "\n" for row in rows)
    if child.returncode:
        return child.returncode
    if not found and "left out" not in line and "not enough room" not in line:
        print(f"rows.py: no line of the output of {command[0]} is recognised; add its format to LINES", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
