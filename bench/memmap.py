"""Memmap: the conversion that bench/checkpoint.py measures, written with NumPy: the files of 4 ranks become those of 2.

    memmap.py SRC DST

q and up are cut in dim 0, o in dim 1.
"""
import json
import os
import struct
import sys

import numpy


def open_file(path):
    with open(path, "rb") as f:
        (n,) = struct.unpack("<Q", f.read(8))
        header = json.loads(f.read(n))
    header.pop("__metadata__", None)
    return header, 8 + n


def view(path, entry, data, mode):
    return numpy.memmap(path, numpy.uint16, mode, data + entry["data_offsets"][0], tuple(entry["shape"]))


def axis(name):
    return 1 if name.endswith(".o") else 0


def main():
    source, target = sys.argv[1:]
    os.makedirs(target)
    files = [os.path.join(source, f"rank-{r:05}-of-00004.safetensors") for r in range(4)]
    headers = [open_file(f) for f in files]
    for r in range(2):
        out, at = {}, 0
        for name, e in headers[0][0].items():
            shape = list(e["shape"])
            shape[axis(name)] *= 2
            n = 2 * shape[0] * shape[1]
            out[name] = {"dtype": e["dtype"], "shape": shape, "data_offsets": [at, at + n]}
            at += n
        text = json.dumps(out).encode()
        text += b" " * (-len(text) % 8)
        path = os.path.join(target, f"rank-{r:05}-of-00002.safetensors")
        with open(path, "wb") as f:
            f.write(struct.pack("<Q", len(text)) + text)
            f.truncate(8 + len(text) + at)
        for name, e in out.items():
            parts = [view(files[k], headers[k][0][name], headers[k][1], "r") for k in (2 * r, 2 * r + 1)]
            numpy.concatenate(parts, axis=axis(name), out=view(path, e, 8 + len(text), "r+"))


main()
