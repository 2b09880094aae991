"""reshard: move tensors between any two sharded layouts.

    a = reshard.Layout("f32[4096/tp, 11008] on dp=2,tp=4")
    b = reshard.Layout("f32[4096, 11008/tp] on dp=2,tp=4")
    plan = reshard.plan(a, b)              # what moves, and the least that must move
    parts = reshard.move(a, b, parts)      # the parts of all ranks in one process
"""
from ._reshard import Array, Layout, MismatchError, PeerError, Plan, version as _version
from ._planning import digest, empty_parts, move, plan, relabel, _plan_again
from . import _arrays, _pictures

__version__ = _version()
__all__ = ["Array", "Layout", "MismatchError", "PeerError", "Plan", "digest", "empty_parts", "move", "plan", "relabel"]
