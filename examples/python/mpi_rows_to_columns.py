"""NumPy and mpi4py: rows become columns, first by a hand-written Alltoallw, then by reshard.

    PYTHONPATH=build/python mpirun -n 4 python3 examples/python/mpi_rows_to_columns.py
"""
import numpy as np
from mpi4py import MPI

import reshard

N, M = 1000, 700  # neither is a multiple of the number of ranks
world = MPI.COMM_WORLD
rank, size = world.rank, world.size


def chunk(n, k):
    """Returns the range of part k of n elements in parts of ceil(n / size)."""
    step = -(-n // size)
    return min(n, k * step), min(n, (k + 1) * step)


def by_alltoallw(rows):
    """Moves the matrix without a library: one datatype for each pair of ranks."""
    lo, hi = chunk(N, rank)
    left, right = chunk(M, rank)
    columns = np.empty((N, right - left))
    send, receive = [], []
    for peer in range(size):
        a, b = chunk(M, peer)
        c, d = chunk(N, peer)
        send.append(block(rows.shape, (hi - lo, b - a), (0, a)))
        receive.append(block(columns.shape, (d - c, right - left), (c, 0)))
    world.Alltoallw([rows, *message(send)], [columns, *message(receive)])
    for t in send + receive:
        if t is not None:
            t.Free()
    return columns


def message(types):
    """Returns counts, displacements and datatypes for Alltoallw; empty blocks are not sent."""
    counts = [int(t is not None) for t in types]
    return (counts, [0] * size), [t or MPI.BYTE for t in types]


def block(shape, sizes, starts):
    """Returns a datatype for a block of a matrix; None for an empty one."""
    if 0 in sizes:
        return None
    return MPI.DOUBLE.Create_subarray(shape, sizes, starts).Commit()


def by_reshard(comm, rows):
    """Moves the matrix with two layouts."""
    x = reshard.Sharded(comm, f"f64[{N}/x, {M}] on x={size}", rows)
    return x.reshard(f"f64[{N}, {M}/x] on x={size}").local.numpy()


lo, hi = chunk(N, rank)
mine = np.arange(N * M, dtype=float).reshape(N, M)[lo:hi].copy()
with reshard.Comm(world) as comm:
    columns = by_reshard(comm, mine)
    assert np.array_equal(columns, by_alltoallw(mine))
    if rank == 0:
        print(f"{size} ranks: reshard and Alltoallw give the same {N} x {M} matrix by columns")
