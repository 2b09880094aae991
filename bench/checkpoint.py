#!/usr/bin/env python3
"""Checkpoint: converts a generated model (24 tensors, 2.4 GB) from 4 ranks to 2, with `reshard convert`, cp and sync, and NumPy.

    checkpoint.py COMMAND [ROUNDS] [SIZE]

Rounds alternate, and the best time of each is printed.  On disk both flush everything before they end; on tmpfs neither does.  SIZE is
the number of rows of the square matrices (7168: 2.4 GB).  The kernel counts the peak memory and the bytes of the command.
"""
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time

command = os.path.abspath(sys.argv[1])
rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 5
side = int(sys.argv[3]) if len(sys.argv) > 3 else 7168
here = os.path.dirname(os.path.abspath(__file__))

RULES = "mesh tp={n}\n*.q [_/tp, _]\n*.up [_/tp, _]\n*.o [_, _/tp]\n"
CUT = {"q": f"bf16[{side}/tp, {side}] on tp=4", "up": f"bf16[{side}/tp, {side}] on tp=4", "o": f"bf16[{side}, {side}/tp] on tp=4"}


def make_source(path):
    """Writes four rank files of random bytes."""
    noise = os.urandom(1 << 24)
    os.makedirs(path)
    for r in range(4):
        header, at = {"__metadata__": {"format": "pt", "reshard.version": "1", "reshard.rank": str(r)}}, 0
        for i in range(8):
            for kind in ("q", "o", "up"):
                name, shape = f"layers.{i}.{kind}", [side, side // 4] if kind == "o" else [side // 4, side]
                header["__metadata__"][f"reshard.layout/{name}"] = CUT[kind]
                header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + 2 * shape[0] * shape[1]]}
                at += 2 * shape[0] * shape[1]
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        with open(os.path.join(path, f"rank-{r:05}-of-00004.safetensors"), "wb") as f:
            f.write(struct.pack("<Q", len(text)) + text)
            for k in range(0, at, len(noise) - 97):
                f.write(noise[:min(len(noise) - 97, at - k)])


def run(words):
    """Returns the seconds, the peak bytes of memory, and the bytes read and written by system calls."""
    start = time.monotonic()
    child = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    seconds = time.monotonic() - start
    try:
        with open(f"/proc/{child.pid}/io") as f:
            io = dict(line.split(": ") for line in f.read().split("\n") if line)
    except OSError:
        io = {}
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == 0, words
    return seconds, usage.ru_maxrss * 1024, int(io.get("rchar", 0)), int(io.get("wchar", 0))


def ours(source, target, rules):
    shutil.rmtree(target, ignore_errors=True)
    return run([command, "convert", source, target, "--to", rules])


def cp(source, target):
    shutil.rmtree(target, ignore_errors=True)
    return run(["sh", "-c", f"cp -r --reflink=never {source} {target} && sync -f {target}"])


def numpy_python():
    for python in (sys.executable, "/usr/bin/python3"):
        if not subprocess.run([python, "-c", "import numpy"], stderr=subprocess.DEVNULL).returncode:
            return python
    return None


def memmap(python, source, target):
    shutil.rmtree(target, ignore_errors=True)
    return run([python, os.path.join(here, "memmap.py"), source, target])


def room(path):
    v = os.statvfs(path)
    return v.f_bavail * v.f_frsize


def measure(home, other, name):
    source, rules = os.path.join(home, "source"), os.path.join(home, "2.rules")
    make_source(source)
    with open(rules, "w") as f:
        f.write(RULES.format(n=2))
    size = sum(os.path.getsize(os.path.join(source, f)) for f in os.listdir(source))
    best, theirs = None, None
    os.sync()
    for _ in range(rounds):
        theirs = min(filter(None, (theirs, other(source, os.path.join(home, "other"))[0])))
        shutil.rmtree(os.path.join(home, "other"))
        mine = ours(source, os.path.join(home, "mine"), rules)
        best = min(filter(None, (best, mine)))
    print(f"  reshard convert {best[0]:6.2f} s   {size / best[0] / 1e9:5.2f} GB/s   peak {best[1] / 2**20:.0f} MiB   "
          f"read {best[2] / size:.3f}x   written {best[3] / size:.3f}x")
    print(f"  {name:15} {theirs:6.2f} s   {size / theirs / 1e9:5.2f} GB/s   ours takes {best[0] / theirs:.2f} of it")
    return source, rules, os.path.join(home, "mine")


def main():
    need = 3 * 48 * side * side
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR", os.path.dirname(command))) as home:
        if room(home) < 1.2 * need:
            return print("checkpoint: not enough room on the disk")
        print(f"checkpoint of 24 tensors, {48 * side * side / 1e9:.1f} GB, 4 ranks to 2, on disk, flushed")
        source, rules, mine = measure(home, cp, "cp, sync -f")
        subprocess.run([command, "verify", source, mine], check=True)
    python = numpy_python()
    if not python or not os.path.isdir("/dev/shm") or room("/dev/shm") < 1.1 * need:
        return print("checkpoint: the comparison on tmpfs is left out: NumPy is not installed, or /dev/shm is too small")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as home:
        print("the same on tmpfs, not flushed")
        measure(home, lambda a, b: memmap(python, a, b), "NumPy memmap")


main()
