"""Checkpoints: a mapping of names to tensors that are read on demand, and conversions."""
import _thread
import collections.abc
import os
import threading

from . import _progress, _reshard
from ._reshard import Layout, Sharded


class CheckpointTensor:
    """A tensor of a checkpoint.  It is read when it is sliced: t[0:128, :], t[...], numpy.asarray(t).

    packing is the type of a quantized tensor of a GGUF file, such as "Q4_K", which is read as bytes; otherwise None.
    """

    def __init__(self, checkpoint, entry):
        self._checkpoint = checkpoint
        (self._number, self.name, self.dtype, self.shape, self.layout, self.by_rank, self.nbytes, self.digest,
         self.packing) = entry

    @property
    def ndim(self):
        return len(self.shape)

    def __repr__(self):
        what = self.layout.text if self.layout else f"{self.dtype}{list(self.shape)}"
        return f"<{self.name}: {what}>"

    def __len__(self):
        if not self.shape:
            raise TypeError("a tensor without dims has no len()")
        return self.shape[0]

    def read(self, lo=None, hi=None, out=None):
        """Reads the box from lo to hi (exclusive), unconverted, and returns an Array, or `out` if it is given."""
        lo = tuple(lo) if lo is not None else (0,) * self.ndim
        hi = tuple(hi) if hi is not None else self.shape
        return self._checkpoint._opened().read(self._number, lo, hi, out)

    def __getitem__(self, index):
        lo, hi, rest = _box_of(self.shape, index)
        array = self.read(lo, hi)
        return _select(array, rest)

    def numpy(self):
        """Returns the whole tensor as a NumPy array."""
        return self.read().numpy()

    def torch(self):
        """Returns the whole tensor as a PyTorch tensor."""
        return self.read().torch()

    def __array__(self, dtype=None, copy=None):
        array = self.numpy()
        return array if dtype is None else array.astype(dtype)


def _box_of(shape, index):
    """Returns the smallest box that contains the selected elements, and what to select from it in each dim."""
    index = index if isinstance(index, tuple) else (index,)
    if sum(item is Ellipsis for item in index) > 1:
        raise IndexError("an index can have only one ellipsis")
    if Ellipsis in [item for item in index if item is Ellipsis]:
        place = next(i for i, item in enumerate(index) if item is Ellipsis)
        missing = len(shape) - (len(index) - 1)
        index = index[:place] + (slice(None),) * max(missing, 0) + index[place + 1:]
    if len(index) > len(shape):
        raise IndexError(f"too many indices: tensor has {len(shape)} dims, got {len(index)}")
    index += (slice(None),) * (len(shape) - len(index))
    pairs = [_range_of(size, item) for size, item in zip(shape, index)]
    return [p[0] for p in pairs], [p[1] for p in pairs], [p[2] for p in pairs]


def _range_of(size, item):
    """Returns (first, end, selection); the selection is 0 for a single index, otherwise a slice."""
    if isinstance(item, slice):
        start, stop, step = item.indices(size)
        n = len(range(start, stop, step))
        if n == 0:
            return 0, 0, slice(None)
        first, last = sorted((start, start + (n - 1) * step))
        return first, last + 1, slice(None, None, step)
    if isinstance(item, bool) or not hasattr(item, "__index__"):
        raise TypeError(f"an index must be an integer, a slice or an ellipsis, got {item!r}; for any other index read "
                        "the elements first, for example with tensor[:]")
    i = item.__index__()
    if not -size <= i < size:
        raise IndexError(f"index {i} is out of range for a dim of {size}")
    i %= size
    return i, i + 1, 0


def _select(array, rest):
    """Applies single indices and steps to the box that was read."""
    if all(item == slice(None) or item == slice(None, None, 1) for item in rest):
        return _as_numpy_if_possible(array)
    return array.numpy()[tuple(rest)]


def _as_numpy_if_possible(array):
    try:
        return array.numpy()
    except ImportError:
        return array


class Checkpoint(collections.abc.Mapping):
    """An open checkpoint: a mapping of names to tensors.  Opening reads headers only.

    Use it in a `with` statement, or call close().
    """

    def __init__(self, path, rules=None):
        self.path = os.fspath(path)
        self._open = _reshard.OpenCheckpoint(path, rules)
        self._tensors = {entry[1]: CheckpointTensor(self, entry) for entry in self._open.entries()}
        self.kind, self.metadata = self._open.kind(), self._open.metadata()
        self.files, self.non_tensors = self._open.files(), self._open.non_tensors()

    def _opened(self):
        if self._open is None:
            raise ValueError("checkpoint is closed")
        return self._open

    def __getitem__(self, name):
        try:
            return self._tensors[name]
        except KeyError:
            raise KeyError(f"{self.path}: no tensor is named {name!r}") from None

    def __iter__(self):
        return iter(self._tensors)

    def __len__(self):
        return len(self._tensors)

    def __repr__(self):
        return f"<reshard.Checkpoint {self.path!r}: {self.kind}, {len(self)} tensors, {self.nbytes} bytes>"

    @property
    def nbytes(self):
        """The size of all tensors in bytes, without replicas."""
        return sum(tensor.nbytes for tensor in self._tensors.values())

    def close(self):
        """Closes the files."""
        if self._open is not None:
            self._open.close()
            self._open = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def open(path, rules=None):
    """Opens a checkpoint: a file or directory in a format that reshard reads.

    rules tells how the rank files of other tools are cut: the path of a rule file, or Rules.
    """
    return Checkpoint(path, rules)


