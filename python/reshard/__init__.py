"""reshard: move tensors between any two sharded layouts.

    a = reshard.Layout("f32[4096/tp, 11008] on dp=2,tp=4")
    b = reshard.Layout("f32[4096, 11008/tp] on dp=2,tp=4")
    plan = reshard.plan(a, b)              # what moves, and the least that must move
    parts = reshard.move(a, b, parts)      # the parts of all ranks in one process

    def rank_main(comm):                   # or comm = reshard.join() under a launcher
        x = reshard.Sharded(comm, a, local)
        y = x.reshard(b)
        return y.local.numpy()
    reshard.run(8, rank_main)
"""
from ._reshard import (Array, Comm, Exec, Layout, MismatchError, PeerError, Plan, Sharded, Transit,
                       version as _version)
from ._planning import digest, empty_parts, move, plan, relabel, _plan_again
from ._ranks import join, run
from ._tensors import empty, reshard_many, scatter, zeros
from . import _arrays, _pictures

__version__ = _version()
__all__ = ["Array", "Comm", "Exec", "Layout", "MismatchError", "PeerError", "Plan", "Sharded", "Transit", "digest",
           "empty", "empty_parts", "join", "move", "plan", "relabel", "reshard_many", "run", "scatter", "zeros"]
