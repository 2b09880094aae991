"""No leak: many calls of each kind, with errors mixed in; blocks of the interpreter and resident memory stay.

RESHARD_CALLS is the number of calls of each kind.
"""
import gc
import os
import pickle
import sys

import numpy as np
import pytest

import reshard

CALLS = int(os.environ.get("RESHARD_CALLS", "500"))
A, B = reshard.Layout("f32[8/x, 8] on x=2"), reshard.Layout("f32[8, 8/x] on x=2")
PARTS = [np.zeros((4, 8), np.float32) for _ in range(2)]
ONE = np.zeros((8, 8), np.float32)
READ_ONLY = np.zeros(3)
READ_ONLY.flags.writeable = False


def fails(kind, call):
    try:
        call()
    except kind:
        return
    raise AssertionError(f"{call} did not raise {kind}")


class Wrong:
    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self, **_):
        return object()


LOCAL = {
    "layout": lambda: reshard.Layout("f32[8/x, 8] on x=2").boxes(1),
    "layout, wrong": lambda: fails(ValueError, lambda: reshard.Layout("f32[8/x, 8] on y=2")),
    "layout, index": lambda: fails(KeyError, lambda: A.local_offset(0, (7, 0))),
    "plan": lambda: reshard.plan(A, B, nodes=[0, 0]).totals(),
    "plan, wrong": lambda: fails(ValueError, lambda: reshard.plan(A, "f32[3]")),
    "plan, option": lambda: fails(TypeError, lambda: reshard.plan(A, B, speed=1)),
    "plan, walks": lambda: (reshard.plan(A, B).matrix(), reshard.plan(A, B).stages(0)),
    "plan, pickle": lambda: pickle.loads(pickle.dumps(reshard.plan(A, B).adjoint())),
    "draw": lambda: A.draw(),
    "move": lambda: reshard.move(A, B, PARTS),
    "move, dtype": lambda: fails(TypeError, lambda: reshard.move(A, B, [ONE[:4].astype(float)] * 2)),
    "move, shape": lambda: fails(ValueError, lambda: reshard.move(A, B, [ONE] * 2)),
    "array": lambda: np.asarray(reshard.Array(ONE[::2, ::-1])),
    "array, dlpack": lambda: np.from_dlpack(reshard.Array(ONE)),
    "array, capsule": lambda: reshard.Array(ONE).__dlpack__(max_version=(1, 0)),
    "array, wrong": lambda: fails(TypeError, lambda: reshard.Array(Wrong())),
    "array, object": lambda: fails(TypeError, lambda: reshard.Array(object())),
    "array, read-only": lambda: fails(BufferError, lambda: reshard.Array(READ_ONLY).__dlpack__()),
    "rules": lambda: reshard.Rules("* [...]\n").layout("a", "f32", (3,)),
    "rules, wrong": lambda: fails(ValueError, lambda: reshard.Rules("* [_\n")),
    "digest": lambda: reshard.digest(A, PARTS),
}

RANKED = {
    "sharded": lambda comm, x: np.asarray(reshard.Sharded(comm, A, PARTS[comm.rank]).local),
    "sharded, wrong": lambda comm, x: fails(ValueError, lambda: reshard.Sharded(comm, A, ONE)),
    "reshard": lambda comm, x: x.reshard(B).local,
    "reshard, option": lambda comm, x: x.reshard(B, messages=True),
    "reshard, wrong": lambda comm, x: fails(ValueError, lambda: x.reshard("f32[3]")),
    "reshard_into": lambda comm, x: x.reshard_into(reshard.empty(comm, B)),
    "reshard_many": lambda comm, x: reshard.reshard_many([x, x], [B, A]),
    "begin": lambda comm, x: x.begin(B).wait(),
    "bind": lambda comm, x: x.bind(B)(),
    "gather": lambda comm, x: x.gather(1),
    "digest": lambda comm, x: x.digest(),
    "allgather": lambda comm, x: comm.allgather(comm.rank),
    "allreduce": lambda comm, x: comm.allreduce(np.ones(2)),
    "scatter": lambda comm, x: reshard.scatter(comm, B, ONE if comm.rank == 0 else None),
    "stash": lambda comm, x: reshard.Stash(comm).pack(ONE, 0).unpack(),
}


def resident():
    with open("/proc/self/statm", encoding="ascii") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def grow(call, calls):
    gc.collect()
    blocks, bytes_before = sys.getallocatedblocks(), resident()
    for _ in range(calls):
        call()
    gc.collect()
    return sys.getallocatedblocks() - blocks, resident() - bytes_before


def steady(call, calls):
    """Growth of interpreter blocks and resident bytes over `calls`, after a warm-up.

    A leak grows in every round, a cache that fills only in one: the smaller growth of two rounds counts.
    """
    for _ in range(200):
        call()
    return tuple(map(min, zip(grow(call, calls), grow(call, calls))))


def check(name, growth, calls):
    blocks, bytes_more = growth
    assert blocks < 100 + calls // 100, f"{name}: {blocks} more blocks after {calls} calls"
    assert bytes_more < (1 << 20) + 8 * calls, f"{name}: {bytes_more} more resident bytes after {calls} calls"


@pytest.mark.parametrize("name", sorted(LOCAL))
def test_calls_of_one_process(name):
    check(name, steady(LOCAL[name], CALLS), CALLS)


@pytest.mark.parametrize("name", sorted(RANKED))
def test_calls_of_ranks(name):
    def main(comm):
        x = reshard.Sharded(comm, A, PARTS[comm.rank])
        return steady(lambda: RANKED[name](comm, x), CALLS)

    for growth in reshard.run(2, main, processes=True):
        check(name, growth, CALLS)


def test_runs():
    """Whole runs of two threads, half of which fail; fewer, since each starts threads."""
    calls = max(50, CALLS // 100)

    def main(comm):
        comm.barrier()
        if comm.rank:
            raise KeyError("on purpose")

    check("run", steady(lambda: (reshard.run(2, lambda comm: comm.rank), fails(KeyError, lambda: reshard.run(2, main))),
                        calls), calls)
