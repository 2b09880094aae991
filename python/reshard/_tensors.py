"""Sharded tensors: functions in addition to the methods of Sharded."""
import pickle

from . import _reshard
from ._reshard import Comm


def empty(comm, layout):
    """Creates a sharded tensor on uninitialized memory, which ranks of one machine read with a single copy.  Local."""
    return _reshard._empty(comm, layout)


def zeros(comm, layout):
    """Creates a sharded tensor of zeros, on memory like that of empty().  Local."""
    return _reshard._zeros(comm, layout)


def scatter(comm, layout, whole=None, root=0):
    """Distributes a whole array of the root; other ranks pass None.  Collective."""
    return _reshard._scatter(comm, layout, whole, root)


def reshard_many(tensors, layouts, **options):
    """Reshards several tensors of one comm at once; they share messages.  Collective."""
    return _reshard._reshard_many(list(tensors), list(layouts), **options)


def _allgather(self, value):
    """Returns the values of all ranks as a list; a value is any object that can be pickled.  Collective."""
    data = pickle.dumps(value)
    sizes = [int.from_bytes(size, "little") for size in self.allgather_bytes(len(data).to_bytes(8, "little"))]
    blocks = self.allgather_bytes(data.ljust(max(sizes), b"\0"))
    return [pickle.loads(block[:size]) for block, size in zip(blocks, sizes)]


Comm.allgather = _allgather
