"""Plans, and moves of parts that are all in one process."""
import os

from . import _reshard
from ._reshard import Layout, Plan


def plan(source, target, **options):
    """Plans the move of one tensor, or of several that share messages.

    source and target are layouts or their texts, or lists of equal length.  See Plan for the options.
    """
    return Plan(source, target, **options)


def _plan_again(sources, targets, options, derived):
    """Creates the plan that was pickled."""
    if derived is None:
        return Plan(sources, targets, **options)
    first, how = derived
    return getattr(first, how)()


def relabel(source, target, **options):
    """Renumbers the ranks of the target so that as many bytes as possible stay in place.

    Returns (layouts, exact): the target layout with its ranks permuted (a list for lists), and whether the
    permutation is the best one.
    """
    found, exact = _reshard._relabel(source, target, **options)
    single = isinstance(target, (str, Layout))
    return (found[0] if single else found), exact


def move(source, target=None, parts=None, *, out=None, threads=None, **options):
    """Moves a tensor whose parts are all in this process: move(source, target, parts), or move(plan, parts=parts).

    parts has one entry for each rank of the source layout, ascending: an array, or a list of arrays for a rank
    with several parts.  A dict {rank: entry} is accepted too.  Returns the same for the target, in new memory, or
    `out` itself if it is given.  Sources are not copied: arrays may have any strides.

    threads is the number of threads that copy; None means one for each core if the tensor is large.
    """
    if not isinstance(source, Plan):
        source = Plan(source, target, **options)
    elif target is not None and parts is None:
        parts = target
    if parts is None:
        raise TypeError("move: parts are missing; expected one array for each rank of the source layout")
    if threads is None:
        large = source.tensor_bytes >= 4 << 20
        threads = len(os.sched_getaffinity(0)) if large else 1
    return _reshard._move(source, parts, out, threads)


def empty_parts(layout):
    """Allocates uninitialized memory for the parts of all ranks of a layout: a list like that of move."""
    return _reshard._empty_parts(Layout(layout))


def digest(layout, parts):
    """Returns the digest of a tensor whose parts are all in this process; it is the same in every layout."""
    return _reshard._digest_parts(Layout(layout), parts)
