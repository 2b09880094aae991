"""Checkpoint surgery: fuse, slice and rename tensors of a checkpoint without loading it as a whole.

A model with separate query, key and value weights becomes one with a fused weight and half as many layers, cut for
two ranks.  Only the slices that are asked for are read.

    PYTHONPATH=build/python python3 examples/python/checkpoint_surgery.py
"""
import os
import tempfile

import numpy as np

import reshard

HIDDEN, LAYERS = 64, 4


def write_model(path):
    """A small model, as one rank would save it."""
    rng = np.random.default_rng(1)

    def main(comm):
        tensors = {"embed.weight": rng.standard_normal((256, HIDDEN)).astype(np.float32)}
        for layer in range(LAYERS):
            for part in "qkv":
                tensors[f"layers.{layer}.{part}.weight"] = rng.standard_normal((HIDDEN, HIDDEN)).astype(np.float32)
        layouts = {name: f"f32[{value.shape[0]}, {value.shape[1]}]" for name, value in tensors.items()}
        reshard.save(comm, path, {name: reshard.Sharded(comm, layouts[name], value) for name, value in tensors.items()})

    reshard.run(1, main)


def operate(source, target):
    """Each rank reads the elements that it needs, and all ranks save the result together."""

    def main(comm):
        tensors = {}
        with reshard.open(source) as old:
            # The first 128 rows of the embedding, cut along rows: each rank reads its half.
            mine = slice(64 * comm.rank, 64 * comm.rank + 64)
            tensors["embed.weight"] = reshard.Sharded(comm, f"f32[128/tp, {HIDDEN}] on tp=2", old["embed.weight"][mine])
            for new_layer, layer in enumerate(range(0, LAYERS, 2)):
                tensors[f"layers.{new_layer}.qkv.weight"] = fuse(comm, old, layer)
        reshard.save(comm, target, tensors, metadata={"surgery": "every second layer, fused, 128 tokens"})

    reshard.run(2, main)


def fuse(comm, old, layer):
    """Query, key and value in one tensor, each cut separately: "(64|64|64)/tp"."""
    half = HIDDEN // 2
    mine = slice(half * comm.rank, half * comm.rank + half)
    parts = [old[f"layers.{layer}.{part}.weight"][mine] for part in "qkv"]
    layout = f"f32[({HIDDEN}|{HIDDEN}|{HIDDEN})/tp, {HIDDEN}] on tp=2"
    return reshard.Sharded(comm, layout, np.concatenate(parts))


with tempfile.TemporaryDirectory() as folder:
    source, target = os.path.join(folder, "model"), os.path.join(folder, "fused")
    write_model(source)
    operate(source, target)
    with reshard.open(source) as old, reshard.open(target) as new:
        print(new, list(new))
        assert new["layers.1.qkv.weight"].shape == (3 * HIDDEN, HIDDEN)
        assert np.array_equal(new["layers.1.qkv.weight"][HIDDEN:2 * HIDDEN], old["layers.2.k.weight"][:])
        assert np.array_equal(new["embed.weight"][100:, 3], old["embed.weight"][100:128, 3])
    whole = os.path.join(folder, "fused.safetensors")
    reshard.convert(target, whole)
    assert reshard.verify(target, whole) is None
    print("fused model verified")