def inspect(path, rules=None):
    """Returns the content of a checkpoint from its headers: a dict of its kind, files, metadata and tensors."""
    with Checkpoint(path, rules) as c:
        tensors = {t.name: {"dtype": t.dtype, "shape": t.shape, "layout": t.layout and t.layout.text,
                            "bytes": t.nbytes, "digest": t.digest, "packing": t.packing} for t in c.values()}
        return {"path": c.path, "kind": c.kind, "bytes": c.nbytes, "files": dict(c.files), "metadata": c.metadata,
                "non_tensors": c.non_tensors, "tensors": tensors}


# ---- conversions ----


def _in_background(work, stop):
    """Runs work() in a thread, so that Ctrl-C reaches the main thread, which then stops it."""
    if threading.current_thread() is not threading.main_thread():
        return work()
    answer, done, started = {}, threading.Event(), False

    def run():
        try:
            answer["value"] = work()
        except BaseException as error:
            answer["error"] = error
        finally:
            done.set()

    try:
        # Unlike Thread.start, this does not wait; Ctrl-C during that wait would leave the thread half started.
        _thread.start_new_thread(run, ())
        started = True
        done.wait()
    except BaseException:
        stop.set()
        if started:
            done.wait()
        raise
    if "error" in answer:
        raise answer["error"]
    return answer["value"]


def convert(source, target, *, to=None, from_=None, include=(), exclude=(), mem=0, threads=0, max_shard=0,
            max_tensors=0, format=None, resume=False, force=False, dedup=False, drop=False, digest=True, verify=False,
            progress=None):
    """Rewrites a checkpoint with a different cut.  The target appears complete or not at all.

    to and from_ are rules (a path or Rules): how the result is cut (None: whole) and how the rank files of other
    tools are cut.  include and exclude are patterns for names.  mem is the maximum size of buffers in bytes (0: 256
    MiB), max_shard the maximum number of data bytes in a file, and max_tensors the maximum number of tensors.  format
    is "safetensors" or "gguf" (None: by the extension of target).  resume continues an interrupted run; force
    replaces an existing target; dedup stores one copy of a part that several ranks hold; drop omits non-tensor
    entries; verify reads everything again and compares every element.  progress is True for a bar, or a function
    that is called with (done, total) in bytes and may return True to stop.

    Returns a dict that describes what was done.
    """
    include, exclude = _patterns(include), _patterns(exclude)
    with _progress.follow(progress, f"convert {os.fspath(target)}") as follower:
        return _in_background(lambda: _reshard._convert(
            source, target, to, from_, mem, threads, max_shard, resume, force, dedup, drop, digest, verify, include,
            exclude, follower.tell, format, max_tensors), follower.stop)


def preview(source, target, *, to=None, from_=None, include=(), exclude=(), max_shard=0, max_tensors=0, format=None,
            force=False, drop=False):
    """Returns what convert() would do, as a list with a dict for each tensor.  Writes nothing."""
    return _reshard._preview(source, target, to, from_, 0, 0, max_shard, False, force, False, drop, True, False,
                             _patterns(include), _patterns(exclude), None, format, max_tensors)


def _patterns(value):
    return [value] if isinstance(value, str) else list(value)


def verify(a, b, *, rules=None, converted=False, allow_missing=False, mem=0, threads=0, progress=None):
    """Compares every element of two checkpoints, which may be cut differently.

    Returns None if they are equal, otherwise (tensor, sentence, index) of the first difference.  a and b are paths
    or open checkpoints; rules is for the rank files of other tools.  With converted, elements of a are converted to
    the dtypes of b first; with allow_missing, tensors that only a has are ignored.
    """
    opened = []

    def get(checkpoint):
        if isinstance(checkpoint, Checkpoint):
            return checkpoint._opened()
        opened.append(Checkpoint(checkpoint, rules))
        return opened[-1]._opened()

    try:
        first, second = get(a), get(b)
        with _progress.follow(progress, "verify") as follower:
            return _in_background(lambda: _reshard._compare(
                first, second, converted, allow_missing, mem, threads, follower.tell), follower.stop)
    finally:
        for checkpoint in opened:
            checkpoint.close()


# ---- sharded tensors ----


def save(comm, path, tensors, *, metadata=None, force=False, digest=True):
    """Saves a dict of sharded tensors as a directory of rank files.  Collective.

    All ranks must pass the same path, names and options.  The directory appears complete or not at all.
    """
    metadata = metadata or {}
    _reshard._save(comm, path, list(tensors), list(tensors.values()), force, digest, list(metadata),
                   list(metadata.values()))


def load(comm, checkpoint, tensors, *, rules=None):
    """Loads tensors of a checkpoint into sharded tensors.  Collective.

    checkpoint is a path or an open Checkpoint.  tensors is a dict of names to Sharded, which are filled, or to
    layouts or their texts, for which memory is allocated.  It can also be Rules, or the path of a rule file:
    then all tensors are loaded with the cuts of the rules.  Elements are converted if dtypes differ; each byte is
    read once per node.  Returns a dict of names to Sharded.
    """
    opened = checkpoint if isinstance(checkpoint, Checkpoint) else Checkpoint(checkpoint, rules)
    try:
        wanted = _targets(comm, opened, tensors)
        opened._opened().load(comm, list(wanted), list(wanted.values()))
        return wanted
    finally:
        if opened is not checkpoint:
            opened.close()


def _targets(comm, checkpoint, tensors):
    if not isinstance(tensors, collections.abc.Mapping):
        rules = tensors if isinstance(tensors, _reshard.Rules) else _reshard.Rules.read(tensors)
        tensors = {t.name: rules.layout(t.name, t.dtype, t.shape) for t in checkpoint.values()}
    return {name: to if isinstance(to, Sharded) else _reshard._empty(comm, Layout(to))
            for name, to in tensors.items()}
