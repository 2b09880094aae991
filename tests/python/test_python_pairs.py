"""Random pairs of layouts through move() and Sharded.reshard(), against NumPy indexing.

RESHARD_CASES is the number of pairs, RESHARD_SEED the seed.
"""
import os
import sys

import numpy as np

import reshard

sys.path.insert(0, os.path.dirname(__file__))
from layout_model import DTYPES, RandomLayout, random_shape, random_strides, random_whole  # noqa: E402

CASES = int(os.environ.get("RESHARD_CASES", "600"))
SEED = int(os.environ.get("RESHARD_SEED", "0")) or int.from_bytes(os.urandom(4), "little")


def draw(rng, nranks):
    dtype, shape = str(rng.choice(list(DTYPES))), random_shape(rng)
    return RandomLayout(rng, dtype, shape, nranks), RandomLayout(rng, dtype, shape, nranks)


def same(found, expected):
    found = np.asarray(found)
    return found.shape == expected.shape and found.dtype == expected.dtype and found.tobytes() == expected.tobytes()


def test_move_against_numpy():
    print("seed", SEED)
    rng = np.random.default_rng(SEED)
    for case in range(CASES):
        nranks = int(rng.choice([1, 2, 3, 4, 6]))
        a, b = draw(rng, nranks)
        whole = random_whole(rng, a.dtype, a.shape)
        parts = [random_strides(rng, a.part(whole, r)) for r in range(nranks)]
        moved = reshard.move(a.text, b.text, parts)
        for rank in range(nranks):
            assert same(moved[rank], b.part(whole, rank)), f"seed {SEED}, case {case}: {a.text} -> {b.text}, rank {rank}"
        out = [random_strides(rng, np.zeros_like(b.part(whole, r))) for r in range(nranks)]
        reshard.move(a.text, b.text, parts, out=out)
        assert all(same(out[r], b.part(whole, r)) for r in range(nranks)), f"seed {SEED}, case {case}: strided out"


def reshard_cases(comm, cases):
    rng = np.random.default_rng(SEED + comm.size)
    for case in range(cases):
        a, b = draw(rng, comm.size)
        whole = random_whole(rng, a.dtype, a.shape)
        x = reshard.Sharded(comm, a.text, random_strides(rng, a.part(whole, comm.rank)))
        y = x.reshard(b.text)
        assert same(y.local, b.part(whole, comm.rank)), f"seed {SEED}, case {case}: {a.text} -> {b.text}"
        assert x.digest() == y.digest(), f"seed {SEED}, case {case}: {a.text} and {b.text}"
        if case % 4 == 0:
            z = reshard.Sharded(comm, b.text, random_strides(rng, np.zeros_like(b.part(whole, comm.rank))))
            x.reshard_into(z)
            assert same(z.local, b.part(whole, comm.rank)), f"seed {SEED}, case {case}: into {b.text}"
    return cases


def test_reshard_against_numpy_on_threads():
    print("seed", SEED)
    for nranks in (1, 2, 4):
        assert reshard.run(nranks, reshard_cases, CASES // 3) == [CASES // 3] * nranks


def test_reshard_against_numpy_on_processes():
    print("seed", SEED)
    assert reshard.run(3, reshard_cases, CASES // 4, processes=True) == [CASES // 4] * 3
