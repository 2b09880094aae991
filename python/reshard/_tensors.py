"""Sharded tensors: functions beside the methods of Sharded."""
import pickle

from . import _reshard
from ._reshard import Comm


def empty(comm, layout):
    """A sharded tensor on new memory, undefined.  Ranks of one machine read this memory in one copy.  Local."""
    return _reshard._empty(comm, layout)


def zeros(comm, layout):
    """A sharded tensor of zeros, on memory like that of empty().  Local."""
    return _reshard._zeros(comm, layout)


def scatter(comm, layout, whole=None, root=0):
    """Distributes a whole array of the root; other ranks give None.  Collective."""
    return _reshard._scatter(comm, layout, whole, root)


def reshard_many(tensors, layouts, **options):
    """Reshards several tensors of one comm at once, which share messages.  Collective."""
    return _reshard._reshard_many(list(tensors), list(layouts), **options)


def _allgather(self, value):
    """The values of every rank, as a list; any object that can be pickled.  Collective."""
    data = pickle.dumps(value)
    sizes = [int.from_bytes(size, "little") for size in self.allgather_bytes(len(data).to_bytes(8, "little"))]
    blocks = self.allgather_bytes(data.ljust(max(sizes), b"\0"))
    return [pickle.loads(block[:size]) for block, size in zip(blocks, sizes)]


Comm.allgather = _allgather
