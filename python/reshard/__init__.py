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

    reshard.convert("model/", "model-4/", to="four.rules", verify=True, progress=True)
    w = reshard.open("model/")["layers.0.mlp.up_proj.weight"][0:128, :]

reshard.torch has functions for PyTorch.  docs/python.md is the manual.
"""
from ._reshard import (Array, Comm, Exec, Layout, MismatchError, PeerError, Plan, Rules, Sharded, Stash, Ticket,
                       Transit, version as _version)
from ._checkpoints import Checkpoint, CheckpointTensor, convert, inspect, load, open, preview, save, verify
from ._command import command
from ._planning import digest, empty_parts, move, plan, relabel, _plan_again
from ._ranks import join, run
from ._tensors import empty, reshard_many, scatter, zeros
from . import _arrays, _pictures

__version__ = _version()
__all__ = ["Array", "Checkpoint", "CheckpointTensor", "Comm", "Exec", "Layout", "MismatchError", "PeerError", "Plan",
           "Rules", "Sharded", "Stash", "Ticket", "Transit", "command", "convert", "digest", "empty", "empty_parts",
           "inspect", "join", "load", "move", "open", "plan", "preview", "relabel", "reshard_many", "run", "save",
           "scatter", "verify", "zeros"]
