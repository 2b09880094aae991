#!/usr/bin/env python3
"""Sources: checkpoints of other tools are converted bit for bit: PyTorch's DCP directories and sharded safetensors, rank files by rules, index.json.

    check_sources.py COMMAND
"""
import json
import os
import random
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, here)
import safetensors as st

command = os.path.abspath(sys.argv[1])
rng = random.Random(3)

# What tools/golden/torch_dcp.py saved.
SAVED = {"rows": ("F32", (10, 6)), "uneven": ("F32", (5, 3)), "columns": ("BF16", (6, 8)), "grid": ("F16", (7, 5)), "cube": ("I16", (4, 3, 5)),
         "turned": ("I32", (6, 4)), "plain": ("F64", (5, 3)), "transposed": ("F32", (3, 4)), "view": ("I64", (4, 3)), "step": ("I64", ()),
         "mask": ("BOOL", (9,)), "bytes": ("U8", (2, 3)), "signed": ("I8", (4,)), "complex": ("C64", (2, 2)), "empty": ("F32", (0, 4))}


def golden(name):
    dtype, shape = SAVED[name]
    n = st.count(shape) * st.BITS[dtype] // 8
    mask = 1 if dtype == "BOOL" else 255
    return dtype, shape, bytes((37 * i + 11 * (i >> 8) + 13 * len(name)) & mask for i in range(n))


def run(*arguments, status=0):
    done = subprocess.run([command, *arguments], capture_output=True, text=True)
    assert done.returncode == status, (arguments, done.returncode, done.stderr)
    return done.stdout + done.stderr


def convert(source, *arguments):
    """The tensors of the source as one file."""
    with tempfile.TemporaryDirectory() as folder:
        target = f"{folder}/whole.safetensors"
        run("convert", source, target, "--to", "whole", "--verify", *arguments)
        return st.read(target)[0]


def dcp():
    want = {name: golden(name) for name in SAVED}
    for which in ("1", "2", "4", "newer"):
        source = f"{here}/dcp/{which}"
        assert convert(source, "--drop") == want, which
        with tempfile.TemporaryDirectory() as folder:
            said = run("convert", source, f"{folder}/x", "--to", "whole", status=1)
            assert '"epoch" is no tensor' in said and not os.listdir(folder), said
            with open(f"{folder}/rules", "w") as file:
                file.write("mesh x=3\nrows [_, _/x]\ncube [_, _/x, _]\nturned [_, _/x~]\ntransposed [_/x, _]\n* [...]\n")
            run("convert", source, f"{folder}/three", "--to", f"{folder}/rules", "--drop", "--verify")
            assert convert(f"{folder}/three") == want, which


def cut(tensor, dim, lo, hi):
    """Indices lo to hi of one dim of (dtype, shape, bytes)."""
    dtype, shape, data = tensor
    width = st.BITS[dtype] // 8 * st.count(shape[dim + 1:])
    rows = st.count(shape[:dim])
    n = shape[dim] * width
    part = b"".join(data[r * n + lo * width:r * n + hi * width] for r in range(rows))
    return dtype, shape[:dim] + (hi - lo,) + shape[dim + 1:], part


def tensor(dtype, *shape):
    return dtype, shape, rng.randbytes(st.count(shape) * st.BITS[dtype] // 8)


def torch_shards():
    model = {"a": tensor("F32", 9, 4), "b": tensor("BF16", 5, 8), "c": tensor("I64")}
    with tempfile.TemporaryDirectory() as folder:
        for shard, (lo, hi) in enumerate(((0, 3), (3, 6), (6, 9))):
            parts = {"a": cut(model["a"], 0, lo, hi)}
            offsets = {"a": {"saved_offsets": [lo, 0]}}
            if shard < 2:
                parts["b"], offsets["b"] = cut(model["b"], 1, 4 * shard, 4 * shard + 4), {"saved_offsets": [0, 4 * shard]}
            if shard == 2:
                parts["c"], offsets["c"] = model["c"], {"saved_offsets": []}
            st.write(f"{folder}/shard-{shard + 1:05}-model-00001-of-00001.safetensors", parts,
                     {"format": "pt", "DCP_VERSION": "1.0", "DCP_SHARDING_INFO": json.dumps(offsets)}, pad=shard)
        assert convert(folder) == model
        os.remove(f"{folder}/shard-00002-model-00001-of-00001.safetensors")
        assert "shard-00002" in run("inspect", folder, status=1)


def rank_files():
    model = {"l.0.q.weight": tensor("BF16", 12, 4), "l.0.o.weight": tensor("BF16", 4, 12), "l.0.norm": tensor("F32", 7)}
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(f"{folder}/in")
        for rank in range(3):
            q = cut(model["l.0.q.weight"], 0, 4 * rank, 4 * rank + 4)
            o = cut(model["l.0.o.weight"], 1, 4 * rank, 4 * rank + 4)
            st.write(f"{folder}/in/model-rank-{rank}-part-0.safetensors", {"l.0.q.weight": q})
            st.write(f"{folder}/in/model-rank-{rank}-part-1.safetensors", {"l.0.o.weight": o, "l.0.norm": model["l.0.norm"]})
        with open(f"{folder}/rules", "w") as file:
            file.write("mesh tp=3\nfiles model-rank-{rank}-part-{part}.safetensors\n*.q.weight [_/tp, _]\n*.o.weight [_, _/tp]\n* [...]\n")
        assert convert(f"{folder}/in", "--from", f"{folder}/rules") == model
        st.write(f"{folder}/in/model-rank-1-part-0.safetensors", {"l.0.q.weight": cut(model["l.0.q.weight"], 0, 0, 3)})
        said = run("inspect", f"{folder}/in", "--from", f"{folder}/rules", status=1)
        assert "l.0.q.weight" in said and "rank " in said, said


def index():
    model = {"w": tensor("F32", 6, 5), "v": tensor("U8", 10)}
    top, rest = cut(model["w"], 0, 0, 2)[2], model["w"][2][40:]
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/a.bin", "wb") as file:
            file.write(b"head" + rest + b"gap" + top)
        with open(f"{folder}/b.bin", "wb") as file:
            file.write(model["v"][2])
        at = 4 + len(rest) + 3
        tensors = {"w": {"dtype": "f32", "shape": [6, 5], "parts": [{"file": "a.bin", "offset": 4, "range": [10, 30]},
                                                                   {"file": "a.bin", "offset": at, "box": [[0, 2], [0, 5]]}]},
                   "v": {"dtype": "u8", "shape": [10], "parts": [{"file": "b.bin", "offset": 0}]}}
        with open(f"{folder}/index.json", "w") as file:
            json.dump({"reshard.index": 1, "tensors": tensors}, file)
        assert convert(folder) == model


for check in (dcp, torch_shards, rank_files, index):
    check()
    print(check.__name__)
